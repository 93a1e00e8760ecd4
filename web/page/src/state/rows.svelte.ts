/**
 * Turns entries into rows, in order.
 *
 * The same entries give the same rows: no clock, no connection. An event that only a newer server knows becomes a row
 * that says so, never an error.
 */

import type { Actor, EntryFrame, OpenItem, Outcome, Request, Seq } from "@portolan/client";
import { noteOf, type Note } from "./notes.ts";
import { AskedRow, NoteRow, PromptRow, SubagentRow, ToolRow, TurnRow, WordsRow, type Row } from "./row.svelte.ts";

/** How much live output of a tool the page keeps: only the end, which people read. */
const OUTPUT_CHARS = 200_000;

export class Rows {
  readonly list: Row[] = [];
  #items = new Map<string, WordsRow | ToolRow>();
  #tools = new Map<string, ToolRow | SubagentRow>();
  #requests = new Map<number, Request>();
  #lists = new Map<SubagentRow, Row[]>();
  #touched = new Set<SubagentRow>();
  dirty = false;

  /** Shows the applied entries: the lists of subagents are replaced once per batch. */
  settle(): void {
    for (const row of this.#touched) row.rows = [...(this.#lists.get(row) ?? [])];
    this.#touched.clear();
  }

  apply(frame: EntryFrame): void {
    this.dirty = true;
    try {
      this.#take(frame);
    } catch (error) {
      // One entry that cannot be read costs its own row, not the conversation.
      console.warn(`entry ${frame.seq} cannot be read`, error);
      this.#note({ text: `This page cannot show entry ${frame.seq}.`, tone: "warn" }, frame);
    }
  }

  #note(note: Note | null, { seq, at, by }: EntryFrame): void {
    if (!note) return;
    const row = new NoteRow(`n${seq}`, seq, at, by);
    row.text = note.text;
    row.tone = note.tone;
    row.wayOut = note.wayOut;
    row.detail = note.detail;
    this.#push(undefined, row);
  }

  #take(frame: EntryFrame): void {
    const { seq, at, by, event } = frame;
    switch (event.type) {
      case "prompt": {
        const row = new PromptRow(`p${seq}`, seq, at, by);
        row.content = event.content;
        row.command = event.command;
        this.#push(undefined, row);
        break;
      }
      case "item_started":
        this.#startItem(event.item, event.kind, event.parent, frame);
        break;
      case "delta": {
        const row = this.#items.get(event.item);
        if (row instanceof WordsRow) row.text += event.text;
        else if (row) row.output = (row.output + event.text).slice(-OUTPUT_CHARS);
        break;
      }
      case "message":
        this.#message(event, frame);
        break;
      case "tool_call": {
        if (event.item !== undefined) this.#remove(event.item);
        const row = new ToolRow(`t${event.tool}`, seq, at, by);
        row.tool = event.tool;
        row.name = event.name;
        row.sort = event.kind;
        row.title = event.title;
        row.input = event.input;
        row.changes = event.changes ?? [];
        row.running = true;
        this.#tools.set(event.tool, row);
        this.#push(event.parent, row);
        break;
      }
      case "tool_progress": {
        const row = this.#tools.get(event.tool);
        if (row instanceof ToolRow) row.elapsed = event.elapsed_seconds ?? row.elapsed;
        break;
      }
      case "tool_result":
        this.#result(event, frame);
        break;
      case "subagent_started":
        this.#startSubagent(event, frame);
        break;
      case "subagent_ended": {
        const row = this.#subagent(event.subagent, frame);
        row.running = false;
        row.outcome = event.outcome;
        row.summary = event.summary ?? row.summary;
        row.work = event.work ?? null;
        break;
      }
      case "request_opened":
        this.#requests.set(event.request.request, event.request);
        break;
      case "request_closed":
        this.#closed(event.request, event.outcome, frame);
        break;
      case "request_decided":
        this.#requests.set(event.request.request, event.request);
        this.#closed(event.request.request, event.outcome, frame);
        break;
      case "turn_ended": {
        const row = new TurnRow(`e${seq}`, seq, at, by);
        row.turn = event.turn;
        row.result = event.result;
        this.#push(undefined, row);
        break;
      }
      default:
        this.#note(noteOf(event), frame);
    }
  }

  /** Replaces the open rows with those of a snapshot; finished rows stay. */
  open(items: OpenItem[], tools: Set<string>, subagents: Set<string>, seq: Seq): void {
    for (const [item, row] of [...this.#items]) if (row instanceof WordsRow) this.#remove(item);
    this.#items.clear();
    for (const row of this.#tools.values()) row.running = row instanceof ToolRow ? tools.has(row.tool) : subagents.has(row.subagent);
    for (const { item, kind, parent, text } of items) {
      this.#startItem(item, kind, parent, { seq, at: 0 });
      const row = this.#items.get(item);
      if (row instanceof WordsRow) row.text = text;
      else if (row) row.output = text.slice(-OUTPUT_CHARS);
    }
    this.dirty = true;
  }

  /** Takes open texts from the replaced rows: these texts are newer than the last snapshot. */
  adopt(before: Rows, state: { tools: { tool: string }[]; subagents: { subagent: string }[] }): void {
    const tools = new Set([...before.#tools].filter(([, row]) => row.running).map(([tool]) => tool));
    for (const { tool } of state.tools) if (!before.#tools.has(tool)) tools.add(tool);
    for (const [tool, row] of this.#tools) row.running = row.running && tools.has(tool);
    for (const [item, row] of before.#items) {
      if (row instanceof WordsRow) {
        this.#items.set(item, row);
        this.#push(before.#ownerOf(row), row);
      } else {
        const tool = this.#tools.get(item);
        if (!(tool instanceof ToolRow)) continue;
        tool.output = row.output;
        this.#items.set(item, tool);
      }
    }
    this.dirty = true;
  }

  #ownerOf(row: Row): string | undefined {
    for (const [owner, list] of this.#lists) if (list.includes(row)) return owner.subagent;
    return undefined;
  }

  #push(parent: string | undefined, row: Row): void {
    if (parent === undefined) {
      this.list.push(row);
      return;
    }
    const owner = this.#subagent(parent, row);
    this.#lists.get(owner)?.push(row);
    this.#touched.add(owner);
  }

  #startItem(item: string, kind: OpenItem["kind"], parent: string | undefined, { seq, at }: { seq: Seq; at: number }): void {
    if (kind === "tool_output") {
      const tool = this.#tools.get(item);
      if (tool instanceof ToolRow) {
        tool.output = "";
        this.#items.set(item, tool);
      }
      return;
    }
    if (this.#items.has(item)) this.#remove(item);
    const row = new WordsRow(`i${item}-${seq}`, seq, at, undefined);
    row.open = true;
    row.thinking = kind === "thinking";
    row.drafting = kind === "tool_input";
    this.#items.set(item, row);
    this.#push(parent, row);
  }

  #message(event: Extract<EntryFrame["event"], { type: "message" }>, { seq, at, by }: EntryFrame): void {
    const known = this.#items.get(event.item);
    const row = known instanceof WordsRow ? known : new WordsRow(`m${seq}`, seq, at, by);
    row.content = event.content;
    row.thinking = event.content.length > 0 && event.content.every((piece) => piece.type.endsWith("thinking"));
    row.text = event.content.map((piece) => ("text" in piece ? (piece.text ?? "") : "")).join("\n\n");
    row.interrupted = event.interrupted ?? false;
    row.drafting = false;
    row.open = false;
    this.#items.delete(event.item);
    if (row !== known) this.#push(event.parent, row);
  }

  #result(event: Extract<EntryFrame["event"], { type: "tool_result" }>, frame: EntryFrame): void {
    this.#items.delete(event.tool);
    let row = this.#tools.get(event.tool);
    if (!row) {
      // The call is older than the loaded entries.
      row = new ToolRow(`t${event.tool}`, frame.seq, frame.at, frame.by);
      row.tool = event.tool;
      row.name = "Result of an earlier call";
      this.#tools.set(event.tool, row);
      this.#push(event.parent, row);
    }
    if (row instanceof SubagentRow) {
      row.summary ||= event.content.map((piece) => (piece.type === "text" ? piece.text : "")).join("\n");
      // A subagent in the background keeps running after its call has returned.
      if (!row.background) row.running = false;
      row.outcome ??= row.background ? null : event.outcome;
      return;
    }
    row.running = false;
    row.outcome = event.outcome;
    row.result = event.content;
    if (event.changes?.length) row.changes = event.changes;
  }

  #startSubagent(event: Extract<EntryFrame["event"], { type: "subagent_started" }>, frame: EntryFrame): void {
    const row = this.#subagent(event.subagent, frame, event.parent);
    row.sort = event.subagent_type;
    row.description = event.description;
    row.prompt = event.prompt;
    row.background = event.background;
    row.running = true;
  }

  /** The row of a subagent; a new row if the start of the subagent is older than the loaded entries. */
  #subagent(subagent: string, { seq, at, by }: { seq: Seq; at: number; by: Actor | undefined } | EntryFrame, parent?: string): SubagentRow {
    const known = this.#tools.get(subagent);
    if (known instanceof SubagentRow) return known;
    const row = new SubagentRow(`s${subagent}`, seq, at, by);
    row.subagent = subagent;
    row.description = known instanceof ToolRow ? (known.title ?? known.name) : "A subagent";
    row.decision = known instanceof ToolRow ? known.decision : null;
    this.#lists.set(row, []);
    this.#tools.set(subagent, row);
    // The subagent takes the place of the call that started it.
    const owner = parent === undefined ? undefined : this.#tools.get(parent);
    const list = owner instanceof SubagentRow ? this.#lists.get(owner) : this.list;
    const place = known && list ? list.indexOf(known) : -1;
    if (place >= 0 && list) {
      list[place] = row;
      if (owner instanceof SubagentRow) this.#touched.add(owner);
    } else this.#push(parent, row);
    return row;
  }

  #closed(id: number, outcome: Outcome, { seq, at, by }: EntryFrame): void {
    const request = this.#requests.get(id);
    if (!request) return;
    this.#requests.delete(id);
    const tool = request.tool === undefined ? undefined : this.#tools.get(request.tool);
    if (tool && request.ask.kind === "permission") {
      tool.decision = { request, outcome };
      return;
    }
    const row = new AskedRow(`a${seq}`, seq, at, by);
    row.decision = { request, outcome };
    this.#push(request.parent, row);
  }

  #remove(item: string): void {
    const row = this.#items.get(item);
    this.#items.delete(item);
    if (!(row instanceof WordsRow)) return;
    const at = this.list.indexOf(row);
    if (at >= 0) {
      this.list.splice(at, 1);
      return;
    }
    for (const [owner, list] of this.#lists) {
      const inside = list.indexOf(row);
      if (inside < 0) continue;
      list.splice(inside, 1);
      this.#touched.add(owner);
      return;
    }
  }
}
