// The minimal page: a client of the native protocol like any other (docs/protocol.md).
// Everything an agent says is hostile: it reaches the page as text, never as markup, and no link of it is followed.

const KEY = "portolan.key";
const NODES = 3000; // What the page keeps of a conversation; older lines go.
const $ = (id) => document.getElementById(id);

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function button(text, className, act) {
  const node = make("button", className, text);
  node.type = "button";
  node.addEventListener("click", act);
  return node;
}

// ------------------------------------------------------------------------------------- log in

async function logIn() {
  const ticket = new URLSearchParams(location.hash.slice(1)).get("ticket");
  if (location.hash) history.replaceState(null, "", location.pathname);
  if (!ticket) return localStorage.getItem(KEY) !== null;
  const response = await fetch("/api/v1/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ticket }),
  });
  const body = await response.json().catch(() => ({}));
  if (!response.ok) {
    showGate(body.error?.message ?? "The ticket was not taken.");
    return false;
  }
  localStorage.setItem(KEY, body.key);
  return true;
}

function showGate(why) {
  $("gate-why").textContent = why ?? "";
  for (const id of ["list", "room", "create", "logout"]) $(id).hidden = true;
  $("gate").hidden = false;
  $("link").textContent = "not logged in";
}

$("logout").addEventListener("click", async () => {
  await fetch("/api/v1/logout", { method: "POST", headers: { "x-portolan-key": localStorage.getItem(KEY) ?? "" } });
  localStorage.removeItem(KEY);
  link.end("Logged out.");
});

// ------------------------------------------------------------------------------------ the link

const link = {
  socket: null,
  welcome: false,
  ended: false,
  tries: 0,
  waiting: new Map(),
  lastDaemon: null,

  open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/ws`);
    this.socket = socket;
    this.welcome = false;
    socket.addEventListener("open", () => socket.send(JSON.stringify({
      type: "hello", protocol: 1, client: { name: "page", version: "1" }, key: localStorage.getItem(KEY),
    })));
    socket.addEventListener("message", ({ data }) => this.receive(JSON.parse(data)));
    socket.addEventListener("close", ({ code }) => this.closed(code));
  },

  closed(code) {
    for (const { reject } of this.waiting.values()) reject(new Error("the connection was lost"));
    this.waiting.clear();
    if (this.ended) return;
    if (code === 4001 || (!this.welcome && this.tries > 2)) {
      this.end("Your login is no longer valid.");
      return;
    }
    $("link").textContent = "connection lost, trying again";
    const pause = Math.min(30_000, 500 * 2 ** this.tries) * (0.5 + Math.random() / 2);
    this.tries += 1;
    setTimeout(() => this.open(), pause);
  },

  end(why) {
    this.ended = true;
    this.socket?.close();
    showGate(why);
  },

  // Sends a frame; the promise is settled by its reply or error.
  ask(frame) {
    const id = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random().toString(36).slice(2)}`;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.socket.send(JSON.stringify({ ...frame, id }));
    });
  },

  receive(frame) {
    switch (frame.type) {
      case "welcome":
        this.welcome = true;
        this.tries = 0;
        $("link").textContent = [...new Set([frame.you.name, frame.you.role])].join(", ");
        this.welcomed();
        break;
      case "reply":
        this.waiting.get(frame.id)?.resolve(frame);
        this.waiting.delete(frame.id);
        break;
      case "error":
        if (frame.id && this.waiting.has(frame.id)) {
          this.waiting.get(frame.id).reject(new Error(frame.message));
          this.waiting.delete(frame.id);
        } else notice(frame.message);
        break;
      case "daemon_snapshot":
        list.replace(frame.state);
        this.lastDaemon = frame.seq;
        break;
      case "daemon":
        list.apply(frame.event);
        this.lastDaemon = frame.seq;
        break;
      case "snapshot": case "entry": case "presence": case "ended":
        if (frame.session === room.session) room.receive(frame);
        break;
      case "closing":
        $("link").textContent = frame.message;
        break;
    }
  },

  welcomed() {
    for (const id of ["list", "logout"]) $(id).hidden = false;
    $("gate").hidden = true;
    const start = this.lastDaemon === null ? { tail: 0 } : { after: this.lastDaemon };
    this.ask({ type: "subscribe", start }).catch(complain);
    this.ask({ type: "agents" }).then(({ agents }) => {
      $("agent").replaceChildren(...agents.map(({ kind, title }) => {
        const option = make("option", "", title);
        option.value = kind;
        return option;
      }));
    }).catch(complain);
    if (room.session) room.attach();
  },
};

let noticeTimer;
function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = false;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => { $("notice").hidden = true; }, 8000);
}
const complain = (error) => notice(error.message);

// -------------------------------------------------------------------------------- the sessions

const list = {
  sessions: new Map(),

  replace({ sessions }) {
    this.sessions = new Map(sessions.map((summary) => [summary.session, summary]));
    this.draw();
  },

  apply(event) {
    if (event.type === "session_created" || event.type === "session_changed") {
      if (event.summary.archived) this.sessions.delete(event.summary.session);
      else this.sessions.set(event.summary.session, event.summary);
    } else if (event.type === "session_deleted") this.sessions.delete(event.session);
    else return;
    this.draw();
  },

  draw() {
    const newest = [...this.sessions.values()].sort((a, b) => (a.session < b.session ? 1 : -1));
    $("sessions").replaceChildren(...newest.map((summary) => {
      const item = make("li");
      const open = button("", "", () => room.open(summary.session));
      open.setAttribute("aria-current", String(summary.session === room.session));
      const state = make("small", "", `${summary.agent} · ${said(summary.status)}`);
      open.append(make("span", "", summary.name || summary.session.slice(0, 8)), state);
      if (summary.waiting) open.append(make("small", "waits", `${summary.waiting} waiting for an answer`));
      item.append(open);
      return item;
    }));
    const mine = this.sessions.get(room.session);
    if (mine) room.drawTitle(mine);
  },
};

$("new").addEventListener("click", () => {
  $("room").hidden = true;
  $("create").hidden = false;
  $("first").focus();
});

$("create").addEventListener("submit", (submit) => {
  submit.preventDefault();
  const prompt = $("first").value.trim();
  const cwd = $("cwd").value.trim();
  const spec = { agent: $("agent").value, cwd, prompt: prompt ? [{ type: "text", text: prompt }] : [] };
  link.ask({ type: "create", spec }).then(({ session }) => {
    $("first").value = "";
    room.open(session.session);
  }).catch(complain);
});

// --------------------------------------------------------------------------------- one session

const room = {
  session: null,
  last: null, // The number of the last entry seen.
  items: new Map(), // Open and finished items by name.
  tools: new Map(), // Tool calls by id.
  plans: new Map(), // The list of steps, by subagent.
  requests: new Map(),

  open(session) {
    if (this.session && this.session !== session) {
      link.ask({ type: "detach", session: this.session }).catch(complain);
    }
    this.session = session;
    this.last = null;
    this.items.clear();
    this.tools.clear();
    this.plans.clear();
    this.requests.clear();
    $("log").replaceChildren();
    $("requests").replaceChildren();
    $("create").hidden = true;
    $("room").hidden = false;
    list.draw();
    this.attach();
    $("text").focus();
  },

  attach() {
    const start = this.last === null ? { tail: 300 } : { after: this.last };
    link.ask({ type: "attach", session: this.session, start }).catch(complain);
  },

  receive(frame) {
    if (frame.type === "presence") {
      $("present").textContent = frame.present.map(({ name, via }) => `${name} (${via})`).join(", ");
      return;
    }
    if (frame.type === "ended") {
      this.line("note", `no more of this session: ${frame.reason}`);
      return;
    }
    this.last = frame.seq;
    const log = $("log");
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
    if (frame.type === "snapshot") this.snapshot(frame.state);
    else this.entry(frame);
    while (log.childElementCount > NODES) log.firstElementChild.remove();
    if (atEnd) log.scrollTop = log.scrollHeight;
  },

  // The state replaces what the page thought was open; finished lines stay.
  snapshot(state) {
    this.drawTitle(state.summary);
    for (const [name, node] of this.items) {
      if (node.classList.contains("open")) {
        node.remove();
        this.items.delete(name);
      }
    }
    for (const { item, kind, text } of state.items) this.start(item, kind).textContent = text;
    this.requests = new Map(state.requests.map((request) => [request.request, request]));
    this.drawRequests();
  },

  drawTitle(summary) {
    $("name").textContent = summary.name || summary.session.slice(0, 8);
    const cost = summary.cost_usd === undefined ? "" : ` · $${summary.cost_usd.toFixed(2)}`;
    $("status").textContent = `${summary.agent} · ${said(summary.status)}${summary.error ? `: ${summary.error}` : ""}${cost}`;
    const ended = summary.status === "terminated" || summary.status === "error";
    $("resume").hidden = !ended;
    $("stop").hidden = ended;
    $("interrupt").hidden = summary.status !== "active";
  },

  line(className, text) {
    const node = make("div", className, text);
    $("log").append(node);
    return node;
  },

  start(item, kind) {
    const known = this.items.get(item) ?? this.line("");
    known.className = `${kind} open`;
    this.items.set(item, known);
    return known;
  },

  entry({ event, by }) {
    switch (event.type) {
      case "prompt":
        this.line("prompt", plain(event.content));
        break;
      case "item_started":
        this.start(event.item, event.kind);
        break;
      case "delta":
        this.items.get(event.item)?.append(event.text);
        break;
      case "message":
        this.finish(event.item, event.content, event.interrupted);
        break;
      case "tool_call":
        this.tool(event);
        break;
      case "tool_result":
        this.result(event);
        break;
      case "plan":
        // The whole list each time: the newest one is enough.
        this.plans.get(event.parent)?.remove();
        this.plans.set(event.parent, this.line("note", event.steps.map(({ text, status }) => `${status === "completed" ? "☑" : "☐"} ${text}`).join("\n")));
        break;
      case "request_opened":
        this.requests.set(event.request.request, event.request);
        this.drawRequests();
        break;
      case "request_closed":
        this.requests.delete(event.request);
        this.drawRequests();
        this.line("note", `request ${event.request}: ${outcome(event.outcome)}`);
        break;
      case "turn_ended": {
        const { outcome: how, error, cost_usd: cost } = event.result;
        const said = [`turn ${event.turn} ${how}`, error?.message, error?.way_out, cost && `$${cost.toFixed(4)}`];
        this.line(how === "completed" ? "note" : "note error", said.filter(Boolean).join(" · "));
        break;
      }
      case "failure":
        this.line("error", event.error.message);
        break;
      case "retry":
        this.line("note", `try ${event.attempt} failed: ${event.error.message}`);
        break;
      case "notice":
        this.line(event.level === "warning" ? "note error" : "note", event.text);
        break;
      case "subagent_started":
        this.line("note", `subagent: ${event.description}`);
        break;
      case "subagent_ended":
        this.line("note", `subagent ${event.outcome}${event.summary ? `: ${event.summary}` : ""}`);
        break;
      case "agent_exited":
        this.line(event.exit.reason === "failed" ? "error" : "note", event.exit.message);
        break;
      case "receipt":
        if (event.stage === "refused") this.line("error", event.refusal.message);
        if (event.stage === "uncertain") this.uncertain(event);
        break;
      case "setting_changed":
        this.line("note", `${event.setting.name}: ${event.setting.model ?? event.setting.mode ?? event.setting.tokens ?? "changed"}${by?.name ? ` (${by.name})` : ""}`);
        break;
    }
  },

  finish(item, content, interrupted) {
    const node = this.items.get(item) ?? this.line("");
    const thinking = content.length > 0 && content.every(({ type }) => type.endsWith("thinking"));
    node.className = thinking ? "thinking" : "text";
    node.textContent = plain(content) + (interrupted ? " … (cut off)" : "");
    this.items.delete(item);
  },

  tool({ tool, item, name, title, input, changes }) {
    if (item) {
      this.items.get(item)?.remove();
      this.items.delete(item);
    }
    const node = make("details", "tool");
    node.append(make("summary", "", title ? `${name}: ${title}` : name));
    if (changes?.length) for (const change of changes) node.append(diff(change));
    else node.append(make("pre", "", JSON.stringify(input, null, 2)));
    $("log").append(node);
    this.tools.set(tool, node);
  },

  result({ tool, outcome: how, content, changes }) {
    const node = this.tools.get(tool) ?? $("log").appendChild(make("details", "tool"));
    this.items.get(tool)?.remove();
    this.items.delete(tool);
    const summary = node.querySelector("summary") ?? node.appendChild(make("summary", "", tool));
    summary.append(make("span", how === "done" ? "added" : "removed", `  ${how}`));
    for (const change of changes ?? []) node.append(diff(change));
    const text = plain(content);
    if (text) node.append(make("pre", "", text));
    this.tools.delete(tool);
  },

  uncertain({ command, reason }) {
    const node = this.line("error", `It is not certain that this arrived: ${reason} `);
    node.append(button("Send again", "", () => this.command({ name: "send_again", command })));
  },

  command(command) {
    return link.ask({ type: "command", session: this.session, command }).catch(complain);
  },

  answer(request, answer) {
    return this.command({ name: "answer", request: request.request, digest: request.digest, answer });
  },

  drawRequests() {
    $("requests").replaceChildren(...[...this.requests.values()].map((request) => this.card(request)));
  },

  card(request) {
    const { ask } = request;
    const card = make("div", "request");
    const buttons = make("div", "buttons");
    const deny = button("Deny", "no", () => this.answer(request, { kind: "deny" }));
    switch (ask.kind) {
      case "permission": {
        card.append(make("strong", "", `${ask.tool_name}?`), make("div", "faint", ask.description ?? ask.reason ?? ""));
        if (ask.changes?.length) for (const change of ask.changes) card.append(diff(change));
        else card.append(make("pre", "", JSON.stringify(ask.input, null, 2)));
        buttons.append(
          button("Allow", "yes", () => this.answer(request, { kind: "allow" })),
          button(`Always allow ${ask.tool_name} here`, "", () => this.answer(request, { kind: "allow", scope: "session" })),
        );
        break;
      }
      case "plan":
        card.append(make("strong", "", "Carry out this plan?"), make("pre", "", ask.plan ?? ""));
        buttons.append(button("Approve", "yes", () => this.answer(request, { kind: "allow" })));
        break;
      case "question": {
        const fields = ask.questions.map((question, index) => questionField(question, `${request.request}-${index}`));
        card.append(...fields.map(({ node }) => node));
        buttons.append(button("Answer", "yes", () => {
          const answers = Object.fromEntries(fields.map(({ question, read }) => [question, read()]).filter(([, said]) => said.length));
          this.answer(request, { kind: "choices", answers });
        }));
        break;
      }
      default: {
        card.append(make("strong", "", `${ask.kind}: ${ask.message ?? ask.event ?? ask.name ?? ""}`));
        card.append(make("pre", "", JSON.stringify(ask.schema ?? ask.input ?? ask.body ?? null, null, 2)));
        const own = make("textarea");
        own.setAttribute("aria-label", "Answer as JSON");
        own.value = "{}";
        card.append(own);
        buttons.append(button("Answer", "yes", () => {
          try {
            const value = JSON.parse(own.value);
            this.answer(request, ask.kind === "elicitation" ? { kind: "content", content: value } : { kind: "output", output: value });
          } catch (error) {
            complain(error);
          }
        }));
      }
    }
    buttons.append(deny);
    card.append(buttons);
    return card;
  },
};

function questionField({ question, header, choices, multiple, free_text: freeText, secret }, name) {
  const node = make("fieldset");
  node.append(make("legend", "", header ? `${header}: ${question}` : question));
  const boxes = (choices ?? []).map(({ label, description }) => {
    const row = make("label");
    const box = make("input");
    box.type = multiple ? "checkbox" : "radio";
    box.name = name;
    row.append(box, ` ${label}`, make("span", "faint", description ? ` ${description}` : ""));
    node.append(row);
    return { box, label };
  });
  const own = make("input");
  own.setAttribute("aria-label", "Own words");
  if (secret) own.type = "password";
  if (freeText || boxes.length === 0) node.append(own);
  const read = () => {
    const chosen = boxes.filter(({ box }) => box.checked).map(({ label }) => label);
    const words = own.value.trim();
    if (!words) return chosen;
    return multiple ? [...chosen, words] : [words];
  };
  return { question, node, read };
}

function plain(content) {
  return content.map((piece) => {
    switch (piece.type) {
      case "text": case "thinking": return piece.text;
      case "redacted_thinking": return "(thinking not shown)";
      case "image": return `(image, ${piece.media_type})`;
      case "resource": return piece.text ?? piece.uri;
      default: return JSON.stringify(piece.data ?? piece.body ?? piece, null, 2);
    }
  }).join("\n");
}

function diff({ path, change, diff: text }) {
  const node = make("pre", "", `${change} ${path}\n`);
  const rows = (text ?? "").split("\n");
  // Headers stand before the first hunk only: within one, "--- x" is the line "-- x" that goes.
  const first = rows.findIndex((row) => row.startsWith("@@"));
  rows.forEach((row, at) => {
    const header = at < first && /^(---|\+\+\+) /.test(row);
    const kind = header ? "" : row.startsWith("+") ? "added" : row.startsWith("-") ? "removed" : "";
    node.append(make("span", kind, `${row}\n`));
  });
  return node;
}

// A status in the words of the command line.
function said(status) {
  return { connected: "ready", active: "working", terminated: "ended", error: "failed" }[status] ?? status;
}

function outcome({ how, by, answer, reason }) {
  const via = by?.via ? ` (${by.via})` : "";
  const who = by ? ` by ${by.name ?? by.rule ?? by.kind}${via}` : "";
  const done = { allow: "allowed", deny: "denied" }[answer?.kind] ?? (answer ? "answered" : how.replaceAll("_", " "));
  return `${done}${who}${reason ? `: ${reason}` : ""}`;
}

$("prompt").addEventListener("submit", (submit) => {
  submit.preventDefault();
  const text = $("text").value.trim();
  if (!text) return;
  room.command({ name: "prompt", content: [{ type: "text", text }] });
  $("text").value = "";
});
$("text").addEventListener("keydown", (key) => {
  if (key.key === "Enter" && (key.ctrlKey || key.metaKey)) $("prompt").requestSubmit();
});
for (const name of ["interrupt", "stop", "resume"]) $(name).addEventListener("click", () => room.command({ name }));

if (await logIn().catch((error) => (showGate(error.message), false))) link.open();
else if ($("gate").hidden) showGate();
