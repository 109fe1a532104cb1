// The page of one job, cluster, slot, machine, user, group or cycle: why it is in its state, and its history.

import { html } from "../vendor/htm-preact.js";
import { useView } from "../api.js";
import { moment, number } from "../format.js";
import { Timeline } from "../charts/timeline.js";
import { Actions } from "../actions.js";
import { Bar, Page, Sentence, State, Table, Value } from "../parts.js";
import { setQuery, useRoute } from "../router.js";

const TITLES = { job: "Job", cluster: "Cluster", slot: "Slot", machine: "Machine", user: "User", group: "Group", cycle: "Cycle", event: "Event" };

export function Thing({ kind, name }) {
  const { query } = useRoute();
  const result = useView("thing", { kind, name, offset: query.offset ?? "" });
  return html`<${Page} title=${`${TITLES[kind]} ${name}`} result=${result} sentence=${(data) => data.sentences[0]}>
    ${(data) => html`
      <p class="identity"><b>${TITLES[kind]} ${name}</b>${data.state && html` <${State} name=${data.state} />`}
        ${!query.at && html`<${Actions} kind=${kind} name=${name} version=${result} />`}</p>
      <${Answer} sentences=${data.sentences.slice(1)} />
      ${data.bar && html`<p><${Bar} label=${`Cluster ${name}`} total=${data.bar.total} parts=${Object.entries(data.bar.jobs)} /></p>`}
      <dl class="facts">${data.facts.map((fact) => html`<div key=${`${fact.label} ${fact.value}`}><dt>${fact.label}</dt>
        <dd><${Value} kind=${fact.kind} value=${fact.value} /></dd></div>`)}</dl>
      ${data.timeline?.lanes.length ? html`<${Timeline} timeline=${data.timeline} />` : ""}
      ${data.tables.map((table) => html`<${Related} key=${table.caption} table=${table} offset=${Number(query.offset ?? 0)} />`)}
      <${History} steps=${data.history} />`}
  <//>`;
}

const Answer = ({ sentences }) => sentences.length ? html`
  <ul class="answer">${sentences.map((sentence) => html`<li key=${sentence}><${Sentence} text=${sentence} /></li>`)}</ul>` : "";

function Related({ table, offset }) {
  const columns = table.columns.map(([label, kind], index) => ({ label, kind, index, wide: label === "Why" }));
  const end = offset + table.rows.length;
  return html`<section><h2>${table.caption}</h2>
    <${Table} caption=${table.caption} columns=${columns} rows=${table.rows} />
    ${table.total > table.rows.length && html`<p class="pages">Rows ${number(offset + 1)} to ${number(end)} of ${number(table.total)}
      ${offset > 0 && html`<button type="button" onClick=${() => setQuery({ offset: String(Math.max(0, offset - 500)) })}>Previous</button>`}
      ${end < table.total && html`<button type="button" onClick=${() => setQuery({ offset: String(end) })}>Next</button>`}</p>`}
  </section>`;
}

function History({ steps }) {
  if (!steps.length) return "";
  return html`<section><h2>History</h2><ol class="history">${steps.map((step, index) => html`
    <li key=${`${step.position} ${index}`} data-row><time>${moment(step.at / 1e6)}</time>
      ${step.evidence === step.text ? html`<span>${step.text}</span>` : html`<details><summary>${step.text}</summary><p>${step.evidence}</p></details>`}
    </li>`)}</ol></section>`;
}
