// Log: what exactly happened?

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { get, useView } from "../api.js";
import { atText, moment, number } from "../format.js";
import { Empty, Failure, Page, Subject, Table } from "../parts.js";
import { Link, ThingLink, setQuery, urlOf, useRoute } from "../router.js";

function About({ row }) {
  const { kind, thing, what, jobs, position } = row;
  return html`${jobs ? html`<${ThingLink} kind="cluster" name=${thing}>${thing}, ${number(jobs)} jobs<//>` : html`<${Subject} kind=${kind} name=${thing} />`}
    ${what === "match" || what === "no match" ? html` <${ThingLink} kind="cycle" name=${position}>cycle<//>` : ""}`;
}

const COLUMNS = [
  { label: "Event", kind: "number", cell: (row) => html`<${ThingLink} kind="event" name=${row.position} />` },
  { label: "Time, UTC", cell: (row) => html`<${Link} to=${urlOf(location.pathname, { at: atText(Math.ceil(row.at / 1e6)) })} title="Show the page at this moment">${moment(row.at / 1e6)}<//>` },
  { label: "Subject", cell: (row) => html`<${About} row=${row} />` },
  { label: "What", cell: (row) => `${row.what} ${row.letter}` },
  { label: "Change", narrow: false, cell: (row) => (row.target ? `${row.source} → ${row.target}` : "") },
  { label: "Why", wide: true, cell: (row) => html`<span title=${row.text}>${row.text}</span>${row.place && html` <span class="quiet">${row.place}</span>`}` },
];

export function Log() {
  const { query } = useRoute();
  const filters = { about: query.about ?? "", text: query.text ?? "", before: query.before ?? "", priorities: query.priorities ? "true" : "" };
  const result = useView("log", filters);
  return html`<${Page} title="Log" result=${result} sentence=${(data) => data.sentence}>
    ${(data) => html`
      <form class="filters" onSubmit=${(event) => event.preventDefault()}>
        <label>Job, cluster, slot or stream <input value=${filters.about} size="18" placeholder="12.3, slot1@host, pool" onChange=${(event) => setQuery({ about: event.target.value.trim(), before: "" })} /></label>
        <label>Contains <input type="search" value=${filters.text} size="16" onChange=${(event) => setQuery({ text: event.target.value, before: "" })} /></label>
        <label><input type="checkbox" checked=${!!query.priorities} onChange=${(event) => setQuery({ priorities: event.target.checked ? "1" : "", before: "" })} /> also updates of priorities</label>
        ${filters.before && html`<button type="button" onClick=${() => setQuery({ before: "" })}>Newest events</button>`}
      </form>
      <${Events} key=${JSON.stringify([filters, query.at])} data=${data} filters=${filters} at=${query.at} />`}
  <//>`;
}

function Events({ data, filters, at }) {
  const [older, setOlder] = useState({ rows: [], before: null });
  const [error, setError] = useState(null);
  const before = older.before ?? data.before;
  useEffect(() => setError(null), [before]);
  const more = () => get("/overview/log", { ...filters, at, before }).then(
    (page) => setOlder({ rows: [...older.rows, ...page.rows], before: page.before }), setError);
  const first = older.rows.length ? data.rows.filter((row) => row.position > older.rows[0].position) : data.rows;
  const rows = [...first, ...older.rows];
  return html`
    ${rows.length ? html`<${Table} caption="Events, newest first" columns=${COLUMNS} rows=${rows} keyOf=${(row, index) => `${row.position} ${index}`} />`
      : html`<${Empty}><p>No event ${filters.text ? `contains “${filters.text}”` : "is here"}${before ? " among those that were read" : ""}.</p><//>`}
    ${error && html`<${Failure} error=${error} />`}
    ${before > 0 && html`<p><button type="button" onClick=${more}>Show older events</button></p>`}`;
}
