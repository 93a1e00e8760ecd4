/** Why something asked of the server did not happen, or is not known to have happened. */

import type { Outcome, Refusal, RefusalCode, WayOut } from "./protocol.ts";

/** The server said no. Nothing was done. */
export class Refused extends Error {
  override readonly name = "Refused";
  constructor(
    readonly code: RefusalCode,
    message: string,
    readonly retryAfterMs?: number,
    /** With `already_closed`: how the request ended, and by whom. */
    readonly outcome?: Outcome,
    /** What can be done about it. One of a newer server has a `kind` that is not among those of the type. */
    readonly wayOut?: WayOut,
  ) {
    super(message);
  }

  /** A refusal as it came. */
  static of(refusal: Refusal): Refused {
    return new Refused(refusal.code, refusal.message, refusal.retry_after_ms, refusal.outcome, refusal.way_out);
  }
}

/** There is no connection. `sent` tells whether the frame may have reached the server. */
export class Lost extends Error {
  override readonly name = "Lost";
  constructor(
    readonly sent: boolean,
    message = sent ? "the connection was lost before the answer came" : "there is no connection; nothing was sent",
  ) {
    super(message);
  }
}
