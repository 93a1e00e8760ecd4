// Checks every view in both sizes and both themes with axe, and the scores of Lighthouse.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import lighthouse from 'lighthouse';
import { startBrowser, startDaemon, startPersistentBrowser, until, visit } from './harness.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
// Where pictures are wanted, for people to look at.
const PICTURES = process.env.PAGE_PICTURES;
const SIZES = { phone: { width: 390, height: 844 }, desktop: { width: 1440, height: 900 } };

let daemon;
let browser;
let sessions;

before(async () => {
  daemon = await startDaemon();
  browser = await startBrowser();
  for (const [effect, text, ...more] of RULES()) daemon.cli('rules', 'add', effect, text, ...more);
  const tour = daemon.newSession('show me everything');
  const asks = ['use a tool', 'edit', 'question', 'plan'].map((prompt) => daemon.newSession(prompt));
  const done = daemon.newSession('think fast');
  const failed = daemon.newSession('error fast');
  await until(() => daemon.sessions().filter(({ waiting }) => waiting > 0).length >= 5);
  sessions = { tour, edit: asks[1], question: asks[2], plan: asks[3], done, failed };
});

after(async () => {
  await browser?.close();
  await daemon?.stop();
});

const VIEWS = () => ({
  home: '/', inbox: '/inbox', new: '/new', past: '/past', agents: '/agents', devices: '/devices', rules: '/rules', audit: '/audit',
  tour: `/s/${sessions.tour}`, edit: `/s/${sessions.edit}`, question: `/s/${sessions.question}`, plan: `/s/${sessions.plan}`,
  done: `/s/${sessions.done}`, failed: `/s/${sessions.failed}`,
});

/** Rules that answer none of the requests above. */
const RULES = () => [
  ['deny', '@run(git push --force)', '--comment', 'use a merge request', '--overridable'],
  ['ask', 'Edit(migrations/**)', '--expires', '30d'],
  ['allow', 'Bash(npm run *)', '--scope', `project:${daemon.folder}`],
];

/** Views in which something waits. */
const ASKING = ['inbox', 'tour', 'edit', 'question', 'plan'];

for (const [size, viewport] of Object.entries(SIZES)) {
  for (const colorScheme of ['light', 'dark']) {
    // covers: 003-007
    test(`every view on a ${size}, ${colorScheme}, has nothing that axe objects to`, async () => {
      const { page, faults } = await visit(browser, daemon, { viewport, colorScheme, reducedMotion: 'reduce', bypassCSP: true });
      const found = [];
      for (const [name, place] of Object.entries(VIEWS())) {
        await page.goto(`${daemon.url}/#${place}`);
        const at = place.startsWith('/s/') ? `main[data-session="${place.slice(3)}"]` : `main[data-at="${place.slice(1) || 'home'}"]`;
        await page.locator(`${at} h1`).first().waitFor({ state: 'attached' });
        if (place.startsWith('/s/')) await page.locator(`${at} [role=log] .prompt`).first().waitFor();
        // Checked once the buttons can be pressed.
        if (ASKING.includes(name)) await page.locator(`${at} .card .buttons button[aria-disabled=false]`).first().waitFor();
        await page.waitForFunction(() => document.fonts.status === 'loaded');
        if (PICTURES) {
          mkdirSync(PICTURES, { recursive: true });
          await page.waitForTimeout(400);
          await page.screenshot({ path: join(PICTURES, `${name}-${size}-${colorScheme}.png`) });
        }
        await page.evaluate(AXE);
        const { violations } = await page.evaluate(() =>
          window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
        for (const { id, nodes } of violations) found.push(`${name}: ${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
        if (wide) found.push(`${name}: wider than the screen`);
      }
      assert.deepEqual(found, []);
      assert.deepEqual(faults, []);
    });
  }
}

test('lighthouse gives accessibility and best practices at least 95', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'portolan-lighthouse-'));
  const { context, port } = await startPersistentBrowser(folder);
  try {
    const page = await context.newPage();
    await page.goto(daemon.ticketLink());
    await page.getByRole('link', { name: 'New session' }).first().waitFor();
    for (const place of ['/', '/#/inbox', `/#/s/${sessions.edit}`]) {
      const run = await lighthouse(daemon.url + place, {
        port, output: 'json', logLevel: 'error', disableStorageReset: true, onlyCategories: ['accessibility', 'best-practices'],
        formFactor: 'desktop', screenEmulation: { mobile: false, width: 1440, height: 900, deviceScaleFactor: 1, disabled: false },
      });
      const scores = Object.fromEntries(Object.entries(run.lhr.categories).map(([name, { score }]) => [name, Math.round((score ?? 0) * 100)]));
      const lost = Object.values(run.lhr.audits).filter(({ score }) => score !== null && score < 1).map(({ id }) => id);
      assert.ok(scores.accessibility >= 95 && scores['best-practices'] >= 95, `${place}: ${JSON.stringify(scores)}; ${lost.join(', ')}`);
    }
  } finally {
    await context.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
