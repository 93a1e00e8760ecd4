// The page in a real browser: let in by a ticket once, sees a session as it happens, answers, and is told who did.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startBrowser, startDaemon, until, visit } from './harness.mjs';

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

const allow = (page) => page.getByRole('button', { name: 'Allow', exact: true });

test('a ticket lets in once and does not stay in the address', async () => {
  const link = daemon.ticketLink();
  const first = await (await browser.newContext()).newPage();
  await first.goto(link);
  await first.getByRole('link', { name: 'New session' }).first().waitFor();
  assert.equal(new URL(first.url()).hash, '');
  const second = await (await browser.newContext()).newPage();
  await second.goto(link);
  await second.getByText('You are not logged in').waitFor();
});

// covers: 003-005
test('an approval given in one page closes in the other with who did it', async () => {
  const session = daemon.newSession('use a tool fast');
  const [one, other] = [await visit(browser, daemon), await visit(browser, daemon)];
  for (const { page } of [one, other]) {
    await page.goto(`${daemon.url}/#/s/${session}`);
    await allow(page).waitFor();
  }
  await allow(one.page).click();
  await allow(other.page).waitFor({ state: 'detached' });
  await other.page.getByText(/allowed by owner/i).first().waitFor();
  assert.deepEqual([...one.faults, ...other.faults], []);
});

test('both press at the same moment: one answer counts, nobody sees an error', async () => {
  const session = daemon.newSession('use a tool fast');
  const [one, other] = [await visit(browser, daemon), await visit(browser, daemon)];
  for (const { page } of [one, other]) {
    await page.goto(`${daemon.url}/#/s/${session}`);
    await allow(page).waitFor();
  }
  // The loser's button may be gone before it is pressed: that is winning, too.
  const press = ({ page }) => allow(page).click({ timeout: 5_000 }).catch(() => {});
  await Promise.all([press(one), press(other)]);
  for (const { page, faults } of [one, other]) {
    await page.getByText(/allowed by owner/i).first().waitFor();
    assert.equal(await page.getByRole('alert').count(), 0);
    assert.deepEqual(faults, []);
  }
  const closed = daemon.cli('export', session).split('\n').filter((line) => line.includes('"request_closed"'));
  assert.equal(closed.length, 1);
});

test('a session is made from the form, streams, and a second prompt waits in the queue', async () => {
  const { page, faults } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/new`);
  await page.getByRole('combobox', { name: 'Agent' }).selectOption('demo');
  await page.getByRole('combobox', { name: 'Folder' }).fill('/tmp');
  await page.getByLabel('What should be done?').fill('slow');
  await page.getByRole('button', { name: 'Start' }).click();
  await page.getByRole('button', { name: 'Interrupt' }).waitFor();
  await page.getByLabel('Message to the agent').fill('say queued words');
  await page.getByRole('button', { name: 'Queue' }).click();
  await page.getByRole('button', { name: 'Drop' }).waitFor();
  await page.getByRole('button', { name: 'Interrupt' }).click();
  await page.getByText('queued words', { exact: true }).first().waitFor();
  assert.deepEqual(faults, []);
});

test('text of an agent is shown as text, whatever it holds', async () => {
  const hostile = [
    '<img src=x onerror=window.hacked=1><script>window.hacked=1</script>',
    '[press](javascript:window.hacked=1) ![p](http://127.0.0.1:1/x.png) <a href="javascript:window.hacked=1">html</a>',
    `bidi \u202egnp.exe and ${'x'.repeat(90_000)}`,
  ].join('\n\n');
  const session = daemon.newSession(`say ${hostile}`);
  const { page, faults } = await visit(browser, daemon);
  const asked = [];
  page.on('request', (request) => asked.push(request.url()));
  await page.goto(`${daemon.url}/#/s/${session}`);
  await page.locator('.words').getByText('<script>window.hacked=1</script>').waitFor();
  await page.locator('.words').getByText('U+202E').first().waitFor();
  assert.equal(await page.locator('.words a').count(), 0, 'an address that is not harmless became a link');
  assert.equal(await page.locator('.words img, .words script').count(), 0);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, 'a long line widens the page');
  assert.deepEqual(asked.filter((url) => !url.startsWith(daemon.url) && !url.startsWith('ws')), []);
  assert.deepEqual(faults, []);
});

test('only keys: to the inbox, allow, a reason for a no, a question', async () => {
  daemon.newSession('use a tool fast');
  const { page } = await visit(browser, daemon);
  await page.keyboard.press('g');
  await page.keyboard.press('i');
  await page.getByRole('heading', { name: 'Inbox' }).waitFor();
  await allow(page).first().waitFor();
  await page.keyboard.press('a');
  await page.getByText(/allowed by owner/).first().waitFor();
  daemon.newSession('use a tool fast');
  await allow(page).first().waitFor();
  await page.keyboard.press('r');
  await page.keyboard.type('not today');
  await page.keyboard.press('Control+Enter');
  await page.getByText(/denied by owner/).first().waitFor();
  const session = daemon.newSession('question fast');
  await page.getByRole('radio').or(page.getByRole('checkbox')).first().waitFor();
  await page.keyboard.press('1');
  await page.getByRole('radio', { checked: true }).or(page.getByRole('checkbox', { checked: true })).first().waitFor();
  daemon.cli('stop', session);
});

test('a long history is reached from end to beginning without loading it', async () => {
  const session = daemon.newSession('long 20000');
  await until(() => daemon.sessions().find((each) => each.session === session)?.status === 'idle');
  const { page, faults } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/s/${session}`);
  await page.getByText('done', { exact: false }).first().waitFor();
  const nodes = () => page.evaluate(() => document.querySelectorAll('[role=log] *').length);
  assert.ok((await nodes()) < 2_000, 'only what is on the screen is in the document');
  await page.getByRole('button', { name: 'More' }).click();
  await page.getByRole('button', { name: 'Go back in time…' }).click();
  await page.getByRole('button', { name: 'Beginning' }).click();
  await page.getByText('The session begins here.').waitFor();
  assert.ok((await nodes()) < 2_000, 'the beginning replaces the end');
  await page.getByRole('button', { name: 'Back to now' }).first().click();
  await page.getByText('The session begins here.').waitFor({ state: 'detached' });
  assert.deepEqual(faults, []);
});

test('a daemon that is killed is told at once, and coming back loses and repeats nothing', async () => {
  const session = daemon.newSession('say before');
  const { page } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/s/${session}`);
  await page.locator('.words').getByText('before', { exact: true }).waitFor();
  await daemon.kill();
  await page.getByText('Not connected.').waitFor();
  await page.getByLabel('Message to the agent').fill('say after');
  assert.equal(await page.getByRole('button', { name: 'Send' }).isDisabled(), true, 'nothing is queued silently');
  await daemon.restart();
  await page.getByText('Not connected.').waitFor({ state: 'detached' });
  assert.equal(await page.getByLabel('Message to the agent').inputValue(), 'say after');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.locator('.words').getByText('after', { exact: true }).waitFor();
  assert.equal(await page.locator('.words').getByText('before', { exact: true }).count(), 1);
});

test('a connection lost while words stream goes on without a gap', async () => {
  const session = daemon.newSession('repeat 300 8 100');
  const { page, context } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/s/${session}`);
  await page.locator('.words.open').waitFor();
  await context.setOffline(true);
  await context.setOffline(false);
  await page.locator('.words.open').waitFor({ state: 'detached' });
  const told = daemon.cli('export', session).split('\n').filter((line) => line.includes('"type":"message"')).at(-1);
  const text = JSON.parse(told).event.content.map((piece) => piece.text ?? '').join('');
  const squeeze = (value) => value.replace(/\s+/g, '');
  assert.equal(squeeze(await page.locator('.words').first().innerText()), squeeze(text));
});
