// A real daemon and a real Chromium for the tests in this folder. Everything is on loopback and in a folder of its own,
// and everything that was started is ended by its process id.

import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

export const BINARY = process.env.PORTOLAN_BIN ?? new URL('../../target/debug/portolan', import.meta.url).pathname;
/** The pinned Claude Code and Codex; `cargo xtask test --stage browser` names them. */
const CLAUDE = process.env.PORTOLAN_CLAUDE;
const CODEX = process.env.PORTOLAN_CODEX;
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';

/** How long anything may take before a test gives up on it. Far longer than it should: machines are busy. */
export const PATIENCE_MS = 120_000;

/** Starts a daemon on a free port and waits until it says that it is ready. */
export async function startDaemon({ config = '' } = {}) {
  const home = mkdtempSync(join(tmpdir(), 'portolan-browser-'));
  const work = mkdtempSync(join(tmpdir(), 'portolan-work-'));
  const folder = join(work, 'harbour');
  mkdirSync(folder, { recursive: true });
  if (config) writeFileSync(join(home, 'portolan.toml'), config);
  const env = { ...process.env, PORTOLAN_HOME: home };
  const up = (port) => spawn(BINARY, ['up', '--no-open', '--listen', `127.0.0.1:${port}`], { env, stdio: 'ignore' });
  const gone = (process) => new Promise((ended) => (process.exitCode === null && process.signalCode === null ? process.once('exit', ended) : ended()));
  let child = up(0);
  const cli = (...args) => execFileSync(BINARY, args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  const url = await until(() => JSON.parse(readFileSync(join(home, 'daemon.json'), 'utf8')).url);
  const { port } = new URL(url);
  return {
    url,
    port,
    home,
    folder,
    cli,
    /** Ends the daemon as a power cut would. */
    async kill() {
      child.kill('SIGKILL');
      await gone(child);
    },
    /** Starts it again at the same address. */
    async restart() {
      child = up(port);
      await until(async () => (await fetch(`${url}/healthz`)).ok);
    },
    ticketLink: () => JSON.parse(cli('open', '--json')).link,
    newSession: (prompt) => JSON.parse(cli('new', 'demo', prompt, '--cwd', folder, '--json')).session,
    /** The number of the request that waits in a session. */
    request: (session) => String(JSON.parse(cli('show', session, '--json')).state.requests[0].request),
    sessions: () => {
      const listed = JSON.parse(cli('ls', '--all', '--json'));
      return Array.isArray(listed) ? listed : listed.sessions;
    },
    async stop() {
      // SIGTERM would leave agents running that outlive the daemon.
      child.kill('SIGINT');
      await gone(child);
      for (const made of [home, work]) rmSync(made, { recursive: true, force: true });
    },
  };
}

/** Starts a scripted model, with a folder that is the home of the agent. */
async function startModel(script) {
  const folder = mkdtempSync(join(tmpdir(), 'portolan-model-'));
  const file = join(folder, 'script.json');
  writeFileSync(file, JSON.stringify({ aside: { text: 'scripted' }, ...script }));
  const child = spawn(BINARY, ['scripted', file], { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout });
  const url = await new Promise((found, failed) => {
    lines.once('line', found);
    child.once('error', failed);
    child.once('exit', (code) => failed(new Error(`the scripted model ended with ${code}`)));
  });
  return {
    url,
    folder,
    async stop() {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGTERM');
        await new Promise((ended) => child.once('exit', ended));
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The part of a configuration that says how an agent is started. */
function agentConfig(name, program, env) {
  const text = JSON.stringify;
  return `[agents.${name}]\ncommand = [${text(program)}]\n[agents.${name}.env]\n`
    + Object.entries(env).map(([variable, value]) => `${variable} = ${text(value)}\n`).join('');
}

/** The real Claude Code, which talks to a scripted model and to nobody else. */
export async function startClaude(script) {
  if (!CLAUDE) throw new Error('PORTOLAN_CLAUDE does not name Claude Code; `cargo xtask test --stage browser` does');
  const { url, folder, stop } = await startModel(script);
  const env = {
    HOME: folder, ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'fake', CLAUDE_CODE_MAX_RETRIES: '1',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1', DISABLE_TELEMETRY: '1',
  };
  return {
    config: agentConfig('claude', CLAUDE, env),
    /** Talks to Claude Code without Portolan, as people do. */
    talk: (cwd, words) => execFileSync(CLAUDE, ['-p', words], { cwd, env: { PATH: process.env.PATH, ...env }, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }),
    stop,
  };
}

/** The real Codex, which talks to a scripted model and to nobody else. */
export async function startCodex(script) {
  if (!CODEX) throw new Error('PORTOLAN_CODEX does not name Codex; `cargo xtask test --stage browser` does');
  const { url, folder, stop } = await startModel(script);
  const home = join(folder, '.codex');
  mkdirSync(home);
  const rest = `check_for_update_on_startup = false\n[analytics]\nenabled = false\n[features]\nplugins = false\napps = false\n`
    + `unbounded_connection_retries = false\n[model_providers.scripted]\nname = "Scripted"\nbase_url = "${url}/v1"\n`
    + `wire_api = "responses"\nenv_key = "SCRIPTED_KEY"\nrequest_max_retries = 0\nstream_max_retries = 0\n`;
  const chosen = 'model = "gpt-5.5"\nmodel_provider = "scripted"\n';
  const write = (text) => writeFileSync(join(home, 'config.toml'), text);
  write(chosen + rest);
  return {
    config: agentConfig('codex', CODEX, { HOME: folder, CODEX_HOME: home, SCRIPTED_KEY: 'fake' }),
    /** From now on Codex uses the vendor's own model, which asks for a login. */
    needLogin: () => write(rest),
    stop,
  };
}

function switches(hosts) {
  const rules = [...hosts.map((name) => `MAP ${name} 127.0.0.1`), 'MAP * ~NOTFOUND', 'EXCLUDE 127.0.0.1', 'EXCLUDE localhost'];
  return [
    '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', `--host-resolver-rules=${rules.join(', ')}`,
  ];
}

/** A browser that reaches loopback only; `hosts` maps further names to it. */
export function startBrowser(hosts = []) {
  return chromium.launch({ executablePath: CHROMIUM, args: switches(hosts) });
}

/** A browser that keeps its login in `folder` and lets other tools drive it at `port`. */
export async function startPersistentBrowser(folder) {
  const context = await chromium.launchPersistentContext(folder, {
    executablePath: CHROMIUM, args: [...switches([]), '--remote-debugging-port=0'],
  });
  const port = await until(() => Number(readFileSync(join(folder, 'DevToolsActivePort'), 'utf8').split('\n')[0]));
  return { context, port };
}

/** A foreign web server: an empty page on a port of its own. */
export async function startForeignSite() {
  const server = createServer((_, response) => {
    response.setHeader('Content-Type', 'text/html');
    response.end('<!doctype html><title>foreign</title>');
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  return { port: server.address().port, stop: () => new Promise((closed) => server.close(closed)) };
}

/** A logged-in visitor, with every error of the page. */
export async function visit(browser, daemon, options = {}) {
  const { prepare: _, ...chosen } = options;
  const context = await browser.newContext(chosen);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await options.prepare?.(page);
  const faults = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
  await page.goto(daemon.ticketLink());
  await page.getByRole('link', { name: 'New session' }).or(page.getByRole('link', { name: 'New', exact: true })).first().waitFor();
  return { page, context, faults };
}

/**
 * Starts a daemon from a terminal on a machine with a screen, as people do, and returns the link that the daemon opens.
 * `script` provides the terminal; a replacement for the browser opener writes the link down.
 */
export async function startAtTerminal() {
  const folder = mkdtempSync(join(tmpdir(), 'portolan-terminal-'));
  const bin = join(folder, 'bin');
  const note = join(folder, 'link');
  mkdirSync(bin);
  writeFileSync(join(bin, 'xdg-open'), `#!/bin/sh\nprintf %s "$1" > '${note}.new' && mv '${note}.new' '${note}'\n`, { mode: 0o755 });
  const env = { ...process.env, PORTOLAN_HOME: join(folder, 'home'), PATH: `${bin}:${process.env.PATH}`, DISPLAY: ':0' };
  delete env.SSH_CONNECTION;
  const terminal = spawn('script', ['--quiet', '--command', `'${BINARY}' up --listen 127.0.0.1:0`, '/dev/null'], { env, stdio: ['pipe', 'ignore', 'ignore'] });
  const ended = new Promise((over) => terminal.once('exit', over));
  return {
    link: () => until(() => readFileSync(note, 'utf8')),
    async stop() {
      execFileSync(BINARY, ['down', '--now'], { env, stdio: ['ignore', 'ignore', 'inherit'] });
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A page in a browser that is not logged in. */
export async function stranger(browser) {
  const page = await (await browser.newContext()).newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  return page;
}

/** Waits until `look` returns something without an error. */
export async function until(look, patience = PATIENCE_MS) {
  let last;
  for (const deadline = Date.now() + patience; Date.now() < deadline;) {
    try {
      const found = await look();
      if (found) return found;
    } catch (error) {
      last = error;
    }
    await new Promise((wait) => setTimeout(wait, 50));
  }
  throw last ?? new Error(`it did not happen within ${patience / 1000} seconds`);
}

/**
 * A proxy between a page and the daemon's WebSocket. `change` may alter the daemon's frames; `hold` keeps the page's
 * commands back until `release`; `cut` ends the connection as a network does, and the page reconnects by itself.
 */
export function between({ change = (text) => text } = {}) {
  const open = new Set();
  let held = null;
  return {
    prepare: (page) =>
      page.routeWebSocket(/\/ws$/, (client) => {
        const server = client.connectToServer();
        open.add(client);
        client.onMessage((text) => (held && JSON.parse(text).type === 'command' ? held.push(() => server.send(text)) : server.send(text)));
        server.onMessage((text) => client.send(change(text)));
        client.onClose(() => {
          open.delete(client);
          server.close();
        });
      }),
    async cut() {
      for (const client of open) await client.close({ code: 1012 });
      open.clear();
    },
    hold() {
      held = [];
    },
    /** How many commands are held back. */
    held: () => held?.length ?? 0,
    release() {
      const all = held ?? [];
      held = null;
      for (const send of all) send();
    },
  };
}
