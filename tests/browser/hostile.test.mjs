// A hostile web page in the browser of a logged-in owner reaches nothing of the daemon.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startBrowser, startDaemon, startForeignSite } from './harness.mjs';

let daemon;
let foreign;
let browser;
let context;
let victim;

before(async () => {
  daemon = await startDaemon();
  foreign = await startForeignSite();
  browser = await startBrowser(['evil.example', 'rebound.example']);
  context = await browser.newContext();
  // The owner is logged in: the browser has the cookie, which ports share.
  const page = await context.newPage();
  await page.goto(daemon.ticketLink());
  await page.getByRole('link', { name: 'New session' }).first().waitFor();
  victim = daemon.newSession('hello');
});

after(async () => {
  await browser?.close();
  await foreign?.stop();
  await daemon?.stop();
});

/** Everything a page can try. Runs inside that page and returns what was reached. */
async function attack({ target, session }) {
  const reached = [];
  const command = JSON.stringify({ id: 'evil-1', name: 'prompt', content: [{ type: 'text', text: 'evil' }] });
  const spec = JSON.stringify({ id: 'evil-2', spec: { agent: 'demo', cwd: '/' } });
  const tries = [
    ['GET', '/api/v1/sessions'], ['GET', `/api/v1/sessions/${session}/entries`], ['GET', '/metrics'],
    ['GET', '/openapi.json'], ['POST', '/api/v1/sessions', spec], ['POST', `/api/v1/sessions/${session}/commands`, command],
    ['DELETE', `/api/v1/sessions/${session}`], ['POST', '/api/v1/tickets', '{}'],
  ];
  for (const [method, path, body] of tries) {
    for (const mode of ['cors', 'no-cors']) {
      for (const type of ['application/json', 'text/plain']) {
        try {
          const headers = body ? { 'Content-Type': type } : {};
          const answer = await fetch(target + path, { method, mode, body, headers, credentials: 'include' });
          // An opaque answer shows nothing; its effect is checked from outside.
          if (answer.type !== 'opaque' && answer.ok) reached.push(`${method} ${path}`);
        } catch {
          // Blocked.
        }
      }
    }
  }
  const opened = (make, good, bad) =>
    new Promise((done) => {
      try {
        const thing = make();
        thing[good] = () => done(true);
        thing[bad] = () => done(false);
        setTimeout(() => done(false), 3000);
      } catch {
        done(false);
      }
    });
  const socket = target.replace('http', 'ws') + '/ws';
  if (await opened(() => new WebSocket(socket), 'onopen', 'onerror')) reached.push('WebSocket');
  if (await opened(() => new EventSource(`${target}/api/v1/events`, { withCredentials: true }), 'onopen', 'onerror')) {
    reached.push('EventSource');
  }
  const element = (name, path) => () => {
    const made = document.createElement(name);
    made.src = target + path;
    document.body.append(made);
    return made;
  };
  if (await opened(element('script', '/api/v1/sessions'), 'onload', 'onerror')) reached.push('script');
  if (await opened(element('img', '/api/v1/sessions'), 'onload', 'onerror')) reached.push('img');
  return reached;
}

/** The owner's view afterwards: the one session, untouched. */
function assertUntouched() {
  const sessions = daemon.sessions();
  assert.deepEqual(sessions.map((session) => session.session), [victim]);
  assert.ok(!daemon.cli('export', victim).includes('evil'), 'a foreign page wrote into the session');
}

for (const [name, origin] of [
  ['a page on another local port', () => `http://127.0.0.1:${foreign.port}`],
  ['a page on another origin', () => `http://evil.example:${foreign.port}`],
]) {
  // covers: 002-005
  test(`${name} reaches nothing`, async () => {
    const page = await context.newPage();
    await page.goto(origin());
    const reached = await page.evaluate(attack, { target: daemon.url, session: victim });
    assert.deepEqual(reached, []);
    assertUntouched();
  });

  test(`${name} cannot frame ours`, async () => {
    const page = await context.newPage();
    await page.goto(origin());
    const shown = await page.evaluate(async (target) => {
      const frame = document.createElement('iframe');
      frame.src = target;
      document.body.append(frame);
      await new Promise((loaded) => (frame.onload = loaded));
      return frame.contentDocument === null;
    }, daemon.url);
    assert.ok(shown, 'the frame is not ours to look into');
    const inside = page.frames().at(-1);
    assert.equal(await inside.getByText('Portolan').count().catch(() => 0), 0);
  });

  test(`a form on ${name} changes nothing`, async () => {
    const page = await context.newPage();
    await page.goto(origin());
    await page.evaluate(({ target, session }) => {
      const form = document.createElement('form');
      form.method = 'post';
      form.enctype = 'text/plain';
      form.action = `${target}/api/v1/sessions/${session}/commands`;
      const field = document.createElement('input');
      field.name = '{"id":"evil-3","name":"prompt","content":[{"type":"text","text":"evil';
      field.value = '"}]}';
      form.append(field);
      document.body.append(form);
      form.submit();
    }, { target: daemon.url, session: victim });
    await page.waitForLoadState();
    assertUntouched();
  });
}

test('a name that was rebound to loopback is refused on every path', async () => {
  const page = await context.newPage();
  const rebound = `http://rebound.example:${daemon.port}`;
  for (const path of ['/', '/healthz', '/api/v1/sessions', '/metrics']) {
    const answer = await page.goto(rebound + path);
    assert.ok(answer.status() >= 400, `${path} was answered with ${answer.status()}`);
  }
  const reached = await page.evaluate(attack, { target: rebound, session: victim });
  assert.deepEqual(reached, []);
  assertUntouched();
});

test('the cookie alone gives no access, even on our own page', async () => {
  const page = await context.newPage();
  await page.goto(daemon.url);
  const statuses = await page.evaluate(async () => {
    const asked = ['/api/v1/sessions', '/api/v1/agents', '/metrics'].map((path) => fetch(path, { credentials: 'include' }));
    return (await Promise.all(asked)).map((answer) => answer.status);
  });
  assert.deepEqual(statuses, [401, 401, 401]);
});
