/**
 * One open session: a window of its history, its live end, and its state.
 *
 * Holds at most `WINDOW` durable entries, however long the session is. The window either touches the live end, or lies
 * in the past. A window in the past does not change with new entries, which then only change the state; `now` brings
 * the reader back to the live end.
 */

import { Lost, Refused, STREAMED, type Action, type EntryFrame, type JsonValue, type Presence, type Seq, type SessionId, type SnapshotFrame, type State } from "@portolan/client";
import { fold } from "./folding.ts";
import { link, said } from "./link.svelte.ts";
import { Rows } from "./rows.svelte.ts";
import { type Row } from "./row.svelte.ts";

/** Durable entries kept on the page. */
const WINDOW = 3_000;
/** How many entries the first read brings. */
const TAIL = 200;
/** How many entries one step into the past brings. */
const STEP = 200;
/** How many numbers the first read into the past covers. Most numbers belong to deltas that are no longer stored. */
const FIRST_WIDTH = 1_000;

type Settled = Extract<EntryFrame["event"], { type: "receipt" }> & { stage: "consumed" | "refused" | "uncertain" };

export class Conversation {
  rows = $state.raw<Row[]>([]);
  state = $state.raw<State | null>(null);
  present = $state.raw<Presence[]>([]);
  /** The window touches the live end. */
  live = $state(true);
  reachedStart = $state(false);
  loading = $state<"older" | "newer" | "jump" | null>(null);
  /** Why there is nothing to see. */
  gone = $state<string | null>(null);
  /** The highest number seen in this session, wherever the window lies. */
  newest = $state<Seq>(0);
  /** Rows were added at the top: the list keeps its place from the end. */
  shifted = $state(false);

  #entries: EntryFrame[] = [];
  #rows = new Rows();
  #draft: State | null = null;
  #dirty = false;
  #detach: () => void = () => {};
  #turn = 0;
  /** Who waits for the end of a command, by the number of the command. */
  #awaited = new Map<Seq, (end: Settled) => void>();
  /** The last few ends: an end may come before anybody waits for it. */
  #settled = new Map<Seq, Settled>();

  constructor(readonly session: SessionId) {
    this.#attach({ tail: TAIL });
    link.settled.add(this.#settle);
  }

  close(): void {
    this.#detach();
    link.settled.delete(this.#settle);
  }

  get first(): EntryFrame | undefined {
    return this.#entries[0];
  }

  get last(): EntryFrame | undefined {
    return this.#entries.at(-1);
  }

  /**
   * Sends a command and waits for its result: the receipt that settles the command arrives as an entry. Fails with
   * `Refused`, or with `Lost` if the command is uncertain.
   */
  async act(action: Action): Promise<JsonValue | undefined> {
    const { seq } = await link.now.command(this.session, action);
    const early = this.#settled.get(seq);
    const end = early ?? (await new Promise<Settled>((told) => this.#awaited.set(seq, told)));
    this.#awaited.delete(seq);
    if (end.stage === "refused") throw Refused.of(end.refusal);
    if (end.stage === "uncertain") throw new Lost(true);
    return end.result;
  }

  /** Brings older entries before the window. */
  async older(): Promise<void> {
    const first = this.#entries[0];
    if (this.loading || this.reachedStart || !first || !link.online) return;
    this.loading = "older";
    const turn = this.#turn;
    try {
      const found = await this.#before(first.seq);
      if (turn !== this.#turn) return;
      if (found.length === 0) this.reachedStart = true;
      this.#entries = [...found, ...this.#entries];
      if (this.#entries.length > WINDOW) {
        this.#entries.length = WINDOW;
        this.live = false;
      }
      this.shifted = true;
      this.#rebuild();
    } catch (error) {
      link.complain(error);
    } finally {
      this.loading = null;
    }
  }

  /** Brings newer entries behind a window in the past. */
  async newer(): Promise<void> {
    const last = this.#entries.at(-1);
    if (this.loading || this.live || !last || !link.online) return;
    this.loading = "newer";
    const turn = this.#turn;
    try {
      const { entries } = await link.now.ask("history", { type: "history", session: this.session, after: last.seq, limit: STEP });
      if (turn !== this.#turn) return;
      if (entries.length === 0) {
        // The window has reached the end: it is live again, without a gap.
        this.#attach({ after: last.seq });
        return;
      }
      this.#entries = [...this.#entries, ...entries];
      this.shifted = false;
      const surplus = this.#entries.length - WINDOW;
      if (surplus > 0) {
        this.#entries.splice(0, surplus);
        this.reachedStart = false;
      }
      this.#rebuild();
    } catch (error) {
      link.complain(error);
    } finally {
      this.loading = null;
    }
  }

  /** Moves the window to the entries from this number on. */
  async goTo(seq: Seq): Promise<void> {
    if (!link.online) return;
    this.#turn += 1;
    const turn = this.#turn;
    this.loading = "jump";
    try {
      const after = Math.max(0, seq - 1);
      const { entries } = await link.now.ask("history", { type: "history", session: this.session, after, limit: STEP });
      if (turn !== this.#turn || entries.length === 0) return;
      this.live = false;
      this.reachedStart = after === 0;
      this.#entries = entries;
      this.shifted = false;
      this.#rebuild();
    } catch (error) {
      link.complain(error);
    } finally {
      this.loading = null;
    }
  }

  /** Back to the live end. */
  now(): void {
    this.#turn += 1;
    this.#entries = [];
    this.#rows = new Rows();
    this.reachedStart = false;
    this.#attach({ tail: TAIL });
  }

  /** At most `STEP` entries before this number, oldest first. */
  async #before(seq: Seq): Promise<EntryFrame[]> {
    let width = FIRST_WIDTH;
    for (;;) {
      const after = Math.max(0, seq - 1 - width);
      const found: EntryFrame[] = [];
      // The size of a reply is bounded too, so the way to `upto` may take several replies.
      for (let from = after; ; ) {
        const { entries } = await link.now.ask("history", {
          type: "history", session: this.session, after: from, upto: seq - 1, limit: 1_000,
        });
        found.push(...entries);
        const last = entries.at(-1);
        if (!last || last.seq >= seq - 1) break;
        from = last.seq;
        // Only the nearest entries are needed: the others can be read again later.
        if (found.length > 4 * STEP) found.splice(0, found.length - 2 * STEP);
      }
      if (found.length >= STEP / 4 || after === 0) {
        if (after === 0 && found.length <= STEP) this.reachedStart = true;
        return found.slice(-STEP);
      }
      width *= 8;
    }
  }

  #attach(start: { tail: number } | { after: Seq }): void {
    this.#detach();
    this.live = true;
    this.#detach = link.now.attach(this.session, start, {
      entry: (frame) => this.#entry(frame),
      snapshot: (frame) => this.#snapshot(frame),
      presence: (present) => {
        this.present = present;
      },
      ended: (reason) => {
        if (reason === "deleted") this.gone = "This session was deleted.";
      },
      refused: (error: Refused) => {
        this.gone = said(error);
      },
    });
  }

  #entry(frame: EntryFrame): void {
    this.newest = Math.max(this.newest, frame.seq);
    if (this.#draft) {
      const next = fold(this.#draft, frame);
      if (next !== this.#draft) {
        this.#draft = next;
        this.#dirty = true;
      }
    }
    const { event } = frame;
    if (event.type === "receipt" && (event.stage === "consumed" || event.stage === "refused" || event.stage === "uncertain")) {
      this.#settled.set(event.command, event);
      if (this.#settled.size > 32) this.#settled.delete(this.#settled.keys().next().value ?? 0);
      this.#awaited.get(event.command)?.(event);
    }
    if (!this.live) return;
    if (!STREAMED.has(frame.event.type)) {
      // Numbers only grow; the same number twice is a neighbour of a merged delta.
      this.#entries.push(frame);
      if (frame.event.type === "session_created" && frame.seq === 1) this.reachedStart = true;
    }
    this.#rows.apply(frame);
  }

  #snapshot({ seq, state }: SnapshotFrame): void {
    this.newest = Math.max(this.newest, seq);
    this.#draft = state;
    this.#dirty = true;
    if (this.live) this.#open(seq, state);
  }

  #open(seq: Seq, state: State): void {
    const tools = new Set(state.tools.map(({ tool }) => tool));
    const subagents = new Set(state.subagents.map(({ subagent }) => subagent));
    this.#rows.open(state.items, tools, subagents, seq);
  }

  #rebuild(): void {
    const open = this.#rows;
    this.#rows = new Rows();
    for (const frame of this.#entries) this.#rows.apply(frame);
    const state = this.#draft;
    if (this.live && state) this.#rows.adopt(open, state);
    else this.#rows.open([], new Set(), new Set(), 0);
    this.#settle();
  }

  #settle = (): void => {
    if (this.#dirty) {
      this.#dirty = false;
      this.state = this.#draft;
    }
    if (!this.#rows.dirty) return;
    // A page that stays open for days keeps only the end.
    if (this.live && this.#entries.length > WINDOW * 1.2) {
      this.#entries.splice(0, this.#entries.length - WINDOW);
      this.reachedStart = false;
      this.shifted = true;
      const open = this.#rows;
      this.#rows = new Rows();
      for (const frame of this.#entries) this.#rows.apply(frame);
      if (this.#draft) this.#rows.adopt(open, this.#draft);
    }
    this.#rows.settle();
    this.#rows.dirty = false;
    this.rows = [...this.#rows.list];
  };
}
