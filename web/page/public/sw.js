// Caches the page's own files, so that the page opens without a connection and can say so. Never caches a response of
// the API: the content of a session stays in the daemon.

const CACHE = "portolan-shell";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  const ours = url.origin === self.location.origin && event.request.method === "GET";
  const shell = url.pathname === "/" || url.pathname.startsWith("/assets/") || /^\/(icon|manifest)/.test(url.pathname);
  if (!ours || !shell) return;
  event.respondWith(url.pathname.startsWith("/assets/") ? kept(event.request) : fresh(event.request));
});

// A name under /assets/ holds the digest of its file, so that file never changes.
async function kept(request) {
  const cache = await caches.open(CACHE);
  const found = await cache.match(request);
  return found ?? remember(cache, request);
}

// The rest is fetched each time; the cache is for when the server does not answer.
async function fresh(request) {
  const cache = await caches.open(CACHE);
  try {
    return await remember(cache, request);
  } catch (lost) {
    const found = await cache.match(request);
    if (found) return found;
    throw lost;
  }
}

async function remember(cache, request) {
  const answer = await fetch(request);
  if (answer.ok) await cache.put(request, answer.clone());
  // A new version leaves the files of the old version behind: bound their number.
  const names = await cache.keys();
  if (names.length > 200) await Promise.all(names.slice(0, 100).map((name) => cache.delete(name)));
  return answer;
}

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil((async () => {
    const open = await self.clients.matchAll({ type: "window" });
    if (open[0]) return open[0].focus();
    return self.clients.openWindow("/#/inbox");
  })());
});
