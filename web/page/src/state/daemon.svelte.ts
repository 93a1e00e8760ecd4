/** The list of sessions and the inbox: the daemon's log as the page knows it. */

import type {
  AgentDescription,
  DaemonEvent,
  Outcome,
  Request,
  RequestId,
  SessionId,
  Summary,
} from "@portolan/client";
import { SvelteMap } from "svelte/reactivity";
import { link } from "./link.svelte.ts";

/** How long an answered request stays on the page, to show who answered. */
const FAREWELL_MS = 6_000;

export interface Waiting {
  key: string;
  session: SessionId;
  request: Request;
  /** Set once the request is closed: the card shows the outcome, and then goes away. */
  outcome?: Outcome;
}

const keyOf = (session: SessionId, request: RequestId) => `${session}:${request}`;

function withDeadline({ deadline: _before, ...rest }: Request, deadline: number | undefined): Request {
  return deadline === undefined ? rest : { ...rest, deadline };
}

class Daemon {
  sessions = new SvelteMap<SessionId, Summary>();
  waiting = new SvelteMap<string, Waiting>();
  agents = $state.raw<AgentDescription[]>([]);
  /** Grows when a rule for projects or for every session changes. */
  ruleChanges = $state(0);
  /** Grows when a budget for projects, agents or every session changes. */
  budgetChanges = $state(0);
  /** The first snapshot has come. */
  known = $state(false);
  /** Called for each request that opens while the page is open. */
  onOpened: ((waiting: Waiting) => void) | null = null;

  /** The open requests, oldest first. */
  get open(): Waiting[] {
    return [...this.waiting.values()].filter((each) => !each.outcome);
  }

  start(): void {
    link.connection?.subscribe({
      snapshot: ({ state }) => {
        const fresh = new Set(state.sessions.map((summary) => summary.session));
        for (const session of [...this.sessions.keys()]) if (!fresh.has(session)) this.sessions.delete(session);
        for (const summary of state.sessions) this.sessions.set(summary.session, summary);
        const open = new Set(state.requests.map(({ session, request }) => keyOf(session, request.request)));
        for (const [key, each] of [...this.waiting]) if (!open.has(key) && !each.outcome) this.waiting.delete(key);
        for (const { session, request } of state.requests) this.#opened(session, request);
        this.known = true;
      },
      event: ({ event }) => this.#apply(event),
    });
  }

  async look(): Promise<void> {
    this.agents = (await link.now.ask("agents", { type: "agents", probe: false })).agents;
  }

  summary(session: SessionId): Summary | undefined {
    return this.sessions.get(session);
  }

  /**
   * The requests of a session that this page shows, with those that just closed. `open` comes from the session's own
   * state, because the inbox has only a shortened form of a large request.
   */
  requestsOf(session: SessionId, open: Request[]): Waiting[] {
    const whole = (each: Waiting) => open.find(({ request }) => request === each.request.request) ?? each.request;
    const own = [...this.waiting.values()].filter((each) => each.session === session);
    const noted = own.map((each) => (each.request.shortened ? { ...each, request: whole(each) } : each));
    const unnoted = open.filter(({ request }) => !this.waiting.has(keyOf(session, request)));
    return [...noted, ...unnoted.map((request) => ({ key: keyOf(session, request.request), session, request }))];
  }

  /** Replaces shortened requests of the inbox with the whole requests from their session. */
  whole(session: SessionId, requests: Request[]): void {
    for (const request of requests) {
      const key = keyOf(session, request.request);
      const known = this.waiting.get(key);
      if (known?.request.shortened && !request.shortened) this.waiting.set(key, { ...known, request });
    }
  }

  #apply(event: DaemonEvent): void {
    switch (event.type) {
      case "session_created":
      case "session_changed":
        if (event.summary.archived) this.sessions.delete(event.summary.session);
        else this.sessions.set(event.summary.session, event.summary);
        break;
      case "rule_saved":
      case "rule_removed":
        this.ruleChanges += 1;
        break;
      case "budget_saved":
      case "budget_removed":
        this.budgetChanges += 1;
        break;
      case "session_deleted":
        this.sessions.delete(event.session);
        for (const [key, each] of [...this.waiting]) if (each.session === event.session) this.waiting.delete(key);
        break;
      case "request_opened":
        this.#opened(event.session, event.request);
        break;
      case "request_deadline": {
        const key = keyOf(event.session, event.request);
        const known = this.waiting.get(key);
        if (known) this.waiting.set(key, { ...known, request: withDeadline(known.request, event.deadline) });
        break;
      }
      case "request_closed": {
        const key = keyOf(event.session, event.request);
        const known = this.waiting.get(key);
        if (!known) break;
        this.waiting.set(key, { ...known, outcome: event.outcome });
        setTimeout(() => {
          if (this.waiting.get(key)?.outcome) this.waiting.delete(key);
        }, FAREWELL_MS);
        break;
      }
    }
  }

  #opened(session: SessionId, request: Request): void {
    const key = keyOf(session, request.request);
    const known = this.waiting.get(key);
    if (known && !known.outcome) return;
    const waiting = { key, session, request };
    this.waiting.set(key, waiting);
    this.onOpened?.(waiting);
  }
}

export const daemon = new Daemon();
