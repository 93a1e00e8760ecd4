// The inbox: every kind of request is shown with what it would do, and answered only by presses that were meant for it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { between, startBrowser, startDaemon, until, visit } from './harness.mjs';

let daemon;
let browser;

before(async () => {
  daemon = await startDaemon();
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  await daemon?.stop();
});

const button = (scope, name) => scope.getByRole('button', { name, exact: true });
const card = (page, words) => page.locator('.card').filter({ hasText: words });
/** How the requests of a session ended, in order. */
const outcomes = (session) =>
  daemon.cli('export', session).split('\n').filter((line) => /"request_(closed|decided)"/.test(line)).map((line) => JSON.parse(line).event.outcome);
const answers = (session) => outcomes(session).map(({ answer }) => answer);

async function inbox(options) {
  const visitor = await visit(browser, daemon, options);
  await visitor.page.goto(`${daemon.url}/#/inbox`);
  return visitor;
}

// covers: 003-008
test('presses alone answer the requests of all sessions, and the command, the diff and the plan are shown', async () => {
  const sessions = ['use a tool fast', 'edit fast', 'plan fast'].map((prompt) => daemon.newSession(prompt));
  const { page, faults } = await inbox();
  await until(async () => (await page.locator('.card').count()) === 3);
  const [command, edit, plan] = ['May I use Bash?', 'May I use Edit?', 'Carry out this plan?'].map((words) => card(page, words));
  await command.locator('pre').getByText('ls', { exact: true }).waitFor();
  await edit.getByText('is one log, many cursors').waitFor();
  await plan.getByText('Draw the coast, harbour by harbour.').waitFor();
  await button(command, 'Allow').click();
  await button(edit, 'Deny').click();
  await button(plan, 'Approve').click();
  await until(() => sessions.every((session) => outcomes(session).length === 1));
  assert.deepEqual(sessions.map((session) => answers(session)[0].kind), ['allow', 'deny', 'allow']);
  await page.getByText('Nothing waits for you.').waitFor();
  assert.deepEqual(faults, []);
});

test('a request that is answered at the command line closes at once and shows who answered', async () => {
  const session = daemon.newSession('use a tool fast');
  const { page } = await inbox();
  await button(page, 'Allow').waitFor();
  daemon.cli('approve', session, daemon.request(session));
  await page.getByText('allowed by owner (cli)').first().waitFor();
  assert.equal(await button(page, 'Allow').count(), 0);
});

test('questions are answered with choices and free text, and a plan is sent back with a text', async () => {
  const question = daemon.newSession('question fast');
  const plan = daemon.newSession('plan fast');
  const { page } = await inbox();
  const asked = card(page, 'Where shall we sail?');
  assert.equal(await button(asked, 'Answer').isDisabled(), true, 'nothing is chosen yet');
  await asked.getByRole('radio', { name: /Majorca/ }).check();
  await asked.getByRole('checkbox', { name: /Charts/ }).check();
  await asked.getByRole('checkbox', { name: /A cat/ }).check();
  await asked.getByLabel('In your own words: What is the ship called?').fill('Doris');
  await button(asked, 'Answer').click();
  await until(() => outcomes(question).length === 1);
  assert.deepEqual(answers(question), [
    { kind: 'choices', answers: { 'Where shall we sail?': ['Majorca'], 'What do we take along?': ['Charts', 'A cat'], 'What is the ship called?': ['Doris'] } },
  ]);
  const planned = card(page, 'Carry out this plan?');
  await button(planned, 'Ask for changes…').click();
  await planned.getByLabel('What should be different? The agent reads the text.').fill('by night');
  await button(planned, 'Send the plan back').click();
  await until(() => outcomes(plan).length === 1);
  assert.deepEqual(answers(plan), [{ kind: 'deny', message: 'by night', interrupt: false }]);
});

test('the form of an MCP server is filled in on the card', async () => {
  const session = daemon.newSession('form fast');
  const { page } = await inbox();
  const form = card(page, 'Which berth would you like?');
  await form.getByLabel('Berth').fill('7');
  await form.getByLabel('Stay overnight?').check();
  await button(form, 'Answer').click();
  await until(() => outcomes(session).length === 1);
  assert.deepEqual(answers(session), [{ kind: 'content', content: { berth: 7, overnight: true } }]);
});

test('an always allow shows its rule first; the rule is listed beside the session and removed there', async () => {
  const session = daemon.newSession('use a tool fast');
  const { page } = await visit(browser, daemon, { viewport: { width: 1440, height: 900 } });
  await page.goto(`${daemon.url}/#/s/${session}`);
  await button(page, 'Always…').click();
  await page.getByText('in this session without asking, whatever the input of the tool').waitFor();
  assert.deepEqual(outcomes(session), [], 'nothing is answered by looking at the rule');
  await button(page, 'Always allow Bash in this session').click();
  await page.getByRole('heading', { name: 'Rules of this session' }).waitFor();
  await page.getByLabel('Message to the agent').fill('use a tool fast');
  await button(page, 'Send').click();
  await until(() => outcomes(session).length === 2);
  assert.deepEqual(outcomes(session).map(({ by }) => by.kind), ['person', 'policy']);
  await button(page, 'Remove the rule allow Bash').click();
  await page.getByText('The rule for Bash is removed').waitFor();
  await page.getByLabel('Message to the agent').fill('use a tool fast');
  await button(page, 'Send').click();
  await button(page, 'Allow').waitFor();
  daemon.cli('stop', session);
});

test('several requests for one tool are denied together, after they were shown', async () => {
  const sessions = [1, 2, 3].map(() => daemon.newSession('use a tool fast'));
  const { page } = await inbox();
  await page.getByText('3 × Bash').waitFor();
  await button(page, 'Deny all…').click();
  await until(async () => (await page.getByText('Will be denied').count()) === 3);
  await button(page, 'Deny these 3').click();
  await until(() => sessions.every((session) => outcomes(session).length === 1));
  assert.deepEqual(sessions.flatMap((session) => answers(session).map(({ kind }) => kind)), ['deny', 'deny', 'deny']);
});

test('a press on a request that has just moved answers nothing; a press on a request that stands still answers', async () => {
  const sessions = [1, 2].map(() => daemon.newSession('use a tool fast'));
  const { page } = await inbox();
  await until(async () => (await page.locator('.card button[aria-disabled=false]').getByText('Allow', { exact: true }).count()) === 2);
  // When the first request closes, the second takes its place: a press in that moment was meant for the first.
  const first = await page.evaluate(() => {
    const [above, below] = document.querySelectorAll('.card');
    new MutationObserver((_, observer) => {
      if (!above.classList.contains('closed')) return;
      observer.disconnect();
      [...below.querySelectorAll('button')].find(({ textContent }) => textContent === 'Allow').click();
      window.pressed = true;
    }).observe(document.body, { subtree: true, attributes: true, childList: true });
    return above.dataset.request.split(':')[0];
  });
  daemon.cli('deny', first, daemon.request(first));
  await page.waitForFunction(() => window.pressed);
  // The button acts once it has stood in its place for a while; a press that waits for it counts.
  await button(page, 'Deny').click();
  await until(() => sessions.every((session) => outcomes(session).length === 1));
  assert.deepEqual(sessions.flatMap((session) => answers(session).map(({ kind }) => kind)), ['deny', 'deny']);
});

test('the input of a request is edited before it is allowed, and invalid JSON shows an error', async () => {
  const session = daemon.newSession('use a tool fast');
  const { page } = await inbox();
  await button(page, 'Edit…').click();
  const field = page.getByLabel('The input, as JSON');
  const input = await field.inputValue();
  await field.fill('{');
  await button(page, 'Allow with this input').click();
  await page.getByRole('alert').waitFor();
  assert.deepEqual(outcomes(session), []);
  await field.fill(input.replace('"ls"', '"ls -a"'));
  await button(page, 'Allow with this input').click();
  await until(() => outcomes(session).length === 1);
  assert.equal(answers(session)[0].input.command, 'ls -a');
});

test('the focus stays at a request that is answered by keyboard, and screen readers get the number of open requests', async () => {
  const session = daemon.newSession('use a tool fast');
  const { page } = await inbox();
  await page.locator('[aria-live=polite]').getByText('1 request waits for you').waitFor({ state: 'attached' });
  await page.locator('.card button[aria-disabled=false]').getByText('Allow', { exact: true }).focus();
  await page.keyboard.press('Enter');
  await page.getByText(/allowed by owner/).first().waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.dataset.request.split(':')[0]), session);
});

/** Shortens requests as the daemon's log does with large ones. `hidden` also removes the request from its session. */
const inBrief = ({ hidden = false } = {}) => (text) => {
  const frame = JSON.parse(text);
  const cut = (request) => {
    request.shortened = true;
    request.ask.input = { command: 'l…' };
  };
  if (frame.type === 'daemon' && frame.event.type === 'request_opened') cut(frame.event.request);
  if (frame.type === 'daemon_snapshot') for (const { request } of frame.state.requests) cut(request);
  if (hidden && frame.type === 'snapshot') frame.state.requests = [];
  return JSON.stringify(frame);
};

test('a shortened request is shown whole in the inbox, and is answered there', async () => {
  const session = daemon.newSession('use a tool fast');
  const { page, faults } = await inbox(between({ change: inBrief() }));
  await card(page, 'May I use Bash?').locator('pre').getByText('ls', { exact: true }).waitFor();
  await button(page, 'Allow').click();
  await until(() => outcomes(session).length === 1);
  assert.deepEqual(answers(session).map(({ kind }) => kind), ['allow']);
  assert.deepEqual(faults, []);
});

test('a request of which the page knows only the beginning cannot be answered, and links to its session', async () => {
  const session = daemon.newSession('use a tool fast');
  const { page } = await inbox(between({ change: inBrief({ hidden: true }) }));
  const brief = card(page, 'This request is large.');
  await brief.waitFor();
  assert.equal(await brief.getByRole('button').count(), 0, 'nobody allows what nobody can see');
  await brief.getByRole('link', { name: 'Open the session' }).click();
  await page.waitForURL(`**/#/s/${session}`);
  daemon.cli('stop', session);
});

test('the cards of a session are drawn from the session itself', async () => {
  const session = daemon.newSession('use a tool fast');
  const { page } = await visit(browser, daemon, between({ change: inBrief() }));
  await page.goto(`${daemon.url}/#/s/${session}`);
  await card(page, 'May I use Bash?').locator('pre').getByText('ls', { exact: true }).waitFor();
  await button(page, 'Deny').click();
  await until(() => outcomes(session).length === 1);
});
