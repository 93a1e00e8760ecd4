import { expect, test } from "vitest";
import { complete, mentionAt } from "../src/parts/mention.ts";
import { program } from "../src/words.ts";

test("an @ at the beginning of a word, with the cursor behind it, names a file", () => {
  expect(mentionAt("look at @src/ma", 15)).toEqual({ at: 8, query: "src/ma" });
  expect(mentionAt("@", 1)).toEqual({ at: 0, query: "" });
  expect(mentionAt("look at @src and", 16)).toBeNull();
  expect(mentionAt("ada@example", 11)).toBeNull();
  expect(mentionAt("@abc", 2)).toEqual({ at: 0, query: "a" });
});

test("completing a path keeps the text around it; after a folder the user can type on", () => {
  expect(complete("see @ma now", 7, { at: 4, query: "ma" }, "src/main.rs")).toEqual({ text: "see @src/main.rs  now", cursor: 17 });
  expect(complete("@sr", 3, { at: 0, query: "sr" }, "src/")).toEqual({ text: "@src/", cursor: 5 });
});

test("a well-known browser is named from its user agent", () => {
  expect(program("Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Mobile Safari/537.36")).toBe("Chrome on Android");
  expect(program("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Version/17.0 Mobile/15E148 Safari/604.1")).toBe("Safari on iPhone");
  expect(program(undefined)).toBe("A browser");
});
