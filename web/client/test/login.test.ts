import { afterEach, expect, test, vi } from "vitest";
import { Refused, enter } from "../src/index.ts";

const ORIGIN = "http://127.0.0.1:7420";

/** A server that knows these keys and takes these tickets. */
function server(keys: string[], tickets: string[]) {
  const asked: string[] = [];
  vi.stubGlobal("fetch", (url: string, request: RequestInit) => {
    asked.push(url.slice(ORIGIN.length));
    if (url.endsWith("/api/v1/login")) {
      const { ticket } = JSON.parse(request.body as string) as { ticket: string };
      if (tickets.includes(ticket)) return Promise.resolve(Response.json({ key: "new", browser: "b1" }));
      const error = { code: "unauthenticated", message: "the ticket is used" };
      return Promise.resolve(Response.json({ error }, { status: 401 }));
    }
    const key = (request.headers as Record<string, string>)["x-portolan-key"];
    return Promise.resolve(new Response("{}", { status: keys.includes(key ?? "") ? 200 : 401 }));
  });
  return asked;
}

afterEach(() => vi.unstubAllGlobals());

test("a ticket does not replace a valid login", async () => {
  const asked = server(["old"], ["ticket"]);
  expect(await enter(ORIGIN, "ticket", "old")).toEqual({ is: "in already" });
  expect(asked).toEqual(["/api/v1/sessions?limit=1"]);
});

test("a ticket is used if there is no valid login", async () => {
  server([], ["ticket"]);
  for (const known of [null, "old"]) {
    expect(await enter(ORIGIN, "ticket", known)).toEqual({ is: "in", key: "new", browser: "b1" });
  }
});

test("a server that is away says nothing about a login", async () => {
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("away")));
  expect(await enter(ORIGIN, "ticket", "old")).toEqual({ is: "in already" });
});

test("a ticket that is not accepted logs nobody in", async () => {
  server([], []);
  const entered = await enter(ORIGIN, "ticket", "old");
  expect(entered.is === "out" && entered.why).toBeInstanceOf(Refused);
});
