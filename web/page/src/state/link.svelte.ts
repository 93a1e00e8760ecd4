/**
 * The one connection of the page, and the short messages to people.
 *
 * Frames are handled once per animation frame: a thousand deltas a second cost sixty updates, not a thousand.
 */

import { Connection, Lost, Refused, enter, logOut, takeTicket, type LinkState, type Role } from "@portolan/client";
import { refusalOf } from "../words.ts";

const KEY = "portolan.key";
/** The public name under which this browser is listed. */
const BROWSER = "portolan.browser";
/** Frames that wait longer than this are handled even if nothing is painted, as in a tab in the background. */
const HIDDEN_MS = 200;
/** How long a short message stays. */
const NOTICE_MS = 8_000;

export interface Notice {
  id: number;
  text: string;
  tone: "plain" | "bad";
}

class Link {
  state = $state.raw<LinkState>({ is: "connecting" });
  /** The connection was welcomed once: without a connection, the shown state stays and is marked as old. */
  welcomed = $state(false);
  notices = $state.raw<Notice[]>([]);
  connection: Connection | null = null;
  /** Called after each batch of frames. */
  readonly settled = new Set<() => void>();

  #work: (() => void)[] = [];
  #planned = false;
  #notice = 0;

  get online(): boolean {
    return this.state.is === "online";
  }

  get role(): Role {
    return this.#role;
  }
  #role = $state.raw<Role>("viewer");
  name = $state("");
  /** The public name of the token that this browser uses. */
  token = $state("");
  version = $state("");

  get mayOperate(): boolean {
    return this.#role !== "viewer";
  }
  get isOwner(): boolean {
    return this.#role === "owner";
  }

  async start(): Promise<void> {
    const ticket = takeTicket(location, history);
    if (ticket !== null) {
      const entered = await enter(location.origin, ticket, localStorage.getItem(KEY));
      switch (entered.is) {
        case "in":
          localStorage.setItem(KEY, entered.key);
          localStorage.setItem(BROWSER, entered.browser);
          break;
        case "in already":
          this.tell("This browser is already logged in, so the link was not used. To use the link, log out first.");
          break;
        case "out":
          localStorage.removeItem(KEY);
          this.state = { is: "ended", why: said(entered.why) };
          return;
      }
    }
    const key = localStorage.getItem(KEY);
    if (key === null) {
      this.state = { is: "ended", why: "" };
      return;
    }
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.connection = new Connection({
      url: `${scheme}//${location.host}/ws`,
      client: { name: "page", version: "1" },
      key,
      schedule: (work) => this.#later(work),
      onReplaced: () => location.reload(),
      onState: (state) => {
        this.state = state;
        if (state.is === "online") {
          this.welcomed = true;
          this.#role = state.you.role;
          this.name = state.you.name;
          this.token = state.you.token;
          this.version = state.version;
        }
      },
    });
    this.connection.connect();
    // A phone that wakes up reconnects at once.
    const nudge = () => document.visibilityState === "visible" && this.connection?.nudge();
    document.addEventListener("visibilitychange", nudge);
    addEventListener("online", nudge);
    addEventListener("focus", nudge);
  }

  async leave(): Promise<void> {
    const key = localStorage.getItem(KEY);
    try {
      if (key !== null) await logOut(location.origin, key);
    } catch {
      this.tell("Portolan cannot be reached. You are logged out in this browser. But the login is still valid in Portolan until an owner ends it under Devices and settings.", "bad");
    }
    localStorage.removeItem(KEY);
    this.connection?.close();
    this.welcomed = false;
    this.state = { is: "ended", why: "Logged out." };
  }

  /** The name under which this browser is listed; empty if the browser logged in before there were names. */
  get browser(): string {
    return localStorage.getItem(BROWSER) ?? "";
  }

  /** The connection; throws `Lost` if there is none. */
  get now(): Connection {
    if (!this.connection) throw new Lost(false);
    return this.connection;
  }

  tell(text: string, tone: Notice["tone"] = "plain"): void {
    const id = (this.#notice += 1);
    this.notices = [...this.notices.slice(-3), { id, text, tone }];
    setTimeout(() => this.dismiss(id), NOTICE_MS);
  }

  dismiss(id: number): void {
    this.notices = this.notices.filter((notice) => notice.id !== id);
  }

  /** Shows an error; for every promise that nobody else waits for. */
  complain = (error: unknown): void => {
    this.tell(said(error), "bad");
  };

  /** One bad frame must not stop the others. */
  #safely(work: () => void): void {
    try {
      work();
    } catch (error) {
      console.warn("a frame could not be handled", error);
    }
  }

  #later(work: () => void): void {
    this.#work.push(work);
    if (this.#planned) return;
    this.#planned = true;
    let done = false;
    const flush = () => {
      if (done) return;
      done = true;
      this.#planned = false;
      const all = this.#work;
      this.#work = [];
      for (const each of all) this.#safely(each);
      for (const each of this.settled) this.#safely(each);
    };
    requestAnimationFrame(flush);
    setTimeout(flush, HIDDEN_MS);
  }
}

export const link = new Link();

/** An error as text for people. */
export function said(error: unknown): string {
  if (error instanceof Refused) return refusalOf(error.message, error.wayOut);
  if (error instanceof Lost) {
    return error.sent
      ? "The connection was lost before an answer came."
      : "There is no connection to Portolan. Nothing was sent.";
  }
  return error instanceof Error ? error.message : String(error);
}
