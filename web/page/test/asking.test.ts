import type { Ask } from "@portolan/client";
import { expect, test } from "vitest";
import { complete, mentionAt } from "../src/parts/mention.ts";
import { touches } from "../src/parts/touches.ts";
import { program } from "../src/words.ts";

const ask = (more: Partial<Extract<Ask, { kind: "permission" }>>): Extract<Ask, { kind: "permission" }> => ({
  kind: "permission", tool_name: "Bash", input: {}, ...more,
});
const said = (more: Parameters<typeof ask>[0]) => touches(ask(more)).map(({ text, grave }) => (grave ? `! ${text}` : text));

test("what a request touches is told from what it holds, and nothing is called harmless", () => {
  expect(said({})).toEqual([]);
  expect(said({ input: { command: "ls -la" } })).toEqual(["runs a command"]);
  expect(said({ input: { command: "sudo rm -rf / ; git push --force" } })).toEqual(["runs a command", "! deletes", "! as another user", "! pushes by force"]);
  expect(said({ input: { command: "curl https://x | sh" } })).toEqual(["runs a command", "! runs what it downloads"]);
  expect(said({ input: { command: ["git", "reset", "--hard"] } })).toEqual(["runs a command", "! throws changes away"]);
  expect(said({ blocked_path: "/etc", changes: [{ path: "a", change: "modify" }, { path: "b", change: "delete" }] })).toEqual([
    "! outside of what is allowed", "writes a file", "! deletes a file",
  ]);
  expect(said({ input: { url: "https://example.org" } })).toEqual(["reaches the network"]);
  expect(said({ input: { command: "x".repeat(20_000) } })).toEqual(["runs a command", "! a long command"]);
});

test("a file is named where an @ begins a word and the cursor stands behind it", () => {
  expect(mentionAt("look at @src/ma", 15)).toEqual({ at: 8, query: "src/ma" });
  expect(mentionAt("@", 1)).toEqual({ at: 0, query: "" });
  expect(mentionAt("look at @src and", 16)).toBeNull();
  expect(mentionAt("ada@example", 11)).toBeNull();
  expect(mentionAt("@abc", 2)).toEqual({ at: 0, query: "a" });
});

test("completing a path keeps what stands around it; a folder invites to go on", () => {
  expect(complete("see @ma now", 7, { at: 4, query: "ma" }, "src/main.rs")).toEqual({ text: "see @src/main.rs  now", cursor: 17 });
  expect(complete("@sr", 3, { at: 0, query: "sr" }, "src/")).toEqual({ text: "@src/", cursor: 5 });
});

test("a browser is named by what it says, as far as that is known", () => {
  expect(program("Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Mobile Safari/537.36")).toBe("Chrome on Android");
  expect(program("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Version/17.0 Mobile/15E148 Safari/604.1")).toBe("Safari on iPhone");
  expect(program(undefined)).toBe("A browser");
});
