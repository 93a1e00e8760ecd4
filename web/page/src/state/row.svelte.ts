/** The rows of a conversation, as a reader sees them. */

import type { Actor, Content, FileChange, JsonValue, Outcome, Request, Seq, ToolKind, ToolOutcome, TurnResult, WorkDone } from "@portolan/client";

abstract class Base {
  constructor(
    readonly id: string,
    readonly seq: Seq,
    readonly at: number,
    readonly by: Actor | undefined,
  ) {}
}

/** A prompt. */
export class PromptRow extends Base {
  readonly kind = "prompt";
  /** The entry of the command with this prompt: a rewind goes back to it. */
  command: Seq = 0;
  content: Content[] = [];
}

/** Text or thinking of the agent; grows while `open`. */
export class WordsRow extends Base {
  readonly kind = "words";
  open = $state(false);
  thinking = $state(false);
  /** A tool call that is still being written. */
  drafting = $state(false);
  text = $state("");
  content = $state.raw<Content[]>([]);
  interrupted = $state(false);
}

/** How a request was decided, and by whom. */
export interface Decision {
  request: Request;
  outcome: Outcome;
}

/** A tool call with its result. */
export class ToolRow extends Base {
  readonly kind = "tool";
  tool = "";
  name = "";
  sort: ToolKind = "other";
  title: string | undefined;
  input: JsonValue = null;
  changes = $state.raw<FileChange[]>([]);
  running = $state(false);
  outcome = $state<ToolOutcome | null>(null);
  result = $state.raw<Content[]>([]);
  output = $state("");
  elapsed = $state(0);
  decision = $state.raw<Decision | null>(null);
}

/** A subagent with its own rows. */
export class SubagentRow extends Base {
  readonly kind = "subagent";
  subagent = "";
  sort: string | undefined;
  description = $state("");
  prompt: string | undefined;
  background = false;
  running = $state(false);
  outcome = $state<ToolOutcome | null>(null);
  summary = $state("");
  work = $state.raw<WorkDone | null>(null);
  rows = $state.raw<Row[]>([]);
  decision = $state.raw<Decision | null>(null);
}

/** A closed question, plan or other request that belongs to no tool call. */
export class AskedRow extends Base {
  readonly kind = "asked";
  decision: Decision | null = null;
}

/** A line about the session itself. */
export class NoteRow extends Base {
  readonly kind = "note";
  tone: "plain" | "warn" | "bad" = "plain";
  text = "";
  wayOut: string | undefined;
  detail: string | undefined;
}

/** The end of a turn. */
export class TurnRow extends Base {
  readonly kind = "turn";
  turn = 0;
  result: TurnResult = { outcome: "completed" };
}

export type Row = PromptRow | WordsRow | ToolRow | SubagentRow | AskedRow | NoteRow | TurnRow;
