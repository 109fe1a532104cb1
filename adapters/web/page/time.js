// Time is a control: the slider selects now or a moment of the log, and the whole page shows that moment.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { connection, get } from "./api.js";
import { atText, clock, day, duration, moment, secondsOf } from "./format.js";
import { setQuery, useAt } from "./router.js";
import { store, useStore } from "./store.js";

export const span = store(null);  // the answer of /overview/span

export const loadSpan = () => get("/overview/span").then((answer) => span.set(answer));

export const show = (seconds) => {
  const log = span.get();
  setQuery({ at: !log || seconds >= log.ended / 1e6 ? "" : atText(Math.max(seconds, Math.ceil(log.began / 1e6))) });
};

// Move by a fraction of the log's duration.
export function step(direction) {
  const log = span.get();
  if (!log) return;
  const { at } = Object.fromEntries(new URLSearchParams(location.search));
  const now = at ? secondsOf(at) : log.ended / 1e6;
  show(Math.round(now + (direction * Math.max(60, (log.ended - log.began) / 1e6 / 50))));
}

// Show the moment that a user has typed.
function choose(field, before) {
  const seconds = secondsOf(`${field.value.trim().replace(" ", "T")}Z`);
  if (Number.isNaN(seconds)) field.value = moment(before);
  else show(seconds);
}

export function TimeControl() {
  const at = useAt(), log = useStore(span);
  useEffect(() => { loadSpan().catch(() => {}); }, [at]);
  if (!log) return html`<div class="time"></div>`;
  const began = Math.ceil(log.began / 1e6), ended = Math.floor(log.ended / 1e6);
  const value = at ? secondsOf(at) : ended;
  const text = at ? `at ${clock(value)}, ${day(value)}` : log.imported ? "at the end" : "now";
  return html`<div class=${`time ${at ? "past" : ""}`}>
    <label class="moment"><span class="hidden">Moment, UTC</span>
      <input value=${moment(value)} size="19" spellcheck=${false} title="A moment, such as ${moment(began)}"
        onChange=${(event) => choose(event.target, value)} /> UTC</label>
    <input type="range" aria-label="Moment of the log" aria-valuetext=${`${moment(value)} UTC`} min=${began} max=${Math.max(ended, began + 1)}
      step=${Math.max(1, Math.round((ended - began) / 2000))} value=${value} onInput=${(event) => show(Number(event.target.value))} />
    <output>${text}</output>
    <button type="button" disabled=${!at} onClick=${() => show(Infinity)}>Now</button>
    <${Connection} />
  </div>`;
}

const WORDS = { live: "live", connecting: "connecting", past: "past", paused: "paused", lost: "connection lost" };

// Whether the page is live; if the connection is lost, the age of its data.
function Connection() {
  const { state, at } = useStore(connection);
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (state !== "lost") return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [state]);
  const age = state === "lost" ? `, data ${duration((Math.max(now, at) - at) / 1000)} old` : "";
  return html`<span class=${`connection ${state}`} role="status">${WORDS[state]}${age}</span>`;
}
