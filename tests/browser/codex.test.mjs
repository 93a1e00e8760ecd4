// The real Codex through the page: started from the form, allowed, archived as a past conversation, and its account.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startBrowser, startCodex, startDaemon, visit } from './harness.mjs';

const COMMAND = { cmd: 'touch allowed.txt', sandbox_permissions: 'require_escalated', justification: 'makes a file' };
const SCRIPT = {
  rules: [{
    when: { prompt_contains: 'use the shell' },
    steps: [{ say: [{ type: 'tool', name: 'exec_command', input: COMMAND }] }, { say: [{ type: 'text', text: 'It is **done**.' }] }],
  }],
};

let codex;
let daemon;
let browser;

before(async () => {
  codex = await startCodex(SCRIPT);
  daemon = await startDaemon({ config: codex.config });
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  await daemon?.stop();
  await codex?.stop();
});

// covers: 003-115
test('Codex is started from the form and allowed; its past conversation is archived and unarchived', async () => {
  const { page, faults } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/new`);
  await page.getByRole('combobox', { name: 'Agent' }).selectOption('codex');
  await page.getByRole('combobox', { name: 'Folder' }).fill(daemon.folder);
  await page.getByLabel('What should be done?').fill('use the shell');
  await page.getByRole('button', { name: 'Start' }).click();
  await page.getByText('touch allowed.txt').first().waitFor();
  await page.getByRole('button', { name: 'Allow', exact: true }).click();
  await page.locator('.words strong').getByText('done', { exact: true }).waitFor();
  assert.ok(existsSync(join(daemon.folder, 'allowed.txt')), 'it was allowed, so it ran');
  // Codex takes no thinking budget and keeps no checkpoints: neither is offered, and the page says so.
  await page.getByRole('combobox', { name: /^Mode\b/ }).waitFor();
  assert.equal(await page.getByRole('combobox', { name: 'Thinking' }).count(), 0);
  assert.equal(await page.getByRole('button', { name: /rewind|restore/i }).count(), 0);
  await page.getByText('What the agent cannot do').click();
  await page.getByText(/^codex cannot .*thinking.*The page does not offer these\.$/).waitFor();
  daemon.cli('stop', daemon.sessions()[0].session);

  await page.goto(`${daemon.url}/#/past`);
  const kept = page.locator('main li').filter({ hasText: 'use the shell' });
  await kept.getByRole('button', { name: 'Archive', exact: true }).click();
  await kept.waitFor({ state: 'detached' });
  await page.getByLabel('Archived conversations').check();
  await kept.getByRole('button', { name: 'Unarchive' }).click();
  await page.getByText('No conversation is archived.').waitFor();
  await page.getByLabel('Archived conversations').uncheck();
  await kept.waitFor();
  assert.deepEqual(faults, []);
});

test('an owner logs Codex in with a key and out again, and the key is not kept on the page', async () => {
  codex.needLogin();
  const { page, faults } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/agents`);
  const section = page.locator('section').filter({ has: page.getByRole('heading', { name: /Codex/ }) });
  await section.getByRole('button', { name: 'Show the account' }).click();
  await section.getByText('Not logged in').waitFor();
  await section.getByLabel('How to log codex in').selectOption('api_key');
  await section.getByLabel('Key for codex').fill('sk-of-a-test');
  await section.getByRole('button', { name: 'Log in', exact: true }).click();
  await section.getByText('Logged in: apiKey').waitFor();
  assert.equal(await section.getByLabel('Key for codex').inputValue(), '');
  assert.doesNotMatch(await page.content(), /sk-of-a-test/);
  await section.getByRole('button', { name: 'Log out' }).click();
  await section.getByText('Not logged in').waitFor();
  assert.deepEqual(faults, []);
});
