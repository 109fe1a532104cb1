// Machines: which machines the pool has, and what their slots do.

import { html } from "../vendor/htm-preact.js";
import { useView } from "../api.js";
import { moment, number } from "../format.js";
import { Bar, Empty, Legend, Page, Table } from "../parts.js";
import { ThingLink } from "../router.js";
import { SLOTS } from "../states.js";

const GIB = 1024;

function parts(machine) {
  const claimed = Math.max(0, machine.claimed - machine.busy), busy = machine.busy;
  const others = Math.max(0, machine.slots - busy - claimed - machine.draining);
  return [["busy", busy, SLOTS["Claimed/Busy"]], ["claimed, not busy", claimed, SLOTS.Claimed],
    ["drained", machine.draining, SLOTS.Drained], ["other", others, SLOTS.Unclaimed]];
}

const COLUMNS = [
  { label: "Machine", cell: (row) => html`<${ThingLink} kind="machine" name=${row.machine} />` },
  { label: "Slots by state", wide: true, cell: (row) => html`<${Bar} label=${row.machine} parts=${parts(row)} total=${row.slots || 1} />` },
  { label: "Busy", kind: "number", cell: (row) => number(row.busy) },
  { label: "Slots", kind: "number", cell: (row) => number(row.slots) },
  { label: "Cores", kind: "number", narrow: false, cell: (row) => (row.cores ? number(row.cores) : "") },
  { label: "Memory, GiB", kind: "number", narrow: false, cell: (row) => (row.memory ? number(row.memory / GIB) : "") },
  { label: "Joined, UTC", narrow: false, cell: (row) => (row.joined ? moment(row.joined / 1e6) : "") },
];

const LEGEND = [["busy", null, SLOTS["Claimed/Busy"]], ["claimed, not busy", null, SLOTS.Claimed],
  ["drained", null, SLOTS.Drained], ["other", null, SLOTS.Unclaimed]];

export function Machines() {
  const result = useView("machines");
  return html`<${Page} title="Machines" result=${result} sentence=${(data) => data.sentence}>
    ${(data) => data.machines.length === 0
      ? html`<${Empty}><p><code>poolbook join</code> on a machine adds it to this pool.</p><//>`
      : html`<${Legend} items=${LEGEND} /><${Table} caption="Machines, in the order in which they joined" columns=${COLUMNS}
          rows=${data.machines} keyOf=${(row) => row.machine} />`}
  <//>`;
}
