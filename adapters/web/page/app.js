// The page: the header with the places and the moment, and the place that the URL names.

import { html, render, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { caller, loadCaller, setToken, tokenNeeded, tokens } from "./api.js";
import { shortcuts, useKeys } from "./keys.js";
import { Failure } from "./parts.js";
import { Link, PLACES, urlOf, useRoute } from "./router.js";
import { Search } from "./search.js";
import { setting, useStore } from "./store.js";
import { TimeControl, span } from "./time.js";
import { Pool } from "./places/pool.js";

const NAMES = { pool: "Pool", jobs: "Jobs", shares: "Shares", machines: "Machines", log: "Log" };
const THINGS = new Set(["job", "cluster", "slot", "machine", "user", "group", "cycle", "event"]);
// Places other than the first are loaded when they are opened.
const LOADERS = {
  jobs: () => import("./places/jobs.js").then((module) => module.Jobs),
  shares: () => import("./places/shares.js").then((module) => module.Shares),
  machines: () => import("./places/machines.js").then((module) => module.Machines),
  log: () => import("./places/log.js").then((module) => module.Log),
  thing: () => import("./places/thing.js").then((module) => module.Thing),
};
const places = { pool: Pool };

export const theme = setting("theme", "");

function usePlace(name) {
  const [, setLoaded] = useState(0);
  const [error, setError] = useState(null);
  useEffect(() => {
    if (places[name] || !LOADERS[name]) return;
    LOADERS[name]().then((place) => { places[name] = place; setLoaded((count) => count + 1); }, setError);
  }, [name]);
  return [places[name], error];
}

function App() {
  const { place, name } = useRoute();
  const isThing = THINGS.has(place);
  const [Place, error] = usePlace(isThing ? "thing" : place);
  const [help, setHelp] = useState(false);
  const reason = useStore(tokenNeeded), token = useStore(tokens);
  useKeys(() => setHelp(true));
  useEffect(() => { loadCaller().catch(() => {}); }, [token]);
  return html`
    <a class="skip" href="#main">Skip to the content</a>
    <${Header} place=${placeOf(place)} onHelp=${() => setHelp(true)} />
    <main id="main" tabindex="-1">${error ? html`<${Failure} error=${error} />`
      : Place ? html`<${Place} key=${`${place}/${name}/${token}`} kind=${place} name=${name} />` : ""}</main>
    ${reason && html`<${TokenDialog} reason=${reason} />`}
    ${help && html`<${Help} onClose=${() => setHelp(false)} />`}`;
}

const PLACE_OF = { job: "jobs", cluster: "jobs", slot: "pool", machine: "machines", user: "shares", group: "shares", cycle: "log", event: "log" };
const placeOf = (place) => PLACE_OF[place] ?? place;

function Header({ place, onHelp }) {
  const user = useStore(caller), log = useStore(span), chosen = useStore(theme);
  useEffect(() => {
    if (chosen) document.documentElement.dataset.theme = chosen;
    else delete document.documentElement.dataset.theme;
  }, [chosen]);
  const isDark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  return html`<header>
    <div class="top">
      <${Link} to=${urlOf("/")} class="brand">Poolbook${log?.name && html` <span class="quiet">${log.name}</span>`}<//>
      <nav aria-label="Places">${PLACES.map((each) => html`
        <${Link} key=${each} to=${urlOf(each === "pool" ? "/" : `/${each}`)} aria-current=${each === place ? "page" : undefined}>${NAMES[each]}<//>`)}</nav>
      <${Search} />
      <button type="button" class="plain" aria-label=${isDark ? "Light colours" : "Dark colours"} title=${isDark ? "Light colours" : "Dark colours"}
        onClick=${() => theme.set(isDark ? "light" : "dark")}>${isDark ? "☀" : "☾"}</button>
      <button type="button" class="plain" aria-label="Keys" title="Keys" onClick=${onHelp}>?</button>
      ${user && html`<button type="button" class="plain user" onClick=${() => tokenNeeded.set("A token makes you another user of this page.")}>
        ${user.authenticated ? user.user : "Sign in"}</button>`}
    </div>
    <${TimeControl} />
  </header>`;
}

function useDialog() {
  const dialog = useRef(null);
  useEffect(() => { dialog.current.showModal(); }, []);
  return dialog;
}

function TokenDialog({ reason }) {
  const dialog = useDialog();
  const [text, setText] = useState("");
  const submit = (event) => {
    event.preventDefault();
    setToken(text);
  };
  return html`<dialog ref=${dialog} aria-labelledby="token-title" onClose=${() => tokenNeeded.set("")}><form onSubmit=${submit}>
    <h2 id="token-title">Token</h2>
    <p>${reason}</p>
    <p><code>poolbook token create</code> creates a token. This browser keeps it until the tab is closed.</p>
    <label>Token <input type="password" autocomplete="off" size="40" value=${text} onInput=${(event) => setText(event.target.value)} /></label>
    <p class="buttons"><button type="button" onClick=${() => dialog.current.close()}>Cancel</button>
      <button type="submit" class="main">Use the token</button></p></form></dialog>`;
}

const KEYS = [
  ["/", "search jobs, slots, users and events"], ["j, k", "next and previous row"], ["Enter", "open the row"],
  ["1 to 5", "Pool, Jobs, Shares, Machines, Log"], [", and .", "earlier and later"], ["n", "now"], ["?", "this list"],
];

function Help({ onClose }) {
  const dialog = useDialog();
  const enabled = useStore(shortcuts);
  return html`<dialog ref=${dialog} onClose=${onClose} aria-labelledby="keys-title">
    <h2 id="keys-title">Keys</h2>
    <dl class="keys">${KEYS.map(([key, text]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl>
    <label><input type="checkbox" checked=${enabled === "on"} onChange=${(event) => shortcuts.set(event.target.checked ? "on" : "off")} /> use these keys</label>
    <p class="buttons"><button type="button" class="main" onClick=${() => dialog.current.close()}>Close</button></p></dialog>`;
}

const page = document.getElementById("page");
page.replaceChildren();
render(html`<${App} />`, page);
