/** One answer on its way: sent once, and what came of it. */

import { Refused, freshId, type Answer } from "@portolan/client";
import type { Waiting } from "../state/daemon.svelte.ts";
import { link, said } from "../state/link.svelte.ts";

export class Answering {
  sending = $state(false);
  /** Why it was not taken. */
  problem = $state("");

  async send({ session, request }: Waiting, answer: Answer): Promise<void> {
    if (this.sending) return;
    this.sending = true;
    this.problem = "";
    try {
      // The id makes a second try after a lost connection the same answer.
      await link.now.command(session, { name: "answer", request: request.request, digest: request.digest, answer }, freshId());
    } catch (error) {
      this.sending = false;
      // Someone was faster: the request closes here by itself, and says who it was.
      if (error instanceof Refused && error.code === "already_closed") return;
      this.problem = said(error);
    }
  }
}

export const ALLOW: Answer = { kind: "allow", scope: "once" };
export const ALWAYS: Answer = { kind: "allow", scope: "session" };
export const deny = (message: string): Answer => ({ kind: "deny", interrupt: false, ...(message.trim() ? { message: message.trim() } : {}) });
