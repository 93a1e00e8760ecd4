// Every scene of the demo agent, to HttpAgent of both generations with their verifiers on.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { GENERATIONS, client, reloadsWhileTheAgentStarts, texts, types } from './client.mjs';
import { startDaemon, until } from './harness.mjs';

let daemon;
before(async () => { daemon = await startDaemon(); });
after(() => daemon?.stop());

const TOOLS = [{ name: 'setColor', description: 'Paints the page', parameters: { type: 'object', properties: { color: { type: 'string' } }, required: ['color'] } }];

/** A prompt, how its run ends, and events that must be among its own. */
const SCENES = [
  ['hello', 'RUN_FINISHED', ['STATE_SNAPSHOT', 'TEXT_MESSAGE_START', 'TEXT_MESSAGE_CONTENT', 'TEXT_MESSAGE_END', 'CUSTOM']],
  ['say exactly this', 'RUN_FINISHED', ['TEXT_MESSAGE_CONTENT']],
  ['repeat 40 10', 'RUN_FINISHED', ['TEXT_MESSAGE_CONTENT']],
  ['long 3', 'RUN_FINISHED', ['TEXT_MESSAGE_CONTENT']],
  ['think fast', 'RUN_FINISHED', ['REASONING_START', 'REASONING_MESSAGE_CONTENT', 'REASONING_END', 'TEXT_MESSAGE_CONTENT']],
  ['use a tool fast', 'RUN_FINISHED', ['TOOL_CALL_START', 'TOOL_CALL_ARGS', 'TOOL_CALL_END', 'TOOL_CALL_RESULT', 'CUSTOM']],
  ['edit fast', 'RUN_FINISHED', ['TOOL_CALL_START', 'TOOL_CALL_RESULT']],
  ['two fast', 'RUN_FINISHED', ['TOOL_CALL_START', 'CUSTOM']],
  ['subagents fast', 'RUN_FINISHED', ['SUBAGENT_STARTED', 'SUBAGENT_FINISHED']],
  ['a question fast', 'RUN_FINISHED', ['CUSTOM', 'TEXT_MESSAGE_CONTENT']],
  ['plan fast', 'RUN_FINISHED', ['CUSTOM']],
  ['todo fast', 'RUN_FINISHED', []],
  ['retry fast', 'RUN_FINISHED', ['CUSTOM']],
  ['error fast', 'RUN_ERROR', []],
  ['usage', 'RUN_FINISHED', ['TEXT_MESSAGE_CONTENT']],
  ['background fast', 'RUN_FINISHED', []],
  ['elicit fast', 'RUN_FINISHED', ['CUSTOM']],
  ['signals fast', 'RUN_FINISHED', ['CUSTOM']],
  ['json fast', 'RUN_FINISHED', []],
  ['nothing that it knows', 'RUN_FINISHED', ['TEXT_MESSAGE_CONTENT']],
  ['/help', 'RUN_FINISHED', ['TEXT_MESSAGE_CONTENT']],
  ['/compact', 'RUN_FINISHED', ['CUSTOM']],
  ['/clear', 'RUN_FINISHED', []],
  ['/cost', 'RUN_FINISHED', []],
  ['/nothing', 'RUN_FINISHED', []],
  ['garbage', 'RUN_FINISHED', []],
  ['flood 1', 'RUN_FINISHED', []],
  ['flood-lines 500', 'RUN_FINISHED', []],
  ['show everything fast', 'RUN_FINISHED', ['REASONING_START', 'TOOL_CALL_START', 'SUBAGENT_STARTED']],
  ['crash', 'RUN_ERROR', []],
  ['exit 3', 'RUN_ERROR', []],
];

for (const [generation, HttpAgent] of GENERATIONS) {
  // Each is a session of its own, and waits more than it works.
  describe(`${generation}, every scene`, { concurrency: 4 }, () => {
    for (const [prompt, end, expected] of SCENES) {
      test(`${generation} understands "${prompt}"`, async () => {
        const events = await client(HttpAgent, daemon).say(prompt);
        const seen = types(events);
        assert.equal(events[0]?.type, 'RUN_STARTED');
        assert.equal(events.at(-1)?.type, end, JSON.stringify(events.at(-1)));
        assert.deepEqual(expected.filter((type) => !seen.includes(type)), [], `there were only ${seen}`);
        if (prompt.startsWith('say ')) assert.deepEqual(texts(events), ['exactly this']);
      });
    }
  });

  test(`${generation} keeps a conversation of several runs on one thread`, async () => {
    const { agent, say } = client(HttpAgent, daemon);
    await say('say one');
    await say('say two');
    const shown = agent.messages.filter(({ role }) => role === 'user' || role === 'assistant').map(({ content }) => content);
    assert.deepEqual(shown, ['say one', 'one', 'say two', 'two']);
  });

  test(`${generation} aborts a run by closing its connection, and the turn is stopped`, async () => {
    const { agent, events, say } = client(HttpAgent, daemon);
    // A minute of words.
    const running = say('repeat 3000 10 50').catch(() => undefined);
    const started = await until(() => events.find(({ type }) => type === 'TEXT_MESSAGE_CONTENT') && events);
    const { snapshot } = started.find(({ type }) => type === 'STATE_SNAPSHOT');
    agent.abortRun();
    await running;
    await until(async () => (await daemon.status(snapshot.sessionId)) === 'idle');
    assert.deepEqual(texts(await say('say after')).slice(-1), ['after']);
  });

  test(`${generation} offers a tool that the demo calls, and brings its result`, async () => {
    const { agent, say, go } = client(HttpAgent, daemon, { tools: TOOLS, answer: () => assert.fail('nobody is asked for the page\'s own tools') });
    for (const [color, result, answer] of [
      ['teal', { content: 'the page is teal' }, 'The page says: the page is teal'],
      ['red', { content: '', error: 'there is no red paint' }, 'That did not work: there is no red paint'],
    ]) {
      const first = await say(`paint the page ${color}`);
      assert.equal(first.at(-1).type, 'RUN_FINISHED');
      const { toolCallId, toolCallName } = first.find(({ type }) => type === 'TOOL_CALL_START');
      assert.equal(toolCallName, 'setColor');
      const args = first.filter(({ type }) => type === 'TOOL_CALL_ARGS').map(({ delta }) => delta).join('');
      assert.deepEqual(JSON.parse(args), { color });
      assert.ok(!types(first).includes('TOOL_CALL_RESULT'), 'with a result the client would not run it');
      agent.addMessage({ id: `result-${color}`, role: 'tool', toolCallId, ...result });
      assert.deepEqual(texts(await go()), [answer]);
    }
  });

  // Each of these once took ten seconds, at every attempt. A busy machine may be slow at one of them.
  test(`${generation} runs without waiting when it offers tools, and when it then offers none`, async () => {
    const took = [];
    for (let attempt = 0; attempt < 3 && !took.some((ms) => ms < 8_000); attempt++) {
      const { say } = client(HttpAgent, daemon, { tools: TOOLS });
      const began = Date.now();
      assert.deepEqual(texts(await say('say one')), ['one']);
      assert.deepEqual(texts(await say('say two')), ['two']);
      assert.deepEqual(texts(await say('say three', { tools: [] })), ['three']);
      took.push(Date.now() - began);
    }
    assert.ok(took.some((ms) => ms < 8_000), `the attempts took ${took.join(', ')} ms`);
  });
}

test('a message that is posted while the agent starts reaches the agent once and is shown, even if the page is reloaded', async () => {
  const slow = await startDaemon({ environment: { DEMO_START_MS: '2000' } });
  try {
    await reloadsWhileTheAgentStarts(slow, 'say here I am', 'here I am');
  } finally {
    await slow.stop();
  }
});
