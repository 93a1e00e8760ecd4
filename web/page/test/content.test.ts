import { expect, test } from "vitest";
import { beyond, leftOut, pairs, readDiff } from "../src/content/diff.ts";
import { Reader, exactly, safeAddress, visible, withoutAnsi } from "../src/content/markdown.ts";
import { contentOf, fieldsOf } from "../src/parts/form.ts";

const kinds = (blocks: { token: { type: string } }[]) => blocks.map(({ token }) => token.type);

test("markdown that grows word by word gives the same blocks as markdown that is parsed at once", () => {
  const text = "# A\n\nOne *two*.\n\n- a\n- b\n\n```rust\nfn main() {}\n\n```\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\nend\n";
  const growing = new Reader();
  for (let end = 1; end < text.length; end += 3) growing.read(text.slice(0, end), true);
  expect(kinds(growing.read(text, false))).toEqual(kinds(new Reader().read(text, false)));
});

test("finished blocks keep their place and are not parsed again", () => {
  const reader = new Reader();
  const before = reader.read("one\n\ntwo\n\nthree\n\nfour\n\nfive", true);
  const after = reader.read("one\n\ntwo\n\nthree\n\nfour\n\nfive six", true);
  expect(after[0]?.token).toBe(before[0]?.token);
  expect(after.map(({ id }) => id)).toEqual(before.map(({ id }) => id));
});

test("a replaced text is parsed again", () => {
  const reader = new Reader();
  reader.read("one\n\ntwo\n\nthree\n\nfour\n\nfive", true);
  expect(kinds(reader.read("other", false))).toEqual(["paragraph"]);
});

test("of one endless line, the beginning and the end are shown", () => {
  const [block, ...more] = new Reader().read(`begin${"x".repeat(100_000)}end`, false);
  const { text } = block?.token as unknown as { text: string };
  expect([more.length, text.startsWith("beginx"), text.endsWith("xend"), text.length < 50_000]).toEqual([0, true, true, true]);
});

test("only addresses that are harmless to follow become links", () => {
  expect(safeAddress("https://example.org/a")).toBe("https://example.org/a");
  for (const bad of ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "/api/v1/logout", "//evil"]) {
    expect(safeAddress(bad), bad).toBeNull();
  }
});

test("characters that hide or reorder text are shown", () => {
  expect(visible("a\u202eb\u200bc\u0007")).toBe("a⟨U+202E⟩b⟨U+200B⟩c⟨U+0007⟩");
  expect(visible("tab\tand\nline, naïve, 日本語")).toBe("tab\tand\nline, naïve, 日本語");
  expect(withoutAnsi("\u001b[31mred\u001b[0m\r\n10%\r100%\n")).toBe("red\n100%\n");
});

test("a diff is parsed into lines with numbers, and into pairs for two columns", () => {
  const read = readDiff("--- a\n+++ b\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");
  expect([read?.added, read?.removed]).toEqual([1, 1]);
  expect(read?.lines.map(({ sign, old, new: fresh }) => [sign, old, fresh])).toEqual([[" ", 1, 1], ["-", 2, null], ["+", null, 2], [" ", 3, 3]]);
  expect(pairs(read?.lines ?? []).map(({ left, right }) => [left?.text, right?.text])).toEqual([["one", "one"], ["two", "2"], ["three", "three"]]);
});

test("text that is not a diff stays text", () => {
  expect(readDiff("just words")).toBeNull();
  expect(readDiff("@@ broken @@\n+x")).toBeNull();
});

test("the heading of a hunk is shown", () => {
  const read = readDiff("--- a\n+++ a\n@@ -1,1 +1,1 @@ every occurrence is replaced\n-@@ -9 +9 @@ x\n+y\n");
  expect(read?.lines.map(({ sign, text }) => [sign, text])).toEqual([["@", "@@ every occurrence is replaced"], ["-", "@@ -9 +9 @@ x"], ["+", "y"]]);
});

test("for a diff that is left out, its size is shown", () => {
  expect(leftOut({ added: 12_034, removed: 3, bytes: 3_250_000 })).toBe("Too large to be shown as a diff: 12,034 lines added, 3 removed, 3.1 MiB.");
  expect(leftOut({ added: 1, removed: 0, bytes: 300_000 })).toContain("293 KiB");
});

test("every field of an input is shown by its diff, or by itself", () => {
  const change = { path: "/a", change: "modify" as const, diff: "--- /a\n+++ /a\n@@ -1,2 +1,1 @@\n one\n-two\n+2\n" };
  const edit = { file_path: "/a", old_string: "one\ntwo", new_string: "one\n2" };
  expect(beyond(edit, [change])).toEqual([]);
  expect(beyond({ ...edit, replace_all: true, newer: "field", nothing: null }, [change])).toEqual([["replace_all", true], ["newer", "field"]]);
  expect(beyond({ ...edit, new_string: "one\n2\nrm -rf /" }, [change])).toEqual([["new_string", "one\n2\nrm -rf /"]]);
  expect(beyond({ edits: [{ old_string: "two", new_string: "2", replace_all: false }] }, [change])).toEqual([]);
  expect(beyond({ edits: [{ old_string: "two", new_string: "3" }] }, [change])).toHaveLength(1);
  const { diff: _, ...without } = change;
  expect(beyond(edit, [without])).toEqual([["old_string", "one\ntwo"], ["new_string", "one\n2"]]);
  expect(beyond({ command: "ls", description: "look" }, [], ["look"])).toEqual([["command", "ls"]]);
  expect(beyond({ command: "ls", description: "other" }, [], ["look"])).toEqual([["command", "ls"], ["description", "other"]]);
  expect(beyond({ plan: "p", allowedPrompts: [{ tool: "Bash", prompt: "run tests" }] }, [], ["p"])).toHaveLength(1);
  expect([beyond(null, []), beyond("text", []), beyond([], [change])]).toEqual([[], [["input", "text"]], [["input", []]]]);
});

test("a simple schema is a form, anything else is JSON", () => {
  const schema = {
    type: "object", required: ["name"],
    properties: { name: { type: "string", title: "Name" }, age: { type: "integer" }, sure: { type: "boolean" }, size: { type: "string", enum: ["s", "l"] } },
  };
  const fields = fieldsOf(schema) ?? [];
  expect(fields.map(({ name, kind, required }) => [name, kind, required])).toEqual([
    ["name", "text", true], ["age", "number", false], ["sure", "flag", false], ["size", "choice", false],
  ]);
  expect(contentOf(fields, { name: "ada", age: "36", sure: true, size: "" })).toEqual({ name: "ada", age: 36, sure: true });
  expect(fieldsOf({ type: "object", properties: { list: { type: "array" } } })).toBeNull();
});

test("text that somebody decides about is shown whole, whatever a terminal would make of it", () => {
  expect(exactly("touch x;:\recho harmless")).toBe("touch x;:⟨U+000D⟩echo harmless");
  expect(exactly("echo ok \u001b]; touch x ;\u0007")).toBe("echo ok ⟨U+001B⟩]; touch x ;⟨U+0007⟩");
  expect(exactly("a\u200db\u{e0041}")).toBe("a⟨U+200D⟩b⟨U+E0041⟩");
});

const RUN = 40_000;
const HOSTILE: Record<string, string> = {
  "marks of emphasis": "*a".repeat(RUN / 2),
  "marks that never close": "_a ".repeat(RUN / 3),
  "one long run of marks": "*".repeat(RUN),
  "runs that close each other": `${"*".repeat(RUN / 2)}a${"*".repeat(RUN / 2)}`,
  "spaces": `a${" ".repeat(RUN)}b`,
  "quotes in quotes": ">".repeat(RUN),
  "quotes in quotes, with spaces": "> ".repeat(RUN / 2),
  "lists in lists": `${"- ".repeat(RUN / 2)}a`,
  "lists in lists, line by line": Array.from({ length: 300 }, (_, depth) => `${"  ".repeat(depth)}- a`).join("\n"),
  "a table without end to the right": `|${"a|".repeat(RUN / 2)}\n|${"-|".repeat(RUN / 2)}\n`,
  "a table that fills its rows up": `|${"a|".repeat(900)}\n|${"-|".repeat(900)}\n${"|x\n".repeat(900)}`,
  "a list without end": "- a\n\n".repeat(200_000),
  "brackets": "[a".repeat(RUN),
  "angles": "<".repeat(RUN),
};
/** A clock that stands still: the result does not depend on how busy the machine is. */
const stopped = () => 0;
for (const [name, text] of Object.entries(HOSTILE)) {
  test(`hostile text is parsed quickly: ${name}`, () => {
    const before = performance.now();
    const blocks = new Reader(stopped).read(`Before.\n\n${text}\n\nAfter.\n`, false);
    // Generous for a busy machine: without bounds, most of these take far longer, and the rest run out of stack.
    expect(performance.now() - before).toBeLessThan(5_000);
    expect(kinds(blocks)[0]).toBe("paragraph");
    expect(blocks.map(({ token }) => token.raw).join("")).toContain("After.");
  });
}

test("when the time for parsing is over, the rest is shown as it is", () => {
  let hours = 0;
  const blocks = new Reader(() => (hours += 3_600_000)).read("# One\n\n- two\n", false);
  expect(kinds(blocks)).toEqual(blocks.map(() => "long"));
  expect(blocks.map(({ token }) => token.raw).join("")).toBe("# One\n\n- two\n");
});

test("text that cannot be parsed as markdown costs only its own stretch", () => {
  const blocks = new Reader(stopped).read(`# One\n\n${"*".repeat(500)}\n\n- two\n\n\`\`\`\n${"*".repeat(500)}\n\`\`\`\n`, false);
  expect(kinds(blocks)).toEqual(["heading", "long", "list", "code"]);
});
