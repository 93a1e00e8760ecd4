/**
 * How a browser comes in: a one-time ticket becomes an HttpOnly cookie and a key. Neither opens anything alone.
 *
 * Nothing here stores the key; the caller decides where it lives.
 */

import { Refused } from "./errors.ts";
import type { Refusal } from "./protocol.ts";

/** Takes the ticket out of a page's address, so that it stays in no history. */
export function takeTicket(location: Location, history: History): string | null {
  const fields = new URLSearchParams(location.hash.slice(1));
  const ticket = fields.get("ticket");
  if (ticket !== null) history.replaceState(null, "", location.pathname);
  return ticket;
}

/** Trades a ticket for a key, and the public name under which this browser is listed; the cookie is set by the answer. */
export async function logIn(origin: string, ticket: string): Promise<{ key: string; browser: string }> {
  const response = await fetch(`${origin}/api/v1/login`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ticket }),
  });
  const body = (await response.json().catch(() => ({}))) as {
    key?: string;
    browser?: string;
    error?: Refusal;
  };
  if (response.ok && body.key) return { key: body.key, browser: body.browser ?? "" };
  throw Refused.of(body.error ?? { code: "internal", message: "the ticket was not taken" });
}

/** How a ticket in the page's address was used. */
export type Entered =
  | { is: "in"; key: string; browser: string }
  /** This browser is in already, and stays who it is: a link must not make it someone else unnoticed. */
  | { is: "in already" }
  /** The ticket was not taken, and there is no login that could be. */
  | { is: "out"; why: unknown };

/** Uses a ticket, unless the login that this browser has (`known`, its key) still lets it in. */
export async function enter(origin: string, ticket: string, known: string | null): Promise<Entered> {
  if (known !== null && (await stillIn(origin, known))) return { is: "in already" };
  try {
    return { is: "in", ...(await logIn(origin, ticket)) };
  } catch (why) {
    return { is: "out", why };
  }
}

/** Only a plain no counts: a server that is busy or away says nothing about the login. */
async function stillIn(origin: string, key: string): Promise<boolean> {
  try {
    const headers = { "x-portolan-key": key };
    const response = await fetch(`${origin}/api/v1/sessions?limit=1`, { headers });
    return response.status !== 401;
  } catch {
    return true;
  }
}

/** Ends this browser's login, and with it its connections. */
export async function logOut(origin: string, key: string): Promise<void> {
  await fetch(`${origin}/api/v1/logout`, { method: "POST", headers: { "x-portolan-key": key } });
}
