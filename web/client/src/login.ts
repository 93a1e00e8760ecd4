/**
 * The login of a browser: a one-time ticket becomes an HttpOnly cookie and a key. Neither gives access alone.
 *
 * This module does not store the key; the caller decides where the key is stored.
 */

import { Refused } from "./errors.ts";
import type { Refusal } from "./protocol.ts";

/** Takes the ticket out of the page's address, so that the ticket stays in no history. */
export function takeTicket(location: Location, history: History): string | null {
  const fields = new URLSearchParams(location.hash.slice(1));
  const ticket = fields.get("ticket");
  if (ticket !== null) history.replaceState(null, "", location.pathname);
  return ticket;
}

/** Trades a ticket for a key and the public name of this browser in the list. The response sets the cookie. */
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
  throw Refused.of(body.error ?? { code: "internal", message: "the ticket was not accepted" });
}

/** The result of a ticket in the page's address. */
export type Entered =
  | { is: "in"; key: string; browser: string }
  /** This browser is already logged in and keeps its login: a link must not change the user unnoticed. */
  | { is: "in already" }
  /** The ticket was not accepted, and there is no other login. */
  | { is: "out"; why: unknown };

/** Uses a ticket, unless this browser has a login (`known`, its key) that is still valid. */
export async function enter(origin: string, ticket: string, known: string | null): Promise<Entered> {
  if (known !== null && (await stillIn(origin, known))) return { is: "in already" };
  try {
    return { is: "in", ...(await logIn(origin, ticket)) };
  } catch (why) {
    return { is: "out", why };
  }
}

/** Only a 401 counts as invalid: a server that is busy or away says nothing about the login. */
async function stillIn(origin: string, key: string): Promise<boolean> {
  try {
    const headers = { "x-portolan-key": key };
    const response = await fetch(`${origin}/api/v1/sessions?limit=1`, { headers });
    return response.status !== 401;
  } catch {
    return true;
  }
}

/** Ends the login of this browser and its connections. */
export async function logOut(origin: string, key: string): Promise<void> {
  await fetch(`${origin}/api/v1/logout`, { method: "POST", headers: { "x-portolan-key": key } });
}
