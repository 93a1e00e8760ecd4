// The page in a real browser: a ticket logs in once, a session is shown live, and an answer shows who gave it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { between, startAtTerminal, startBrowser, startDaemon, stranger, until, visit } from './harness.mjs';

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

/** Keys act on the chosen request once its guard time is over. */
const armed = (page) => page.locator('.card.armed').first().waitFor();
const allow = (page) => page.getByRole('button', { name: 'Allow', exact: true });

test('a daemon that starts in a terminal opens the page with a link that logs in', async () => {
  const terminal = await startAtTerminal();
  try {
    const page = await stranger(browser);
    // The opener gets a file that leads to the link: a command line can be read by every user of the machine.
    await page.goto(pathToFileURL(await terminal.link()).href);
    await page.getByRole('link', { name: 'New session' }).first().waitFor();
  } finally {
    await terminal.stop();
  }
});

test('a ticket logs in once and does not stay in the address', async () => {
  const link = daemon.ticketLink();
  const first = await stranger(browser);
  await first.goto(link);
  await first.getByRole('link', { name: 'New session' }).first().waitFor();
  assert.equal(new URL(first.url()).hash, '');
  const second = await stranger(browser);
  await second.goto(link);
  await second.getByText('You are not logged in').waitFor();
});

// covers: 003-005
test('an approval in one page closes the request in the other page and shows who approved', async () => {
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

test('when two pages answer at the same time, one answer counts and nobody sees an error', async () => {
  const session = daemon.newSession('use a tool fast');
  const wires = [between(), between()];
  const visitors = [await visit(browser, daemon, wires[0]), await visit(browser, daemon, wires[1])];
  for (const [index, { page }] of visitors.entries()) {
    await page.goto(`${daemon.url}/#/s/${session}`);
    await allow(page).waitFor();
    wires[index].hold();
    await allow(page).click();
  }
  // Both answers are on their way before the daemon has seen one.
  await until(() => wires.every((wire) => wire.held() === 1));
  for (const wire of wires) wire.release();
  for (const { page, faults } of visitors) {
    await page.getByText(/allowed by owner/i).first().waitFor();
    assert.equal(await page.getByRole('alert').count(), 0);
    assert.deepEqual(faults, []);
  }
  const closed = daemon.cli('export', session).split('\n').filter((line) => line.includes('"request_closed"'));
  assert.equal(closed.length, 1);
});

test('the form creates a session that streams, and a second prompt waits in the queue', async () => {
  const { page, faults } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/new`);
  await page.getByRole('combobox', { name: 'Agent' }).selectOption('demo');
  await page.getByRole('combobox', { name: 'Folder' }).fill('/tmp');
  await page.getByLabel('What should be done?').fill('slow');
  await page.getByRole('button', { name: 'Start' }).click();
  await page.getByRole('button', { name: 'Interrupt' }).waitFor();
  await page.getByLabel('Message to the agent').fill('say queued words');
  await page.getByRole('button', { name: 'Queue' }).click();
  await page.getByRole('button', { name: 'Discard' }).waitFor();
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

test('keys alone open the inbox, allow, deny with a reason, and answer a question', async () => {
  daemon.newSession('use a tool fast');
  const { page } = await visit(browser, daemon);
  await page.keyboard.press('g');
  await page.keyboard.press('i');
  await page.getByRole('heading', { name: 'Inbox' }).waitFor();
  await armed(page);
  await page.keyboard.press('a');
  await page.getByText(/allowed by owner/).first().waitFor();
  daemon.newSession('use a tool fast');
  await armed(page);
  await page.keyboard.press('r');
  await page.keyboard.type('not today');
  await page.keyboard.press('Control+Enter');
  await page.getByText(/denied by owner/).first().waitFor();
  const session = daemon.newSession('question fast');
  await page.getByRole('radio').or(page.getByRole('checkbox')).first().waitFor();
  await armed(page);
  await page.keyboard.press('1');
  await page.getByRole('radio', { checked: true }).or(page.getByRole('checkbox', { checked: true })).first().waitFor();
  daemon.cli('stop', session);
});

test('a held key answers one request, and the next request has a guard time of its own', async () => {
  const sessions = [1, 2, 3].map(() => daemon.newSession('use a tool fast'));
  const { page } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/inbox`);
  await until(async () => (await allow(page).count()) === 3);
  await armed(page);
  // When the first request closes, the next one takes its place: a key in that moment is not meant for the next one.
  await page.evaluate(() => {
    const before = document.querySelectorAll('.card.closed').length;
    new MutationObserver((_, observer) => {
      if (document.querySelectorAll('.card.closed').length === before) return;
      observer.disconnect();
      document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'a', bubbles: true }));
      window.pressedAgain = true;
    }).observe(document.body, { subtree: true, attributes: true, childList: true });
  });
  for (let held = 0; held < 30; held += 1) await page.keyboard.down('a');
  await page.keyboard.up('a');
  await page.waitForFunction(() => window.pressedAgain);
  await armed(page);
  await page.keyboard.press('d');
  await page.getByText(/denied by owner/).first().waitFor();
  const outcomes = sessions.flatMap((session) => daemon.cli('export', session).split('\n').filter((line) => line.includes('"request_closed"')));
  assert.deepEqual(outcomes.map((line) => JSON.parse(line).event.outcome.answer.kind).sort(), ['allow', 'deny']);
  for (const session of sessions) daemon.cli('stop', session);
});

test('allowing all requests allows only those that were open when the user asked for it', async () => {
  const early = [1, 2].map(() => daemon.newSession('use a tool fast'));
  const { page } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/inbox`);
  await until(async () => (await allow(page).count()) === 2);
  await page.getByRole('button', { name: 'Allow all…' }).click();
  const late = daemon.newSession('use a tool fast');
  await page.getByText('Requests that came later are not included.').waitFor();
  await page.getByRole('button', { name: 'Allow these 2' }).click();
  await until(() => early.every((session) => daemon.cli('export', session).includes('"request_closed"')));
  assert.equal(daemon.cli('export', late).includes('"request_closed"'), false);
  assert.equal(await allow(page).count(), 1);
  daemon.cli('stop', late);
});

test('a row that cannot be drawn does not affect other rows', async () => {
  const session = daemon.newSession('say poison');
  const poison = (text) => {
    const frame = JSON.parse(text);
    if (frame.type === 'entry' && frame.event.type === 'prompt') frame.event.content = [null];
    return JSON.stringify(frame);
  };
  const { page } = await visit(browser, daemon, between({ change: poison }));
  await page.goto(`${daemon.url}/#/s/${session}`);
  await page.getByText('This page cannot show this part of the conversation.').waitFor();
  await page.locator('.words').getByText('poison', { exact: true }).waitFor();
});

// `cargo xtask soak` sets a million.
const ENTRIES = Number(process.env.ENTRIES ?? 100_000);

test('a long history can be read from end to beginning without loading all of it', async () => {
  const session = daemon.newSession(`long ${ENTRIES}`);
  await until(() => daemon.sessions().find((each) => each.session === session)?.status === 'idle', 600_000);
  const { page, faults } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/s/${session}`);
  await page.locator('.turn').getByText('done').waitFor();
  const log = page.getByRole('log');
  const nodes = () => page.evaluate(() => document.querySelectorAll('[role=log] *').length);
  assert.ok((await nodes()) < 2_000, 'only what is on the screen is in the document');
  await page.getByRole('button', { name: 'More' }).click();
  await page.getByRole('button', { name: 'Go back in time…' }).click();
  const range = page.getByRole('slider');
  assert.ok(Number(await range.getAttribute('max')) >= ENTRIES);
  await range.fill(String(ENTRIES / 2));
  await log.locator('.words').first().waitFor();
  const middle = await log.innerText();
  await page.getByRole('button', { name: 'Beginning' }).click();
  await page.getByText('The session begins here.').waitFor();
  assert.notEqual(await log.innerText(), middle);
  assert.ok((await nodes()) < 2_000, 'the beginning replaces the end');
  await page.getByRole('button', { name: 'Back to now' }).first().click();
  await page.getByText('The session begins here.').waitFor({ state: 'detached' });
  await page.locator('.turn').getByText('done').waitFor();
  assert.deepEqual(faults, []);
});

test('the page shows at once that the daemon was killed, and a reconnect loses and repeats nothing', async () => {
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
  const session = daemon.newSession('repeat 1000000 8 100');
  const wire = between();
  const { page } = await visit(browser, daemon, wire);
  await page.goto(`${daemon.url}/#/s/${session}`);
  const words = page.locator('.words.open');
  await words.waitFor();
  const length = async () => (await words.innerText()).length;
  for (let times = 0; times < 3; times += 1) {
    const before = await length();
    await wire.cut();
    // The page reconnects by itself and shows the text that came meanwhile.
    await until(async () => (await length()) > before + 400);
  }
  daemon.cli('interrupt', session);
  await words.waitFor({ state: 'detached' });
  const told = daemon.cli('export', session).split('\n').filter((line) => line.includes('"type":"message"')).at(-1);
  const text = JSON.parse(told).event.content.map((piece) => piece.text ?? '').join('');
  const squeeze = (value) => value.replace(/\s+/g, '');
  assert.equal(squeeze(await page.locator('.words').first().innerText()), squeeze(text));
});

test('a paired device has its own name and role, is listed, and is logged out by one press', async () => {
  const { page } = await visit(browser, daemon);
  const { link } = JSON.parse(daemon.cli('pair', 'tablet', '--role', 'viewer', '--at', daemon.url, '--json'));
  const tablet = await stranger(browser);
  await tablet.goto(link);
  await tablet.getByRole('link', { name: 'New session' }).first().waitFor();
  assert.equal(new URL(tablet.url()).hash, '', 'the ticket does not stay in the address');
  await tablet.goto(`${daemon.url}/#/devices`);
  await tablet.getByText('tablet').first().waitFor();
  assert.equal(await tablet.getByRole('heading', { name: 'Tokens' }).count(), 0, 'a viewer manages nothing');
  const second = await stranger(browser);
  await second.goto(link);
  await second.getByText('You are not logged in').waitFor();

  await page.goto(`${daemon.url}/#/devices`);
  page.on('dialog', (dialog) => dialog.accept());
  await page.getByRole('button', { name: /Log out .* of tablet/ }).click();
  await tablet.getByText('You are not logged in').waitFor();
  await page.getByRole('button', { name: /Log out .* of tablet/ }).waitFor({ state: 'detached' });
});

test('a link with a ticket does not change the user of a browser that is logged in', async () => {
  const { page } = await visit(browser, daemon);
  const { link } = JSON.parse(daemon.cli('pair', 'trap', '--role', 'viewer', '--at', daemon.url, '--json'));
  await page.goto('about:blank');
  await page.goto(link);
  await page.getByText('the link was not used').waitFor();
  assert.equal(new URL(page.url()).hash, '', 'the ticket does not stay in the address');
  await page.goto(`${daemon.url}/#/devices`);
  await page.getByRole('heading', { name: 'Tokens' }).waitFor();
  // A browser that is not logged in can use the link.
  const tablet = await stranger(browser);
  await tablet.goto(link);
  await tablet.getByRole('link', { name: 'New session' }).first().waitFor();
});

test('the page shows which files would change before it restores them', async () => {
  const session = daemon.newSession('edit fast');
  const { page, faults } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/s/${session}`);
  await allow(page).click();
  await page.locator('.turn').getByText('done').waitFor();
  await page.getByRole('button', { name: 'Rewind files' }).first().click();
  const box = page.getByRole('group', { name: 'Rewind files' });
  await box.getByRole('listitem').first().waitFor();
  await box.getByRole('button', { name: 'Restore files' }).click();
  await box.waitFor({ state: 'detached' });
  await page.getByText('The files are restored to what they were before that prompt.').waitFor();
  assert.deepEqual(faults, []);
});

test('a request shows who else reads it', async () => {
  const session = daemon.newSession('use a tool fast');
  const { page } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/inbox`);
  await allow(page).first().waitFor();
  const { link } = JSON.parse(daemon.cli('pair', 'bob', '--at', daemon.url, '--json'));
  const bob = await stranger(browser);
  await bob.goto(link);
  await bob.getByRole('link', { name: 'New session' }).first().waitFor();
  await bob.goto(`${daemon.url}/#/s/${session}`);
  await page.getByText('also read by bob').waitFor();
  daemon.cli('stop', session);
});

test('the thinking budget is set beside the session, and everyone sees the change', async () => {
  const session = daemon.newSession('say hello');
  const { page } = await visit(browser, daemon, { viewport: { width: 1440, height: 900 } });
  await page.goto(`${daemon.url}/#/s/${session}`);
  await page.getByRole('combobox', { name: 'Thinking' }).selectOption('10000');
  await page.getByText('Thinking is now 10000 tokens').waitFor();
});

test('a token that the page creates gives access until the page revokes it', async () => {
  const { page } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/devices`);
  await page.getByLabel('Name of the new token').fill('robot');
  await page.getByRole('button', { name: 'Create a token' }).click();
  const secret = await page.locator('.secret code').innerText();
  const knock = async () => (await fetch(`${daemon.url}/api/v1/sessions`, { headers: { authorization: `Bearer ${secret}` } })).status;
  assert.equal(await knock(), 200);
  page.on('dialog', (dialog) => dialog.accept());
  await page.getByRole('listitem').filter({ hasText: 'robot' }).getByRole('button', { name: 'Revoke' }).click();
  await until(async () => (await knock()) === 401);
});

test('the chosen appearance stays after a reload', async () => {
  const { page } = await visit(browser, daemon, { colorScheme: 'light' });
  await page.goto(`${daemon.url}/#/devices`);
  const paper = () => page.evaluate(() => getComputedStyle(document.documentElement).getPropertyValue('--paper').trim());
  const light = await paper();
  await page.getByRole('combobox', { name: 'Appearance' }).selectOption('dark');
  await until(async () => (await paper()) !== light);
  await page.reload();
  await page.getByRole('combobox', { name: 'Appearance' }).waitFor();
  assert.notEqual(await paper(), light);
});
