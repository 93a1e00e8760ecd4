import { vitePreprocess } from "@sveltejs/vite-plugin-svelte";

export default {
  preprocess: vitePreprocess(),
  compilerOptions: { runes: true },
  // Packages of others are compiled as they are written.
  vitePlugin: { dynamicCompileOptions: ({ filename }) => (filename.includes("node_modules") ? { runes: undefined } : undefined) },
};
