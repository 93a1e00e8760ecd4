/** What a rule would have decided so far, looked up while the rule is written. */

import { Refused, type RuleDraft, type Simulation } from "@portolan/client";
import { link, said } from "../state/link.svelte.ts";

/** How long a draft rests before it is looked up: a look reads the requests of every session. */
const REST_MS = 400;

export type Looked =
  | { is: "looking" }
  | { is: "found"; simulation: Simulation }
  /** The draft is no rule. */
  | { is: "wrong"; why: string }
  /** The draft could not be compared, which says nothing about the draft. */
  | { is: "unknown"; why: string };

export class Preview {
  looked = $state.raw<Looked>({ is: "looking" });
  #wanted: RuleDraft | null = null;
  #busy = false;
  #due = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Looks up this draft, and no earlier one; null looks up nothing. */
  want(draft: RuleDraft | null): void {
    clearTimeout(this.#timer);
    this.#wanted = draft;
    this.looked = { is: "looking" };
    if (draft) this.#timer = setTimeout(() => void this.#look(), REST_MS);
  }

  async #look(): Promise<void> {
    // One look at a time. A draft that comes meanwhile is looked up next.
    this.#due = true;
    if (this.#busy) return;
    this.#busy = true;
    while (this.#due && this.#wanted) {
      this.#due = false;
      const draft = this.#wanted;
      const looked = await look(draft);
      if (draft === this.#wanted) this.looked = looked;
    }
    this.#busy = false;
  }
}

async function look(rule: RuleDraft): Promise<Looked> {
  try {
    return { is: "found", simulation: (await link.now.ask("simulation", { type: "rule_simulate", rule })).simulation };
  } catch (error) {
    return { is: error instanceof Refused && error.code === "invalid" ? "wrong" : "unknown", why: said(error) };
  }
}
