import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { GUARD_MS, Guard, typed } from "../src/parts/guard.svelte.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});
const press = () => ({ timeStamp: performance.now() });

test("a key acts on a request only after the request has been visible for the guard's time", () => {
  const guard = new Guard();
  expect(guard.lets(press())).toBe(false);
  guard.watch(true);
  vi.advanceTimersByTime(GUARD_MS);
  expect([guard.armed, guard.lets(press())]).toEqual([true, true]);
});

test("a key that comes too early starts the time again", () => {
  const guard = new Guard();
  guard.watch(true);
  for (let tries = 0; tries < 5; tries += 1) {
    vi.advanceTimersByTime(GUARD_MS - 1);
    expect(guard.lets(press())).toBe(false);
  }
  vi.advanceTimersByTime(GUARD_MS);
  expect(guard.lets(press())).toBe(true);
});

test("a key that was pressed before the request appeared does not act, however late the event arrives", () => {
  const guard = new Guard();
  const early = press();
  guard.watch(true);
  vi.advanceTimersByTime(GUARD_MS * 3);
  expect(guard.lets(early)).toBe(false);
});

test("the time starts again when the request is no longer visible", () => {
  const guard = new Guard();
  guard.watch(true);
  vi.advanceTimersByTime(GUARD_MS);
  guard.watch(false);
  expect([guard.armed, guard.lets(press())]).toEqual([false, false]);
});

test("typing that goes on after its field has closed answers nothing, and does not block the mouse", () => {
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
