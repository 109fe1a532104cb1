// Shares: who gets what, and is it fair?

import { html, useMemo } from "../vendor/htm-preact.js";
import { useView } from "../api.js";
import { number } from "../format.js";
import { Histogram } from "../charts/histogram.js";
import { ShareHistory } from "../charts/shares.js";
import { Empty, Missing, Page, Table } from "../parts.js";
import { ThingLink } from "../router.js";
import { LoadChart } from "./pool.js";

const shown = (value) => (value === null || value === undefined ? "" : number(value));

const COLUMNS = [
  { label: "User or group", cell: (row) => html`<${ThingLink} kind=${row.is_group ? "group" : "user"} name=${row.name} />${row.is_group && html` <span class="quiet">group</span>`}` },
  { label: "Used and entitled to", wide: true, cell: (row) => html`<${Use} row=${row} />` },
  { label: "Used, cores", kind: "number", cell: (row) => number(row.used) },
  { label: "Entitled to, cores", kind: "number", cell: (row) => shown(row.entitled) },
  { label: "Idle jobs", kind: "number", narrow: false, cell: (row) => number(row.waiting) },
  { label: "Priority, lower is better", kind: "number", narrow: false, cell: (row) => shown(row.priority) },
  { label: "Preemptions won / lost, 24 h", kind: "number", narrow: false, cell: (row) => `${number(row.won)} / ${number(row.lost)}` },
];

let largest = 1;

// Use as a bar, with a mark at the entitlement.
function Use({ row }) {
  const text = `${number(row.used)} cores used${row.entitled === null ? "" : `, entitled to ${number(row.entitled)}`}`;
  return html`<span class="use" role="img" aria-label=${text} title=${text}>
    <span style=${{ width: `${(100 * row.used) / largest}%` }}></span>
    ${row.entitled !== null && html`<i style=${{ left: `${Math.min(100, (100 * row.entitled) / largest)}%` }}></i>`}</span>`;
}

export function Shares() {
  const result = useView("shares");
  return html`<${Page} title="Shares" result=${result} sentence=${({ shares }) => shares.sentence}>
    ${({ shares, history, waits, load }) => {
      largest = Math.max(1, ...shares.shares.map((row) => Math.max(row.used, row.entitled ?? 0)));
      return html`
        <${Missing} texts=${shares.missing} />
        ${shares.shares.length ? html`<section><h2>Use and entitlement</h2><${Table} caption="Shares of users and groups" columns=${COLUMNS} rows=${shares.shares} keyOf=${(row) => row.name} /></section>`
          : html`<${Empty}><p>No user has jobs or a priority at this time.</p><//>`}
        <${ShareHistory} history=${history} shares=${shares.shares} />
        <div class="columns"><${Histogram} waits=${waits} /><${LoadChart} load=${load} ended=${history.times.at(-1)} title="Queue" onlyQueue /></div>`;
    }}
  <//>`;
}
