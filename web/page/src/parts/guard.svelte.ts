/**
 * A key answers only what somebody can have read.
 *
 * A request that comes up under somebody's fingers, or that moves up when the one before it was answered, takes no keys
 * until it has been in sight, and the one that keys go to, for `GUARD_MS`. A key that comes earlier starts the time anew:
 * who hammers on a key is not reading.
 */

/** Longer than the pause between two presses of someone in a hurry, shorter than reading one line. */
export const GUARD_MS = 700;

export class Guard {
  /** The time is over: the card shows that keys act on it now. */
  armed = $state(false);
  #since: number | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Whether it is in sight and the one that keys go to; the time runs from the moment both are so. */
  watch(seen: boolean): void {
    clearTimeout(this.#timer);
    this.armed = false;
    this.#since = seen ? performance.now() : null;
    if (seen) this.#timer = setTimeout(() => (this.armed = true), GUARD_MS);
  }

  /** Whether a key that was pressed then may act. What waited behind other work counts from when it was pressed. */
  lets(event: { timeStamp: number }): boolean {
    if (this.#since === null) return false;
    if (event.timeStamp - this.#since >= GUARD_MS) return true;
    this.watch(true);
    return false;
  }
}

/** Tells whether an element is in sight: half of it, or as much as fills half of the window, on a page that is shown. */
export function inSight(element: HTMLElement, tell: (seen: boolean) => void): () => void {
  let within = false;
  const say = () => tell(within && document.visibilityState === "visible");
  const observer = new IntersectionObserver(
    (changes) => {
      const last = changes.at(-1);
      if (!last) return;
      within = last.intersectionRatio >= 0.5 || last.intersectionRect.height >= innerHeight / 2;
      say();
    },
    { threshold: [0, 0.1, 0.25, 0.5, 0.75, 1] },
  );
  observer.observe(element);
  document.addEventListener("visibilitychange", say);
  return () => {
    observer.disconnect();
    document.removeEventListener("visibilitychange", say);
  };
}
