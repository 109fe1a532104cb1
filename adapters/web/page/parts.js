// Parts of every place: the sentence, states, bars, tables, and what is shown while there are no data.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { Problem } from "./api.js";
import { count, duration, moment, number } from "./format.js";
import { ThingLink } from "./router.js";
import { inkOn, styleOf } from "./states.js";

export const Swatch = ({ colour, letter }) => html`
  <span class="swatch" aria-hidden="true" style=${{ background: colour, color: inkOn(colour) }}>${letter}</span>`;

export function State({ name }) {
  const [letter, colour] = styleOf(name);
  return html`<span class="state"><${Swatch} colour=${colour} letter=${letter} />${name}</span>`;
}

// The legend of a picture: each state with its count.
export const Legend = ({ items }) => html`
  <ul class="legend">${items.map(([name, value, style = styleOf(name)]) => html`
    <li key=${name}><${Swatch} letter=${style[0]} colour=${style[1]} />${name}
      ${value == null ? "" : html` <b>${typeof value === "number" ? number(value) : value}</b>`}</li>`)}
  </ul>`;

// A bar with a part for each state; narrow parts have no letter.
export function Bar({ parts, total, label }) {
  const shown = parts.filter(([, value]) => value > 0);
  const text = shown.map(([name, value]) => `${number(value)} ${name}`).join(", ");
  return html`<span class="bar" role="img" aria-label=${`${label}: ${text || "none"}`} title=${text}>
    ${shown.map(([name, value, [letter, colour] = styleOf(name)]) => html`
      <span key=${name} style=${{ flexGrow: value / total, background: colour, color: inkOn(colour) }}>
        ${value / total > 0.08 ? letter : ""}</span>`)}
  </span>`;
}

// The answer of a place, or why there is none.
export function Page({ title, result, sentence, children }) {
  useEffect(() => { document.title = `${title} - Poolbook`; }, [title]);
  const { data, error } = result;
  if (!data) return html`<${Pending} title=${title} error=${error} />`;
  return html`<article class=${result.loading ? "loading" : ""}>
    <h1><span class="hidden">${title}: </span><${Sentence} text=${sentence(data)} /></h1>
    ${error && html`<${Failure} error=${error} />`}
    ${children(data)}
  </article>`;
}

function Pending({ title, error }) {
  if (error) return html`<article><h1>${title}</h1><${Failure} error=${error} /></article>`;
  return html`<article aria-busy="true"><h1><span class="hidden">${title}: loading</span><span class="bone wide"></span></h1>
    <p class="bone"></p><p class="bone"></p><p class="bone short"></p></article>`;
}

export function Failure({ error }) {
  const isAnswer = error instanceof Problem;
  return html`<div class="failure" role="alert">
    <p>${isAnswer ? error.message : "The service does not answer. The page tries again every two seconds."}</p>
    ${isAnswer && error.status === 404 ? html`<p>The slider selects another moment; <kbd>/</kbd> searches.</p>` : ""}
  </div>`;
}

export const Empty = ({ children }) => html`<div class="empty">${children}</div>`;

export const FirstJob = () => html`
  <p>To submit the first job, write a submit file and pass it to the pool:</p>
  <pre>printf 'executable = /bin/sleep\narguments = 60\nqueue 3\n' > first.sub
poolbook submit first.sub</pre>`;

export const Missing = ({ texts }) => texts?.length ? html`
  <ul class="missing">${texts.map((text) => html`<li key=${text}><${Sentence} text=${text} /></li>`)}</ul>` : "";

// The subject of an event, which has a page unless its kind is empty.
export const Subject = ({ kind, name }) => (kind ? html`<${ThingLink} kind=${kind} name=${name} />` : name);

// A sentence: commands in it are in backquotes, and times do not break.
export function Sentence({ text }) {
  return text.split(/(`[^`]*`|\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?)/).map((part, index) =>
    index % 2 === 0 ? part : part[0] === "`" ? html`<code>${part.slice(1, -1)}</code>` : html`<time>${part}</time>`);
}

// A value of a table or of a fact, shown by its kind.
export function Value({ kind, value }) {
  if (value === null || value === "" || value === undefined) return "";
  if (kind === "number") return typeof value === "number" ? number(value) : value;
  if (kind === "time") return html`<time>${moment(value)}</time>`;
  if (kind === "seconds") return duration(value);
  if (kind === "status" || kind === "state") return html`<${State} name=${value} />`;
  if (kind === "path") return html`<code>${value}</code>`;
  if (kind === "text") return value;
  if (kind === "thing") return html`<${Subject} kind=${value.split("/")[0]} name=${value.slice(value.indexOf("/") + 1)} />`;
  return html`<${ThingLink} kind=${kind} name=${value} />`;
}

const ROW = { height: 32 };  // of a row in pixels: as in style.css, or as measured on narrow screens
const SPARE = 12;  // rows above and below the visible ones

// The range of rows that are visible; long tables have elements only for these.
function useWindow(body, total) {
  const [range, setRange] = useState([0, 60]);
  const measure = () => {
    const rows = body.current?.querySelectorAll("tr[data-row]");
    if (!rows?.length) return;
    const height = (rows[rows.length - 1].getBoundingClientRect().bottom - rows[0].getBoundingClientRect().top) / rows.length;
    ROW.height = height || ROW.height;
    const top = body.current.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / ROW.height) - SPARE);
    const last = Math.min(total, first + Math.ceil(innerHeight / ROW.height) + 2 * SPARE);
    setRange((before) => (before[0] === first && before[1] === last ? before : [first, last]));
  };
  useLayoutEffect(measure);
  useEffect(() => {
    addEventListener("scroll", measure, { passive: true });
    addEventListener("resize", measure);
    return () => {
      removeEventListener("scroll", measure);
      removeEventListener("resize", measure);
    };
  });
  return total > 200 ? range : [0, total];
}

// A table. A column is { label, kind, cell(row), wide, narrow }: numbers are on the right; wide columns take the space
// that is left, and can wrap; narrow screens leave out columns with `narrow: false`.
export function Table({ caption, columns, rows, keyOf = (row, index) => index, showCaption = false }) {
  const body = useRef(null);
  const [first, last] = useWindow(body, rows.length);
  const classOf = ({ kind, wide, wrap, narrow }) =>
    [kind === "number" && "number", wide && "wide", wrap && "wrap", narrow === false && "wide-screens"].filter(Boolean).join(" ");
  return html`<div class="scroll" tabindex=${columns.length > 4 ? 0 : undefined} role="group" aria-label=${caption}>
    <table>
      <caption class=${showCaption ? "" : "hidden"}>${caption}</caption>
      <thead><tr>${columns.map((column) => html`<th scope="col" key=${column.label} class=${classOf(column)}>${column.label}</th>`)}</tr></thead>
      <tbody ref=${body}>
        ${first > 0 && html`<tr class="spacer" aria-hidden="true"><td style=${{ height: `${first * ROW.height}px` }}></td></tr>`}
        ${rows.slice(first, last).map((row, index) => html`<tr key=${keyOf(row, first + index)} data-row>
          ${columns.map((column) => html`<td key=${column.label} class=${classOf(column)} data-label=${column.label}>${
            column.cell ? column.cell(row) : html`<${Value} kind=${column.kind} value=${row[column.index]} />`}</td>`)}
        </tr>`)}
        ${last < rows.length && html`<tr class="spacer" aria-hidden="true"><td style=${{ height: `${(rows.length - last) * ROW.height}px` }}></td></tr>`}
      </tbody>
    </table>
  </div>`;
}

// The table of a chart's data, which is closed at first.
export function ChartData({ caption, columns, rows }) {
  const [isOpen, setOpen] = useState(false);
  return html`<details class="data" onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>Data: ${caption} (${count(rows.length, "row")})</summary>
    ${isOpen && html`<${Table} caption=${caption} columns=${columns} rows=${rows} />`}
  </details>`;
}
