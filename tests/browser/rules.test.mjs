// Rules in the page: listed, made, changed, removed and tried; made from a request; the risk of a request.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { startBrowser, startDaemon, stranger, until, visit } from './harness.mjs';

let daemon;
let browser;

before(async () => {
  daemon = await startDaemon();
  browser = await startBrowser();
});

// A rule of one test must not answer the requests of the next.
afterEach(() => {
  for (const { rule } of listed()) daemon.cli('rules', 'remove', rule);
});

after(async () => {
  await browser?.close();
  await daemon?.stop();
});

const button = (scope, name) => scope.getByRole('button', { name, exact: true });
/** The rules for projects and for every session. */
const listed = () => JSON.parse(daemon.cli('rules', 'list', '--json'));
const events = (session) => daemon.cli('export', session).trim().split('\n').map((line) => JSON.parse(line).event);
const decided = (session) => events(session).filter(({ type }) => type === 'request_decided').map(({ outcome }) => outcome);

async function rulesPage(options) {
  const visitor = await visit(browser, daemon, options);
  visitor.page.on('dialog', (dialog) => dialog.accept());
  await visitor.page.getByRole('link', { name: 'Rules', exact: true }).first().click();
  await visitor.page.getByRole('heading', { name: 'Rules', exact: true }).waitFor();
  return visitor;
}

/** A page of somebody with another role. */
async function as(role) {
  const { link } = JSON.parse(daemon.cli('pair', role, '--role', role, '--at', daemon.url, '--json'));
  const page = await stranger(browser);
  await page.goto(link);
  await page.getByRole('link', { name: 'New session' }).first().waitFor();
  return page;
}

test('a rule is added, listed, edited and removed', async () => {
  const { page, faults } = await rulesPage();
  await page.getByText('There are no rules.').waitFor();
  await button(page, 'Add a rule').click();
  await page.getByLabel('Answer').selectOption('deny');
  await page.getByLabel('Tool and pattern').fill('Bash(rm -r)');
  await page.getByLabel('Comment').fill('ask me first');
  await page.getByText(/earlier requests/).first().waitFor();
  await button(page, 'Save the rule').click();
  const line = page.getByRole('listitem').filter({ hasText: 'Bash(rm -r)' });
  await line.getByText('ask me first').waitFor();
  await page.getByRole('heading', { name: 'Every session' }).waitFor();
  assert.deepEqual(listed().map(({ effect, text, comment }) => [effect, text, comment]), [['deny', 'Bash(rm -r)', 'ask me first']]);

  await button(page, 'Edit the rule deny Bash(rm -r)').click();
  await page.getByLabel('Where the rule holds').selectOption('project');
  await page.getByRole('combobox', { name: 'Folder' }).first().fill(daemon.folder);
  await page.getByLabel('Answer').selectOption('ask');
  await button(page, 'Save the rule').click();
  await page.getByRole('heading', { name: `Sessions in ${daemon.folder}` }).waitFor();
  assert.deepEqual(listed().map(({ effect, scope, comment }) => [effect, scope.folder, comment]), [['ask', daemon.folder, 'ask me first']]);

  await button(page, 'Remove the rule ask Bash(rm -r)').click();
  await page.getByText('There are no rules.').waitFor();
  assert.deepEqual(listed(), []);
  assert.deepEqual(faults, []);
});

test('a rule that somebody else makes appears by itself', async () => {
  const { page } = await rulesPage();
  await page.getByText('There are no rules.').waitFor();
  daemon.cli('rules', 'add', 'allow', 'Bash(git status)');
  await page.getByText('Bash(git status)').waitFor();
  await page.getByText(/made by owner \(cli\)/).waitFor();
});

test('text that is no rule is not saved, and the page says why', async () => {
  const { page } = await rulesPage();
  await button(page, 'Add a rule').click();
  await page.getByLabel('Tool and pattern').fill('Bash(ls');
  await page.getByText('needs a closing').waitFor();
  assert.equal(await button(page, 'Save the rule').isDisabled(), true);
});

test('a rule that is made from a request answers the next request of that kind', async () => {
  const session = daemon.newSession('use a tool fast');
  const { page, faults } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/s/${session}`);
  await button(page, 'Make a rule…').click();
  assert.equal(await page.getByLabel('Tool and pattern').inputValue(), 'Bash(ls)', 'Portolan suggests the pattern');
  await page.getByLabel('Where the rule holds').selectOption('project');
  await page.getByLabel('Comment').fill('listing is harmless');
  await button(page, 'Save the rule').click();
  await page.getByText('this request still waits for your answer').waitFor();
  assert.deepEqual(listed().map(({ effect, text, scope }) => [effect, text, scope.folder]), [['allow', 'Bash(ls)', daemon.folder]]);
  await button(page, 'Allow').click();
  await page.getByText(/allowed by owner/).first().waitFor();

  await page.getByLabel('Message to the agent').fill('use a tool fast');
  await button(page, 'Send').click();
  await page.getByText('allowed by the rule allow Bash(ls)').waitFor();
  assert.deepEqual(decided(session).map(({ by }) => by), [{ kind: 'policy', rule: 'allow Bash(ls)', source: 'rule' }]);
  await page.getByRole('link', { name: 'allow Bash(ls)' }).click();
  await page.locator('li[data-target]').getByText('Bash(ls)').waitFor();
  assert.deepEqual(faults, []);
});

test('a rule is made from a closed request, after the page has shown what the rule would have decided', async () => {
  const session = daemon.newSession('use a tool fast');
  await until(() => daemon.request(session));
  daemon.cli('deny', session, daemon.request(session));
  const { page } = await visit(browser, daemon);
  await page.goto(`${daemon.url}/#/s/${session}`);
  await page.locator('.tool button.line').click();
  await button(page, 'Make a rule…').click();
  assert.equal(await page.getByLabel('Answer').inputValue(), 'deny', 'somebody denied the request');
  await page.getByText('The rule would have decided the only earlier request. A person answered this request.').waitFor();
  await page.getByLabel('Answer').selectOption('allow');
  await page.getByText('A person answered this request, and the answer differs from the rule.').waitFor();
  await page.getByLabel('Answer').selectOption('deny');
  await button(page, 'Save the rule').click();
  await page.getByText('Saved the rule: deny Bash(ls)').waitFor();
  await page.getByLabel('Message to the agent').fill('use a tool fast');
  await button(page, 'Send').click();
  await until(() => decided(session).length === 1);
  assert.deepEqual(decided(session).map(({ answer }) => answer.kind), ['deny']);
});

test('a request shows its risk with the reasons, and a high risk makes Allow an ordinary button', async () => {
  const sessions = ['use a tool fast', 'edit fast'].map((prompt) => daemon.newSession(prompt));
  const { page } = await visit(browser, daemon);
  for (const [index, risk, primary] of [[0, ['high risk', 'runs a command'], false], [1, ['medium risk', 'changes files'], true]]) {
    await page.goto(`${daemon.url}/#/s/${sessions[index]}`);
    const card = page.locator(`main[data-session="${sessions[index]}"] .card`);
    const reasons = card.getByRole('list', { name: 'Risk and its reasons' }).getByRole('listitem');
    await reasons.first().waitFor();
    assert.deepEqual((await reasons.allInnerTexts()).slice(0, 2), risk);
    assert.equal(await button(card, 'Allow').evaluate(({ classList }) => classList.contains('primary')), primary);
    daemon.cli('stop', sessions[index]);
  }
});

test('a call is tried: the decision, the rule, the reason and the risk are shown, and nothing runs', async () => {
  daemon.cli('rules', 'add', 'deny', '@run(git push --force)');
  const { page } = await rulesPage();
  await page.getByRole('textbox', { name: /Command, file or address/ }).fill('git push origin main --force');
  await page.getByRole('combobox', { name: 'Folder' }).fill(daemon.folder);
  await button(page, 'Try the call').click();
  const result = page.locator('.result');
  await result.getByText('Denied by the rule deny @run(git push --force)').waitFor();
  await result.getByText('high risk').waitFor();
  await page.getByRole('textbox', { name: /Command, file or address/ }).fill('git status');
  await button(page, 'Try the call').click();
  await result.getByText('A person is asked').waitFor();
});

test('a viewer sees the rules and the risk, and no button that changes anything', async () => {
  daemon.cli('rules', 'add', 'allow', 'Bash(git status)');
  const session = daemon.newSession('use a tool fast');
  await until(() => daemon.request(session));
  const page = await as('viewer');
  await page.goto(`${daemon.url}/#/rules`);
  await page.getByText('Bash(git status)').waitFor();
  assert.deepEqual(await page.locator('main').getByRole('button').allInnerTexts(), ['Try the call']);
  await page.goto(`${daemon.url}/#/s/${session}`);
  await page.getByText('high risk').waitFor();
  assert.equal(await page.getByRole('button', { name: /Make a rule/ }).count(), 0);
  daemon.cli('stop', session);
});

test('an operator makes, edits and removes rules of one session, and no others', async () => {
  daemon.cli('rules', 'add', 'deny', 'Bash(git push)');
  const session = daemon.newSession('use a tool fast');
  await until(() => daemon.request(session));
  const page = await as('operator');
  page.on('dialog', (dialog) => dialog.accept());
  await page.goto(`${daemon.url}/#/s/${session}`);
  await button(page, 'Make a rule…').click();
  assert.deepEqual(await page.getByLabel('Where the rule holds').getByRole('option').allInnerTexts(), ['this session']);
  await button(page, 'Save the rule').click();
  await page.getByText('this request still waits for your answer').waitFor();
  await page.goto(`${daemon.url}/#/rules`);
  await page.getByText('Bash(git push)').waitFor();
  await button(page, 'Edit the rule allow Bash(ls)').click();
  await page.getByLabel('Tool and pattern').fill('Bash(ls *)');
  await page.getByText(/A \* at the end covers/).waitFor();
  await button(page, 'Save the rule').click();
  await button(page, 'Remove the rule allow Bash(ls *)').waitFor();
  assert.equal(await page.getByRole('button', { name: /git push/ }).count(), 0, 'an owner made that rule for every session');
  const own = () => JSON.parse(daemon.cli('show', session, '--json')).state.session_rules ?? [];
  assert.deepEqual(own().map(({ text }) => text), ['Bash(ls *)']);
  await button(page, 'Remove the rule allow Bash(ls *)').click();
  await until(() => own().length === 0);
  daemon.cli('stop', session);
});
