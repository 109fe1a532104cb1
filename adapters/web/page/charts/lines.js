// Lines and areas over time, drawn by uPlot, which is loaded when the first chart is shown.

import { html, useEffect, useRef } from "../vendor/htm-preact.js";
import { clock, day, moment } from "../format.js";

let uplot = null;
const load = () => (uplot ??= import("../vendor/uplot.js").then((module) => module.default));

const colourOf = (element, name) => getComputedStyle(element).getPropertyValue(name).trim();
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];

// `lines` are { label, colour, values, fill, dashed }; a value holds until the next time. A colour can be a CSS variable.
export function Lines({ times, lines, label, height = 160, unit }) {
  const box = useRef(null);
  useEffect(() => {
    let chart = null, isGone = false;
    const element = box.current;
    if (!element) return undefined;
    load().then((UPlot) => {
      if (isGone || times.length < 2) return;
      chart = new UPlot(options(UPlot, element, lines, height, unit), [times, ...lines.map((line) => line.values)], element);
    });
    const observer = new ResizeObserver(() => chart?.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      isGone = true;
      observer.disconnect();
      chart?.destroy();
    };
  }, [times, lines, height]);
  if (times.length < 2) return html`<p class="quiet">No data for this time.</p>`;
  return html`<figure class="chart" aria-label=${label}><div ref=${box} style=${{ minHeight: `${height}px` }}></div>
    <ul class="legend">${lines.filter((line) => line.label).map((line) => html`<li key=${line.label}>
      <svg width="20" height="10" aria-hidden="true"><line x1="0" y1="5" x2="20" y2="5" stroke=${line.colour.startsWith("--") ? `var(${line.colour})` : line.colour}
        stroke-width=${line.fill ? 8 : 2.5} stroke-dasharray=${(line.dashed ? DASHES[1] : DASHES[line.pattern ?? 0]).join(" ")} /></svg>
      ${line.label}</li>`)}</ul>
  </figure>`;
}

function options(UPlot, element, lines, height, unit) {
  const ink = colourOf(element, "--quiet"), rule = colourOf(element, "--rule");
  const axis = { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, size: 4 }, font: "11px system-ui" };
  const label = (value, increment) => (increment < 60 ? moment(value).slice(11) : clock(value));
  const times = (chart, values, axis, space, increment) => values.map((value, index) =>
    index === 0 || day(value) !== day(values[index - 1]) ? `${label(value, increment)}\n${day(value)}` : label(value, increment));
  return {
    width: element.clientWidth, height, legend: { show: false }, cursor: { drag: { x: false, y: false }, points: { show: false } },
    tzDate: (seconds) => UPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
    scales: { x: { time: true }, y: { range: (chart, least, most) => [0, Math.max(1, most * 1.08)] } },
    axes: [{ ...axis, values: times, size: 36 }, { ...axis, size: 48, label: unit, labelSize: 16, labelFont: "11px system-ui", incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6] }],
    series: [{}, ...lines.map((line) => ({
      label: line.label, stroke: line.colour.startsWith("--") ? colourOf(element, line.colour) : line.colour, width: line.fill ? 1 : 2, fill: line.fill, points: { show: false },
      dash: line.dashed ? DASHES[1] : DASHES[line.pattern ?? 0],
      paths: UPlot.paths.stepped({ align: 1 }),
    }))],
  };
}
