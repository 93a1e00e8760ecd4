// A real daemon, the scripted model, Claude Code and a real Chromium for the tests in this folder. Everything is on
// loopback and in folders of its own, and everything that was started is ended by its process id.

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const target = (path) => fileURLToPath(new URL(`../../target/debug/${path}`, import.meta.url));
const BINARY = process.env.PORTOLAN_BIN ?? target('portolan');
const CLAUDE = process.env.PORTOLAN_CLAUDE;
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';

/** How long anything may take before a test gives up on it. Far longer than it should: machines are busy. */
export const PATIENCE = 120_000;

/** Starts the scripted model with this script; gives its address. */
export async function startModel(script) {
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
  // What it tells of each request is for people; reading it keeps its pipe from filling up.
  return { url, stop: () => ended(child).then(() => rmSync(folder, { recursive: true, force: true })) };
}

/** Starts a daemon whose sessions are of `agent`; pages of `origins` may come. */
export async function startDaemon({ agent = 'demo', origins = [], model, environment = {} } = {}) {
  const home = mkdtempSync(join(tmpdir(), 'portolan-agui-'));
  const work = mkdtempSync(join(tmpdir(), 'portolan-work-'));
  const agentHome = mkdtempSync(join(tmpdir(), 'portolan-claude-'));
  const text = JSON.stringify;
  let config = `[listen]\naddress = "127.0.0.1:0"\n[agui]\nagent = ${text(agent)}\nfolder = ${text(work)}\norigins = ${text(origins)}\n`;
  if (agent === 'claude') {
    if (!CLAUDE || !existsSync(CLAUDE)) throw new Error('PORTOLAN_CLAUDE does not name Claude Code; `cargo xtask test --stage agui` does');
    config += `[agents.claude]\ncommand = [${text(CLAUDE)}]\n[agents.claude.env]\nHOME = ${text(agentHome)}\n`
      + `ANTHROPIC_BASE_URL = ${text(model)}\nANTHROPIC_API_KEY = "fake"\nCLAUDE_CODE_MAX_RETRIES = "1"\n`
      + 'CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = "1"\nDISABLE_AUTOUPDATER = "1"\nDISABLE_TELEMETRY = "1"\n';
  }
  writeFileSync(join(home, 'portolan.toml'), config);
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PORTOLAN_')));
  Object.assign(env, environment, { PORTOLAN_HOME: home });
  const child = spawn(BINARY, ['up', '--no-open'], { env, stdio: ['ignore', 'ignore', process.env.VERBOSE ? 'inherit' : 'ignore'] });
  const url = await until(() => JSON.parse(readFileSync(join(home, 'daemon.json'), 'utf8')).url);
  const token = await until(() => readFileSync(join(home, 'token'), 'utf8').trim());
  const headers = { Authorization: `Bearer ${token}` };
  return {
    url,
    token,
    headers,
    base: `${url}/agui`,
    work,
    /** Answers what an agent asks. */
    answer: (session, answer) =>
      fetch(`${url}/agui/api/sessions/${session}/tool-approval`, {
        method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' }, body: JSON.stringify(answer),
      }),
    /** A session whose agent takes prompts; its id is a thread. A busy machine may need longer for that than a run waits. */
    async session() {
      const response = await fetch(`${url}/api/v1/sessions`, {
        method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' },
        body: JSON.stringify({ id: randomUUID(), spec: { agent, cwd: work } }),
      });
      const made = await response.json();
      const session = made.session?.session ?? made.session;
      if (typeof session !== 'string') throw new Error(`no session was made: ${text(made)}`);
      await until(async () => ['connected', 'idle'].includes(await this.status(session)));
      return session;
    },
    /** Every session. */
    async sessions() {
      const sessions = await (await fetch(`${url}/api/v1/sessions`, { headers })).json();
      return Array.isArray(sessions) ? sessions : sessions.sessions;
    },
    /** What is in a session's log. */
    async entries(session) {
      const { entries } = await (await fetch(`${url}/api/v1/sessions/${session}/entries?limit=1000`, { headers })).json();
      return entries.map(({ event }) => event);
    },
    /** Where a session stands. */
    async status(session) {
      return (await this.sessions()).find((one) => one.session === session)?.status;
    },
    async stop() {
      await ended(child);
      for (const folder of [home, work, agentHome]) rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function ended(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  await new Promise((exited) => child.once('exit', exited));
}

/** The app that `npm run build` has made, on a port and so an origin of its own. */
export async function startApp() {
  const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' };
  const server = createServer((request, response) => {
    const path = new URL(request.url, 'http://app').pathname;
    const file = fileURLToPath(new URL(`dist${path === '/' ? '/index.html' : path}`, import.meta.url));
    if (!existsSync(file)) {
      response.writeHead(404).end();
      return;
    }
    response.setHeader('Content-Type', types[extname(file)] ?? 'application/octet-stream');
    response.end(readFileSync(file));
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    stop: () => new Promise((closed) => { server.close(closed); server.closeAllConnections(); }),
  };
}

/** A browser that reaches loopback only. */
export function startBrowser() {
  return chromium.launch({
    executablePath: CHROMIUM,
    args: [
      '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage',
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost',
    ],
  });
}

/** Waits until `look` gives something without an error. */
export async function until(look) {
  let last;
  for (const deadline = Date.now() + PATIENCE; Date.now() < deadline;) {
    try {
      const found = await look();
      if (found) return found;
    } catch (error) {
      last = error;
    }
    await new Promise((wait) => setTimeout(wait, 50));
  }
  throw last ?? new Error(`it did not happen within ${PATIENCE / 1000} seconds`);
}
