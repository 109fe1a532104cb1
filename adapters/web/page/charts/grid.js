// The slots of a pool: a cell for each slot, grouped by machine. Up to 2,000 slots are links; more are drawn on a canvas.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { duration } from "../format.js";
import { ThingLink, go, pathOf, urlOf } from "../router.js";
import { inkOn, slotStyle } from "../states.js";

const MOST_LINKS = 2000;

export const slotName = (grid, index) => `${grid.parts[grid.part[index]]}@${grid.machines[grid.machine[index]]}`;

function describe(grid, index, at) {
  const state = grid.states[grid.state[index]];
  const since = duration(at / 1e6 - grid.base - grid.since[index]);
  const job = grid.job[index] && `, job ${grid.job[index]}`;
  const user = grid.users[grid.user[index]] && ` of ${grid.users[grid.user[index]]}`;
  return `${slotName(grid, index)}: ${state} for ${since}${job}${user}`;
}

// The indexes of the slots of each machine.
function groupsOf(grid) {
  const groups = grid.machines.map(() => []);
  grid.machine.forEach((machine, index) => groups[machine].push(index));
  return groups;
}

// The width of a machine's slots, in pixels: rows of at most eight cells, which are equally long.
const widthOf = (slots) => Math.ceil(slots / Math.ceil(slots / 8)) * 26 - 2;

export function Grid({ grid, at }) {
  const [hint, setHint] = useState("");
  const Cells = grid.state.length > MOST_LINKS ? CanvasCells : LinkCells;
  return html`<div class="grid">
    <${Cells} grid=${grid} at=${at} onHint=${setHint} />
    <p class="hint" aria-hidden="true">${hint || "Point at a slot to see its job; click it to see why it is in its state."}</p>
  </div>`;
}

function LinkCells({ grid, at, onHint }) {
  const groups = useMemo(() => groupsOf(grid), [grid.machines, grid.machine]);
  const widest = Math.max(76, ...groups.map((slots) => widthOf(slots.length)));
  return html`<div class="machines" style=${{ gridTemplateColumns: `repeat(auto-fill, ${widest}px)` }} onMouseLeave=${() => onHint("")}>
    ${groups.map((slots, machine) => html`<div class="machine" key=${grid.machines[machine]}>
      <${ThingLink} kind="machine" name=${grid.machines[machine]} class="name" />
      <div class="cells" style=${{ maxWidth: `${widthOf(slots.length)}px` }}>${slots.map((index) => {
        const [letter, colour] = slotStyle(grid.states[grid.state[index]]);
        const text = describe(grid, index, at);
        return html`<${ThingLink} key=${index} kind="slot" name=${slotName(grid, index)} aria-label=${text}
          class="cell" style=${{ background: colour, color: inkOn(colour) }}
          onMouseEnter=${() => onHint(text)} onFocus=${() => onHint(text)}>${letter}<//>`;
      })}</div>
    </div>`)}
  </div>`;
}

const HEIGHT = 340;  // the intended height of the picture, in pixels
const LETTERS_FROM = 8;  // the size of a cell, in pixels, from which it has a letter
// The part of a smaller cell that is filled, instead of a letter: left, top, right and bottom.
const PARTS = {
  B: [0, 0, 1, 1], U: [0, 0.7, 1, 1], S: [0, 0, 0.5, 1], C: [0, 0.35, 1, 1], P: [0, 0, 1, 0.5], M: [0.5, 0, 1, 1],
  O: [0.3, 0.3, 0.7, 0.7], D: [0, 0.5, 1, 1], F: [0.25, 0, 0.75, 1],
};

// The places of cells: machines are blocks in rows. Returns the size of a cell, and x and y for each slot.
function layout(groups, width) {
  const slots = groups.reduce((sum, group) => sum + group.length, 0);
  const size = Math.max(3, Math.min(12, Math.floor(Math.sqrt((width * HEIGHT) / (slots * 1.3)))));
  const gap = size < LETTERS_FROM ? 2 : 4;
  const places = [];
  let x = 0, y = 0, tallest = 0;
  for (const group of groups) {
    const columns = Math.max(1, Math.min(Math.ceil(Math.sqrt(group.length)), Math.floor(width / size)));
    const rows = Math.ceil(group.length / columns);
    if (x + columns * size > width && x > 0) {
      x = 0;
      y += tallest * size + gap;
      tallest = 0;
    }
    group.forEach((slot, index) => {
      places[slot] = [x + (index % columns) * size, y + Math.floor(index / columns) * size];
    });
    x += columns * size + gap;
    tallest = Math.max(tallest, rows);
  }
  return { size, places, height: y + tallest * size };
}

function CanvasCells({ grid, at, onHint }) {
  const canvas = useRef(null);
  const [width, setWidth] = useState(0);
  const [chosen, setChosen] = useState(-1);
  const groups = useMemo(() => groupsOf(grid), [grid.machines, grid.machine]);
  const cells = useMemo(() => layout(groups, width || 600), [groups, width]);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(canvas.current.parentElement);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (width) draw(canvas.current, grid, cells, width, chosen);
  }, [grid, cells, width, chosen]);
  const choose = (index) => {
    setChosen(index);
    onHint(index < 0 ? "" : describe(grid, index, at));
  };
  const pointed = (event) => slotAt(cells, event.offsetX, event.offsetY);
  const open = (index) => index >= 0 && go(urlOf(pathOf("slot", slotName(grid, index))));
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 };
  const press = (event) => {
    if (event.key in steps) {
      event.preventDefault();
      choose(Math.max(0, Math.min(grid.state.length - 1, chosen + steps[event.key])));
    } else if (event.key === "Enter") open(chosen);
  };
  const label = chosen < 0 ? `${grid.state.length} slots; the arrow keys choose one, Enter opens it` : describe(grid, chosen, at);
  return html`<div class="canvas"><canvas ref=${canvas} tabindex="0" role="img" aria-label=${label} onKeyDown=${press}
    onMouseMove=${(event) => choose(pointed(event))} onMouseLeave=${() => choose(-1)}
    onClick=${(event) => open(pointed(event))}></canvas></div>`;
}

function draw(canvas, grid, { size, places, height }, width, chosen) {
  const scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.font = `${size - 2}px sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  const styles = grid.states.map(slotStyle);
  const empty = getComputedStyle(canvas).getPropertyValue("--rule");
  places.forEach(([x, y], index) => {
    const [letter, colour] = styles[grid.state[index]];
    const side = size - 1;
    if (size >= LETTERS_FROM) {
      context.fillStyle = colour;
      context.fillRect(x, y, side, side);
      context.fillStyle = inkOn(colour);
      context.fillText(letter, x + side / 2, y + size / 2);
    } else {
      const [left, top, right, bottom] = PARTS[letter] ?? PARTS.B;
      context.fillStyle = empty;
      context.fillRect(x, y, side, side);
      context.fillStyle = colour;
      context.fillRect(x + left * side, y + top * side, (right - left) * side, (bottom - top) * side);
    }
  });
  if (chosen >= 0) {
    const [x, y] = places[chosen];
    context.lineWidth = 2;
    context.strokeStyle = getComputedStyle(canvas).color;
    context.strokeRect(x - 1, y - 1, size + 1, size + 1);
  }
}

function slotAt({ size, places }, x, y) {
  return places.findIndex(([left, top]) => x >= left && x < left + size && y >= top && y < top + size);
}
