"use strict";
// Reads the numbers of the page (see timeline_page.py), and draws the visible rows of the visible time.

const ROW = 18, BAR = 13, AXIS = 30, EDGE = 10;
const byId = id => document.getElementById(id);
const head = JSON.parse(byId("head").textContent);
const kinds = Object.keys(head.kinds);
const [chart, canvas, tip] = ["chart", "canvas", "tip"].map(byId);
const pen = canvas.getContext("2d");
let rows = [], shown = [], first = 0, last = 1, view = [0, 1], labels = 100, query = "", colours = {};

async function numbers() {
  const packed = Uint8Array.from(atob(byId("data").textContent), letter => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let at = 0;
  return () => {
    let number = 0, factor = 1;
    for (; bytes[at] > 127; at++) { number += (bytes[at] & 127) * factor; factor *= 128; }
    return number + bytes[at++] * factor;
  };
}

const signed = number => number % 2 ? -(number + 1) / 2 : number / 2;

async function load() {
  const next = await numbers();
  const count = head.rows.reduce((sum, row) => sum + row[1], 0);
  const [gaps, lengths, codes, clusters, procs] = [0, 1, 2, 3, 4].map(() => Float64Array.from({length: count}, next));
  let place = 0;
  for (const [name, size] of head.rows) {
    const row = {name, begin: new Float64Array(size), end: new Float64Array(size), code: codes.subarray(place, place + size),
                 job: new Array(size)};
    let at = head.begin, cluster = 0, proc = 0;
    for (let i = 0; i < size; i++, place++) {
      row.begin[i] = (at + gaps[place]) * head.unit;
      at += gaps[place] + lengths[place];
      row.end[i] = at * head.unit;
      if (procs[place]) { cluster += signed(clusters[place]); proc += signed(procs[place] - 1); }
      row.job[i] = procs[place] ? `${cluster}.${proc}` : "";
    }
    rows.push(row);
  }
  first = Math.min(...rows.map(row => row.begin[0]));
  last = Math.max(...rows.map(row => row.end[row.end.length - 1]));
  view = [first, last];
}

// Times

const pad = (number, size = 2) => String(number).padStart(size, "0");
function clock(ms, digits) {
  const date = new Date(ms);
  const text = `${pad(date.getHours())}:${pad(date.getMinutes())}`;
  return digits < 1 ? text : `${text}:${pad(date.getSeconds())}` + (digits > 1 ? `.${pad(date.getMilliseconds(), 3)}` : "");
}
const day = ms => { const date = new Date(ms); return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`; };
const instant = ms => `${day(ms)} ${clock(ms, ms % 1000 ? 2 : 1)}`;
function duration(ms) {
  if (ms < 60000) return `${ms / 1000} s`;
  const parts = [];
  for (const [size, name] of [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]]) {
    const count = name === "s" ? ms / size : Math.floor(ms / size);
    if (count) parts.push(`${count} ${name}`);
    ms -= count * size;
  }
  return parts.join(" ");
}
const STEPS = [1, 10, 100, 1000, 2000, 5000, 10000, 30000, 60000, 120000, 300000, 600000, 1800000, 3600000, 7200000,
               10800000, 21600000, 43200000, 86400000, 172800000, 604800000, 2592000000];

// Drawing

const width = () => canvas.clientWidth - labels - EDGE;
const toX = ms => labels + (ms - view[0]) / (view[1] - view[0]) * width();
const toTime = x => view[0] + (x - labels) / width() * (view[1] - view[0]);

function resize() {
  const style = getComputedStyle(document.documentElement);
  colours = Object.fromEntries([...kinds, "page", "text", "faint", "line", "panel", "accent"]
    .map(name => [name, style.getPropertyValue(`--${name}`).trim()]));
  pen.font = "12px system-ui, sans-serif";
  labels = 16 + Math.min(chart.clientWidth / 3, Math.max(60, ...rows.map(row => pen.measureText(row.name).width)));
  byId("rows").style.height = "0";
  const height = Math.min(AXIS + shown.length * ROW + 4, Math.max(160, innerHeight * 0.7));
  byId("rows").style.height = `${Math.max(0, AXIS + shown.length * ROW + 4 - height)}px`;
  const scale = devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(chart.clientWidth * scale);
  canvas.height = Math.round(height * scale);
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  draw();
}

function at(row, ms) {  // the last interval of a row that begins at or before an instant
  let low = 0, high = row.begin.length;
  while (low < high) { const middle = (low + high) >> 1; if (row.begin[middle] <= ms) low = middle + 1; else high = middle; }
  return low - 1;
}

function draw() {
  const w = canvas.clientWidth, h = canvas.clientHeight;
  pen.fillStyle = colours.page;
  pen.fillRect(0, 0, w, h);
  drawAxis(w, h);
  pen.save();
  pen.beginPath();
  pen.rect(0, AXIS, w, h - AXIS);
  pen.clip();
  const top = chart.scrollTop;
  for (let number = Math.floor(top / ROW); number < shown.length && AXIS + number * ROW - top < h; number++)
    drawRow(shown[number], AXIS + number * ROW - top);
  pen.restore();
  byId("range").textContent = `${instant(Math.round(view[0]))} to ${instant(Math.round(view[1]))} (${Intl.DateTimeFormat().resolvedOptions().timeZone})`;
  Object.assign(canvas.dataset, {begin: view[0], end: view[1], labels, row: ROW, axis: AXIS, edge: EDGE});
}

function drawAxis(w, h) {
  const step = STEPS.find(size => size / (view[1] - view[0]) * width() >= 90) || STEPS[STEPS.length - 1];
  const offset = new Date(view[0]).getTimezoneOffset() * 60000;
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  for (let ms = Math.ceil((view[0] - offset) / step) * step + offset; ms <= view[1]; ms += step) {
    pen.fillStyle = colours.line;
    pen.fillRect(Math.round(toX(ms)), AXIS - 6, 1, h);
    pen.fillStyle = colours.faint;
    const midnight = clock(ms, 2) === "00:00:00.000";
    pen.fillText(midnight ? day(ms) : clock(ms, step < 1000 ? 2 : step < 60000 ? 1 : 0), Math.round(toX(ms)) + 4, AXIS / 2);
  }
}

function drawRow(row, y) {
  pen.textBaseline = "middle";
  pen.fillStyle = colours.text;
  pen.fillText(row.name, 8, y + ROW / 2, labels - 14);
  const left = labels, right = labels + width();
  let drawn = -1;
  for (let i = Math.max(0, at(row, view[0])); i < row.begin.length && row.begin[i] < view[1]; i++) {
    if (row.end[i] <= view[0]) continue;
    const x = Math.max(left, toX(row.begin[i])), end = Math.min(right, toX(row.end[i]));
    const kind = kinds[head.codes[row.code[i]][0]];
    if (end - drawn < 0.3) continue;  // a part of a pixel that is already drawn
    pen.globalAlpha = !query || matches(row, i) ? 1 : 0.18;
    pen.fillStyle = colours[kind];
    const wide = Math.max(end - x, 0.7);
    pen.fillRect(x, y + (ROW - BAR) / 2, wide > 3 ? wide - 0.6 : wide, BAR);
    drawn = end;
    const label = row.job[i] === row.name ? "" : row.job[i];
    if (label && end - x > 44 && pen.measureText(label).width < end - x - 8) {
      pen.fillStyle = "#ffffff";
      pen.fillText(label, x + 4, y + ROW / 2 + 0.5);
    }
  }
  pen.globalAlpha = 1;
}

// Search: rows whose name matches, and rows with a matching interval, whose other intervals are dimmed

const texts = new Map();
function matches(row, i) {
  if (row.found) return true;
  const code = row.code[i];
  if (!texts.has(code)) {
    const [kind, state, activity, user, group, cause] = head.codes[code];
    texts.set(code, [kinds[kind], state, activity, user, group, cause, head.causes[cause] || ""].join("\n").toLowerCase());
  }
  return row.job[i] === query || (row.job[i] && row.job[i].startsWith(`${query}.`)) || texts.get(code).includes(query);
}

function search() {
  query = byId("search").value.trim().toLowerCase();
  for (const row of rows) row.found = row.name.toLowerCase().includes(query);
  shown = !query ? rows : rows.filter(row => row.found || row.job.some((_, i) => matches(row, i)));
  byId("matches").textContent = query ? `${shown.length} of ${rows.length} rows` : "";
  chart.scrollTop = 0;
  resize();
}

// Moving and zooming

function show(begin, end) {
  const span = Math.min(Math.max(end - begin, 5), last - first);
  begin = Math.min(Math.max(begin, first), last - span);
  view = [begin, begin + span];
  draw();
}
function zoom(factor, x = labels + width() / 2) {
  const ms = toTime(Math.max(x, labels));
  show(ms - (ms - view[0]) * factor, ms + (view[1] - ms) * factor);
}
const move = part => show(view[0] + part * (view[1] - view[0]), view[1] + part * (view[1] - view[0]));

chart.addEventListener("wheel", event => {
  if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY / 300), event.offsetX);
  else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) move((event.deltaX || event.deltaY) / 1000);
  else return;
  event.preventDefault();
}, {passive: false});
chart.addEventListener("dblclick", event => zoom(event.shiftKey ? 3 : 1 / 3, event.offsetX));
chart.addEventListener("scroll", draw);
let grip = null;
chart.addEventListener("pointerdown", event => {
  grip = {x: event.clientX, y: event.clientY, view: [...view], top: chart.scrollTop};
  chart.setPointerCapture(event.pointerId);
});
chart.addEventListener("pointerup", () => { grip = null; chart.classList.remove("moving"); });
chart.addEventListener("pointermove", event => {
  if (!grip) return hover(event);
  chart.classList.add("moving");
  tip.hidden = true;
  const shift = (grip.x - event.clientX) / width() * (grip.view[1] - grip.view[0]);
  chart.scrollTop = grip.top + grip.y - event.clientY;
  show(grip.view[0] + shift, grip.view[1] + shift);
});
chart.addEventListener("pointerleave", () => { tip.hidden = true; });
chart.addEventListener("keydown", event => {
  const actions = {"+": () => zoom(1 / 2), "=": () => zoom(1 / 2), "-": () => zoom(2), "0": () => show(first, last),
                   ArrowLeft: () => move(-0.1), ArrowRight: () => move(0.1)};
  if (actions[event.key]) { actions[event.key](); event.preventDefault(); }
});
byId("in").onclick = () => zoom(1 / 2);
byId("out").onclick = () => zoom(2);
byId("all").onclick = () => show(first, last);
byId("search").oninput = search;

function hover(event) {
  const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  const row = y > AXIS ? shown[Math.floor((y - AXIS + chart.scrollTop) / ROW)] : undefined;
  const ms = toTime(x), i = row && x >= labels ? at(row, ms) : -1;
  tip.hidden = i < 0 || ms >= row.end[i];
  if (tip.hidden) return;
  const [kind, state, activity, user, group, cause, cores] = head.codes[row.code[i]];
  const fields = [["job", row.job[i]], ["user", user], ["group", group], ["cause", head.causes[cause]],
    ["state", state && `${state}/${activity}`], ["cores", state || row.job[i] ? String(cores) : ""],
    ["from", instant(row.begin[i])], ["to", instant(row.end[i])], ["for", duration(row.end[i] - row.begin[i])]];
  const list = document.createElement("dl");
  for (const [name, text] of fields.filter(field => field[1])) {
    list.append(Object.assign(document.createElement("dt"), {textContent: name}),
                Object.assign(document.createElement("dd"), {textContent: text}));
  }
  tip.replaceChildren(Object.assign(document.createElement("b"), {textContent: `${kinds[kind]}: ${row.name}`}), list);
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
}

load().then(() => {
  shown = rows;
  byId("tools").hidden = chart.hidden = false;
  resize();
  addEventListener("resize", resize);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", resize);
});
