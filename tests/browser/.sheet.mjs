import { chromium } from 'playwright-core';
import { readFileSync } from 'node:fs';
const pics = process.env.PICS ?? '/tmp/pics';
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });
const sheet = async (name, files, width, height, columns) => {
  const page = await browser.newPage({ viewport: { width: width * columns + 10 * columns, height: (height + 10) * Math.ceil(files.length / columns) } });
  await page.setContent(`<body style="margin:0;background:#888;display:grid;grid-template-columns:repeat(${columns},${width}px);gap:10px">` + files.map((f) => `<img width=${width} src="data:image/png;base64,${readFileSync(`${pics}/${f}`).toString('base64')}">`).join(''));
  await page.screenshot({ path: `/tmp/${name}.png` });
  await page.close();
};
const views = ['home', 'inbox', 'new', 'past', 'agents', 'devices', 'tour', 'edit', 'question', 'plan', 'done', 'failed'];
for (const theme of ['light', 'dark']) {
  await sheet(`sheet-phone-${theme}-1`, views.slice(0, 4).map((v) => `${v}-phone-${theme}.png`), 390, 844, 4);
  await sheet(`sheet-phone-${theme}-2`, views.slice(4, 8).map((v) => `${v}-phone-${theme}.png`), 390, 844, 4);
  await sheet(`sheet-phone-${theme}-3`, views.slice(8, 12).map((v) => `${v}-phone-${theme}.png`), 390, 844, 4);
  for (let i = 0; i < 12; i += 4) await sheet(`sheet-desktop-${theme}-${i / 4 + 1}`, views.slice(i, i + 4).map((v) => `${v}-desktop-${theme}.png`), 960, 600, 2);
}
await browser.close();
