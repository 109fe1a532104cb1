// The URL is the state of the page: the place, the thing, filters, and the moment (?at=2027-01-15T08:00:00Z).

import { html } from "./vendor/htm-preact.js";
import { store, useStore } from "./store.js";

export const PLACES = ["pool", "jobs", "shares", "machines", "log"];

function read() {
  const [first, ...rest] = location.pathname.split("/").filter(Boolean).map(decodeURIComponent);
  return { place: first ?? "pool", name: rest.join("/"), query: Object.fromEntries(new URLSearchParams(location.search)) };
}

export const route = store(read());
addEventListener("popstate", () => route.set(read()));

export const useRoute = () => useStore(route);
export const useAt = () => useRoute().query.at ?? "";

// The URL of a path with its own parameters; the moment stays the same.
export function urlOf(path, query = {}) {
  const { at } = route.get().query;
  const entries = Object.entries(at && !("at" in query) ? { ...query, at } : query).filter(([, value]) => value);
  const text = new URLSearchParams(entries).toString();
  return text ? `${path}?${text}` : path;
}

export const pathOf = (kind, name) =>
  `/${kind}/${encodeURIComponent(name).replaceAll("%40", "@")}`;

export function go(url, replace = false) {
  history[replace ? "replaceState" : "pushState"](null, "", url);
  route.set(read());
}

// Change parameters of this page, without a new entry in the browser's history.
export function setQuery(changes) {
  const { at, ...query } = { ...route.get().query, ...changes };
  go(urlOf(location.pathname, { ...query, at }), true);
}

export function Link({ to, children, ...others }) {
  const follow = (event) => {
    if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to);
    scrollTo(0, 0);
  };
  return html`<a href=${to} onClick=${follow} ...${others}>${children}</a>`;
}

// A link to the page of a thing: a job, slot, user ...
export function ThingLink({ kind, name, children, ...others }) {
  return html`<${Link} to=${urlOf(pathOf(kind, String(name)))} ...${others}>${children ?? name}<//>`;
}
