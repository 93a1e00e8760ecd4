// The page as an app: installable, badge and notifications, honest without a connection, no motion on request.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { between, startBrowser, startDaemon, startPersistentBrowser, until, visit } from './harness.mjs';

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

test('a browser finds nothing that keeps it from being installed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'portolan-installed-'));
  const { context } = await startPersistentBrowser(folder);
  try {
    const page = await context.newPage();
    await page.goto(daemon.ticketLink());
    await page.getByRole('link', { name: 'New session' }).first().waitFor();
    const client = await context.newCDPSession(page);
    const { errors } = await client.send('Page.getAppManifest');
    const { installabilityErrors } = await client.send('Page.getInstallabilityErrors');
    assert.deepEqual([errors, installabilityErrors], [[], []]);
  } finally {
    await context.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

test('the title and the badge show the number of open requests', async () => {
  const { page } = await visit(browser, daemon, {
    prepare: (fresh) => fresh.addInitScript(() => {
      window.badge = null;
      navigator.setAppBadge = async (count) => void (window.badge = count);
      navigator.clearAppBadge = async () => void (window.badge = 0);
    }),
  });
  await page.waitForFunction(() => document.title === 'Portolan' && window.badge === 0);
  const sessions = [1, 2].map(() => daemon.newSession('use a tool fast'));
  await page.waitForFunction(() => document.title === '(2) Portolan' && window.badge === 2);
  for (const session of sessions) daemon.cli('deny', session, daemon.request(session));
  await page.waitForFunction(() => document.title === 'Portolan' && window.badge === 0);
});

test('a request notifies only a user who wants notifications and does not look at the page', async () => {
  const { page, context } = await visit(browser, daemon, {
    prepare: (fresh) => fresh.addInitScript(() => {
      window.told = [];
      window.isHidden = false;
      Object.defineProperty(document, 'visibilityState', { get: () => (window.isHidden ? 'hidden' : 'visible') });
      ServiceWorkerRegistration.prototype.showNotification = async function (title, { body }) {
        window.told.push([title, body]);
      };
    }),
  });
  await context.grantPermissions(['notifications'], { origin: daemon.url });
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
  await page.goto(`${daemon.url}/#/devices`);
  const counted = (count) => page.waitForFunction((wanted) => document.title === (wanted ? `(${wanted}) Portolan` : 'Portolan'), count);
  const ask = () => JSON.parse(daemon.cli('new', 'demo', 'use a tool fast', '--cwd', daemon.folder, '--name', 'Doris', '--json')).session;
  const sessions = [];
  await page.evaluate(() => (window.isHidden = true));
  sessions.push(ask());
  await counted(1);
  assert.deepEqual(await page.evaluate(() => window.told), [], 'nobody asked for it');
  await page.getByLabel('Notify me about new requests').check();
  sessions.push(ask());
  await page.waitForFunction(() => window.told.length === 1);
  assert.deepEqual(await page.evaluate(() => window.told), [['Doris', 'May I use Bash?']]);
  await page.evaluate(() => (window.isHidden = false));
  sessions.push(ask());
  await counted(3);
  assert.equal(await page.evaluate(() => window.told.length), 1, 'a user who looks at the page gets no notification');
  for (const session of sessions) daemon.cli('stop', session);
});

test('without a daemon the page still opens, says so, and does nothing silently; then it reconnects', async () => {
  const session = daemon.newSession('use a tool fast');
  const { page } = await visit(browser, daemon, { viewport: { width: 1440, height: 900 } });
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
  await page.reload();
  await page.goto(`${daemon.url}/#/inbox`);
  const allow = page.getByRole('button', { name: 'Allow', exact: true });
  await allow.waitFor();
  await daemon.kill();
  await page.getByText('Not connected.').waitFor();
  assert.equal(await allow.isDisabled(), true, 'an answer would not arrive');
  await page.getByText('Not connected: this request may already be answered.').waitFor();
  assert.ok((await page.locator('.app').getAttribute('class')).includes('stale'));
  await page.goto(`${daemon.url}/#/new`);
  assert.equal(await page.getByRole('button', { name: 'Start' }).isDisabled(), true);
  await page.reload();
  await page.getByText('Not connected.').waitFor();
  await daemon.restart();
  await page.getByText('Not connected.').waitFor({ state: 'detached' });
  await page.locator(`a[href="#/s/${session}"]`).first().waitFor();
});

test('a short loss of the connection does not move the shown content', async () => {
  const session = daemon.newSession('say steady');
  const wire = between();
  const { page } = await visit(browser, daemon, wire);
  await page.goto(`${daemon.url}/#/s/${session}`);
  const steady = page.locator('.words').getByText('steady', { exact: true });
  await steady.waitFor();
  await steady.evaluate((element) => (element.dataset.kept = 'yes'));
  await wire.cut();
  daemon.cli('send', session, 'say again');
  await page.locator('.words').getByText('again', { exact: true }).waitFor();
  assert.equal(await steady.getAttribute('data-kept'), 'yes', 'the element is the same as before');
});

test('a user who wants no motion sees none', async () => {
  const session = daemon.newSession('slow');
  for (const [reducedMotion, moving] of [['reduce', false], ['no-preference', true]]) {
    const { page } = await visit(browser, daemon, { viewport: { width: 1440, height: 900 }, reducedMotion });
    await page.goto(`${daemon.url}/#/s/${session}`);
    await page.getByRole('button', { name: 'Interrupt' }).waitFor();
    const animations = () => page.evaluate(() => [...document.querySelectorAll('*')].filter((each) => getComputedStyle(each).animationName !== 'none').length);
    if (moving) await until(async () => (await animations()) > 0);
    else assert.equal(await animations(), 0);
  }
  daemon.cli('stop', session);
});
