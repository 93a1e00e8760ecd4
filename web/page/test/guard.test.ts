import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { GUARD_MS, Guard, typed } from "../src/parts/guard.svelte.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});
const press = () => ({ timeStamp: performance.now() });

test("a key acts on a request only after it has been in sight for the guard's time", () => {
  const guard = new Guard();
  expect(guard.lets(press())).toBe(false);
  guard.watch(true);
  vi.advanceTimersByTime(GUARD_MS);
  expect([guard.armed, guard.lets(press())]).toEqual([true, true]);
});

test("a key that comes too early starts the time anew", () => {
  const guard = new Guard();
  guard.watch(true);
  for (let tries = 0; tries < 5; tries += 1) {
    vi.advanceTimersByTime(GUARD_MS - 1);
    expect(guard.lets(press())).toBe(false);
  }
  vi.advanceTimersByTime(GUARD_MS);
  expect(guard.lets(press())).toBe(true);
});

test("a key that was pressed before the request was there counts from then, however late it is heard", () => {
  const guard = new Guard();
  const early = press();
  guard.watch(true);
  vi.advanceTimersByTime(GUARD_MS * 3);
  expect(guard.lets(early)).toBe(false);
});

test("out of sight the time is lost", () => {
  const guard = new Guard();
  guard.watch(true);
  vi.advanceTimersByTime(GUARD_MS);
  guard.watch(false);
  expect([guard.armed, guard.lets(press())]).toEqual([false, false]);
});

test("words that go on when their field has closed answer nothing, and do not keep a mouse from it", () => {
  const guard = new Guard();
  guard.watch(true);
  vi.advanceTimersByTime(GUARD_MS * 2);
  typed(press());
  vi.advanceTimersByTime(GUARD_MS - 1);
  expect(guard.lets(press()), "a mouse").toBe(true);
  expect(guard.lets({ ...press(), key: "a" })).toBe(false);
  vi.advanceTimersByTime(GUARD_MS);
  expect(guard.lets({ ...press(), key: "a" })).toBe(true);
});
