// Jobs: is my job running; if not, why?

import { html, useState } from "../vendor/htm-preact.js";
import { caller, get, useView } from "../api.js";
import { moment, number } from "../format.js";
import { Bar, Empty, Failure, FirstJob, Legend, Missing, Page, Table } from "../parts.js";
import { ThingLink, setQuery, useRoute } from "../router.js";
import { useStore } from "../store.js";
import { JOBS } from "../states.js";

const COLUMNS = [
  { label: "Cluster", cell: (bar) => html`<${ThingLink} kind="cluster" name=${bar.cluster} />` },
  { label: "Owner", cell: (bar) => html`<${ThingLink} kind="user" name=${bar.owner} />` },
  { label: "Batch", narrow: false, cell: (bar) => bar.batch },
  { label: "Jobs by status", cell: (bar) => html`<${Bar} label=${`Cluster ${bar.cluster}`} parts=${parts(bar.jobs)} total=${bar.total} />` },
  { label: "Jobs", kind: "number", cell: (bar) => number(bar.total) },
  { label: "Why jobs wait or are held", wide: true, wrap: true, cell: (bar) => bar.reason },
  { label: "Submitted, UTC", narrow: false, cell: (bar) => (bar.submitted ? moment(bar.submitted / 1e6) : "") },
];

const ORDER = Object.keys(JOBS);
const parts = (jobs) => ORDER.filter((status) => jobs[status]).map((status) => [status, jobs[status]]);

export function Jobs() {
  const { query } = useRoute();
  const user = useStore(caller)?.user?.split("@")[0] ?? "";
  const owner = query.owner ?? user;
  const filters = { owner: owner === "all" ? "" : owner, text: query.text ?? "", history: query.history ? "true" : "" };
  const own = useView("jobs", filters);
  // A user without jobs in the queue sees all jobs, unless the URL names an owner.
  const isEmpty = !query.owner && user && !query.text && own.data?.bars.length === 0;
  const all = useView("jobs", isEmpty ? { ...filters, owner: "" } : filters);
  const result = isEmpty ? all : own;
  return html`<${Page} title="Jobs" result=${result} sentence=${(data) => data.sentence}>
    ${(data) => html`
      <form class="filters" onSubmit=${(event) => event.preventDefault()}>
        <label>Owner <input value=${isEmpty ? "all" : owner} size="12" onChange=${(event) => setQuery({ owner: event.target.value.trim() || "all" })} /></label>
        ${isEmpty ? html`<span class="quiet">You have no jobs in the queue; these are all users' jobs.</span>` : user && html`<button type="button" onClick=${() => setQuery({ owner: owner === "all" ? user : "all" })}>${owner === "all" ? "My jobs" : "All users"}</button>`}
        <label>Contains <input type="search" value=${filters.text} size="16" onChange=${(event) => setQuery({ text: event.target.value })} /></label>
        <label><input type="checkbox" checked=${!!query.history} onChange=${(event) => setQuery({ history: event.target.checked ? "1" : "" })} /> also finished clusters</label>
      </form>
      <${Missing} texts=${data.missing} />
      ${data.bars.length === 0 ? html`<${None} filters=${filters} history=${query.history} />` : html`
        <${Legend} items=${shownStates(data.bars)} />
        <${Clusters} data=${data} filters=${filters} />`}`}
  <//>`;
}

const shownStates = (bars) => ORDER.map((status) => [status, bars.reduce((sum, bar) => sum + (bar.jobs[status] ?? 0), 0)]).filter(([, jobs]) => jobs);

function None({ filters, history }) {
  return html`<${Empty}>
    <p>No cluster${filters.owner ? ` of ${filters.owner}` : ""}${filters.text ? ` that contains “${filters.text}”` : ""} ${history ? "is in the log" : "has jobs in the queue"} at this time.</p>
    ${!history && html`<p><button type="button" onClick=${() => setQuery({ history: "1" })}>Show finished clusters</button></p>`}
    ${!filters.text && html`<${FirstJob} />`}
  <//>`;
}

// The first page follows the log; older pages are loaded on request.
function Clusters({ data, filters }) {
  const [older, setOlder] = useState({ bars: [], before: null });
  const [error, setError] = useState(null);
  const { at } = useRoute().query;
  const before = older.before ?? data.before;
  const first = older.bars.length ? data.bars.filter((bar) => bar.cluster > older.bars[0].cluster) : data.bars;
  const more = () => get("/overview/jobs", { ...filters, at, before }).then(
    (page) => setOlder({ bars: [...older.bars, ...page.bars], before: page.before }), setError);
  return html`
    <${Table} caption="Clusters of jobs, newest first" columns=${COLUMNS} rows=${[...first, ...older.bars]} keyOf=${(bar) => bar.cluster} />
    ${error && html`<${Failure} error=${error} />`}
    ${before > 0 && html`<p><button type="button" onClick=${more}>Show older clusters</button></p>`}`;
}
