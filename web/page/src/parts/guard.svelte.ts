/**
 * A key or a press answers only a request that somebody can have read.
 *
 * A request may appear under somebody's fingers, or move up when the request before it is answered. So a request takes
 * no keys until it has been visible, and the target of keys, for `GUARD_MS`. An earlier key starts this time again:
 * somebody who presses a key again and again, or who still types text that was meant for another field, is not reading.
 * A press of a mouse or finger counts only after the request has stood in its place for `GUARD_MS`.
 */

/** Longer than the pause between two quick presses, shorter than the time to read one line. */
export const GUARD_MS = 700;

/** When somebody typed last: into a field, or a key that has no meaning here. */
let typedAt = -Infinity;

/** Notes that somebody types. When a field closes during typing, the rest of the text reaches the keys of the page. */
export function typed(event: { timeStamp: number }): void {
  typedAt = event.timeStamp;
}

export class Guard {
  /** The time is over: the card shows that keys act now. */
  armed = $state(false);
  #since: number | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `seen`: the request is visible and the target of keys. The time runs from then on. */
  watch(seen: boolean): void {
    clearTimeout(this.#timer);
    this.armed = false;
    this.#since = seen ? performance.now() : null;
    if (seen) this.#timer = setTimeout(() => (this.armed = true), GUARD_MS);
  }

  /** Whether a key may act. The time of the press counts, even if the event waited behind other work. */
  lets(event: { timeStamp: number; key?: string }): boolean {
    if (this.#since === null) return false;
    const since = "key" in event ? Math.max(this.#since, typedAt) : this.#since;
    if (event.timeStamp - since >= GUARD_MS) return true;
    this.watch(true);
    return false;
  }
}

/** Reports whether an element is visible: half of the element, or half of the window full of it, on a visible page. */
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

/** Smaller moves come from a font or a scroll bar that appears. */
const MOVE_PX = 4;

/** The place of a request: a request that moves takes no press until it has stood still for the guard's time. */
export class Footing {
  readonly #guard = new Guard();
  #element: HTMLElement | null = null;
  #place: Place | null = null;
  #seen = false;

  /** The request has stood in its place long enough: its buttons act. */
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
    // A request moves only when something around it changes its size.
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

  /** Whether a press may act. */
  lets(event: { timeStamp: number }): boolean {
    this.#look();
    return this.#guard.lets(event);
  }

  /** The handler of a button: acts if the press may act. */
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

/** The place of an element. Scrolling does not count as a move, because the reader does it. */
function placeOf(element: HTMLElement): Place {
  const { left, top, height } = element.getBoundingClientRect();
  let scrolled = 0;
  for (let above = element.parentElement; above; above = above.parentElement) scrolled += above.scrollTop;
  return [left, top + scrolled, height];
}
