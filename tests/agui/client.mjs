// HttpAgent of both generations as the tests use it: one that answers what the agent asks, and keeps what came. Its
// verifier is on, as it always is: a sequence that breaks the protocol makes a run fail.

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
