// The cores of users over time: a stacked area with entitlements as lines; beyond eight users, a small picture for each.

import { html, useMemo } from "../vendor/htm-preact.js";
import { moment, number } from "../format.js";
import { ChartData } from "../parts.js";
import { PALETTE } from "../states.js";
import { Lines } from "./lines.js";

const MOST_STACKED = 8;

// The sums of the first 1, 2, 3 ... rows.
function sums(rows) {
  let sum = rows[0]?.map(() => 0) ?? [];
  return rows.map((row) => (sum = sum.map((value, index) => value + row[index])));
}

// Areas from the highest sum down, so that each covers a part of the one before; then the entitlements, as dashed lines.
function stackedLines(history, entitled) {
  const areas = sums(history.used).map((values, index) => ({
    label: history.users[index], values, colour: PALETTE[index], fill: PALETTE[index],
  }));
  const limits = sums(history.users.map((user) => history.times.map(() => entitled.get(user) ?? 0)));
  const lines = limits.map((values, index) => ({
    label: index ? "" : "present entitlements, in the same order", values, colour: "--ink", dashed: true,
  }));
  return [...areas.reverse(), ...(entitled.size ? lines : [])];
}

export function ShareHistory({ history, shares }) {
  const entitled = useMemo(() => new Map(shares.filter((row) => row.entitled !== null && !row.is_group).map((row) => [row.name, row.entitled])), [shares]);
  const times = useMemo(() => history.times.map((at) => at / 1e6), [history]);
  const columns = [
    { label: "From, UTC", cell: (index) => moment(times[index]) },
    ...history.users.map((user, place) => ({ label: user, kind: "number", cell: (index) => number(history.used[place][index]) })),
  ];
  return html`<section><h2>Cores by user over time</h2>
    ${history.users.length === 0 ? html`<p class="quiet">No user had slots at this time.</p>`
      : history.users.length <= MOST_STACKED ? html`<${Stacked} history=${history} times=${times} entitled=${entitled} />`
      : html`<${Multiples} history=${history} times=${times} entitled=${entitled} />`}
    <${ChartData} caption="cores by user over time" columns=${columns} rows=${times.map((_, index) => index)} />
  </section>`;
}

function Stacked({ history, times, entitled }) {
  const lines = useMemo(() => stackedLines(history, entitled), [history, entitled]);
  return html`<${Lines} times=${times} lines=${lines} label="Cores by user over time, stacked" unit="cores" height=${220} />`;
}

function Multiples({ history, times, entitled }) {
  return html`<div class="multiples">${history.users.map((user, index) => html`
    <${Single} key=${user} user=${user} times=${times} used=${history.used[index]} entitled=${entitled.get(user)} />`)}</div>`;
}

function Single({ user, times, used, entitled }) {
  const lines = useMemo(() => [
    { label: "used", values: used, colour: PALETTE[0], fill: `${PALETTE[4]}99` },
    ...(entitled === undefined ? [] : [{ label: "entitled to", values: used.map(() => entitled), colour: "--ink", dashed: true }]),
  ], [used, entitled]);
  return html`<div><h3>${user}</h3><${Lines} times=${times} lines=${lines} label=${`Cores of ${user} over time`} unit="cores" height=${110} /></div>`;
}
