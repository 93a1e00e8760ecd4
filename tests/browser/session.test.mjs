// One session in the page: its stream and cards, its prompts, and its actions.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startBrowser, startDaemon, until, visit } from './harness.mjs';

let daemon;
let browser;
const DESKTOP = { viewport: { width: 1440, height: 900 } };

before(async () => {
  daemon = await startDaemon();
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  await daemon?.stop();
});

const button = (scope, name) => scope.getByRole('button', { name, exact: true });
const words = (page, text) => page.locator('.words').getByText(text, { exact: true });
const events = (session, type) =>
  daemon.cli('export', session).split('\n').filter((line) => line.includes(`"type":"${type}"`)).map((line) => JSON.parse(line).event);

async function at(session, options = DESKTOP) {
  const visitor = await visit(browser, daemon, options);
  await visitor.page.goto(`${daemon.url}/#/s/${session}`);
  await visitor.page.locator('[role=log] .prompt').first().waitFor();
  return visitor;
}

async function say(page, text, press = 'Send') {
  await page.getByLabel('Message to the agent').fill(text);
  await button(page, press).click();
}

test('a waiting prompt is put into the running turn', async () => {
  const session = daemon.newSession('slow');
  const { page, faults } = await at(session);
  await button(page, 'Interrupt').waitFor();
  await say(page, 'say steered words', 'Queue');
  await button(page, 'Steer').click();
  await words(page, 'steered words').waitFor();
  await page.locator('.turn').getByText('done').waitFor();
  assert.equal(events(session, 'turn_ended').length, 1, 'it was one turn');
  assert.equal(await button(page, 'Steer').count(), 0, 'nothing waits any more');
  assert.deepEqual(faults, []);
});

test('a waiting prompt is taken out of the queue for editing, and dropped', async () => {
  const session = daemon.newSession('slow');
  const { page } = await at(session);
  await say(page, 'say first', 'Queue');
  await say(page, 'say second', 'Queue');
  await until(async () => (await button(page, 'Discard').count()) === 2);
  await button(page, 'Edit').first().click();
  await until(async () => (await page.getByLabel('Message to the agent').inputValue()) === 'say first');
  await button(page, 'Discard').click();
  await until(async () => (await button(page, 'Discard').count()) === 0);
  await button(page, 'Interrupt').click();
  await page.locator('.turn').getByText('interrupted').waitFor();
  assert.equal(events(session, 'prompt').length, 1, 'neither was sent');
});

test('an uncertain prompt is shown as uncertain, and one press sends it again, once', async () => {
  const session = daemon.newSession('hang');
  const { page } = await at(session);
  // Until the end of its words, the agent still reads.
  await page.getByText('ends me.').waitFor();
  await say(page, 'say the second time', 'Queue');
  // The agent no longer reads: the prompt is written to the agent and never taken.
  await button(page, 'Steer').click();
  await button(page, 'Steer').waitFor({ state: 'detached' });
  await daemon.kill();
  await page.getByText('Not connected.').waitFor();
  await daemon.restart();
  await page.getByText('It is uncertain whether this prompt arrived.').waitFor();
  assert.equal(await words(page, 'the second time').count(), 0, 'it is not sent again by itself');
  await button(page, 'Send again').click();
  await words(page, 'the second time').waitFor();
  await page.getByText('It is uncertain whether this prompt arrived.').waitFor({ state: 'detached' });
  assert.equal(await words(page, 'the second time').count(), 1);
});

test('subagents are a tree, each with a stream of its own', async () => {
  const session = daemon.newSession('subagents fast');
  const { page } = await at(session);
  await words(page, 'The crew is complete again.').waitFor();
  const watch = page.getByRole('button', { name: /Keep watch/ });
  assert.equal(await page.getByText('Climb the mast').count(), 0, 'what is inside is folded');
  await watch.click();
  await page.getByRole('button', { name: /Climb the mast/ }).click();
  await page.locator('.subagent .subagent').getByText(/a very small log with many cursors/).waitFor();
  await page.locator('.subagent').first().getByText('He saw a gull. All is well.').waitFor();
});

test('a picture goes in by a file, is shown before it is sent, and comes out again', async () => {
  const session = daemon.newSession('say hello');
  const { page } = await at(session);
  const data = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  const file = { name: 'chart.png', mimeType: 'image/png', buffer: Buffer.from(data, 'base64') };
  await page.getByLabel('Add a picture').setInputFiles([file, { ...file, name: 'twice.png' }]);
  await page.getByRole('img', { name: 'Picture 2 to send' }).waitFor();
  await button(page, 'Remove picture 2').click();
  await button(page, 'Send').click();
  await until(async () => (await page.getByRole('img', { name: 'From the conversation' }).count()) === 2);
  const shown = await page.getByRole('img', { name: 'From the conversation' }).evaluateAll((all) => all.map(({ src, naturalWidth }) => [src, naturalWidth]));
  assert.deepEqual(shown, [[`data:image/png;base64,${data}`, 1], [`data:image/png;base64,${data}`, 1]]);
});

test('commands are completed after a slash, by keys', async () => {
  const session = daemon.newSession('say hello');
  const { page } = await at(session);
  const field = page.getByLabel('Message to the agent');
  await field.pressSequentially('/co');
  const offered = page.getByRole('listbox', { name: 'Commands' }).getByRole('option');
  await until(async () => (await offered.count()) === 2);
  await field.press('ArrowDown');
  await field.press('Tab');
  assert.equal(await field.inputValue(), '/cost ');
  await field.press('Enter');
  await page.locator('.words').getByText(/So far: \d+ turns/).waitFor();
});

test('text is Markdown with coloured code; thinking is folded; a diff is inline or side by side', async () => {
  const session = daemon.newSession('say # Title\n\nSome **bold** words.\n\n```rust\nfn main() { let x = 1; }\n```\n');
  const { page, faults } = await at(session);
  await page.locator('.words strong').getByText('bold').waitFor();
  await page.locator('.words .hljs-keyword').getByText('fn', { exact: true }).waitFor();
  await say(page, 'think fast');
  const thought = page.locator('details.thinking').first();
  await thought.waitFor();
  assert.equal(await thought.evaluate((details) => details.open), false);
  await page.locator('.turn').nth(1).waitFor();
  await say(page, 'edit fast');
  await button(page, 'Allow').click();
  await page.getByRole('button', { name: /Edit\s*harbour\.txt/ }).click();
  const diff = page.getByRole('log').getByRole('region', { name: 'Changes in harbour.txt' });
  await diff.locator('.added').first().waitFor();
  await page.getByRole('log').getByRole('button', { name: 'side by side' }).click();
  await page.getByRole('log').locator('.body.two').waitFor();
  await page.getByRole('log').getByRole('button', { name: 'inline' }).click();
  await page.getByRole('log').locator('.body.one').waitFor();
  assert.deepEqual(faults, []);
});

test('a command shows who allowed it, and its output on a press', async () => {
  const session = daemon.newSession('use a tool fast');
  const { page } = await at(session);
  await button(page, 'Allow').click();
  await page.getByText('allowed by owner (page)').first().waitFor();
  await page.locator('.turn').getByText('done').waitFor();
  await page.getByRole('button', { name: /Bash\s*ls/ }).click();
  await page.locator('.tool .inside pre').first().getByText('ls', { exact: true }).waitFor();
});

test('a search is a card with the pattern, and with the result on a press', async () => {
  writeFileSync(join(daemon.folder, 'coast.txt'), '');
  const { page, faults } = await at(daemon.newSession('search'));
  await page.locator('.turn').getByText('done').waitFor();
  assert.equal(await page.getByText('coast.txt').count(), 0, 'it is folded');
  await page.getByRole('button', { name: /Glob\s*\*\.txt/ }).click();
  await page.locator('.tool .inside').getByText('coast.txt').first().waitFor();
  assert.deepEqual(faults, []);
});

test('retries and failures are shown with their way out', async () => {
  const session = daemon.newSession('retry fast');
  const { page } = await at(session);
  await page.getByText('Attempt 1 of 3 failed: the model is overloaded (simulated)').waitFor();
  await page.getByText('wait; the agent tries again by itself').first().waitFor();
  await page.locator('.turn').getByText('done').waitFor();
  await say(page, 'error fast');
  await page.getByText('too many requests (simulated)').waitFor();
  await page.getByText('send another prompt; the session continues').waitFor();
  await say(page, 'crash');
  await page.getByText('the ship hit a rock').first().waitFor({ state: 'attached' });
  await button(page, 'Resume').click();
  await page.getByText('The agent was started again').waitFor();
});

test('steps, context, cost, tokens and readers are shown beside the session', async () => {
  const session = daemon.newSession('todo fast');
  const { page } = await at(session);
  const beside = page.getByRole('complementary', { name: 'Details' });
  await beside.getByText('4 of 4').waitFor();
  await beside.getByRole('meter', { name: 'Context used' }).waitFor();
  await beside.getByText(/tokens in, .* out/).waitFor();
  await beside.getByText(/^\$0\.\d+ in 1 turn$/).waitFor();
  await beside.getByRole('heading', { name: 'Reading now', exact: true }).waitFor();
});

test('model, mode and name of a session are changed, and everyone sees the changes', async () => {
  const session = daemon.newSession('say hello');
  const [{ page }, { page: other }] = [await at(session), await at(session)];
  await page.getByRole('combobox', { name: 'Model', exact: true }).selectOption('Demo Small');
  await page.getByRole('combobox', { name: 'Mode', exact: true }).selectOption('plan');
  await button(page, 'More').click();
  await button(page, 'Rename').click();
  await page.getByLabel('New name').fill('Doris');
  await page.keyboard.press('Enter');
  for (const each of [page, other]) {
    await each.getByText('Model is now demo-small').waitFor();
    await each.getByText('Mode is now plan').waitFor();
    await each.getByRole('heading', { name: 'Doris' }).waitFor();
  }
  assert.equal(await other.getByRole('combobox', { name: 'Mode', exact: true }).inputValue(), 'plan');
});

test('a session is forked at a prompt, and exported with its conversation', async () => {
  const session = daemon.newSession('say before');
  const { page } = await at(session);
  await words(page, 'before').waitFor();
  await say(page, 'say after');
  await words(page, 'after').waitFor();
  await button(page, 'More').click();
  const [markdown] = await Promise.all([page.waitForEvent('download'), button(page, 'Export as Markdown').click()]);
  assert.match(markdown.suggestedFilename(), /\.md$/);
  const text = readFileSync(await markdown.path(), 'utf8');
  assert.ok(text.includes('## You\n\nsay before\n\nbefore') && text.includes('## You\n\nsay after\n\nafter'), text);
  await button(page, 'More').click();
  const [entries] = await Promise.all([page.waitForEvent('download'), button(page, 'Export every entry').click()]);
  const lines = readFileSync(await entries.path(), 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  assert.deepEqual(lines.filter(({ event }) => event.type === 'prompt').map(({ event }) => event.content[0].text), ['say before', 'say after']);
  await page.locator('.prompt').filter({ hasText: 'say before' }).getByRole('button', { name: 'Fork from here' }).click();
  await page.waitForFunction((before) => location.hash.startsWith('#/s/') && !location.hash.includes(before), session);
  await page.getByText('The fork begins here: everything above is a copy of another session.').waitFor();
});

test('sessions are grouped by project, waiting sessions first, and the search finds a session', async () => {
  const waits = daemon.newSession('use a tool fast');
  const lighthouse = join(daemon.folder, '..', 'lighthouse');
  mkdirSync(lighthouse);
  const found = JSON.parse(daemon.cli('new', 'demo', 'say lantern', '--cwd', lighthouse, '--name', 'lantern', '--json')).session;
  const { page } = await visit(browser, daemon, DESKTOP);
  const list = page.getByRole('navigation', { name: 'Sessions and pages' });
  await list.getByRole('heading', { name: 'Waiting for you' }).waitFor();
  const headings = await list.getByRole('heading').allInnerTexts();
  assert.equal(headings[0], 'Waiting for you');
  assert.ok(headings.includes('harbour') && headings.includes('lighthouse'), headings.join());
  await page.keyboard.press('/');
  await page.keyboard.type('lantern demo');
  await until(async () => (await list.locator('li a[href^="#/s/"]').count()) === 1);
  assert.equal(await list.locator('li a[href^="#/s/"]').getAttribute('href'), `#/s/${found}`);
  daemon.cli('stop', waits);
});

// covers: 003-115
test('a new session offers only options of its agent and lists the others; so does a session', async () => {
  const { page } = await visit(browser, daemon, DESKTOP);
  await page.goto(`${daemon.url}/#/new`);
  const agent = page.getByRole('combobox', { name: 'Agent' });
  await agent.selectOption('demo');
  await page.getByText('More options').click();
  await page.getByLabel('Hooks that open a request').waitFor();
  await page.getByText(/does not support these options: choice of settings files\.$/).waitFor();
  await agent.selectOption('codex');
  await page.getByLabel('Hooks that open a request').waitFor({ state: 'detached' });
  await page.getByText(/does not support these options: .*hooks/).waitFor();
  const session = daemon.newSession('say hello');
  await page.goto(`${daemon.url}/#/s/${session}`);
  await button(page, 'Send').waitFor();
  assert.equal(await page.getByText('What the agent cannot do').count(), 0, 'the demo can do everything that is offered here');
});

test('installed agents come first, with the result of their check; the others are folded', async () => {
  const { page } = await visit(browser, daemon, DESKTOP);
  await page.goto(`${daemon.url}/#/agents`);
  const demo = page.locator('section').filter({ has: page.getByRole('heading', { name: /demo/i }) });
  await demo.getByText('ready', { exact: true }).waitFor();
  await demo.getByText('built in; no account, no network').waitFor();
  const folded = page.locator('details.missing');
  await folded.locator('summary').getByText(/more agents? that Portolan can run, not found on this machine/).waitFor();
  assert.equal(await folded.evaluate((details) => details.open), false);
});
