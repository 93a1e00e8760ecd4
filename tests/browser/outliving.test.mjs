// An agent that outlives the daemon, as a person sees it in the page.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startBrowser, startDaemon, visit } from './harness.mjs';

let daemon;
let browser;

before(async () => {
  daemon = await startDaemon({ config: '[agents]\noutlive = true\n' });
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  await daemon?.stop();
});

test('while the daemon is killed, a request stays open and its agent goes on, and the page connects again by itself', async () => {
  const session = daemon.newSession('use a tool fast');
  const { page, faults } = await visit(browser, daemon, { viewport: { width: 1440, height: 900 } });
  await page.goto(`${daemon.url}/#/s/${session}`);
  const card = page.locator('.card');
  await card.getByRole('button', { name: 'Allow', exact: true }).waitFor();
  const process = page.getByRole('complementary', { name: 'Details' }).getByText(/^Process \d+, held by process \d+: the agent goes on without the daemon$/);
  const before = await process.textContent();
  const request = daemon.request(session);
  faults.length = 0;

  await daemon.kill();
  await page.getByText('Not connected.').waitFor();
  await daemon.restart();
  await page.getByText('Not connected.').waitFor({ state: 'detached' });
  assert.equal(await process.textContent(), before, 'the same processes');
  assert.equal(daemon.request(session), request, 'the same request');
  await card.getByRole('button', { name: 'Allow', exact: true }).and(page.locator('[aria-disabled=false]')).click();
  await page.locator('.turn').getByText('done').waitFor();
  const closed = daemon.cli('export', session).split('\n').filter((line) => line.includes('"type":"request_closed"'));
  assert.equal(closed.length, 1, 'the request was answered once');
});
