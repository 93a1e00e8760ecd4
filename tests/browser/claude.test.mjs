// The real Claude Code through the page: started from the form, allowed, denied and answered, against a scripted model.

import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startBrowser, startClaude, startDaemon, until, visit } from './harness.mjs';

const say = (...blocks) => ({ say: blocks });
const text = (words) => ({ type: 'text', text: words });
const call = (name, input) => ({ type: 'tool', name, input });
const on = (words, ...steps) => ({ when: { prompt_contains: words }, steps });
const QUESTION = {
  questions: [{ question: 'Which way?', header: 'Way', multiSelect: false, options: [{ label: 'North', description: 'cold' }, { label: 'South', description: 'warm' }] }],
};
const SCRIPT = {
  rules: [
    on('just talk', say(text('I am **only** talking.'))),
    on('use the shell', say(call('Bash', { command: 'touch allowed.txt', description: 'makes a file' })), say(text('It is done.'))),
    on('do not do it', say(call('Bash', { command: 'touch denied.txt', description: 'makes a file' })), say(text('Then not.'))),
    on('edit it', say(call('Bash', { command: 'touch wrong.txt', description: 'makes a file' })), say(text('With changes.'))),
    on('ask me', say(call('AskUserQuestion', QUESTION)), say(text('Thank you.'))),
  ],
};

let claude;
let daemon;
let browser;

before(async () => {
  claude = await startClaude(SCRIPT);
  daemon = await startDaemon({ config: claude.config });
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  await daemon?.stop();
  await claude?.stop();
});

test('Claude is started from the form, talks, is allowed, denied with a reason, corrected, and answered', async () => {
  const { page, faults } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/new`);
  await page.getByRole('combobox', { name: 'Agent' }).selectOption('claude');
  await page.getByRole('combobox', { name: 'Folder' }).fill(daemon.folder);
  await page.getByLabel('What should be done?').fill('just talk');
  await page.getByRole('button', { name: 'Start' }).click();
  await page.locator('.words strong').getByText('only', { exact: true }).waitFor();

  const prompt = async (words) => {
    await page.getByLabel('Message to the agent').fill(words);
    await page.getByRole('button', { name: 'Send' }).click();
  };
  await page.getByRole('button', { name: 'Send' }).waitFor();
  await prompt('use the shell');
  await page.getByText('touch allowed.txt').first().waitFor();
  await page.getByRole('button', { name: 'Allow', exact: true }).click();
  await page.locator('.words').getByText('It is done.').waitFor();
  assert.ok(existsSync(join(daemon.folder, 'allowed.txt')), 'it was allowed, so it ran');

  await page.getByRole('button', { name: 'Send' }).waitFor();
  await prompt('do not do it');
  await page.getByRole('button', { name: 'Deny, because…' }).click();
  await page.getByLabel('Why not? The agent reads the reason.').fill('not today');
  await page.getByRole('button', { name: 'Deny with this reason' }).click();
  await page.locator('.words').getByText('Then not.').waitFor();
  assert.ok(!existsSync(join(daemon.folder, 'denied.txt')));

  await page.getByRole('button', { name: 'Send' }).waitFor();
  await prompt('edit it');
  await page.getByRole('button', { name: 'Edit…' }).click();
  const field = page.getByLabel('The input, as JSON');
  await field.fill((await field.inputValue()).replace('wrong', 'right'));
  await page.getByRole('button', { name: 'Allow with this input' }).click();
  await page.locator('.words').getByText('With changes.').waitFor();
  assert.deepEqual(['right.txt', 'wrong.txt'].map((name) => existsSync(join(daemon.folder, name))), [true, false]);

  await page.getByRole('button', { name: 'Send' }).waitFor();
  await prompt('ask me');
  await page.getByRole('radio', { name: /South/ }).check();
  await page.getByRole('button', { name: 'Answer', exact: true }).click();
  await page.locator('.words').getByText('Thank you.').waitFor();
  await page.getByText('South').first().waitFor();
  assert.deepEqual(faults, []);
});

test('an @ completes files of the folder, but not files that Git ignores', async () => {
  writeFileSync(join(daemon.folder, 'chart.txt'), '');
  writeFileSync(join(daemon.folder, 'charted.log'), '');
  writeFileSync(join(daemon.folder, '.gitignore'), '*.log\n');
  const { page } = await visit(browser, daemon);
  const session = daemon.newSession('say hello');
  await page.goto(`${daemon.url}/#/s/${session}`);
  const field = page.getByLabel('Message to the agent');
  await field.pressSequentially('look at @char');
  const files = page.getByRole('listbox', { name: 'Files' }).getByRole('option');
  await until(async () => (await files.allInnerTexts()).join() === 'chart.txt');
  await field.press('Tab');
  assert.equal(await field.inputValue(), 'look at @chart.txt ');
  await until(async () => (await files.count()) === 0);
});

test('a conversation without Portolan is listed as a past conversation, imported and resumed', async () => {
  assert.match(claude.talk(daemon.folder, 'just talk'), /only/);
  const { page, faults } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/past`);
  const past = page.getByRole('listitem').filter({ hasText: 'just talk' });
  await past.getByRole('button').first().click();
  await page.locator('[role=log] .prompt').getByText('just talk').waitFor();
  await page.locator('.words strong').getByText('only', { exact: true }).waitFor();
  await page.getByLabel('Message to the agent').fill('just talk');
  await page.getByRole('button', { name: 'Send' }).click();
  await until(async () => (await page.locator('.words strong').getByText('only', { exact: true }).count()) === 2);
  assert.deepEqual(faults, []);
});
