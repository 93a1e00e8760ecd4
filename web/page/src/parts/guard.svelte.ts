/**
 * A key or a press answers only what somebody can have read.
 *
 * A request that comes up under somebody's fingers, or that moves up when the one before it was answered, takes no keys
 * until it has been in sight, and the one that keys go to, for `GUARD_MS`. A key that comes earlier starts the time anew:
 * who hammers on a key, or goes on typing words that were meant for another place, is not reading. For a press of a mouse or finger the request must have stood in its place for as long.
 */

/** Longer than the pause between two presses of someone in a hurry, shorter than reading one line. */
export const GUARD_MS = 700;

/** When somebody typed last: into a field, or keys that mean nothing here. */
let typedAt = -Infinity;

/** Somebody types. A field that closes under their hands leaves the rest of their words to the keys of the page. */
export function typed(event: { timeStamp: number }): void {
  typedAt = event.timeStamp;
}

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
  lets(event: { timeStamp: number; key?: string }): boolean {
    if (this.#since === null) return false;
    const since = "key" in event ? Math.max(this.#since, typedAt) : this.#since;
    if (event.timeStamp - since >= GUARD_MS) return true;
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

/** Smaller moves are those of a font or a scroll bar that comes. */
const MOVE_PX = 4;

/** Where a request stands: what slides under a finger takes no press before it has stood there for the guard's time. */
export class Footing {
  readonly #guard = new Guard();
  #element: HTMLElement | null = null;
  #place: Place | null = null;
  #seen = false;

  /** It has stood in its place long enough: its buttons act. */
  get firm(): boolean {
    return this.#guard.armed;
  }

  follow(element: HTMLElement): () => void {
    this.#element = element;
    const intersections = new IntersectionObserver((changes) => {
      this.#seen = changes.at(-1)?.isIntersecting ?? false;
      this.#begin();
    });
    intersections.observe(element);
    // Whatever moves it makes something around it larger or smaller.
    const sizes = new ResizeObserver(() => this.#look());
    for (const each of [element, element.closest("[data-cards]")]) if (each) sizes.observe(each);
    const shown = () => this.#begin();
    document.addEventListener("visibilitychange", shown);
    return () => {
      intersections.disconnect();
      sizes.disconnect();
      document.removeEventListener("visibilitychange", shown);
      this.#guard.watch(false);
      this.#element = null;
    };
  }

  /** Whether a press that came then may act. */
  lets(event: { timeStamp: number }): boolean {
    this.#look();
    return this.#guard.lets(event);
  }

  /** What a button does when it is pressed, if the press may act. */
  press(act: () => void): (event: MouseEvent) => void {
    return (event) => void (this.lets(event) && act());
  }

  #begin(): void {
    this.#place = this.#element && placeOf(this.#element);
    this.#guard.watch(this.#seen && document.visibilityState === "visible");
  }

  #look(): void {
    if (!this.#element || !this.#place) return;
    const place = placeOf(this.#element);
    if (place.some((value, index) => Math.abs(value - (this.#place?.[index] ?? 0)) > MOVE_PX)) this.#begin();
  }
}

type Place = [left: number, top: number, height: number];

/** Where an element stands; scrolling is the reader's own doing, and does not move it. */
function placeOf(element: HTMLElement): Place {
  const { left, top, height } = element.getBoundingClientRect();
  let scrolled = 0;
  for (let above = element.parentElement; above; above = above.parentElement) scrolled += above.scrollTop;
  return [left, top + scrolled, height];
}
