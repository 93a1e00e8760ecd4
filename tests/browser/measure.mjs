// What the page costs while an agent talks fast: frames a second at 1,000 deltas a second, and memory after 100,000.
// Not a test: `node measure.mjs` prints what it saw on this machine.

import { startBrowser, startDaemon, until, visit } from './harness.mjs';

const daemon = await startDaemon();
const browser = await startBrowser();
try {
  const { page } = await visit(browser, daemon, { viewport: { width: 1440, height: 900 } });
  const client = await page.context().newCDPSession(page);
  const heap = async () => {
    await client.send('HeapProfiler.collectGarbage');
    return Math.round((await client.send('Runtime.getHeapUsage')).usedSize / 1_048_576);
  };
  const opened = Date.now();
  const session = daemon.newSession('repeat 10000 8 1000');
  await page.goto(`${daemon.url}/#/s/${session}`);
  await page.locator('.words.open').waitFor();
  const frames = await page.evaluate(() => new Promise((done) => {
    const times = [];
    const step = (now) => {
      times.push(now);
      if (now - times[0] < 5_000) requestAnimationFrame(step);
      else done(times);
    };
    requestAnimationFrame(step);
  }));
  const gaps = frames.slice(1).map((time, index) => time - frames[index]).sort((a, b) => a - b);
  const at = (share) => Math.round(gaps[Math.floor(gaps.length * share)]);
  console.log(`frames at 1,000 deltas/s: ${(frames.length / 5).toFixed(1)} a second; gap p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, p99 ${at(0.99)} ms`);
  await page.locator('.words.open').waitFor({ state: 'detached', timeout: 60_000 });
  const before = await heap();
  const long = daemon.newSession('repeat 100000 8');
  await page.goto(`${daemon.url}/#/s/${long}`);
  await until(() => daemon.sessions().find((each) => each.session === long)?.status === 'idle');
  await page.locator('.turn').first().waitFor();
  console.log(`heap: ${before} MiB before, ${await heap()} MiB after 100,000 deltas; ${((Date.now() - opened) / 1000).toFixed(0)} s in all`);
} finally {
  await browser.close();
  await daemon.stop();
}
