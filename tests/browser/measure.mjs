// What the page costs: bytes until it can be used, frames a second at 1,000 deltas a second, memory over 100,000 deltas,
// and Lighthouse's performance score.
// Not a test: it prints what it measured on this machine. `cargo xtask bench --only page` runs it against the release
// binary; `--json` prints JSON, `--smoke` takes seconds instead of minutes.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import lighthouse from 'lighthouse';
import { startBrowser, startDaemon, startPersistentBrowser, until, visit } from './harness.mjs';

const SMOKE = process.argv.includes('--smoke');
const JSON_WANTED = process.argv.includes('--json');
const SECONDS = SMOKE ? 2 : 10;
const DELTAS = SMOKE ? 5_000 : 100_000;

/** The bytes over the wire until a new visitor can use the page, and the time that this takes. */
async function opening(browser, daemon) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  const client = await context.newCDPSession(page);
  await client.send('Network.enable');
  let bytes = 0;
  client.on('Network.loadingFinished', ({ encodedDataLength }) => (bytes += encodedDataLength));
  const link = daemon.ticketLink();
  const began = performance.now();
  await page.goto(link);
  await page.getByRole('link', { name: 'New session' }).first().waitFor();
  const found = { kb: Math.round(bytes / 102.4) / 10, ms: Math.round(performance.now() - began) };
  await context.close();
  return found;
}

/** How smooth a session is that streams 1,000 deltas a second. */
async function frames(page, daemon) {
  const session = daemon.newSession(`recite ${(SECONDS + 30) * 1_000} 1000`);
  await page.goto(`${daemon.url}/#/s/${session}`);
  await page.locator('.words.open').waitFor();
  const client = await page.context().newCDPSession(page);
  // In processor time: waiting for a busy machine is not the page's work.
  await client.send('Performance.enable', { timeDomain: 'threadTicks' });
  const worked = async () => (await client.send('Performance.getMetrics')).metrics.find(({ name }) => name === 'TaskDuration').value;
  const before = await worked();
  const times = await page.evaluate((milliseconds) => new Promise((done) => {
    const seen = [];
    const step = (now) => {
      seen.push(now);
      if (now - seen[0] < milliseconds) requestAnimationFrame(step);
      else done(seen);
    };
    requestAnimationFrame(step);
  }), SECONDS * 1_000);
  const busy = Math.round(((await worked()) - before) / SECONDS * 100);
  daemon.cli('interrupt', session);
  await page.locator('.words.open').waitFor({ state: 'detached' });
  const gaps = times.slice(1).map((time, index) => time - times[index]).sort((a, b) => a - b);
  const at = (share) => Math.round(gaps[Math.floor(gaps.length * share)]);
  return { deltas_per_second: 1_000, frames_per_second: Math.round((times.length / SECONDS) * 10) / 10, busy_percent: busy, gap_ms: { p50: at(0.5), p95: at(0.95), p99: at(0.99) } };
}

/** The memory that a session of many deltas keeps, after a garbage collection. */
async function memory(page, daemon) {
  const client = await page.context().newCDPSession(page);
  const heap = async () => {
    await client.send('HeapProfiler.collectGarbage');
    return Math.round(((await client.send('Runtime.getHeapUsage')).usedSize / 1_048_576) * 10) / 10;
  };
  const before = await heap();
  const session = daemon.newSession(`recite ${DELTAS}`);
  await page.goto(`${daemon.url}/#/s/${session}`);
  await until(() => daemon.sessions().find((each) => each.session === session)?.status === 'idle', 600_000);
  await page.locator('.turn').first().waitFor();
  return { deltas: DELTAS, heap_mib: { before, after: await heap() } };
}

/** Lighthouse's performance score of the page with an inbox, as a desktop and as a phone. */
async function scores(daemon) {
  const folder = mkdtempSync(join(tmpdir(), 'portolan-lighthouse-'));
  const { context, port } = await startPersistentBrowser(folder);
  try {
    const page = await context.newPage();
    await page.goto(daemon.ticketLink());
    await page.getByRole('link', { name: 'New session' }).first().waitFor();
    const score = async (options) => {
      const run = await lighthouse(`${daemon.url}/#/inbox`, { port, output: 'json', logLevel: 'error', disableStorageReset: true, onlyCategories: ['performance'], ...options });
      return Math.round((run.lhr.categories.performance.score ?? 0) * 100);
    };
    const desktop = { mobile: false, width: 1440, height: 900, deviceScaleFactor: 1, disabled: false };
    return { desktop: await score({ formFactor: 'desktop', screenEmulation: desktop }), phone: await score({ formFactor: 'mobile' }) };
  } finally {
    await context.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

const daemon = await startDaemon();
const browser = await startBrowser();
try {
  const { page } = await visit(browser, daemon, { viewport: { width: 1440, height: 900 } });
  const found = { page: { opening: await opening(browser, daemon), streaming: await frames(page, daemon), memory: await memory(page, daemon), lighthouse_performance: await scores(daemon) } };
  if (JSON_WANTED) console.log(JSON.stringify(found));
  else {
    const { opening: opened, streaming, memory: kept, lighthouse_performance: lights } = found.page;
    const { p50, p95, p99 } = streaming.gap_ms;
    console.log(`page      until it can be used       ${opened.kb} KB over the wire, ${opened.ms} ms`);
    console.log(`page      frames at 1,000 deltas/s   ${streaming.frames_per_second} a second; gap p50 ${p50} ms, p95 ${p95} ms, p99 ${p99} ms; main thread busy ${streaming.busy_percent} %`);
    console.log(`page      heap                       ${kept.heap_mib.before} MiB before, ${kept.heap_mib.after} MiB after ${kept.deltas.toLocaleString('en')} deltas`);
    console.log(`page      Lighthouse performance     ${lights.desktop} on a desktop, ${lights.phone} on a phone`);
  }
} finally {
  await browser.close();
  await daemon.stop();
}
