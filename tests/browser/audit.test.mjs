// The audit in the page: listed, filtered and opened by owners; closed to others. The use of a rule leads to its records.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startBrowser, startDaemon, stranger, until, visit } from './harness.mjs';

let daemon;
let browser;
let rule;

before(async () => {
  daemon = await startDaemon();
  browser = await startBrowser();
  rule = JSON.parse(daemon.cli('rules', 'add', 'allow', '@run', '--json')).rule;
  const session = daemon.newSession('use a tool');
  daemon.cli('token', 'create', 'ada', '--role', 'viewer');
  await until(() => daemon.cli('export', session).includes('request_decided'));
});

after(async () => {
  await browser?.close();
  await daemon?.stop();
});

const items = (page) => page.getByRole('main').getByRole('listitem');

test('an owner goes from the use of a rule to its records, and opens an entry with its seal', async () => {
  const { page, faults } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/rules`);
  await page.getByRole('link', { name: /^used once/ }).click();
  await page.getByRole('heading', { name: 'Audit', exact: true }).waitFor();
  await items(page).filter({ hasText: 'request decided by the rule allow @run' }).waitFor();
  const saved = items(page).filter({ hasText: 'rule saved by owner' });
  assert.equal(await items(page).count(), 2);
  assert.equal(await page.getByLabel('Rule', { exact: true }).inputValue(), rule);
  await saved.getByRole('button', { name: /^Entry of record/ }).click();
  await saved.getByText('The entry matches its seal.').waitFor();
  assert.match(await saved.locator('pre').textContent(), /"type": "rule_saved"/);
  assert.deepEqual(faults, []);
});

test('filters narrow the audit, and the address keeps them', async () => {
  const { page, faults } = await visit(browser, daemon);
  await page.keyboard.press('g');
  await page.keyboard.press('u');
  await items(page).filter({ hasText: 'token created' }).first().waitFor();
  await page.getByLabel('Who').fill('nobody at all');
  await page.getByRole('button', { name: 'Show', exact: true }).click();
  await page.getByText('No record matches the filters.').waitFor();
  assert.equal(await items(page).count(), 0);
  await page.getByLabel('Who').fill('rule');
  await page.getByLabel('Time').selectOption('the last hour');
  await page.getByRole('button', { name: 'Show', exact: true }).click();
  await items(page).filter({ hasText: 'request decided' }).waitFor();
  await page.reload();
  await items(page).filter({ hasText: 'request decided' }).waitFor();
  assert.equal(await items(page).count(), 1);
  assert.equal(await page.getByLabel('Who').inputValue(), 'rule');
  assert.deepEqual(faults, []);
});

test('an operator reads that the audit is for owners', async () => {
  const { link } = JSON.parse(daemon.cli('pair', 'bob', '--role', 'operator', '--at', daemon.url, '--json'));
  const page = await stranger(browser);
  await page.goto(link);
  await page.getByRole('link', { name: 'New session' }).first().waitFor();
  await page.goto(`${daemon.url}/#/audit`);
  await page.getByText('Only owners can read the audit.').waitFor();
  assert.equal(await items(page).count(), 0);
  await page.goto(`${daemon.url}/#/rules`);
  await page.getByText(/^used once/).waitFor();
  assert.equal(await page.getByRole('link', { name: /^used once/ }).count(), 0);
});
