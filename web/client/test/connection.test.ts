import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Connection, Lost, Refused, type LinkState, type Socket } from "../src/index.ts";

const SESSION = "019a82b4-7d1e-7c3a-9a51-0f6f2f1c9d10";
const WELCOME = {
  type: "welcome",
  protocol: 1,
  server: { name: "portolan", version: "0.1.0" },
  you: { token: "owner", name: "ada", role: "owner" },
  limits: { frame_bytes: 1, attachments: 1 },
};

/** A server that only records the frames it gets. */
class Wire implements Socket {
  sent: Record<string, unknown>[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((message: { data: unknown }) => void) | null = null;
  onclose: ((closed: { code: number }) => void) | null = null;
  send(text: string) {
    this.sent.push(JSON.parse(text) as Record<string, unknown>);
  }
  close() {}
  say(frame: unknown) {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }
  welcome(incarnation = "first") {
    this.onopen?.();
    this.say({ ...WELCOME, server: { ...WELCOME.server, incarnation } });
  }
  attached() {
    this.say({ type: "reply", id: this.idOf("attach"), reply: "attached", session: SESSION });
  }
  /** The id of the last frame of this type. */
  idOf(type: string): string {
    return this.sent.filter((frame) => frame["type"] === type).at(-1)?.["id"] as string;
  }
}

let wires: Wire[];
let states: LinkState["is"][];
let connection: Connection;
let replaced: number;
const wire = () => wires.at(-1) as Wire;

beforeEach(() => {
  vi.useFakeTimers();
  wires = [];
  states = [];
  replaced = 0;
  connection = new Connection({
    url: "ws://127.0.0.1/ws",
    client: { name: "test", version: "1" },
    open: () => {
      const made = new Wire();
      wires.push(made);
      return made;
    },
    onState: (state) => states.push(state.is),
    onReplaced: () => replaced++,
  });
  connection.connect();
});

afterEach(() => {
  connection.close();
  vi.useRealTimers();
});

test("a command without a receipt is sent again under the same id, and settles once", async () => {
  wire().welcome();
  const receipt = connection.command(SESSION, { name: "interrupt" });
  const id = wire().idOf("command");
  wire().onclose?.({ code: 1006 });
  await vi.advanceTimersByTimeAsync(1_000);
  wire().welcome();
  expect(wires.length).toBe(2);
  expect(wire().idOf("command")).toBe(id);
  wire().say({ type: "reply", id, reply: "receipt", receipt: { seq: 41, stage: "accepted" } });
  expect(await receipt).toEqual({ seq: 41, stage: "accepted" });
  expect(connection.unanswered).toBe(0);
});

test("a call without a receipt fails at once when the connection is lost, and says that it may have arrived", async () => {
  wire().welcome();
  const asked = connection.ask("agents", { type: "agents", probe: false });
  const failed = expect(asked).rejects.toEqual(new Lost(true));
  wire().onclose?.({ code: 1006 });
  await failed;
});

test("nothing is kept for later: without a connection a command is refused", async () => {
  await expect(connection.command(SESSION, { name: "stop" })).rejects.toEqual(new Lost(false));
});

test("after the server's logs were replaced, the client does not read on from the old number", async () => {
  wire().welcome("first");
  connection.attach(SESSION, { tail: 50 }, { entry: () => {}, snapshot: () => {} });
  wire().onclose?.({ code: 1012 });
  await vi.advanceTimersByTimeAsync(1_000);
  wire().welcome("second");
  expect(replaced).toBe(1);
  expect(states.at(-1)).toBe("ended");
  expect(wire().idOf("attach")).toBeUndefined();
});

test("a reconnect reads on from the highest number seen", async () => {
  wire().welcome();
  const seen: number[] = [];
  connection.attach(SESSION, { tail: 50 }, { entry: (frame) => seen.push(frame.seq), snapshot: (frame) => seen.push(frame.seq) });
  expect(wire().sent.at(-1)).toMatchObject({ type: "attach", start: { tail: 50 } });
  wire().attached();
  wire().say({ type: "entry", session: SESSION, seq: 7, at: 0, event: { type: "link_restored" } });
  wire().say({ type: "snapshot", session: SESSION, seq: 9, state: {} });
  wire().onclose?.({ code: 1012 });
  await vi.advanceTimersByTimeAsync(1_000);
  wire().welcome();
  expect(seen).toEqual([7, 9]);
  expect(wire().sent.at(-1)).toMatchObject({ type: "attach", session: SESSION, start: { after: 9 } });
});

test("late frames of a replaced attachment are not taken for frames of the new attachment", () => {
  wire().welcome();
  const seen: number[] = [];
  const listener = { entry: (frame: { seq: number }) => seen.push(frame.seq), snapshot: () => {} };
  const entry = (seq: number) => ({ type: "entry", session: SESSION, seq, at: 0, event: { type: "link_restored" } });
  const detach = connection.attach(SESSION, { tail: 5 }, listener);
  wire().attached();
  wire().say(entry(8));
  detach();
  connection.attach(SESSION, { tail: 5 }, listener);
  wire().say(entry(9));
  wire().attached();
  wire().say(entry(8));
  wire().say(entry(9));
  expect(seen).toEqual([8, 8, 9]);
});

test("a detached session is not attached again", async () => {
  wire().welcome();
  const detach = connection.attach(SESSION, { tail: 50 }, { entry: () => {}, snapshot: () => {} });
  detach();
  wire().onclose?.({ code: 1006 });
  await vi.advanceTimersByTimeAsync(1_000);
  wire().welcome();
  expect(wire().sent.map((frame) => frame["type"])).toEqual(["hello"]);
});

test("a refusal carries its code and how the request ended", async () => {
  wire().welcome();
  const answered = connection.command(SESSION, {
    name: "answer",
    request: 60,
    answer: { kind: "allow", scope: "once" },
  });
  const outcome = { how: "expired" };
  wire().say({ type: "error", id: wire().idOf("command"), code: "already_closed", message: "too late", outcome });
  const refused = await answered.catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(Refused);
  expect(refused).toMatchObject({ code: "already_closed", message: "too late", outcome });
});

test("a refusal carries its way out, also a way out that only a newer server knows", async () => {
  wire().welcome();
  for (const way_out of [{ kind: "resume_session", session: SESSION }, { kind: "dance" }]) {
    const resumed = connection.command(SESSION, { name: "context" });
    wire().say({ type: "error", id: wire().idOf("command"), code: "not_running", message: "it is not running", way_out });
    const refused = await resumed.catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: "not_running", message: "it is not running", wayOut: way_out });
  }
});

test("a silent server is given up and tried again", async () => {
  wire().welcome();
  await vi.advanceTimersByTimeAsync(20_000);
  expect(wire().sent.at(-1)).toMatchObject({ type: "ping" });
  await vi.advanceTimersByTimeAsync(8_000);
  expect(states.at(-1)).toBe("offline");
  await vi.advanceTimersByTimeAsync(1_000);
  expect(wires.length).toBe(2);
});

test("a revoked token ends the connection for good", async () => {
  wire().welcome();
  wire().say({ type: "closing", reason: "token_gone", message: "the token was revoked", resumable: false });
  wire().onclose?.({ code: 4001 });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(connection.state).toEqual({ is: "ended", why: "the token was revoked" });
  expect(wires.length).toBe(1);
});

test("unreadable and unknown frames are skipped", () => {
  wire().welcome();
  wire().onmessage?.({ data: "{not json" });
  wire().say({ type: "something_newer", session: SESSION });
  expect(connection.state.is).toBe("online");
});

test("pauses grow up to a bound while the server does not answer, and a nudge ends a pause", async () => {
  const pauses: number[] = [];
  for (let tries = 0; tries < 10; tries += 1) {
    wire().onclose?.({ code: 1006 });
    const now = Date.now();
    const before = wires.length;
    const { state } = connection;
    if (state.is !== "offline") throw new Error(`it is ${state.is}`);
    pauses.push(state.retryAt - now);
    // Timers count whole milliseconds; a pause may differ by a fraction of one.
    await vi.advanceTimersByTimeAsync(Math.floor(state.retryAt - now) - 2);
    expect(wires.length, "it does not try before the pause is over").toBe(before);
    await vi.advanceTimersByTimeAsync(4);
    expect(wires.length).toBe(before + 1);
  }
  // Each pause is between half and all of 400 ms, doubled with every try, and never more than 15 s.
  pauses.forEach((pause, tries) => {
    const most = Math.min(15_000, 400 * 2 ** tries);
    expect([pause >= most / 2, pause <= most], `try ${tries}: ${pause} ms`).toEqual([true, true]);
  });
  wire().onclose?.({ code: 1006 });
  const before = wires.length;
  connection.nudge();
  expect(wires.length).toBe(before + 1);
});
