import { svelte } from "@sveltejs/vite-plugin-svelte";
import { constants, brotliCompressSync } from "node:zlib";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";

const BUILT = new URL("../built/page", import.meta.url).pathname;

/** Writes a `.br` beside each file that gets smaller: the program embeds both and compresses nothing at run time. */
function precompressed(): Plugin {
  return {
    name: "precompressed",
    apply: "build",
    closeBundle() {
      for (const entry of readdirSync(BUILT, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || /\.(br|png|woff2)$/.test(entry.name)) continue;
        const path = join(entry.parentPath, entry.name);
        const bytes = readFileSync(path);
        const small = brotliCompressSync(bytes, {
          params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
        });
        if (small.length < bytes.length) writeFileSync(`${path}.br`, small);
      }
    },
  };
}

export default defineConfig({
  plugins: [svelte(), precompressed()],
  build: {
    outDir: BUILT,
    emptyOutDir: true,
    target: "es2022",
    // A data: address would need an exception in the policy, and an inline script another.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
