/** Starts the page. */

import { mount } from "svelte";
import App from "./App.svelte";
import "./app.css";
import { listenForKeys } from "./parts/keys.svelte.ts";
import { watchRequests } from "./state/attention.svelte.ts";
import { daemon } from "./state/daemon.svelte.ts";
import { link } from "./state/link.svelte.ts";
import { route } from "./state/route.svelte.ts";
import { settings } from "./state/settings.svelte.ts";

settings.apply();
await link.start();
route.start();
daemon.start();
watchRequests();
listenForKeys();
const target = document.getElementById("app");
if (target) mount(App, { target });
if ("serviceWorker" in navigator && import.meta.env.PROD) navigator.serviceWorker.register("/sw.js").catch(() => {});
