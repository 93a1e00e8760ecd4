// The page in a real browser: let in by a ticket once, sees a session as it happens, answers, and is told who did.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startBrowser, startDaemon, until } from './harness.mjs';

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

async function loggedIn() {
  const context = await browser.newContext();
  const page = await context.newPage();
  const faults = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
  await page.goto(daemon.ticketLink());
  await page.getByRole('button', { name: 'New session' }).waitFor();
  return { page, faults };
}

test('a ticket lets in once and does not stay in the address', async () => {
  const link = daemon.ticketLink();
  const first = await (await browser.newContext()).newPage();
  await first.goto(link);
  await first.getByRole('button', { name: 'New session' }).waitFor();
  assert.equal(new URL(first.url()).hash, '');
  const second = await (await browser.newContext()).newPage();
  await second.goto(link);
  await second.waitForTimeout(500);
  assert.equal(await second.getByRole('button', { name: 'New session' }).isVisible(), false);
});

// covers: 003-005
test('an approval given in one page closes in the other with who did it', async () => {
  daemon.newSession('use a tool fast');
  const [one, other] = [await loggedIn(), await loggedIn()];
  for (const { page } of [one, other]) {
    await page.getByText('use a tool fast').first().click();
    await page.getByRole('button', { name: 'Allow', exact: true }).waitFor();
  }
  await one.page.getByRole('button', { name: 'Allow', exact: true }).click();
  await other.page.getByRole('button', { name: 'Allow', exact: true }).waitFor({ state: 'detached' });
  await other.page.getByText(/allowed by owner/i).first().waitFor();
  assert.deepEqual([...one.faults, ...other.faults], []);
});

test('text of an agent is shown as text, whatever it holds', async () => {
  const hostile = '<img src=x onerror=window.hacked=1><script>window.hacked=1</script>';
  daemon.newSession(`say ${hostile}`);
  const { page } = await loggedIn();
  await page.getByText('say <img').first().click();
  await until(async () => (await page.getByText(hostile).count()) > 0);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
});
