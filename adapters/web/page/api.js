// Requests to the service, and views that follow the log.

import { useEffect, useState } from "./vendor/htm-preact.js";
import { store } from "./store.js";
import { useAt } from "./router.js";

const BASE = "/api/v1";
const RETRY_MS = 2000;

export const tokenNeeded = store("");  // why a token is needed; empty: it is not
export const connection = store({ state: "connecting", at: Date.now() });  // connecting, live, past, lost or paused
export const tokens = store(0);  // how often the token was replaced
export const caller = store(null);  // the answer of /whoami

export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let token = "";
try { token = sessionStorage.getItem("poolbook.token") ?? ""; } catch { /* not allowed */ }

export function setToken(text) {
  token = text.trim();
  try { sessionStorage.setItem("poolbook.token", token); } catch { /* lasts until the page is closed */ }
  tokenNeeded.set("");
  tokens.set(tokens.get() + 1);
}

async function send(path, options = {}) {
  const headers = { ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(BASE + path, { ...options, headers, cache: "no-store" });
  if (response.ok) return response;
  let message = `${response.status} ${response.statusText}`;
  try { message = (await response.json()).message ?? message; } catch { /* not JSON */ }
  if (response.status === 401) tokenNeeded.set(message);
  throw new Problem(response.status, message);
}

const search = (parameters) =>
  new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value != null)).toString();

export async function get(path, parameters = {}, signal = undefined) {
  return (await send(`${path}?${search(parameters)}`, { signal })).json();
}

export async function post(path, body) {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID?.() ?? String(Math.random()) };
  return (await send(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

export async function loadCaller() {
  caller.set(await get("/whoami"));
}

// Return a document with the values of a patch; parts that did not change are shared with the old one.
export function patched(document, changes) {
  const fresh = new Set();
  const copy = (part) => {
    if (fresh.has(part)) return part;
    const copied = Array.isArray(part) ? [...part] : { ...part };
    fresh.add(copied);
    return copied;
  };
  for (const [path, value] of changes) {
    if (!path.length) return value;
    let part = document = copy(document);
    for (const key of path.slice(0, -1)) part = part[key] = copy(part[key]);
    part[path.at(-1)] = value;
  }
  return document;
}

// Read a stream of views, and call `update` with each document, until the signal.
async function stream(view, parameters, signal, update) {
  const response = await send(`/overview/live?${search({ view, ...parameters })}`, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "", document = null;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the service has closed the connection");
    connection.set({ state: "live", at: Date.now() });
    text += value;
    const messages = text.split("\n\n");
    text = messages.pop();
    for (const message of messages) {
      const line = message.split("\n").find((each) => each.startsWith("data: "));
      if (!line) continue;
      const content = JSON.parse(line.slice(6));
      document = "whole" in content ? content.whole : patched(document, content.set);
    }
    if (document !== null) update(document);
  }
}

// Follow a view until the returned function is called. A page in the background does not update.
function follow(view, parameters, update, fail) {
  let control = null, timer = 0, stopped = false;
  const start = async () => {
    control = new AbortController();
    const { signal } = control;
    try {
      await stream(view, parameters, signal, update);
    } catch (error) {
      if (signal.aborted || stopped) return;
      const isLost = !(error instanceof Problem);
      if (isLost) connection.set({ state: "lost", at: connection.get().at });
      fail(error);
      if (isLost || error.status >= 500 || error.status === 429) timer = setTimeout(start, RETRY_MS);
    }
  };
  const stop = () => {
    clearTimeout(timer);
    control?.abort();
  };
  const show = () => {
    stop();
    if (document.hidden) connection.set({ state: "paused", at: connection.get().at });
    else start();
  };
  document.addEventListener("visibilitychange", show);
  if (!document.hidden) start();
  return () => {
    stopped = true;
    stop();
    document.removeEventListener("visibilitychange", show);
  };
}

// A view of the pool, now or at the moment that the page shows. While another moment is loaded, the last one is shown.
export function useView(view, parameters = {}) {
  const at = useAt();
  const key = JSON.stringify([view, parameters]);
  const [result, setResult] = useState({});
  useEffect(() => {
    const update = (data) => setResult({ key, data });
    const fail = (error) => setResult((before) => ({ key, error, data: before.key === key ? before.data : undefined }));
    setResult((before) => (before.key === key ? { ...before, error: undefined, loading: true } : { key, loading: true }));
    if (!at) return follow(view, parameters, update, fail);
    const control = new AbortController();
    const load = async () => {
      try {
        const data = await get(`/overview/${view}`, { ...parameters, at }, control.signal);
        connection.set({ state: "past", at: Date.now() });
        update(data);
      } catch (error) {
        if (!control.signal.aborted) fail(error);
      }
    };
    const timer = setTimeout(load, 60);  // the slider moves through many moments
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [key, at]);
  return result.key === key ? result : {};
}
