/**
 * One WebSocket to Portolan that reconnects by itself.
 *
 * Owns the hello, the pauses between tries, the cursors of the readers, and the commands without a receipt. After a
 * lost connection it reads on from the highest numbers seen, and sends commands without a receipt again under the same
 * ids; the server never carries out the same id twice. Keeps nothing for later: a call without a connection fails at
 * once with `Lost`.
 */

import { Lost, Refused } from "./errors.ts";
import { freshId } from "./ids.ts";
import type {
  Action,
  Call,
  ClientFrame,
  DaemonFrame,
  DaemonSnapshotFrame,
  EntryFrame,
  Presence,
  Receipt,
  ReplyBody,
  Seq,
  ServerFrame,
  SessionId,
  SessionSpec,
  SnapshotFrame,
  Start,
  Summary,
  You,
} from "./protocol.ts";

/** The part of a WebSocket that is used here; tests bring their own. */
export interface Socket {
  send(text: string): void;
  close(code?: number): void;
  onopen: (() => void) | null;
  onmessage: ((message: { data: unknown }) => void) | null;
  onclose: ((closed: { code: number }) => void) | null;
  onerror?: ((error: unknown) => void) | null;
}

/** The state of the connection. */
export type LinkState =
  | { is: "connecting" }
  | { is: "online"; you: You; version: string }
  /** Tries again at `retryAt` (milliseconds since 1970). */
  | { is: "offline"; since: number; retryAt: number; why: string }
  /** Does not try again by itself: the login is gone, or the server speaks another version. */
  | { is: "ended"; why: string };

export interface ConnectionOptions {
  /** The address of the WebSocket, such as `ws://127.0.0.1:7420/ws`. */
  url: string;
  client: { name: string; version: string };
  /** The browser's key; programs send a token with the upgrade instead. */
  key?: string;
  open?: (url: string) => Socket;
  onState?: (state: LinkState) => void;
  /** Called with every frame's arrival; the default handles it at once. A page batches by animation frame. */
  schedule?: (work: () => void) => void;
  /** The server's logs were replaced, as by a backup: entries read before no longer count. The connection has ended. */
  onReplaced?: () => void;
}

/** The callbacks of a reader of a session. */
export interface SessionListener {
  entry(frame: EntryFrame): void;
  snapshot(frame: SnapshotFrame): void;
  presence?(present: Presence[]): void;
  /** Nothing more will come. */
  ended?(reason: string): void;
  refused?(error: Refused): void;
}

/** The callbacks of a reader of the daemon's log. */
export interface DaemonListener {
  event(frame: DaemonFrame): void;
  snapshot(frame: DaemonSnapshotFrame): void;
}

type Frame = ServerFrame | EntryFrame | SnapshotFrame | DaemonFrame | DaemonSnapshotFrame;
type Reply<Kind extends ReplyBody["reply"]> = Extract<ReplyBody, { reply: Kind }>;

interface Waiting {
  frame: ClientFrame;
  /** Sent again after a lost connection, under the same id. */
  again: boolean;
  resolve(reply: ReplyBody): void;
  reject(error: Error): void;
}

interface Reading {
  cursor: Seq | null;
  /** Where the first attach begins. */
  start: Start;
  /** Only finished items, no deltas. */
  itemsOnly: boolean;
  /** The attach without a reply: frames before its reply belong to an earlier attach. */
  pending: string | null;
  listener: SessionListener;
}

/** The first pause before the next try; the pause doubles with each failed try. */
const FIRST_PAUSE_MS = 400;
/** The longest pause: someone who looks at the page must not wait longer. */
const LONGEST_PAUSE_MS = 15_000;
/** After this long without a frame, a ping asks whether the server is still there. */
const SILENCE_MS = 20_000;
/** After this long without a pong, the socket is given up. */
const PONG_MS = 8_000;
/** A socket that neither opens nor fails is given up after this long. */
const OPEN_MS = 10_000;
/** After this many failed tries the login may be gone, not the network: then the login is checked. */
const TRIES_BEFORE_DOUBT = 3;
/** Close codes after which a reconnect is useless. */
const FINAL_CODES = [4001, 1008, 1002, 1009];

export class Connection {
  #options: ConnectionOptions;
  #socket: Socket | null = null;
  #state: LinkState = { is: "connecting" };
  #tries = 0;
  #neverOpened = 0;
  #opened = false;
  #farewell: { message: string; resumable: boolean } | null = null;
  #waiting = new Map<string, Waiting>();
  #readings = new Map<SessionId, Reading>();
  #daemon: { cursor: Seq | null; listener: DaemonListener } | null = null;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;
  #pong: ReturnType<typeof setTimeout> | undefined;
  #closed = false;
  /** The incarnation of the first server. */
  #incarnation: string | undefined;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  get state(): LinkState {
    return this.#state;
  }

  /** How many frames wait for a reply. */
  get unanswered(): number {
    return this.#waiting.size;
  }

  /** Opens the connection and keeps it open until `close`. */
  connect(): void {
    this.#closed = false;
    this.#open();
  }

  /** Ends the connection for good. Calls without a reply fail. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.#drop();
    this.#failAll();
  }

  /** Reconnects at once instead of after the pause, or checks whether an open connection is still alive. */
  nudge(): void {
    if (this.#closed || this.#state.is === "ended") return;
    if (this.#state.is === "offline") {
      clearTimeout(this.#retry);
      this.#open();
    } else if (this.#state.is === "online") {
      this.#ping();
    }
  }

  /** Sends a call that may be sent twice without harm. The call fails with `Lost` when the connection is lost. */
  ask<Kind extends ReplyBody["reply"]>(kind: Kind, call: Call): Promise<Reply<Kind>> {
    return this.#send(kind, { ...call, id: freshId() }, false);
  }

  /**
   * Sends a command. The receipt says that the command is in the log; its effects arrive as entries. After a lost
   * connection, the command is sent again under the same id, and runs once.
   */
  async command(session: SessionId, command: Action, id = freshId()): Promise<Receipt> {
    const frame = { type: "command", id, session, command } as Waiting["frame"];
    return (await this.#send("receipt", frame, true)).receipt;
  }

  /** Creates a session; if the frame is sent again after a lost connection, it still creates one session. */
  async create(spec: SessionSpec, id = freshId()): Promise<Summary> {
    return (await this.#send("session", { type: "create", id, spec } as Waiting["frame"], true)).session;
  }

  /** Reads a session from `start` on, across reconnections, until the returned function is called. */
  attach(session: SessionId, start: Start, listener: SessionListener, options: { itemsOnly?: boolean } = {}): () => void {
    const reading: Reading = { cursor: null, start, itemsOnly: options.itemsOnly ?? false, pending: null, listener };
    this.#readings.set(session, reading);
    if (this.#state.is === "online") this.#attach(session, reading);
    return () => {
      if (this.#readings.get(session) !== reading) return;
      this.#readings.delete(session);
      if (this.#state.is === "online") this.ask("done", { type: "detach", session }).catch(() => {});
    };
  }

  /** Reads the daemon's log: the list of sessions and the inbox. */
  subscribe(listener: DaemonListener): void {
    this.#daemon = { cursor: null, listener };
    if (this.#state.is === "online") this.#subscribe();
  }

  // --------------------------------------------------------------------------------- sending

  #send<Kind extends ReplyBody["reply"]>(
    kind: Kind,
    frame: Waiting["frame"],
    again: boolean,
  ): Promise<Reply<Kind>> {
    if (this.#state.is !== "online" || !this.#socket) return Promise.reject(new Lost(false));
    const socket = this.#socket;
    return new Promise((resolve, reject) => {
      const settle = (reply: ReplyBody) =>
        reply.reply === kind
          ? resolve(reply as Reply<Kind>)
          : reject(new Error(`the server answered \`${reply.reply}\` where \`${kind}\` was expected`));
      this.#waiting.set(frame.id, { frame, again, resolve: settle, reject });
      socket.send(JSON.stringify(frame));
    });
  }

  #attach(session: SessionId, reading: Reading): void {
    const start: Start = reading.cursor === null ? reading.start : { after: reading.cursor };
    const id = freshId();
    reading.pending = id;
    const items_only = reading.itemsOnly;
    this.#send("attached", { type: "attach", id, session, start, ...(items_only ? { items_only } : {}) } as Waiting["frame"], false).catch((error: unknown) => {
      if (error instanceof Refused && this.#readings.get(session) === reading) reading.listener.refused?.(error);
    });
  }

  #subscribe(): void {
    if (!this.#daemon) return;
    const { cursor } = this.#daemon;
    const start: Start = cursor === null ? { tail: 0 } : { after: cursor };
    this.ask("subscribed", { type: "subscribe", start }).catch(() => {});
  }

  // ------------------------------------------------------------------------------- the socket

  #open(): void {
    if (this.#state.is !== "offline") this.#become({ is: "connecting" });
    this.#farewell = null;
    this.#opened = false;
    const make = this.#options.open ?? ((url: string) => new WebSocket(url) as unknown as Socket);
    let socket: Socket;
    try {
      socket = make(this.#options.url);
    } catch (error) {
      this.#pause(String(error));
      return;
    }
    this.#socket = socket;
    const { client, key } = this.#options;
    this.#pong = setTimeout(() => this.#giveUp(socket, 1006), OPEN_MS);
    socket.onopen = () => {
      this.#opened = true;
      socket.send(JSON.stringify({ type: "hello", protocol: 1, client, ...(key ? { key } : {}) }));
    };
    const schedule = this.#options.schedule ?? ((work: () => void) => work());
    socket.onmessage = ({ data }) => {
      this.#heard();
      schedule(() => {
        if (this.#socket === socket) this.#receive(data);
      });
    };
    // In the same order as the messages: the server's last frames come before the end.
    socket.onclose = ({ code }) => schedule(() => this.#giveUp(socket, code));
    socket.onerror = () => {};
  }

  #giveUp(socket: Socket, code: number): void {
    if (this.#socket !== socket) return;
    this.#drop();
    // Frames that may be sent twice wait for the next connection; all other calls fail now.
    for (const [id, waiting] of this.#waiting) {
      if (waiting.again && !this.#closed) continue;
      this.#waiting.delete(id);
      waiting.reject(new Lost(true));
    }
    if (this.#closed) return;
    const farewell = this.#farewell as { message: string; resumable: boolean } | null;
    if (farewell?.resumable === false || FINAL_CODES.includes(code)) {
      this.#end(farewell?.message ?? "The login is no longer valid.");
      return;
    }
    this.#pause(farewell?.message ?? "");
  }

  #pause(why: string): void {
    // If the cookie is unknown, the server answers the upgrade with 401, but a browser sees only a close. So a plain
    // HTTP request finds out whether the login is gone, or the network.
    this.#neverOpened += this.#opened ? 0 : 1;
    const since = this.#state.is === "offline" ? this.#state.since : Date.now();
    const grown = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#tries);
    const pause = grown * (0.5 + Math.random() / 2);
    this.#tries += 1;
    this.#become({ is: "offline", since, retryAt: Date.now() + pause, why });
    this.#retry = setTimeout(() => this.#open(), pause);
    if (this.#neverOpened >= TRIES_BEFORE_DOUBT) this.#doubtLogin();
  }

  /** Checks whether the server is there and refuses the login. */
  #doubtLogin(): void {
    const { url, key } = this.#options;
    if (!key || typeof fetch !== "function") return;
    const origin = url.replace(/^ws/, "http").replace(/\/ws$/, "");
    fetch(`${origin}/api/v1/agents`, { headers: { "x-portolan-key": key } })
      .then((answer) => {
        if (answer.status === 401 && this.#state.is === "offline") {
          clearTimeout(this.#retry);
          this.#end("This browser is no longer logged in.");
        }
      })
      .catch(() => {});
  }

  #drop(): void {
    clearTimeout(this.#silence);
    clearTimeout(this.#pong);
    const socket = this.#socket;
    this.#socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    try {
      socket.close();
    } catch {
      // The socket is gone anyway.
    }
  }

  #end(why: string): void {
    this.#failAll();
    this.#become({ is: "ended", why });
  }

  #failAll(): void {
    const all = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const waiting of all) waiting.reject(new Lost(true));
  }

  #become(state: LinkState): void {
    this.#state = state;
    this.#options.onState?.(state);
  }

  // ---------------------------------------------------------------------------------- silence

  #heard(): void {
    clearTimeout(this.#pong);
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#ping(), SILENCE_MS);
  }

  #ping(): void {
    const socket = this.#socket;
    if (!socket || this.#state.is !== "online") return;
    clearTimeout(this.#pong);
    this.#pong = setTimeout(() => this.#giveUp(socket, 1006), PONG_MS);
    this.ask("pong", { type: "ping" }).catch(() => {});
  }

  // -------------------------------------------------------------------------------- receiving

  #receive(data: unknown): void {
    let frame: Frame;
    try {
      frame = JSON.parse(String(data)) as Frame;
    } catch {
      return;
    }
    switch (frame.type) {
      case "welcome":
        this.#welcomed(frame);
        break;
      case "reply": {
        const waiting = this.#waiting.get(frame.id);
        this.#waiting.delete(frame.id);
        if (frame.reply === "attached") {
          // At once, not when the promise settles: entries may follow in the same batch.
          const reading = this.#readings.get(frame.session);
          if (reading?.pending === frame.id) reading.pending = null;
        }
        waiting?.resolve(frame);
        break;
      }
      case "error": {
        if (frame.id === undefined) break;
        const waiting = this.#waiting.get(frame.id);
        this.#waiting.delete(frame.id);
        waiting?.reject(Refused.of(frame));
        break;
      }
      case "entry":
      case "snapshot": {
        const reading = this.#readings.get(frame.session);
        if (!reading || reading.pending !== null) break;
        reading.cursor = Math.max(reading.cursor ?? 0, frame.seq);
        if (frame.type === "entry") reading.listener.entry(frame);
        else reading.listener.snapshot(frame);
        break;
      }
      case "daemon":
      case "daemon_snapshot":
        if (!this.#daemon) break;
        this.#daemon.cursor = Math.max(this.#daemon.cursor ?? 0, frame.seq);
        if (frame.type === "daemon") this.#daemon.listener.event(frame);
        else this.#daemon.listener.snapshot(frame);
        break;
      case "presence":
        this.#readings.get(frame.session)?.listener.presence?.(frame.present);
        break;
      case "ended":
        if (frame.session !== undefined) {
          const reading = this.#readings.get(frame.session);
          if (frame.reason === "deleted") this.#readings.delete(frame.session);
          reading?.listener.ended?.(frame.reason);
          // The history could not be read just now: attach again after the last number, as the protocol says.
          if (frame.reason === "failed" && reading) {
            const session = frame.session;
            setTimeout(() => {
              if (this.#readings.get(session) === reading && this.#state.is === "online") this.#attach(session, reading);
            }, FIRST_PAUSE_MS * 5);
          }
        } else if (frame.reason === "failed") {
          setTimeout(() => this.#state.is === "online" && this.#subscribe(), FIRST_PAUSE_MS * 5);
        }
        break;
      case "closing":
        this.#farewell = frame;
        break;
    }
  }

  #welcomed(frame: Extract<ServerFrame, { type: "welcome" }>): void {
    this.#tries = 0;
    this.#neverOpened = 0;
    const { incarnation } = frame.server;
    if (this.#incarnation !== undefined && incarnation !== undefined && incarnation !== this.#incarnation) {
      this.close();
      this.#become({ is: "ended", why: "The logs of the server were replaced. Reload the page." });
      this.#options.onReplaced?.();
      return;
    }
    this.#incarnation = incarnation ?? this.#incarnation;
    const unanswered = [...this.#waiting.values()];
    this.#become({ is: "online", you: frame.you, version: frame.server.version });
    this.#subscribe();
    for (const [session, reading] of this.#readings) this.#attach(session, reading);
    for (const { frame: again } of unanswered) this.#socket?.send(JSON.stringify(again));
  }
}
