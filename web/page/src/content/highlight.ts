/** Colours for code. The highlighter and each language are loaded when they are first needed. */

import type { LanguageFn } from "highlight.js";
import type { RootContent } from "hast";

type Load = () => Promise<{ default: LanguageFn }>;

const LANGUAGES: Record<string, Load> = {
  bash: () => import("highlight.js/lib/languages/bash"),
  c: () => import("highlight.js/lib/languages/c"),
  cpp: () => import("highlight.js/lib/languages/cpp"),
  csharp: () => import("highlight.js/lib/languages/csharp"),
  css: () => import("highlight.js/lib/languages/css"),
  diff: () => import("highlight.js/lib/languages/diff"),
  dockerfile: () => import("highlight.js/lib/languages/dockerfile"),
  go: () => import("highlight.js/lib/languages/go"),
  ini: () => import("highlight.js/lib/languages/ini"),
  java: () => import("highlight.js/lib/languages/java"),
  javascript: () => import("highlight.js/lib/languages/javascript"),
  json: () => import("highlight.js/lib/languages/json"),
  kotlin: () => import("highlight.js/lib/languages/kotlin"),
  lua: () => import("highlight.js/lib/languages/lua"),
  makefile: () => import("highlight.js/lib/languages/makefile"),
  markdown: () => import("highlight.js/lib/languages/markdown"),
  php: () => import("highlight.js/lib/languages/php"),
  python: () => import("highlight.js/lib/languages/python"),
  ruby: () => import("highlight.js/lib/languages/ruby"),
  rust: () => import("highlight.js/lib/languages/rust"),
  scss: () => import("highlight.js/lib/languages/scss"),
  sql: () => import("highlight.js/lib/languages/sql"),
  swift: () => import("highlight.js/lib/languages/swift"),
  typescript: () => import("highlight.js/lib/languages/typescript"),
  xml: () => import("highlight.js/lib/languages/xml"),
  yaml: () => import("highlight.js/lib/languages/yaml"),
};

const ALIASES: Record<string, string> = {
  sh: "bash", shell: "bash", zsh: "bash", console: "bash", "c++": "cpp", h: "c", hpp: "cpp", cs: "csharp", patch: "diff",
  docker: "dockerfile", golang: "go", toml: "ini", js: "javascript", jsx: "javascript", mjs: "javascript", kt: "kotlin",
  make: "makefile", md: "markdown", py: "python", rb: "ruby", rs: "rust", ts: "typescript", tsx: "typescript",
  html: "xml", svg: "xml", svelte: "xml", vue: "xml", yml: "yaml", jsonc: "json", json5: "json",
};

/** Longer code stays plain: colouring it would stop the page. */
const LONGEST = 60_000;

let engine: Promise<ReturnType<(typeof import("lowlight"))["createLowlight"]>> | undefined;

export function languageOf(name: string): string | null {
  const plain = name.trim().split(/\s/)[0]?.toLowerCase() ?? "";
  const known = ALIASES[plain] ?? plain;
  return known in LANGUAGES ? known : null;
}

export function languageOfPath(path: string): string | null {
  const name = path.split("/").at(-1)?.toLowerCase() ?? "";
  return languageOf(name.includes(".") ? (name.split(".").at(-1) ?? "") : name);
}

/** The code as a tree of spans, or null if the code stays plain. */
export async function highlight(text: string, language: string): Promise<RootContent[] | null> {
  const load = LANGUAGES[language];
  if (!load || text.length > LONGEST) return null;
  engine ??= import("lowlight").then(({ createLowlight }) => createLowlight());
  const lowlight = await engine;
  if (!lowlight.registered(language)) lowlight.register(language, (await load()).default);
  return lowlight.highlight(language, text).children;
}

/** Draws such a tree: only spans with classes, only text inside. */
export function draw(nodes: RootContent[], into: Node): void {
  for (const node of nodes) {
    if (node.type === "text") into.appendChild(document.createTextNode(node.value));
    else if (node.type === "element") {
      const span = document.createElement("span");
      const names = node.properties["className"];
      if (Array.isArray(names)) span.className = names.join(" ");
      draw(node.children as RootContent[], span);
      into.appendChild(span);
    }
  }
}
