/** How the page draws attention when nobody looks at it: title, badge, notification. All of these are local. */

import { daemon, type Waiting } from "./daemon.svelte.ts";
import { settings } from "./settings.svelte.ts";

/** Shows the number of open requests; called once, inside an effect. */
export function showCount(): void {
  const count = daemon.open.length;
  document.title = count ? `(${count}) Portolan` : "Portolan";
  const badge = navigator as Navigator & { setAppBadge?(count: number): Promise<void>; clearAppBadge?(): Promise<void> };
  (count ? badge.setAppBadge?.(count) : badge.clearAppBadge?.())?.catch(() => {});
}

export function watchRequests(): void {
  daemon.onOpened = (waiting) => {
    if (settings.notify && document.visibilityState === "hidden") notify(waiting).catch(() => {});
  };
}

async function notify({ key, session, request }: Waiting): Promise<void> {
  if (!("Notification" in window) || Notification.permission !== "granted") return;
  const name = daemon.summary(session)?.name || "A session";
  const { ask } = request;
  const body =
    ask.kind === "permission" ? `May I use ${ask.tool_name}?`
    : ask.kind === "question" ? (ask.questions[0]?.question ?? "A question")
    : ask.kind === "plan" ? "A plan waits for approval."
    : "A request waits for an answer.";
  const worker = await navigator.serviceWorker?.getRegistration();
  const options = { body, tag: key, icon: "/icon-192.png" };
  if (worker) await worker.showNotification(name, options);
  else new Notification(name, options);
}

/** Asks the browser for permission; returns whether notifications are allowed. */
export async function askToNotify(): Promise<boolean> {
  if (!("Notification" in window)) return false;
  return (await Notification.requestPermission()) === "granted";
}
