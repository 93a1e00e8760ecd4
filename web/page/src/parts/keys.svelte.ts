/**
 * Keyboard shortcuts of one key, or of two keys such as `g i`. They can be switched off (WCAG 2.1.4), and never act
 * while someone writes, or together with a modifier. A held key acts once, except for keys that only move.
 */

import { settings } from "../state/settings.svelte.ts";
import { typed } from "./guard.svelte.ts";

type Act = (event: KeyboardEvent) => unknown;

const stack: Record<string, Act>[] = [];
/** How long a first key waits for the second key. */
const PAIR_MS = 1_500;
/** Keys that may be held: they only move. */
const HELD = new Set(["j", "k", "ArrowDown", "ArrowUp"]);
let first = "";
let firstAt = 0;

export function writing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement && /^(checkbox|radio|range)$/.test(target.type)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

/** Listens for these keys until the returned function is called. The last listener goes first. */
export function keys(acts: Record<string, Act>): () => void {
  stack.push(acts);
  return () => {
    const at = stack.indexOf(acts);
    if (at >= 0) stack.splice(at, 1);
  };
}

const find = (key: string): Act | undefined => stack.findLast((each) => key in each)?.[key];

export function listenForKeys(): void {
  addEventListener("keydown", (event) => {
    if (!settings.shortcuts || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (writing(event.target)) return typed(event);
    if (event.repeat && !HELD.has(event.key)) return;
    const pair = first && event.timeStamp - firstAt < PAIR_MS ? find(`${first} ${event.key}`) : undefined;
    first = "";
    const begins = stack.some((each) => Object.keys(each).some((name) => name.startsWith(`${event.key} `)));
    const act = pair ?? find(event.key);
    if (!act && begins) {
      first = event.key;
      firstAt = event.timeStamp;
      return;
    }
    if (!act) {
      if (event.key.length === 1) typed(event);
      return;
    }
    event.preventDefault();
    act(event);
  });
}
