// How long jobs waited for their first start: a histogram with quantiles.

import { html } from "../vendor/htm-preact.js";
import { duration, number } from "../format.js";
import { ChartData } from "../parts.js";

const COLUMNS = [
  { label: "Waited less than", cell: ([label]) => label },
  { label: "Jobs", kind: "number", cell: ([, jobs]) => number(jobs) },
];

export function Histogram({ waits }) {
  const most = Math.max(1, ...waits.bins.map((bin) => bin.jobs));
  const rows = waits.bins.map((bin, index) => [
    bin.until === null ? `longer than ${duration(waits.bins[index - 1].until)}` : duration(bin.until), bin.jobs]);
  const quantiles = Object.entries(waits.quantiles);
  const inBin = (index) => quantiles.filter(([, seconds]) =>
    (waits.bins[index].until === null || seconds < waits.bins[index].until) && (index === 0 || seconds >= waits.bins[index - 1].until));
  return html`<section><h2>Waiting times</h2><p>${waits.sentence}</p>
    ${waits.jobs > 0 && html`<ol class="histogram">${rows.map(([label, jobs], index) => html`<li key=${label}>
      <span class="label">${waits.bins[index].until === null ? label : `< ${label}`}</span>
      <span class="column"><span style=${{ width: `${(60 * jobs) / most}%` }}></span><b>${jobs ? number(jobs) : ""}</b>
        ${inBin(index).map(([name, seconds]) => html`<em key=${name}>${name} ${duration(seconds)}</em>`)}</span>
    </li>`)}</ol>
    <${ChartData} caption="waiting times" columns=${COLUMNS} rows=${rows} />`}
  </section>`;
}
