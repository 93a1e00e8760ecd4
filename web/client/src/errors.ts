/** Errors of calls: the server refused the call, or nobody knows whether the server carried it out. */

import type { Outcome, Refusal, RefusalCode, WayOut } from "./protocol.ts";

/** The server refused. Nothing was done. */
export class Refused extends Error {
  override readonly name = "Refused";
  constructor(
    readonly code: RefusalCode,
    message: string,
    readonly retryAfterMs?: number,
    /** With `already_closed`: how the request ended, and by whom. */
    readonly outcome?: Outcome,
    /** What can be done about the refusal. A newer server may send a `kind` that is not in the type. */
    readonly wayOut?: WayOut,
  ) {
    super(message);
  }

  /** An error from a refusal of the server. */
  static of(refusal: Refusal): Refused {
    return new Refused(refusal.code, refusal.message, refusal.retry_after_ms, refusal.outcome, refusal.way_out);
  }
}

/** There is no connection. `sent` says whether the frame may have reached the server. */
export class Lost extends Error {
  override readonly name = "Lost";
  constructor(
    readonly sent: boolean,
    message = sent ? "the connection was lost before the answer came" : "there is no connection; nothing was sent",
  ) {
    super(message);
  }
}
