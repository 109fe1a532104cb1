// Pool: is it healthy, and what failed?

import { html, useMemo } from "../vendor/htm-preact.js";
import { useView } from "../api.js";
import { count, duration, moment, number } from "../format.js";
import { Grid } from "../charts/grid.js";
import { Lines } from "../charts/lines.js";
import { ChartData, Empty, FirstJob, Legend, Missing, Page, Table } from "../parts.js";
import { ThingLink } from "../router.js";
import { JOBS, SLOTS } from "../states.js";

export function Pool() {
  const result = useView("pool");
  return html`<${Page} title="Pool" result=${result} sentence=${({ pool }) => pool.sentence}>
    ${(data) => html`
      <${Missing} texts=${data.pool.missing} />
      <div class="columns">
        <div>
          <${Slots} data=${data} />
          <${LoadChart} load=${data.load} ended=${data.pool.at} />
        </div>
        <div>
          <${Waiting} reasons=${data.pool.waiting} />
          <${Findings} findings=${data.pool.findings} />
        </div>
      </div>`}
  <//>`;
}

function Slots({ data }) {
  const { pool, grid } = data;
  if (!grid.state.length) {
    return html`<section><h2>Slots</h2><${Empty}><p>No machine has slots. <code>poolbook serve</code> offers this
      machine; <code>poolbook join</code> adds others.</p>${Object.keys(pool.jobs).length ? "" : html`<${FirstJob} />`}<//></section>`;
  }
  const counts = pool.slots.map(({ state, activity, letter, colour, slots }) => [`${state}/${activity}`, slots, [letter, colour]]);
  return html`<section><h2>Slots</h2><${Legend} items=${counts} /><${Grid} grid=${grid} at=${pool.at} />
    <${ChartData} caption="slots by state" columns=${SLOT_COLUMNS} rows=${counts} /></section>`;
}

const SLOT_COLUMNS = [{ label: "State", kind: "state", index: 0 }, { label: "Slots", kind: "number", index: 1 }];

const LOAD_COLUMNS = [
  { label: "From, UTC", cell: (point) => moment(point.at / 1e6) },
  ...["busy", "slots", "idle", "running", "held"].map((name) => ({
    label: { busy: "Busy slots", slots: "Slots", idle: "Idle jobs", running: "Running jobs", held: "Held jobs" }[name],
    kind: "number", cell: (point) => number(point[name]),
  })),
];

export function LoadChart({ load, ended, title = "Load and queue", onlyQueue = false }) {
  const points = useMemo(() => {
    const last = load.points.at(-1);
    return last && last.at < ended ? [...load.points, { ...last, at: ended }] : load.points;
  }, [load, ended]);
  const [times, busy, queue] = useMemo(() => {
    const values = (name) => points.map((point) => point[name]);
    return [
      points.map((point) => point.at / 1e6),
      [{ label: "busy slots", colour: SLOTS["Claimed/Busy"][1], values: values("busy"), fill: "#009E7355" },
       { label: "all slots", colour: SLOTS.Unclaimed[1], values: values("slots"), dashed: true }],
      [{ label: "idle jobs", colour: JOBS.idle[1], values: values("idle") },
       { label: "running jobs", colour: JOBS.running[1], values: values("running"), pattern: 2 },
       { label: "held jobs", colour: JOBS.held[1], values: values("held"), pattern: 3 }],
    ];
  }, [points]);
  const hours = times.length > 1 ? `, ${duration(times.at(-1) - times[0])}` : "";
  return html`<section><h2>${title}${hours}</h2>
    ${!onlyQueue && html`<${Lines} times=${times} lines=${busy} label="Busy slots over time" unit="slots" height=${130} />`}
    <${Lines} times=${times} lines=${queue} label="Jobs in the queue over time" unit="jobs" height=${150} />
    <${Missing} texts=${load.missing} />
    <${ChartData} caption="load and queue over time" columns=${LOAD_COLUMNS} rows=${points} />
  </section>`;
}

function Waiting({ reasons }) {
  if (!reasons.length) return "";
  return html`<section><h2>Why jobs wait</h2><${Table} caption="Why jobs wait" rows=${reasons.slice(0, 8)} columns=${[
    { label: "Jobs", kind: "number", cell: (row) => number(row.jobs) },
    { label: "First job", cell: (row) => html`<${ThingLink} kind="job" name=${row.job} />` },
    { label: "User", cell: (row) => html`<${ThingLink} kind="user" name=${row.submitter} />` },
    { label: "Reason", wide: true, wrap: true, cell: (row) => row.reason },
  ]} /></section>`;
}

const KINDS = { hold: "job", eviction: "job", preemption: "slot", machine: "machine" };

function Subject({ finding }) {
  const { kind, subject, position } = finding;
  if (!subject || !(kind in KINDS)) return position ? html`<${ThingLink} kind="event" name=${position}>event ${position}<//>` : "";
  const thing = KINDS[kind] === "job" && !subject.includes(".") ? "cluster" : KINDS[kind];
  return html`<${ThingLink} kind=${thing} name=${subject} />`;
}

// Findings of the same kind, time and user are one entry.
function grouped(findings) {
  const groups = [];
  for (const finding of findings) {
    const last = groups.at(-1);
    if (last && ["kind", "at", "user"].every((name) => last[0][name] === finding[name])) last.push(finding);
    else groups.push([finding]);
  }
  return groups;
}

function Findings({ findings }) {
  return html`<section><h2>Findings</h2>${findings.length === 0
    ? html`<${Empty}><p>No holds, evictions, preemptions, lost machines or rejected requests.</p><//>`
    : html`<ol class="findings">${grouped(findings).map(([finding, ...others], index) => html`<li key=${`${finding.position}-${index}`} data-row>
        <time>${moment(finding.at / 1e6)}</time>
        <span class="what"><b>${finding.kind}</b> <${Subject} finding=${finding} /></span>
        <span class="text">${finding.sentence}${others.length ? html` <span class="quiet">And ${count(others.length, "more of this kind", "more of this kind")} at this time.</span>` : ""}</span></li>`)}</ol>`}</section>`;
}
