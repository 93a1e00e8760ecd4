// A real daemon and a real Chromium for the tests in this folder. Everything is on loopback and in a folder of its own,
// and everything that was started is ended by its process id.

import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const BINARY = process.env.PORTOLAN_BIN ?? new URL('../../target/debug/portolan', import.meta.url).pathname;
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';

/** Starts a daemon on a free port and waits until it says that it is ready. */
export async function startDaemon() {
  const home = mkdtempSync(join(tmpdir(), 'portolan-browser-'));
  const env = { ...process.env, PORTOLAN_HOME: home };
  const child = spawn(BINARY, ['up', '--no-open', '--listen', '127.0.0.1:0'], { env, stdio: 'ignore' });
  const cli = (...args) => execFileSync(BINARY, args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  const url = await until(() => JSON.parse(readFileSync(join(home, 'daemon.json'), 'utf8')).url);
  return {
    url,
    port: new URL(url).port,
    cli,
    ticketLink: () => JSON.parse(cli('open', '--json')).link,
    newSession: (prompt) => JSON.parse(cli('new', 'demo', prompt, '--json')).session,
    sessions: () => {
      const listed = JSON.parse(cli('ls', '--all', '--json'));
      return Array.isArray(listed) ? listed : listed.sessions;
    },
    async stop() {
      child.kill('SIGTERM');
      await new Promise((ended) => (child.exitCode === null ? child.once('exit', ended) : ended()));
      rmSync(home, { recursive: true, force: true });
    },
  };
}

/** A browser that reaches loopback only; `hosts` maps further names to it. */
export function startBrowser(hosts = []) {
  const rules = [...hosts.map((name) => `MAP ${name} 127.0.0.1`), 'MAP * ~NOTFOUND', 'EXCLUDE 127.0.0.1', 'EXCLUDE localhost'];
  return chromium.launch({
    executablePath: CHROMIUM,
    args: [
      '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync', `--host-resolver-rules=${rules.join(', ')}`,
    ],
  });
}

/** A web server of somebody else: an empty page on a port of its own. */
export async function startForeignSite() {
  const server = createServer((_, response) => {
    response.setHeader('Content-Type', 'text/html');
    response.end('<!doctype html><title>foreign</title>');
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  return { port: server.address().port, stop: () => new Promise((closed) => server.close(closed)) };
}

/** Waits until `look` gives something without an error, at most ten seconds. */
export async function until(look) {
  let last;
  for (let tries = 0; tries < 200; tries += 1) {
    try {
      const found = await look();
      if (found) return found;
    } catch (error) {
      last = error;
    }
    await new Promise((wait) => setTimeout(wait, 50));
  }
  throw last ?? new Error('it did not happen within ten seconds');
}
