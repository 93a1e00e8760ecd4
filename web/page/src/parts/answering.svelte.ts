/** One answer that is sent once, and its result. */

import { Refused, freshId, type Answer } from "@portolan/client";
import type { Waiting } from "../state/daemon.svelte.ts";
import { link, said } from "../state/link.svelte.ts";

export class Answering {
  sending = $state(false);
  /** Why the answer was refused. */
  problem = $state("");

  async send({ session, request }: Waiting, answer: Answer): Promise<void> {
    if (this.sending) return;
    this.sending = true;
    this.problem = "";
    try {
      // A second try after a lost connection has the same id, and so counts as the same answer.
      await link.now.command(session, { name: "answer", request: request.request, digest: request.digest, answer }, freshId());
    } catch (error) {
      this.sending = false;
      // Someone else answered first: the card closes by itself and shows who answered.
      if (error instanceof Refused && error.code === "already_closed") return;
      this.problem = said(error);
    }
  }
}

export const ALLOW: Answer = { kind: "allow", scope: "once" };
export const ALWAYS: Answer = { kind: "allow", scope: "session" };
export const deny = (message: string): Answer => ({ kind: "deny", interrupt: false, ...(message.trim() ? { message: message.trim() } : {}) });
