// A real CopilotKit app in a real browser, from an origin of its own, with the real Claude Code behind it.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { PATIENCE, startApp, startBrowser, startDaemon, startModel, until } from './harness.mjs';

const say = (...blocks) => ({ say: blocks });
const text = (words) => ({ type: 'text', text: words });
const call = (name, input) => ({ type: 'tool', name, input });
const on = (words, ...steps) => ({ when: { prompt_contains: words }, steps });
const QUESTION = {
  questions: [{ question: 'Which way?', header: 'Way', multiSelect: false, options: [{ label: 'North', description: 'cold' }, { label: 'South', description: 'warm' }] }],
};
const LONG = Array.from({ length: 150 }, (_, n) => `word${n}`).join(' ');
const SCRIPT = {
  rules: [
    on('just talk', say(text('I am only talking.'))),
    on('talk slowly', { text: LONG, chunk: 12, delay_ms: 200 }),
    on('paint it', say(text('I paint.'), call('mcp__copilotkit-frontend__setColor', { color: 'teal' })), say(text('The page says: {last_tool_result}'))),
    on('use the shell', say(call('Bash', { command: 'touch allowed.txt', description: 'makes a file' })), say(text('It is done.'))),
    on('use it again', say(call('Bash', { command: 'touch again.txt', description: 'makes a file' })), say(text('Done again.'))),
    on('ask me', say(call('AskUserQuestion', QUESTION)), say(text('You said: {last_tool_result}'))),
  ],
};

let model;
let app;
let daemon;
let browser;
before(async () => {
  model = await startModel(SCRIPT);
  app = await startApp();
  daemon = await startDaemon({ agent: 'claude', model: model.url, origins: [app.origin] });
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await app?.stop();
  await daemon?.stop();
  await model?.stop();
});

/** The app in a page of its own, on this thread. `isNew`: nothing runs in the thread, so its connects end. */
async function open({ thread, isNew = thread === undefined, approvals = 'event' } = {}) {
  thread ??= await daemon.session();
  const page = await (await browser.newContext()).newPage();
  page.setDefaultTimeout(PATIENCE);
  const faults = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('response', (response) => {
    if (response.url().startsWith(daemon.url) && response.status() >= 400) faults.push(`${response.status()} ${response.url()}`);
  });
  // The end of a connect ends "in progress" in the chat, also if a message was sent meanwhile. So nobody types before all
  // of them have ended.
  const connects = { begun: 0, ended: 0 };
  const count = (what) => (request) => {
    if (request.url().endsWith('/connect')) connects[what] += 1;
  };
  page.on('request', count('begun'));
  page.on('requestfinished', count('ended'));
  page.on('requestfailed', count('ended'));
  await page.goto(`${app.origin}/#${new URLSearchParams({ url: daemon.base, token: daemon.token, thread, approvals })}`);
  await page.locator('textarea').waitFor();
  if (isNew) await until(() => connects.begun > 0 && connects.begun === connects.ended);
  return {
    page,
    thread,
    faults,
    async say(words) {
      // The button says whether the chat would take it.
      await page.locator('[data-test-id=copilot-chat-ready]').waitFor();
      await page.locator('textarea').fill(words);
      await page.locator('textarea').press('Enter');
      await page.getByText(words, { exact: true }).first().waitFor();
    },
    shows: (words) => page.getByText(words).first().waitFor(),
    async close() {
      if (process.env.SCREENSHOTS) await page.screenshot({ path: join(process.env.SCREENSHOTS, `${Date.now()}.png`) });
      assert.deepEqual(faults, []);
      await page.context().close();
    },
  };
}

test('a chat streams what the agent says', async () => {
  const chat = await open();
  await chat.say('talk slowly');
  await chat.shows('word5 word6');
  assert.equal(await chat.page.getByText('word149').count(), 0, 'it comes as it is said');
  await chat.shows('word149');
  await chat.close();
});

// covers: 004-032
test('an action of the page runs in the page, and its result reaches the agent', async () => {
  const chat = await open();
  await chat.say('paint it');
  await chat.shows('The page says: the page is teal now');
  assert.equal(await chat.page.getByTestId('color').textContent(), 'teal (1)', 'it ran once');
  await chat.close();
});

test('an approval is asked for in the page and given there', async () => {
  const chat = await open();
  await chat.say('use the shell');
  await chat.page.getByTestId('asked').getByRole('button', { name: 'Allow' }).click();
  await chat.shows('It is done.');
  assert.ok(existsSync(join(daemon.work, 'allowed.txt')));
  await chat.page.getByTestId('asked').waitFor({ state: 'detached' });
  await chat.close();
});

test('an approval by interrupt is shown by the chat and the run goes on', async () => {
  const chat = await open({ approvals: 'interrupt' });
  await chat.say('use it again');
  await chat.page.getByRole('button', { name: 'Go on' }).click();
  await chat.shows('Done again.');
  assert.ok(existsSync(join(daemon.work, 'again.txt')));
  await chat.close();
});

test('a question is answered in the page', async () => {
  const chat = await open();
  await chat.say('ask me');
  await chat.page.getByRole('button', { name: 'South' }).click();
  await chat.shows(/You said: .*South/s);
  await chat.close();
});

test('stop ends what the agent says, and the chat can go on', async () => {
  const chat = await open();
  await chat.say('talk slowly');
  await chat.shows('word5 word6');
  await chat.page.locator('[data-test-id=copilot-chat-request-in-progress]').click();
  await chat.say('just talk');
  await chat.shows('I am only talking.');
  assert.equal(await chat.page.getByText('word149').count(), 0);
  await chat.close();
});

test('a reload brings the conversation back once, and a run that goes on is seen to its end', async () => {
  const chat = await open();
  await chat.say('just talk');
  await chat.shows('I am only talking.');
  await chat.say('talk slowly');
  await chat.shows('word5 word6');
  await chat.page.reload();
  await chat.shows('I am only talking.');
  await chat.shows('word149');
  assert.equal(await chat.page.getByText('I am only talking.').count(), 1);
  assert.equal(await chat.page.getByText('just talk', { exact: true }).count(), 1);
  await chat.close();
});

test('a reload while Claude starts loses nothing: the first message is shown, and its answer', async () => {
  const chat = await open({ thread: randomUUID(), isNew: true });
  // A reload cancels a request that has not left the browser. The answer begins when the message is recorded, long
  // before Claude has started.
  const recorded = chat.page.waitForResponse((response) => response.url().endsWith('/run'));
  await chat.say('just talk');
  await recorded;
  await chat.page.reload();
  await chat.page.getByText('just talk', { exact: true }).first().waitFor();
  await chat.shows('I am only talking.');
  assert.equal(await chat.page.getByText('just talk', { exact: true }).count(), 1);
  assert.equal(await chat.page.getByText('I am only talking.').count(), 1);
  // And the chat can go on.
  await chat.say('use it again');
  await chat.page.getByTestId('asked').getByRole('button', { name: 'Allow' }).click();
  await chat.shows('Done again.');
  await chat.close();
});

test('two tabs on one thread: what is approved in one closes in the other, and both have the conversation', async () => {
  const one = await open();
  await one.say('use the shell');
  await one.page.getByTestId('asked').waitFor();
  const other = await open({ thread: one.thread });
  await other.page.getByTestId('asked').waitFor();
  await one.page.getByTestId('asked').getByRole('button', { name: 'Allow' }).click();
  await other.page.getByTestId('asked').waitFor({ state: 'detached' });
  await one.shows('It is done.');
  await other.shows('It is done.');
  await one.close();
  await other.close();
});
