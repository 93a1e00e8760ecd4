// Makes the pictures of docs/pictures anew, from the real daemon, the real page and the real terminal client:
//
//     npm ci && npm run pictures                  everything
//     npm run pictures -- shared-session          one of them: session, phone, inbox, shared-session
//
// PORTOLAN_BIN names the program; without it, the program of `cargo xtask up` is used. `script` of util-linux gives the
// terminal client its terminal, and Chromium draws that terminal with xterm.js.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BINARY, startBrowser, startDaemon, until, visit } from './harness.mjs';
import { movingWebp } from './webp.mjs';

const FOLDER = new URL('../../docs/pictures/', import.meta.url).pathname;
const XTERM = createRequire(import.meta.url).resolve('@xterm/xterm').replace(/lib\/xterm\.js$/, '');
/** The README shows the moving picture on its first screen, and a phone must load it: more would be too slow. */
const LARGEST = 2_000_000;

/** The pause between two shots: shorter makes the file larger, longer makes the text jump. */
const SHOT_MS = 110;

/** The filmed part is shown in at most this time, and its end stays for `REST_MS`, so that people can read it. */
const LONGEST_MS = 12_000;
const REST_MS = 2_000;

const pause = (ms) => new Promise((over) => setTimeout(over, ms));

// ------------------------------------------------------------------------------------------------ still pictures

const DESKTOP = { width: 1440, height: 900 };
const PHONE = { width: 390, height: 844 };

async function still(browser, daemon, name, place, options) {
  const { page, context } = await visit(browser, daemon, { reducedMotion: 'reduce', ...options });
  await page.goto(`${daemon.url}/#${place}`);
  await page.locator('.card .buttons button[aria-disabled=false]').first().waitFor();
  await page.waitForFunction(() => document.fonts.status === 'loaded');
  // The card shows by its frame that keys act.
  await pause(1_000);
  await page.screenshot({ path: join(FOLDER, `${name}.png`) });
  await context.close();
}

const STILLS = {
  session: [(sessions) => `/s/${sessions.edit}`, { viewport: DESKTOP, colorScheme: 'light' }],
  phone: [(sessions) => `/s/${sessions.edit}`, { viewport: PHONE, colorScheme: 'light' }],
  inbox: [() => '/inbox', { viewport: DESKTOP, colorScheme: 'dark' }],
};

async function stills(browser, names) {
  const daemon = await startDaemon();
  try {
    const sessions = {};
    for (const [name, prompt] of [['done', 'think fast'], ['failed', 'error fast'], ['plan', 'plan'], ['tool', 'use a tool'], ['question', 'question'], ['edit', 'edit the haiku']]) {
      sessions[name] = daemon.newSession(prompt);
    }
    await until(() => daemon.sessions().filter(({ waiting }) => waiting > 0).length >= 4);
    for (const name of names) {
      const [place, options] = STILLS[name];
      await still(browser, daemon, name, place(sessions), options);
    }
  } finally {
    await daemon.stop();
  }
}

// -------------------------------------------------------------------------------------------- the moving picture

/** Both windows beside each other, with a title above each. */
const LEFT = { width: 692, height: 640 };
const RIGHT = { width: 468, height: 640 };
const EDGE = 12;
const TITLE = 30;
const WHOLE = { width: LEFT.width + RIGHT.width + 3 * EDGE + 4, height: LEFT.height + TITLE + 2 * EDGE };
const COLUMNS = 92;
const ROWS = 38;

/** A shell in a terminal that Chromium draws. `type` types as a person does. */
async function startTerminal(browser, daemon) {
  const bin = mkdtempSync(join(tmpdir(), 'portolan-bin-'));
  symlinkSync(BINARY, join(bin, 'portolan'));
  const env = {
    PATH: `${bin}:/usr/bin:/bin`, HOME: daemon.home, PORTOLAN_HOME: daemon.home, PS1: '$ ', TERM: 'xterm-256color', LANG: 'C.UTF-8',
  };
  const context = await browser.newContext({ viewport: LEFT });
  const page = await context.newPage();
  await page.setContent('<!doctype html><body style="margin:0;background:#16202a"><div id="screen" style="padding:10px 12px"></div>');
  await page.addStyleTag({ path: join(XTERM, 'css/xterm.css') });
  await page.addScriptTag({ path: join(XTERM, 'lib/xterm.js') });
  const command = `stty cols ${COLUMNS} rows ${ROWS}; exec bash --norc -i`;
  const shell = spawn('script', ['--quiet', '--flush', '--command', command, '/dev/null'], { cwd: daemon.folder, env, stdio: ['pipe', 'pipe', 'ignore'] });
  const ended = new Promise((over) => shell.once('exit', over));
  // A program may ask the terminal for its colours or its cursor; the terminal answers.
  await page.exposeFunction('answer', (text) => shell.stdin.write(text));
  await page.evaluate(([cols, rows]) => {
    const theme = {
      background: '#16202a', foreground: '#d7dee4', cursor: '#d7dee4', brightBlack: '#8b98a3', red: '#ff8d84', green: '#7fd49a', yellow: '#e6c074',
      blue: '#82b4ea', magenta: '#cfa3e6', cyan: '#6fcbd3',
    };
    const terminal = new window.Terminal({ cols, rows, theme, fontFamily: 'DejaVu Sans Mono', fontSize: 12, lineHeight: 1.15, scrollback: 0, minimumContrastRatio: 4.5 });
    terminal.open(document.getElementById('screen'));
    terminal.onData((text) => window.answer(text));
    terminal.focus();
    window.show = (bytes) => terminal.write(Uint8Array.from(bytes));
    window.text = () => Array.from({ length: rows }, (_, row) => terminal.buffer.active.getLine(row)?.translateToString(true) ?? '').join('\n');
  }, [COLUMNS, ROWS]);
  shell.stdout.on('data', (bytes) => page.evaluate((shown) => window.show(shown), [...bytes]).catch(() => {}));
  return {
    page,
    /** Waits until the terminal shows this. */
    shows: (text) => until(async () => (await page.evaluate(() => window.text())).includes(text)),
    async type(text) {
      for (const letter of text) {
        shell.stdin.write(letter);
        await pause(45);
      }
      await pause(250);
      shell.stdin.write('\r');
    },
    async stop() {
      shell.kill('SIGTERM');
      await ended;
      await context.close();
      rmSync(bin, { recursive: true, force: true });
    },
  };
}

/** Takes pictures of both pages until `stop`, each with its time and the place of the mouse. */
function film(left, right, mouse) {
  const shots = [];
  let running = true;
  const begun = Date.now();
  const loop = (async () => {
    while (running) {
      const at = Date.now() - begun;
      const seen = { ...mouse };
      const [one, other] = await Promise.all([left.screenshot(), right.screenshot(), pause(SHOT_MS)]);
      shots.push({ at, mouse: seen, left: one.toString('base64'), right: other.toString('base64') });
    }
  })();
  return {
    shots,
    length: () => Date.now() - begun,
    async stop() {
      running = false;
      await loop;
    },
  };
}

/** What happens in the picture: a prompt from the terminal, an approval in the page, a prompt from the page. */
async function play(terminal, page, session, mouse) {
  await pause(400);
  await terminal.type(`portolan attach ${session.slice(-8)}`);
  await terminal.shows('Enter sends');
  await pause(500);
  await terminal.type('edit the haiku');
  const allow = page.locator('.card .buttons button[aria-disabled=false]', { hasText: /^Allow$/ });
  await allow.waitFor();
  const box = await allow.boundingBox();
  const to = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  const from = { x: RIGHT.width - 90, y: 170 };
  for (let step = 0; step <= 12; step += 1) {
    const part = (1 - Math.cos((Math.PI * step) / 12)) / 2;
    Object.assign(mouse, { shown: true, x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part });
    await page.mouse.move(mouse.x, mouse.y);
    await pause(70);
  }
  await pause(600);
  mouse.pressed = true;
  await pause(150);
  await page.mouse.click(to.x, to.y);
  await pause(200);
  mouse.pressed = false;
  await terminal.shows('allowed by');
  await terminal.shows('── done');
  await pause(900);
  mouse.shown = false;
  await page.getByRole('textbox', { name: 'Message to the agent' }).pressSequentially('hello from the browser', { delay: 45 });
  await pause(250);
  await page.keyboard.press('Enter');
  await until(async () => (await terminal.page.evaluate(() => window.text())).split('── done').length > 2);
  await pause(400);
}

/**
 * Draws each shot into one picture and keeps what has changed since the shot before, as a still WebP without loss.
 * This function runs in Chromium.
 */
async function draw({ shots, left, right, edge, title, whole, names }) {
  const canvas = Object.assign(document.createElement('canvas'), whole);
  const ink = canvas.getContext('2d', { willReadFrequently: true });
  const load = (data) => fetch(`data:image/png;base64,${data}`).then((got) => got.blob()).then(createImageBitmap);
  const window_ = (x, size, name, image) => {
    ink.save();
    ink.beginPath();
    ink.roundRect(x, edge, size.width, size.height + title, 9);
    ink.clip();
    ink.fillStyle = '#e4e1d8';
    ink.fillRect(x, edge, size.width, title);
    ink.drawImage(image, x, edge + title);
    ink.restore();
    ink.fillStyle = '#3c4a54';
    ink.font = '600 13px DejaVu Sans';
    ink.fillText(name, x + 13, edge + 20);
  };
  const pointer = ({ x, y, pressed }) => {
    ink.save();
    ink.translate(left.width + 2 * edge + 4 + x, edge + title + y);
    if (pressed) {
      ink.beginPath();
      ink.arc(0, 0, 15, 0, 7);
      ink.fillStyle = 'rgba(224, 150, 40, 0.45)';
      ink.fill();
    }
    ink.beginPath();
    for (const [dx, dy] of [[0, 0], [0, 19], [4.5, 15], [7.5, 22], [10.5, 20.5], [7.5, 14], [13.5, 14]]) ink.lineTo(dx, dy);
    ink.closePath();
    ink.fillStyle = '#14181c';
    ink.strokeStyle = '#ffffff';
    ink.lineWidth = 1.5;
    ink.fill();
    ink.stroke();
    ink.restore();
  };
  const compose = async (shot) => {
    ink.fillStyle = '#c9d6d8';
    ink.fillRect(0, 0, whole.width, whole.height);
    window_(edge, left, names[0], await load(shot.left));
    window_(left.width + 2 * edge + 4, right, names[1], await load(shot.right));
    if (shot.mouse.shown) pointer(shot.mouse);
    return new Uint32Array(ink.getImageData(0, 0, whole.width, whole.height).data.buffer);
  };
  // With at most 256 colours (one is transparent) the file is three times smaller. Frequent colours stay exact; the
  // other colours are shades at the edges of letters.
  const counts = new Map();
  for (let index = 0; index < shots.length; index += 4) {
    for (const colour of await compose(shots[index])) counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const parts = (colour) => [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
  const distance = (one, other) => parts(one).reduce((sum, part, at) => sum + (part - parts(other)[at]) ** 2, 0);
  const palette = [];
  for (const [colour] of [...counts].sort((one, other) => other[1] - one[1])) {
    // Surfaces stay exact. Rare colours, such as that of a warning, need a place too, so shades beside a chosen colour
    // get none.
    const isSurface = palette.length < 40;
    if (palette.length < 255 && (isSurface || palette.every((other) => distance(colour, other) > 150))) palette.push(colour);
  }
  const near = new Map();
  const nearest = (colour) => palette.reduce((best, other) => (distance(colour, other) < distance(colour, best) ? other : best));
  const reduced = (colour) => {
    if (!near.has(colour)) near.set(colour, nearest(colour));
    return near.get(colour);
  };
  const frames = [];
  let before = null;
  for (const shot of shots) {
    const pixels = (await compose(shot)).map(reduced);
    const kept = new ImageData(whole.width, whole.height);
    const changed = new Uint32Array(kept.data.buffer);
    let [x0, y0, x1, y1] = [whole.width, whole.height, -1, -1];
    for (let at = 0; at < pixels.length; at += 1) {
      if (before && before[at] === pixels[at]) continue;
      changed[at] = pixels[at];
      const [x, y] = [at % whole.width, Math.floor(at / whole.width)];
      [x0, y0, x1, y1] = [Math.min(x0, x), Math.min(y0, y), Math.max(x1, x), Math.max(y1, y)];
    }
    before = pixels;
    if (x1 < 0) continue;
    // The container knows even places only.
    [x0, y0] = [x0 - (x0 % 2), y0 - (y0 % 2)];
    const part = Object.assign(document.createElement('canvas'), { width: x1 - x0 + 1, height: y1 - y0 + 1 });
    part.getContext('2d').putImageData(kept, -x0, -y0);
    frames.push({ at: shot.at, x: x0, y: y0, width: part.width, height: part.height, file: part.toDataURL('image/webp', 1).split(',')[1] });
  }
  return frames;
}

async function sharedSession(browser) {
  const daemon = await startDaemon();
  let terminal;
  try {
    const { session } = JSON.parse(daemon.cli('new', 'demo', '--name', 'harbour', '--cwd', daemon.folder, '--env', 'DEMO_PACE_MS=22', '--json'));
    const { page } = await visit(browser, daemon, { viewport: RIGHT, colorScheme: 'light', reducedMotion: 'reduce' });
    await page.goto(`${daemon.url}/#/s/${session}`);
    await page.getByText('The session begins here.').waitFor();
    terminal = await startTerminal(browser, daemon);
    await terminal.shows('$');
    const mouse = { shown: false, pressed: false, x: 0, y: 0 };
    const camera = film(terminal.page, page, mouse);
    const end = await play(terminal, page, session, mouse).finally(camera.stop).then(camera.length);
    const drawing = await browser.newPage();
    const names = ['a terminal', 'the page, in a browser'];
    const drawn = await drawing.evaluate(draw, { shots: camera.shots, left: LEFT, right: RIGHT, edge: EDGE, title: TITLE, whole: WHOLE, names });
    // The same speed on a busy machine: the filmed part never takes longer than this.
    const pace = Math.min(1, LONGEST_MS / end);
    const frames = drawn.map((frame, index) => {
      const next = drawn[index + 1]?.at;
      const ms = next === undefined ? (end - frame.at) * pace + REST_MS : (next - frame.at) * pace;
      return { ...frame, file: Buffer.from(frame.file, 'base64'), ms: Math.round(ms) };
    });
    const file = movingWebp({ ...WHOLE, frames });
    const seconds = frames.reduce((sum, { ms }) => sum + ms, 0) / 1000;
    const told = `${frames.length} frames, ${seconds.toFixed(1)} s, ${Math.round(file.length / 1000)} KB`;
    if (file.length > LARGEST) throw new Error(`the moving picture is too large: ${told}`);
    writeFileSync(join(FOLDER, 'shared-session.webp'), file);
    console.log(`shared-session: ${told}`);
  } finally {
    await terminal?.stop();
    await daemon.stop();
  }
}

// ---------------------------------------------------------------------------------------------------------------

const known = [...Object.keys(STILLS), 'shared-session'];
const wanted = process.argv.length > 2 ? process.argv.slice(2) : known;
const unknown = wanted.filter((name) => !known.includes(name));
if (unknown.length) throw new Error(`there is no picture \`${unknown[0]}\`; the pictures are ${known.join(', ')}`);
const browser = await startBrowser();
try {
  const still = wanted.filter((name) => name in STILLS);
  if (still.length) await stills(browser, still);
  if (wanted.includes('shared-session')) await sharedSession(browser);
} finally {
  await browser.close();
}
