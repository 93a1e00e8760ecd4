// What matters most with the real Claude Code, to HttpAgent of both generations: text, thinking, tools, approvals,
// questions, subagents, failures, and a tool that the client itself has.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { GENERATIONS, agrees, client, open, reloadsWhileTheAgentStarts, texts, types } from './client.mjs';
import { startDaemon, startModel, until } from './harness.mjs';

const say = (...blocks) => ({ say: blocks });
const text = (words) => ({ type: 'text', text: words });
const call = (name, input, id) => ({ type: 'tool', name, input, ...(id && { id }) });
const on = (words, ...steps) => ({ when: { prompt_contains: words }, steps });
const QUESTION = {
  questions: [{ question: 'Which way?', header: 'Way', multiSelect: false, options: [{ label: 'North', description: 'cold' }, { label: 'South', description: 'warm' }] }],
};
const SCRIPT = {
  rules: [
    on('just talk', say(text('I am only talking.'))),
    on('ponder it', say({ type: 'thinking', text: 'Let me see.' }, text('I have thought.'))),
    on('use the shell', say(text('I ask first.'), call('Bash', { command: 'touch allowed.txt', description: 'makes a file' })), say(text('It is done.'))),
    on('do not do it', say(call('Bash', { command: 'touch denied.txt', description: 'makes a file' })), say(text('Then not.'))),
    on('ask me', say(call('AskUserQuestion', QUESTION)), say(text('You said: {last_tool_result}'))),
    on('send someone', say(call('Agent', { description: 'dig', prompt: 'dig a hole', subagent_type: 'general-purpose' })), say(text('They are back.'))),
    on('dig a hole', say(text('A hole is dug.'))),
    on('break', { fail: { kind: 'bad_request', message: 'no' } }),
    on('paint it', say(text('I paint.'), call('mcp__copilotkit-frontend__setColor', { color: 'teal' })), say(text('The page says: {last_tool_result}'))),
    on('paint both', say(call('mcp__copilotkit-frontend__setColor', { color: 'red' }), call('mcp__copilotkit-frontend__setColor', { color: 'blue' })), say(text('In the end: {last_tool_result}'))),
    on('never mind', say(text('As you like.'))),
    on('take your time', { text: 'one two three four five six seven eight nine ten', chunk: 4, delay_ms: 300 }),
    on('and then this', say(text('Then this.'))),
  ],
};
const TOOLS = [{ name: 'setColor', description: 'Paints the page', parameters: { type: 'object', properties: { color: { type: 'string' } }, required: ['color'] } }];

let model;
let daemon;
before(async () => {
  model = await startModel(SCRIPT);
  daemon = await startDaemon({ agent: 'claude', model: model.url });
});
after(async () => {
  await daemon?.stop();
  await model?.stop();
});

const calls = (events) => events.filter(({ type }) => type === 'TOOL_CALL_START');
const input = (events, id) =>
  JSON.parse(events.filter((event) => event.type === 'TOOL_CALL_ARGS' && event.toolCallId === id).map(({ delta }) => delta).join(''));

for (const [generation, HttpAgent] of GENERATIONS) {
  test(`${generation}: Claude talks, thinks, uses a tool that is allowed, asks and fails`, async () => {
    const { say } = client(HttpAgent, daemon);
    assert.deepEqual(texts(await say('just talk')), ['I am only talking.']);

    const thought = await say('ponder it');
    assert.ok(types(thought).includes('REASONING_MESSAGE_CONTENT'), String(types(thought)));
    assert.deepEqual(texts(thought), ['I have thought.']);

    const used = await say('use the shell');
    assert.deepEqual(texts(used), ['I ask first.', 'It is done.']);
    assert.deepEqual(calls(used).map(({ toolCallName }) => toolCallName), ['Bash']);
    assert.ok(used.some(({ type }) => type === 'TOOL_CALL_RESULT'));
    assert.ok(existsSync(join(daemon.work, 'allowed.txt')), 'it was allowed, so it ran');

    const asked = await say('ask me');
    assert.match(texts(asked).at(-1), /You said: .*North/s);

    const broken = await say('break');
    assert.equal(broken.at(-1).type, 'RUN_ERROR', JSON.stringify(broken.slice(-6)));
    assert.deepEqual(texts(await say('just talk')), ['I am only talking.'], 'and it goes on after that');
  });

  test(`${generation}: a subagent's work is streamed as the work of that subagent`, async () => {
    const sent = await client(HttpAgent, daemon).say('send someone');
    assert.ok(types(sent).includes('SUBAGENT_STARTED') && types(sent).includes('SUBAGENT_FINISHED'), String(types(sent)));
    assert.equal(texts(sent).at(-1), 'They are back.');
  });

  test(`${generation}: what is denied does not run, and Claude is told`, async () => {
    const answer = (value) => ({ ...agrees(value), behavior: 'deny', message: 'not today' });
    const events = await client(HttpAgent, daemon, { answer }).say('do not do it');
    assert.deepEqual(texts(events), ['Then not.']);
    assert.match(events.find(({ type }) => type === 'TOOL_CALL_RESULT').content, /not today/);
    assert.ok(!existsSync(join(daemon.work, 'denied.txt')));
  });

  // covers: 004-032
  test(`${generation}: Claude calls a tool of the client, the run ends, the next run brings the result, and Claude goes on`, async () => {
    const { agent, say, go } = client(HttpAgent, daemon, { tools: TOOLS, answer: () => assert.fail('nobody is asked for the page\'s own tools') });
    const first = await say('paint it');
    assert.equal(first.at(-1).type, 'RUN_FINISHED');
    assert.deepEqual(texts(first), ['I paint.']);
    const [{ toolCallId, toolCallName }] = calls(first);
    assert.equal(toolCallName, 'setColor');
    assert.deepEqual(input(first, toolCallId), { color: 'teal' });
    assert.ok(!types(first).includes('TOOL_CALL_RESULT'), 'with a result the client would not run it');
    agent.addMessage({ id: 'result-1', role: 'tool', toolCallId, content: 'the page is teal' });
    const second = await go();
    assert.deepEqual(texts(second), ['The page says: the page is teal']);
    assert.equal(second.at(-1).type, 'RUN_FINISHED');
  });

  test(`${generation}: two calls in one message are answered at once`, async () => {
    const { agent, say, go } = client(HttpAgent, daemon, { tools: TOOLS });
    const first = await say('paint both');
    const ids = calls(first).map(({ toolCallId }) => toolCallId);
    assert.equal(ids.length, 2);
    ids.forEach((toolCallId, n) => agent.addMessage({ id: `both-${n}`, role: 'tool', toolCallId, content: `painted ${n}` }));
    assert.deepEqual(texts(await go()), ['In the end: painted 1']);
  });

  test(`${generation}: a new message of the user without the result reaches Claude`, async () => {
    const { say } = client(HttpAgent, daemon, { tools: TOOLS });
    const first = await say('paint it');
    assert.equal(calls(first).length, 1);
    // Claude hears of both at once, or of the one after the other.
    assert.match(texts(await say('never mind')).at(-1), /^As you like\.$|the user sent a new message before the page answered this call/);
  });
}

test('a message that is posted while Claude starts reaches Claude once and is shown, even if the page is reloaded', async () => {
  await reloadsWhileTheAgentStarts(daemon, 'just talk', 'I am only talking.');
});

test('a run that waits within Claude gets the figures of its own turn', async () => {
  const threadId = await daemon.session();
  const first = open(daemon, 'run', { threadId, words: 'take your time' });
  await until(() => first.events.some(({ type }) => type === 'TEXT_MESSAGE_CONTENT'));
  const second = open(daemon, 'run', { threadId, words: 'and then this' });
  const turns = async ({ ended }) => (await ended).filter(({ name }) => name === 'result_stats').map(({ value }) => value.sessionTurns);
  assert.deepEqual([await turns(first), await turns(second)], [[1], [2]]);
  assert.deepEqual(texts(second.events), ['Then this.']);
});

test('Claude gets the failure of a tool that failed in the page', async () => {
  const [, HttpAgent] = GENERATIONS[0];
  const { agent, say, go } = client(HttpAgent, daemon, { tools: TOOLS });
  const [{ toolCallId }] = calls(await say('paint it'));
  agent.addMessage({ id: 'failed-1', role: 'tool', toolCallId, content: '', error: 'there is no paint' });
  const events = await go();
  assert.match(texts(events).at(-1), /there is no paint/);
  const failed = await daemon.entries(events.find(({ type }) => type === 'STATE_SNAPSHOT').snapshot.sessionId);
  assert.ok(failed.some(({ type, outcome }) => type === 'tool_result' && outcome === 'failed'), 'and the log says so');
});
