// HttpAgent of both generations as the tests use it: one that answers what the agent asks, and keeps what came. Its
// verifier is on, as it always is: a sequence that breaks the protocol makes a run fail.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { HttpAgent as Copilotkits } from 'ag-ui-client-0';
import { HttpAgent as Newest } from 'ag-ui-client-1';

export const GENERATIONS = [['0.0.59', Copilotkits], ['1.0.0', Newest]];

/** What is answered to each kind of question, unless a test says otherwise. */
export function agrees({ requestId, kind, toolInput }) {
  if (kind === 'question') {
    const answers = toolInput.questions.map(({ question, options }) => [question, options?.[0]?.label ?? 'my own words']);
    return { requestId, answers: Object.fromEntries(answers) };
  }
  if (kind === 'elicitation') return { requestId, behavior: 'deny' };
  return { requestId, behavior: 'allow' };
}

/** A client on a thread of its own. */
export function client(HttpAgent, daemon, { answer = agrees, tools = [], agentId = 'default', threadId = randomUUID() } = {}) {
  const agent = new HttpAgent({ url: `${daemon.base}/agent/${agentId}/run`, headers: daemon.headers, threadId });
  const events = [];
  const answered = [];
  agent.subscribe({
    onEvent: ({ event }) => void events.push(event),
    onCustomEvent: ({ event }) => {
      if (event.name !== 'tool_approval_request' && event.name !== 'hook_callback') return;
      const reply = answer(event.value);
      if (reply) answered.push(daemon.answer(event.value.sessionId, reply).then((response) => response.status));
    },
  });
  return {
    agent,
    /** The events of the last run. */
    events,
    /** Says something and gives the events, however the run ends. A breach of the protocol is thrown. */
    async say(content, more = {}) {
      events.length = 0;
      agent.addMessage({ id: randomUUID(), role: 'user', content });
      await run(agent, events, { tools, ...more });
      await Promise.all(answered.splice(0));
      return events;
    },
    /** Runs without a word, such as to bring the result of a tool. */
    async go(more = {}) {
      events.length = 0;
      await run(agent, events, { tools, ...more });
      return events;
    },
  };
}

async function run(agent, events, parameters) {
  try {
    await agent.runAgent(parameters);
  } catch (error) {
    // A run that ends with RUN_ERROR is a run that ended as it should; anything else is a breach.
    if (events.at(-1)?.type !== 'RUN_ERROR') throw error;
  }
}

export const types = (events) => [...new Set(events.map((event) => event.type))];

/** The text of the assistant's messages, in order. */
export function texts(events) {
  const found = new Map();
  for (const event of events) {
    if (event.type === 'TEXT_MESSAGE_START' && (event.role ?? 'assistant') === 'assistant') found.set(event.messageId, '');
    if (event.type === 'TEXT_MESSAGE_CONTENT' && found.has(event.messageId)) {
      found.set(event.messageId, found.get(event.messageId) + event.delta);
    }
  }
  return [...found.values()];
}

/** A stream as a page opens it, without a library that could hide what comes: `events` grows until `ended`; `close` hangs up. */
export function open(daemon, kind, { agentId = 'default', threadId, words, tools = [] }) {
  const messages = words === undefined ? [] : [{ id: randomUUID(), role: 'user', content: words }];
  const body = { threadId, runId: randomUUID(), messages, tools, context: [], state: {}, forwardedProps: {} };
  const hangUp = new AbortController();
  const events = [];
  const ended = (async () => {
    const response = await fetch(`${daemon.base}/agent/${agentId}/${kind}`, {
      method: 'POST', headers: { ...daemon.headers, 'Content-Type': 'application/json' }, body: JSON.stringify(body), signal: hangUp.signal,
    });
    if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
    let text = '';
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      const frames = text.split('\n\n');
      text = frames.pop();
      events.push(...frames.filter((frame) => frame.startsWith('data: ')).map((frame) => JSON.parse(frame.slice(6))));
    }
    return events;
  })();
  ended.catch(() => undefined);
  return { events, ended, close: () => hangUp.abort() };
}

/** What a page shows that got these events on a connect: role and text of each message, streams appended as clients do. */
export function shown(events) {
  const messages = new Map();
  for (const event of events) {
    if (event.type === 'MESSAGES_SNAPSHOT') {
      messages.clear();
      for (const { id, role, content } of event.messages) messages.set(id, [role, content]);
    }
    if (event.type === 'TEXT_MESSAGE_START' && !messages.has(event.messageId)) messages.set(event.messageId, [event.role ?? 'assistant', '']);
    if (event.type === 'TEXT_MESSAGE_CONTENT') messages.get(event.messageId)[1] += event.delta;
  }
  return [...messages.values()];
}

/** A message posted on a new thread whose page is reloaded while the agent starts: said once, and shown to whoever connects. */
export async function reloadsWhileTheAgentStarts(daemon, words, answer) {
  const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
  const said = [['user', words], ['assistant', answer]];
  const before = (await daemon.sessions()).length;
  // Closed after 0.2 s, looked at after 4 s.
  const late = randomUUID();
  const left = open(daemon, 'run', { threadId: late, words });
  await pause(200);
  left.close();
  // Closed as soon, looked at while the agent still starts: that page stays until the answer is there.
  const early = randomUUID();
  const reloaded = open(daemon, 'run', { threadId: early, words });
  await pause(200);
  reloaded.close();
  const waits = open(daemon, 'connect', { threadId: early });
  await pause(3800);
  const looks = await open(daemon, 'connect', { threadId: late }).ended;
  assert.deepEqual(shown(looks), said);
  const waited = await waits.ended;
  assert.equal(waited.at(-1).type, 'RUN_FINISHED');
  assert.deepEqual(shown(waited), said);
  const place = (type, text) => waited.findIndex((event) => event.type === type && (!text || event.delta?.includes(text)));
  assert.ok(place('MESSAGES_SNAPSHOT') < place('TEXT_MESSAGE_CONTENT'), 'it was there before the answer was');
  for (const threadId of [late, early]) assert.deepEqual(shown(await open(daemon, 'connect', { threadId }).ended), said);
  const sessions = await daemon.sessions();
  assert.equal(sessions.length - before, 2, 'one session each, none of them empty');
  assert.ok(sessions.every(({ turns }) => turns >= 1));
}
