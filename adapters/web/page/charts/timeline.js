// The timeline of a job or slot: a lane for each, its states as bars, and transitions as ticks with number and letter.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { duration, moment, near } from "../format.js";
import { ChartData } from "../parts.js";
import { Link, pathOf, urlOf } from "../router.js";
import { inkOn, styleOf } from "../states.js";

const LEFT = 118, LANE = 58, BAR = 22, TOP = 4;
const CHARACTER = 6.4;  // the width of a character of a label, in pixels

export function Timeline({ timeline }) {
  const box = useRef(null);
  const [width, setWidth] = useState(760);
  const [hint, setHint] = useState("");
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(300, Math.floor(entry.contentRect.width))));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const { begin, end, lanes } = timeline;
  const left = width < 560 ? 74 : LEFT;
  const x = (at) => left + ((at - begin) / (end - begin)) * (width - left - 12);
  const height = lanes.length * LANE + 26;
  return html`<section><h2>Timeline</h2>
    <div ref=${box} class="timeline">
      <svg width=${width} height=${height} role="group" aria-label=${`Timeline from ${moment(begin / 1e6)} to ${moment(end / 1e6)}`}>
        ${lanes.map((lane, index) => html`<${Lane} key=${lane.name} lane=${lane} y=${TOP + index * LANE} x=${x} left=${left} width=${width} onHint=${setHint} />`)}
        <${Scale} begin=${begin} end=${end} x=${x} y=${lanes.length * LANE + TOP} width=${width} left=${left} />
      </svg>
    </div>
    <p class="hint">${hint || "Point at a tick to read why it happened; click it to open its event."}</p>
    <${ChartData} caption="transitions" columns=${COLUMNS} rows=${lanes.flatMap((lane) => lane.ticks.map((tick) => ({ lane, ...tick })))} />
  </section>`;
}

const COLUMNS = [
  { label: "Time, UTC", cell: (tick) => moment(tick.at / 1e6) },
  { label: "Lane", cell: (tick) => tick.lane.name },
  { label: "What", cell: (tick) => tick.label },
  { label: "Change", cell: (tick) => (tick.target ? `${tick.source} → ${tick.target}` : "") },
  { label: "Why", wide: true, cell: (tick) => tick.text },
];

function Lane({ lane, y, x, left, width, onHint }) {
  const [kind] = lane.subject.includes("@") ? ["slot"] : ["job"];
  const most = Math.floor((left - 10) / CHARACTER);
  const name = lane.name.length > most ? `${lane.name.slice(0, most - 1)}…` : lane.name;
  const label = html`<text x="0" y=${y + 18 + BAR / 2 + 4} class="lane">${name}<title>${lane.name}</title></text>`;
  return html`<g>
    ${lane.subject && lane.name !== "job" && lane.name !== "slot" ? html`<${Link} to=${urlOf(pathOf(kind, lane.subject))}>${label}<//>` : label}
    <line x1=${left} x2=${width - 12} y1=${y + 18 + BAR} y2=${y + 18 + BAR} class="rule" />
    ${lane.stretches.map((part) => html`<${Stretch} key=${part.begin} part=${part} x=${x} y=${y + 18} />`)}
    <${Ticks} lane=${lane} x=${x} y=${y} right=${width} onHint=${onHint} />
  </g>`;
}

function Stretch({ part, x, y }) {
  const [letter, colour] = styleOf(part.state);
  const from = x(part.begin), size = Math.max(1, x(part.end) - from);
  const label = size > part.state.length * CHARACTER + 30 ? `${letter} ${part.state}` : size > 14 ? letter : "";
  const title = `${part.state}, ${duration((part.end - part.begin) / 1e6)}, from ${moment(part.begin / 1e6)}`;
  return html`<g><rect x=${from} y=${y} width=${size} height=${BAR} fill=${colour}><title>${title}</title></rect>
    ${label && html`<text x=${from + 5} y=${y + BAR / 2 + 4} fill=${inkOn(colour)} class="inside">${label}</text>`}</g>`;
}

// Ticks at nearly the same place are one link, whose label lists as many of them as there is space for.
function Ticks({ lane, x, y, right, onHint }) {
  const groups = [];
  for (const tick of lane.ticks) {
    const place = x(tick.at), last = groups.at(-1);
    if (last && place - last.place < 5) last.ticks.push(tick);
    else groups.push({ place, ticks: [tick] });
  }
  return groups.map(({ place, ticks }, index) => {
    const room = (groups[index + 1]?.place ?? Infinity) - place - 6;
    const words = ticks.map((tick) => tick.label);
    const short = words.filter((word) => /^\d+[a-z]?( [A-P])?$/.test(word));
    const all = (short.length ? short : words).join(", ");
    const isFirstLate = place > right - 60 && index > 0 && place - groups[index - 1].place < 120;
    const text = isFirstLate ? "" : all.length * CHARACTER <= room ? all : words.length > 1 && 4 * CHARACTER <= room ? `${words.length} x` : "";
    const full = ticks.map((tick) => `${moment(tick.at / 1e6)} ${tick.label}: ${tick.target ? `${tick.source} → ${tick.target}. ` : ""}${tick.text}`).join("\n");
    const first = ticks[0];
    const target = first.position ? urlOf(pathOf("event", first.position)) : urlOf("/log");
    const isLate = place > right - 60;
    const show = () => onHint(full);
    return html`<${Link} key=${index} to=${target} aria-label=${`${text} ${full}`.trim()} class="tick" onMouseEnter=${show} onFocus=${show}>
      <rect x=${place - 5} y=${y} width=${Math.max(10, text.length * CHARACTER)} height=${LANE - 12} fill="transparent" />
      <line x1=${place} x2=${place} y1=${y + 14} y2=${y + 22 + BAR} />
      ${text && html`<text x=${isLate ? place + 2 : place - 1} y=${y + 11} text-anchor=${isLate ? "end" : "start"}>${text}</text>`}
    <//>`;
  });
}

function Scale({ begin, end, x, y, width, left }) {
  const steps = width - left < 420 ? 2 : 4;
  return html`<g class="scale" aria-hidden="true">${Array.from({ length: steps + 1 }, (_, index) => {
    const at = begin + ((end - begin) * index) / steps;
    const anchor = index === 0 ? "start" : index === steps ? "end" : "middle";
    const text = end - begin < 6e8 ? moment(at / 1e6).slice(11) : near(at / 1e6, begin / 1e6);
    return html`<text key=${index} x=${x(at)} y=${y + 14} text-anchor=${anchor}>${index === 0 ? moment(at / 1e6).slice(0, 16) : text}</text>`;
  })}</g>`;
}
