"use strict";
// The program of the page. The data is that of page.py: columns of numbers, and each text once.

const DATA = JSON.parse(document.getElementById("data").textContent);
const RUNGS = ["replay", "patch", "update", "instantiate", "eager"];
const COLORED = 8; // kernels that have a colour of their own
const byId = (id) => document.getElementById(id);

// --- words ---

const digits = (value, most = 1) => value.toLocaleString("en", { minimumFractionDigits: most, maximumFractionDigits: most });
const micro = (us) => (us == null ? "–" : us >= 1e6 ? `${digits(us / 1e6, 2)} s` : us >= 1e3 ? `${digits(us / 1e3, 2)} ms` : `${digits(us, us < 10 ? 2 : 1)} us`);
const count = (value) => value.toLocaleString("en");
const share = (value) => (value == null ? "–" : value > 1 ? "> 100 %" : `${digits(value * 100, 0)} %`);

function bytes(value) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (value < 1024) return `${unit === "B" ? value : digits(value)} ${unit}`;
    value /= 1024;
  }
  return `${digits(value, 2)} GiB`;
}

function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

function table(head, rows, numeric = []) {
  const cell = (tag, content, column) => make(tag, { class: numeric.includes(column) ? "n" : column ? "" : "name" }, content);
  return make(
    "table",
    {},
    make("thead", {}, make("tr", {}, ...head.map((name, i) => cell("th", name, i)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((each, i) => cell("td", each, i))))),
  );
}

// --- colours ---

let style = getComputedStyle(document.documentElement);
const shades = new Map(); // what the style says of a name is slow to ask for
function color(name) {
  if (!shades.has(name)) shades.set(name, style.getPropertyValue(`--${name}`).trim());
  return shades.get(name);
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  style = getComputedStyle(document.documentElement);
  shades.clear();
  for (const plot of plots) plot.redraw();
  if (graph) drawLegends();
}

// --- plots: canvases that zoom and pan along x ---

const plots = [];

class Plot {
  // draw(context, plot): paints. tip(x, y, plot): the text at a place, or null. click(x, y, plot).
  constructor(host, what) {
    Object.assign(this, what);
    this.host = host;
    this.left = what.left ?? 0;
    this.low = 0;
    this.high = this.max;
    this.width = 1; // pixels of the canvas without the labels on its left
    this.down = 0; // pixels that are scrolled downwards
    this.canvas = make("canvas", { tabindex: 0, role: "img", "aria-label": what.label });
    const button = (text, title, action) => make("button", { type: "button", title, onclick: action }, text);
    const tools = make(
      "div",
      { class: "tools" },
      button("−", "zoom out", () => this.zoom(2)),
      button("+", "zoom in", () => this.zoom(0.5)),
      button("fit", "show all", () => this.show(0, this.max)),
    );
    host.replaceChildren(this.canvas, tools);
    this.listen();
    new ResizeObserver(() => this.redraw()).observe(host);
    plots.push(this);
    this.redraw();
  }

  x(value) { return this.left + ((value - this.low) / (this.high - this.low)) * this.width; }
  value(x) { return this.low + ((x - this.left) / this.width) * (this.high - this.low); }

  show(low, high) {
    const span = Math.min(this.max, Math.max(high - low, this.least ?? this.max / 1e6));
    this.low = Math.min(Math.max(0, low), this.max - span);
    this.high = this.low + span;
    this.redraw();
  }

  zoom(factor, at = this.left + this.width / 2) {
    const center = this.value(at);
    this.show(center - (center - this.low) * factor, center + (this.high - center) * factor);
  }

  redraw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      const scale = devicePixelRatio || 1;
      const wide = this.host.clientWidth;
      if (!wide) return;
      this.width = Math.max(1, wide - this.left);
      this.canvas.style.height = `${this.height}px`;
      this.canvas.width = wide * scale;
      this.canvas.height = this.height * scale;
      const context = this.canvas.getContext("2d");
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, wide, this.height);
      context.font = "11px system-ui, sans-serif";
      context.textBaseline = "middle";
      this.draw(context, this);
    });
  }

  listen() {
    const canvas = this.canvas;
    const place = (event) => [event.offsetX, event.offsetY];
    let held = null;
    canvas.addEventListener("wheel", (event) => {
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(event.deltaY / 300), event.offsetX);
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX || event.deltaY);
      else return;
      event.preventDefault();
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      held = { x: event.offsetX, y: event.offsetY, low: this.low, high: this.high, down: this.down, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (held) {
        held.moved ||= Math.abs(event.offsetX - held.x) + Math.abs(event.offsetY - held.y) > 4;
        if (!held.moved) return;
        const shift = ((held.x - event.offsetX) / this.width) * (held.high - held.low);
        this.down = Math.max(0, Math.min(this.tall ? this.tall - this.height : 0, held.down + held.y - event.offsetY));
        this.show(held.low + shift, held.high + shift);
        hideTip();
      } else {
        showTip(this.tip(...place(event), this), event);
      }
    });
    canvas.addEventListener("pointerup", (event) => {
      if (held && !held.moved && this.click) this.click(...place(event), this);
      held = null;
    });
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("dblclick", (event) => this.zoom(0.25, event.offsetX));
    canvas.addEventListener("keydown", (event) => {
      const action = { "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.show(0, this.max), ArrowLeft: () => this.pan(-80), ArrowRight: () => this.pan(80) }[event.key];
      if (!action) return;
      action();
      event.preventDefault();
    });
  }

  pan(pixels) {
    const shift = (pixels / this.width) * (this.high - this.low);
    this.show(this.low + shift, this.high + shift);
  }
}

function ticks(low, high, most) {
  const rough = Math.max((high - low) / most, Number.MIN_VALUE);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((each) => each * power >= rough) * power;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
}

// A line of marks above a plot; whole numbers only where the axis counts.
function drawAxis(context, plot, text, whole) {
  context.textAlign = "center";
  for (const at of ticks(plot.low, plot.high, Math.max(2, plot.width / 110))) {
    if (whole && at !== Math.round(at)) continue;
    const x = plot.x(at);
    context.fillStyle = color("line");
    context.fillRect(Math.round(x), 18, 1, plot.height - 18);
    const label = text(at), half = context.measureText(label).width / 2;
    context.fillStyle = color("soft");
    context.fillText(label, Math.min(Math.max(x, plot.left + half), plot.left + plot.width - half), 9);
  }
}

function showTip(text, event) {
  const tip = byId("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18}px`;
}

function hideTip() { byId("tip").hidden = true; }

// --- a graph, with what the columns leave to be computed ---

class Graph {
  constructor(run, data) {
    Object.assign(this, data);
    this.run = run;
    this.size = data.nodes.name.length;
    const ranks = new Map(data.kernels.map((row, rank) => [row[0], rank]));
    this.rank = data.nodes.name.map((name) => ranks.get(data.strings[name]));
    this.isCritical = new Uint8Array(this.size);
    for (const node of data.critical) this.isCritical[node] = 1;
    this.rows = [];
    const order = Array.from({ length: this.size }, (_, i) => i).sort((a, b) => data.nodes.start[a] - data.nodes.start[b] || a - b);
    for (const node of order) (this.rows[data.nodes.row[node]] ??= []).push(node);
    this.into = Array.from({ length: this.size }, () => []);
    this.outOf = Array.from({ length: this.size }, () => []);
    data.edges.before.forEach((before, i) => {
      this.into[data.edges.after[i]].push(i);
      this.outOf[before].push(i);
    });
  }

  get isTimed() { return this.unit === "us"; }
  text(number) { return this.strings[number]; }
  name(node) { return this.text(this.nodes.name[node]); }
  caller(node) { return this.text(this.nodes.caller[node]); }
  bytes(node) { return this.nodes.read[node] + this.nodes.written[node]; }
  us(node) { return this.isTimed ? this.nodes.us[node] : null; }
  rate(node) { return this.isTimed && this.nodes.us[node] > 0 ? this.bytes(node) / this.nodes.us[node] / 1e3 : null; }
  floor(node) { return this.run.bandwidth ? this.bytes(node) / this.run.bandwidth / 1e3 : null; }
  share(node) { const rate = this.rate(node); return rate != null && this.run.bandwidth ? rate / this.run.bandwidth : null; }
  color(node) { const rank = this.rank[node]; return color(rank < COLORED ? `k${rank}` : "rest"); }

  // The first value of the chain in place that a value of the memory plan belongs to.
  head(value) { return this.memory.over[value] < 0 ? value : this.memory.over[value]; }

  summary(node) {
    const lines = [`${node} ${this.name(node)}`];
    if (this.isTimed) lines.push(`${micro(this.us(node))} by itself`);
    const rate = this.rate(node);
    lines.push(bytes(this.bytes(node)) + (rate == null ? "" : `, ${digits(rate, 0)} GB/s`) + (this.share(node) == null ? "" : `, ${share(this.share(node))} of the bandwidth`));
    if (this.caller(node)) lines.push(this.caller(node));
    return lines.join("\n");
  }
}

let graph = null;
let chosen = -1;
let matches = null; // a set of nodes, or null where nothing is searched for
let timeline, memory, ladder;

// --- the timeline ---

const AXIS = 20;

function makeTimeline() {
  const rows = graph.rows.length;
  const high = Math.max(6, Math.min(24, Math.floor(340 / Math.max(1, rows))));
  const tall = rows * high + AXIS;
  byId("timeline-note").textContent = graph.isTimed
    ? "each node begins when the last of those it waits for ends; times are those of nodes by themselves"
    : "the nodes were not timed: each counts one";
  if (!graph.size) return void byId("timeline").replaceChildren(make("p", { class: "empty" }, "The graph has no nodes."));
  timeline = new Plot(byId("timeline"), {
    label: "timeline of the nodes",
    max: Math.max(graph.length, 1e-3),
    height: Math.min(tall, 360 + AXIS),
    tall,
    rowHeight: high,
    draw: drawTimeline,
    tip: (x, y, plot) => { const node = nodeAt(x, y, plot); return node < 0 ? null : graph.summary(node); },
    click: (x, y, plot) => choose(nodeAt(x, y, plot)),
  });
}

function firstEndingAfter(row, value) {
  let low = 0, high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const node = row[middle];
    if (graph.nodes.start[node] + graph.nodes.us[node] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function drawTimeline(context, plot) {
  drawAxis(context, plot, graph.isTimed ? micro : count, !graph.isTimed);
  const { start, us } = graph.nodes, high = plot.rowHeight, faint = 0.16;
  const colors = Array.from({ length: COLORED + 1 }, (_, rank) => color(rank < COLORED ? `k${rank}` : "rest"));
  const mark = color("mark");
  context.save();
  context.beginPath();
  context.rect(0, AXIS, plot.left + plot.width, plot.height - AXIS);
  context.clip();
  context.textAlign = "left";
  graph.rows.forEach((row, place) => {
    const y = AXIS + place * high - plot.down;
    if (y + high < AXIS || y > plot.height) return;
    let drawn = -1; // the last pixel that is painted: what is narrower than one is painted once
    for (let i = firstEndingAfter(row, plot.low); i < row.length; i++) {
      const node = row[i], x = plot.x(start[node]);
      if (start[node] > plot.high) break;
      const wide = Math.max(plot.x(start[node] + us[node]) - x, 1);
      const isMatch = !matches || matches.has(node);
      if (x + wide <= drawn && !(matches && isMatch)) continue;
      context.globalAlpha = isMatch ? 1 : faint;
      context.fillStyle = colors[Math.min(graph.rank[node], COLORED)];
      const gap = wide > 4 ? 1 : 0;
      context.fillRect(x, y + 1, wide - gap, high - 3);
      if (graph.isCritical[node]) {
        context.fillStyle = mark;
        context.fillRect(x, y + high - 3, wide - gap, 2);
      }
      if (wide > 40 && high >= 14) {
        context.fillStyle = "#ffffff";
        const from = Math.max(x, 0) + 4;
        context.fillText(fitted(context, graph.name(node), x + wide - from - 4), from, y + high / 2 - 1);
      }
      drawn = Math.ceil(x + wide - 0.5);
      // Zoomed out, many nodes lie within one pixel: the next that reaches beyond it is looked up.
      if (wide === 1 && !matches) i = Math.max(i, firstEndingAfter(row, plot.value(drawn)) - 1);
    }
  });
  context.globalAlpha = 1;
  if (chosen >= 0) drawChosen(context, plot);
  context.restore();
}

function drawChosen(context, plot) {
  const { start, us, row } = graph.nodes, high = plot.rowHeight;
  const middle = (node) => AXIS + row[node] * high + high / 2 - plot.down;
  context.strokeStyle = color("ink");
  context.lineWidth = 1.2;
  const line = (from, to) => {
    context.beginPath();
    context.moveTo(plot.x(start[from] + us[from]), middle(from));
    context.lineTo(plot.x(start[to]), middle(to));
    context.stroke();
  };
  for (const edge of graph.into[chosen]) line(graph.edges.before[edge], chosen);
  for (const edge of graph.outOf[chosen]) line(chosen, graph.edges.after[edge]);
  context.lineWidth = 2;
  context.strokeRect(plot.x(start[chosen]), middle(chosen) - high / 2 + 1, Math.max(2, plot.x(start[chosen] + us[chosen]) - plot.x(start[chosen])), high - 3);
}

const widths = new Map();
function fitted(context, text, wide) {
  if (!widths.has(text)) widths.set(text, context.measureText(text).width);
  const whole = widths.get(text);
  if (whole <= wide) return text;
  const letters = Math.floor((text.length * wide) / whole) - 1;
  return letters < 3 ? "" : `${text.slice(0, letters)}…`;
}

function nodeAt(x, y, plot) {
  if (y < AXIS) return -1;
  const row = graph.rows[Math.floor((y - AXIS + plot.down) / plot.rowHeight)];
  if (!row) return -1;
  const slack = plot.value(x + 2) - plot.value(x);
  const node = row[firstEndingAfter(row, plot.value(x) - slack)];
  return node !== undefined && graph.nodes.start[node] <= plot.value(x) + slack ? node : -1;
}

// --- memory ---

function makeMemory() {
  const plan = graph.memory, host = byId("memory"), note = byId("memory-note");
  note.textContent = "";
  memory = null;
  if (!plan || !plan.offset.length) {
    return void host.replaceChildren(make("p", { class: "empty" }, "This graph has no intermediates with a plan of their own: the step is recorded at each call, or writes to memory that it was given."));
  }
  const inPlace = plan.over.filter((over) => over >= 0).length;
  note.textContent = `${count(plan.offset.length)} intermediates in ${bytes(plan.bytes)} (no plan is below ${bytes(plan.lowerBound)}); ${count(inPlace)} in place, in the colour of what they continue; not to scale`;
  memory = new Plot(host, {
    label: "intermediates in their block of memory",
    max: graph.size,
    least: Math.min(4, graph.size),
    left: 78,
    height: 260,
    draw: drawMemory,
    tip: (x, y, plot) => memoryTip(valueAt(x, y, plot)),
    click: (x, y, plot) => { const value = valueAt(x, y, plot); if (value >= 0) choose(plan.first[value]); },
  });
}

const lastOf = (value) => (graph.memory.result[value] ? graph.size : graph.memory.last[value] + 1);

// Offsets are drawn in bands, so that one large value leaves room for the others; between two of them in proportion.
// `from` and `to` are columns of graph.memory.bands: 0 is the offset, 1 the place from 0 to 1.
function throughBands(value, from, to) {
  const bands = graph.memory.bands;
  let low = 0, high = bands.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (bands[middle][from] <= value) low = middle;
    else high = middle;
  }
  const [before, after] = [bands[low], bands[high]], span = after[from] - before[from];
  return before[to] + (span ? ((value - before[from]) / span) * (after[to] - before[to]) : 0);
}

const memoryY = (offset, plot) => AXIS + throughBands(offset, 0, 1) * (plot.height - AXIS - 2);

function drawMemory(context, plot) {
  drawAxis(context, plot, (at) => `node ${count(at)}`, true);
  const plan = graph.memory;
  context.textAlign = "right";
  context.fillStyle = color("soft");
  let labelled = -Infinity;
  for (const [offset, place] of plan.bands) {
    const y = Math.min(plot.height - 8, Math.max(AXIS + 6, AXIS + place * (plot.height - AXIS - 2)));
    if (y - labelled < 24 && offset !== plan.bytes) continue;
    if (y - labelled >= 13) context.fillText(bytes(offset), plot.left - 8, y);
    labelled = y;
  }
  context.save();
  context.beginPath();
  context.rect(plot.left, AXIS, plot.width, plot.height - AXIS);
  context.clip();
  const drawn = new Map(); // for each offset the last pixel that is painted: what is narrower than one is painted once
  for (let value = 0; value < plan.offset.length; value++) {
    const x = plot.x(plan.first[value]), right = plot.x(lastOf(value));
    if (right < plot.left || x > plot.left + plot.width || right <= drawn.get(plan.offset[value])) continue;
    drawn.set(plan.offset[value], Math.ceil(Math.max(right, x + 1) - 0.5));
    const y = memoryY(plan.offset[value], plot), high = Math.max(1, memoryY(plan.offset[value] + plan.size[value], plot) - y);
    context.fillStyle = color(`k${graph.head(value) % COLORED}`);
    context.globalAlpha = plan.result[value] ? 1 : 0.75;
    context.fillRect(x, y, Math.max(1, right - x - (right - x > 4)), Math.max(1, high - (high > 4)));
    if (plan.over[value] >= 0 && right - x > 6) {
      context.globalAlpha = 1;
      context.fillStyle = color("ink");
      context.fillRect(x, y, 2, Math.max(1, high - 1)); // where the value before it is written over
    }
    if (plan.result[value] && right - x > 60 && high > 12) {
      context.globalAlpha = 1;
      context.fillStyle = "#ffffff";
      context.textAlign = "left";
      context.fillText("result", Math.max(x, plot.left) + 5, y + high / 2);
    }
  }
  context.globalAlpha = 1;
  if (chosen >= 0) {
    context.fillStyle = color("mark");
    context.fillRect(plot.x(chosen), AXIS, Math.max(1, Math.min(2, plot.x(chosen + 1) - plot.x(chosen))), plot.height);
  }
  context.restore();
}

function valueAt(x, y, plot) {
  const plan = graph.memory, at = plot.value(x);
  const offset = throughBands((y - AXIS) / (plot.height - AXIS - 2), 1, 0);
  for (let value = plan.offset.length - 1; value >= 0; value--) {
    if (plan.offset[value] <= offset && offset < plan.offset[value] + plan.size[value] && plan.first[value] <= at && at < lastOf(value)) return value;
  }
  return -1;
}

function memoryTip(value) {
  if (value < 0) return null;
  const plan = graph.memory;
  const last = plan.result[value] ? "a result: kept until the step is gone" : `last used by node ${plan.last[value]} ${graph.name(plan.last[value])}`;
  const over = plan.over[value] < 0 ? "" : `\nin place, over the value of node ${plan.first[plan.over[value]]}`;
  return `${bytes(plan.size[value])} at ${count(plan.offset[value])}\nmade by node ${plan.first[value]} ${graph.name(plan.first[value])}\n${last}${over}`;
}

// --- launches ---

function makeLadder() {
  const { us, device } = graph.launches, host = byId("ladder");
  ladder = null;
  byId("rungs").replaceChildren();
  byId("reasons").replaceChildren();
  if (!us.length) {
    return void host.replaceChildren(make("p", { class: "empty" }, "No launches are known: a dump has none. HIPRT_GRAPH_TRACE notes them."));
  }
  const known = [...us, ...device.filter((each) => each != null)].filter((each) => each > 0);
  const low = Math.floor(Math.log10(Math.min(...bounds(known)))), high = Math.ceil(Math.log10(Math.max(...bounds(known))));
  ladder = new Plot(host, {
    label: "launches, what each cost",
    max: us.length,
    least: Math.min(4, us.length),
    left: 78,
    height: 190,
    range: [low, Math.max(high, low + 1)],
    draw: drawLadder,
    tip: (x, y, plot) => ladderTip(Math.floor(plot.value(x))),
  });
}

function bounds(values) {
  let low = Infinity, high = 0;
  for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
  return values.length ? [low, high] : [1, 10];
}

function drawLadder(context, plot) {
  drawAxis(context, plot, (at) => `launch ${count(at)}`, true);
  const { us, rung, device } = graph.launches, [low, high] = plot.range;
  const bottom = plot.height - 4;
  const y = (value) => bottom - ((Math.log10(Math.max(value, 10 ** low)) - low) / (high - low)) * (bottom - AXIS - 6);
  context.textAlign = "right";
  for (let power = low; power <= high; power++) {
    context.fillStyle = color("line");
    context.fillRect(plot.left, Math.round(y(10 ** power)), plot.width, 1);
    context.fillStyle = color("soft");
    context.fillText(micro(10 ** power).replace(/\.0+(?= )/, ""), plot.left - 8, Math.min(bottom - 4, y(10 ** power)));
  }
  const colors = Object.fromEntries(RUNGS.map((name) => [name, color(name)])), dot = color("ink");
  const each = plot.width / (plot.high - plot.low), wide = Math.max(1, Math.min(14, each - (each > 3 ? 1 : 0)));
  // Of launches that share a pixel the one that cost the most is seen.
  let pixel = -1, top = Infinity;
  for (let i = Math.max(0, Math.floor(plot.low)); i < Math.min(us.length, Math.ceil(plot.high)); i++) {
    const x = plot.x(i + 0.5), at = y(us[i]);
    if (Math.round(x) === pixel && at >= top) continue;
    [pixel, top] = [Math.round(x), at];
    context.fillStyle = colors[graph.text(rung[i])];
    context.fillRect(Math.max(plot.left, x - wide / 2), at, wide, bottom - at);
  }
  context.fillStyle = dot;
  pixel = -1;
  for (let i = Math.max(0, Math.floor(plot.low)); i < Math.min(us.length, Math.ceil(plot.high)); i++) {
    const x = plot.x(i + 0.5);
    if (device[i] == null || Math.round(x) === pixel) continue;
    pixel = Math.round(x);
    context.fillRect(x - 1.5, y(device[i]) - 1.5, 3, 3);
  }
}

function ladderTip(i) {
  const { us, rung, device, why } = graph.launches;
  if (!(i >= 0 && i < us.length)) return null;
  const lines = [`launch ${count(i)}: ${graph.text(rung[i])}`, `${micro(us[i])} on the host`];
  if (device[i] != null) lines.push(`${micro(device[i])} on the device`);
  if (graph.text(why[i])) lines.push(graph.text(why[i]));
  return lines.join("\n");
}

function drawReasons() {
  byId("rungs").replaceChildren(...graph.rungs.map(([rung, times, us]) => make("span", {}, swatch(color(rung)), `${rung} ${count(times)}, median ${micro(us)}`)));
  if (!graph.reasons.length) return void byId("reasons").replaceChildren();
  byId("reasons").replaceChildren(
    table(["rung", "times", "why", "first difference"], graph.reasons.map(([rung, reason, difference, times]) => [rung, count(times), reason, difference || "–"]), [1]),
  );
}

// --- sums, kernels, legends ---

const swatch = (shade) => make("i", { style: `background:${shade}` });

function drawTiles() {
  const tile = (value, name) => make("div", { class: "tile" }, make("b", {}, value), make("span", {}, name));
  const part = graph.floorUs != null && graph.deviceUs ? graph.floorUs / graph.deviceUs : null;
  const tiles = [
    tile(micro(graph.deviceUs), "a launch on the device, median"),
    tile(graph.isTimed ? micro(graph.totalUs) : "–", "all nodes, one behind the other"),
    tile(graph.isTimed ? micro(graph.length) : `${count(graph.length)} nodes`, `critical path, ${count(graph.critical.length)} nodes`),
    tile(micro(graph.floorUs), `floor: ${bytes(graph.distinctBytes)} that are declared, once` + (graph.run.bandwidth ? ` at ${digits(graph.run.bandwidth, 0)} GB/s` : ", no bandwidth measured")),
    part != null && part > 1 ? tile("–", "of the floor's speed: memory that lies in caches, or is declared and not touched") : tile(share(part), "of the floor's speed"),
    tile(count(graph.size), `nodes, ${count(graph.edges.before.length)} edges`),
  ];
  byId("tiles").replaceChildren(...tiles);
  byId("tiles").title = `Node times: ${graph.method}`;
}

function drawKernels() {
  const bar = (value) => value == null ? "–" : make("span", {}, make("span", { class: "share" }, make("i", { style: `width:${Math.min(100, value * 100)}%` })), share(value));
  const rows = graph.kernels.map(([name, nodes, nbytes, us, floor, rate, part], rank) => [
    make("span", {}, swatchOf(rank), name),
    count(nodes),
    micro(us),
    micro(floor),
    bytes(nbytes),
    rate == null ? "–" : `${digits(rate, 0)} GB/s`,
    bar(part),
  ]);
  byId("kernels").replaceChildren(
    rows.length ? table(["kernel", "nodes", "time", "floor", "declared", "achieved", "of the bandwidth"], rows, [1, 2, 3, 4, 5]) : make("p", { class: "none" }, "The graph has no nodes."),
  );
}

function swatchOf(rank) {
  const made = swatch(`var(--${rank < COLORED ? `k${rank}` : "rest"})`);
  made.style.cssText += ";display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:7px";
  return made;
}

function drawLegends() {
  const named = graph.kernels.slice(0, COLORED).map((row, rank) => make("span", {}, swatch(color(`k${rank}`)), row[0]));
  if (graph.kernels.length > COLORED) named.push(make("span", {}, swatch(color("rest")), `${graph.kernels.length - COLORED} more kernels`));
  named.push(make("span", {}, swatch(color("mark")), "critical path"));
  byId("legend").replaceChildren(...named, make("span", {}, "ctrl + wheel zooms, drag pans, a click selects"));
  drawReasons();
}

// --- the list of nodes: only the rows in sight are elements ---

const ROW = 24;
const COLUMNS = [
  ["node", (i) => i, String],
  ["kernel", (i) => graph.name(i), String],
  ["time", (i) => graph.us(i) ?? -1, (value) => (value < 0 ? "–" : micro(value))],
  ["floor", (i) => graph.floor(i) ?? -1, (value) => (value < 0 ? "–" : micro(value))],
  ["declared", (i) => graph.bytes(i), bytes],
  ["bandwidth", (i) => graph.share(i) ?? -1, (value) => (value < 0 ? "–" : share(value))],
  ["launched by", (i) => graph.caller(i), (value) => value.split("/").pop() || "–"],
];
const list = { order: [], by: 0, down: false };

function sortNodes() {
  const key = COLUMNS[list.by][1], sign = list.down ? -1 : 1;
  const nodes = Array.from({ length: graph.size }, (_, i) => i);
  list.order = matches ? nodes.filter((node) => matches.has(node)) : nodes;
  const keys = nodes.map(key);
  list.order.sort((a, b) => (keys[a] < keys[b] ? -sign : keys[a] > keys[b] ? sign : a - b));
}

function drawNodes() {
  const host = byId("nodes");
  sortNodes();
  const head = make("div", { class: "head" });
  COLUMNS.forEach(([name], column) => {
    const arrow = list.by === column ? (list.down ? " ↓" : " ↑") : "";
    const sort = () => {
      list.down = list.by === column ? !list.down : column > 1 && column < 6;
      list.by = column;
      drawNodes();
    };
    head.append(make("span", { class: column > 1 && column < 6 ? "n" : "" }, make("button", { type: "button", onclick: sort }, name + arrow)));
  });
  const space = make("div"), frame = make("div", { class: "window", tabindex: 0 }, space);
  space.style.height = `${list.order.length * ROW}px`;
  frame.style.height = `${Math.min(14, Math.max(1, list.order.length)) * ROW}px`;
  frame.addEventListener("scroll", () => requestAnimationFrame(() => fillRows(frame, space)));
  host.replaceChildren(head, list.order.length ? frame : make("p", { class: "none" }, "No node is found."));
  fillRows(frame, space);
}

function fillRows(frame, space) {
  const first = Math.max(0, Math.floor(frame.scrollTop / ROW) - 4);
  const rows = [];
  for (let place = first; place < Math.min(list.order.length, first + 24); place++) {
    const node = list.order[place];
    const cells = COLUMNS.map(([, key, text], column) => make("span", { class: column > 1 && column < 6 ? "n" : "", title: column === 1 || column === 6 ? String(key(node)) : "" }, text(key(node))));
    const row = make("div", { class: node === chosen ? "row chosen" : "row", onclick: () => choose(node, true) }, ...cells);
    row.style.top = `${place * ROW}px`;
    rows.push(row);
  }
  space.replaceChildren(...rows);
}

function showInList() {
  const frame = byId("nodes").querySelector(".window"), place = list.order.indexOf(chosen);
  if (!frame) return;
  if (place >= 0 && (place * ROW < frame.scrollTop || (place + 1) * ROW > frame.scrollTop + frame.clientHeight)) frame.scrollTop = place * ROW - frame.clientHeight / 2;
  fillRows(frame, frame.firstChild);
}

// --- one node ---

function choose(node, isMoving = false) {
  if (node < 0) return;
  chosen = node;
  if (isMoving && timeline) {
    const start = graph.nodes.start[node], us = graph.nodes.us[node];
    if (start < timeline.low || start + us > timeline.high) {
      const half = (timeline.high - timeline.low) / 2;
      timeline.show(start + us / 2 - half, start + us / 2 + half);
    }
    const y = graph.nodes.row[node] * timeline.rowHeight;
    if (y < timeline.down || y + timeline.rowHeight > timeline.down + timeline.height - AXIS) timeline.down = Math.max(0, Math.min(y - 40, timeline.tall - timeline.height));
  }
  for (const plot of plots) plot.redraw();
  showInList();
  drawDetail();
}

function drawDetail() {
  const host = byId("detail");
  if (chosen < 0) {
    return void host.replaceChildren(make("h3", {}, "A node"), make("p", { class: "none" }, "Click a node in the timeline or in the list: its memory, its edges with their hazards, and the line that launched it are shown here."));
  }
  const node = chosen, pair = (name, value) => [make("dt", {}, name), make("dd", {}, value)];
  const link = (other) => make("button", { type: "button", onclick: () => choose(other, true) }, `${other} ${graph.name(other)}`);
  const edges = (indices, end) => make("ul", {}, ...indices.slice(0, 40).map((edge) => make("li", {}, link(graph.edges[end][edge]), make("br"), graph.text(graph.edges.why[edge]))), indices.length > 40 ? make("li", {}, `… ${indices.length - 40} more`) : null);
  const part = (title, indices, end) => indices.length ? [make("h4", {}, `${title} (${indices.length})`), edges(indices, end)] : [];
  host.replaceChildren(
    make("h3", {}, `${node} ${graph.name(node)}`),
    make("span", {}, graph.isCritical[node] ? "on the critical path" : ""),
    make("dl", {},
      ...pair("time", micro(graph.us(node))),
      ...pair("floor of its bytes", micro(graph.floor(node))),
      ...pair("reads", bytes(graph.nodes.read[node])),
      ...pair("writes", bytes(graph.nodes.written[node])),
      ...pair("achieved", graph.rate(node) == null ? "–" : `${digits(graph.rate(node), 0)} GB/s`),
      ...pair("of the bandwidth", share(graph.share(node))),
    ),
    make("h4", {}, "launch"),
    make("code", {}, graph.text(graph.nodes.shape[node])),
    ...(graph.caller(node) ? [make("h4", {}, "launched by"), make("code", {}, graph.caller(node))] : []),
    make("h4", {}, "memory"),
    make("ul", {}, ...(graph.nodes.accesses[node].length ? graph.nodes.accesses[node].map((text) => make("li", {}, make("code", {}, graph.text(text)))) : [make("li", {}, "none declared")])),
    ...part("waits for", graph.into[node], "before"),
    ...part("is waited for by", graph.outOf[node], "after"),
    ...(graph.text(graph.nodes.arguments[node]) ? [make("h4", {}, "arguments"), make("code", {}, graph.text(graph.nodes.arguments[node]))] : []),
  );
}

// --- search ---

function search(text) {
  const wanted = text.trim().toLowerCase();
  matches = null;
  byId("matches").textContent = "";
  if (wanted) {
    const hits = graph.strings.map((each) => each.toLowerCase().includes(wanted));
    matches = new Set();
    for (let node = 0; node < graph.size; node++) if (hits[graph.nodes.name[node]] || hits[graph.nodes.caller[node]]) matches.add(node);
    byId("matches").textContent = `${count(matches.size)} found`;
  }
  for (const plot of plots) plot.redraw();
  drawNodes();
}

function nextMatch() {
  const nodes = matches ? [...matches] : [];
  const next = nodes.find((node) => node > chosen) ?? nodes[0];
  if (next !== undefined) choose(next, true);
}

// --- two runs ---

function drawComparison() {
  const section = byId("comparison"), body = section.querySelector(".body");
  section.hidden = DATA.runs.length < 2;
  if (section.hidden) return;
  if (!DATA.comparisons.length) return void body.replaceChildren(make("p", { class: "none" }, "The runs have no step in common."));
  const parts = [];
  for (const each of DATA.comparisons) {
    const [one, other] = [each.before, each.after].map(([run, place]) => DATA.runs[run].graphs[place]);
    const change = (before, after, text) => {
      if (before == null || after == null) return "–";
      const less = after - before, ratio = before ? ` (${less > 0 ? "+" : ""}${digits((less / before) * 100)} %)` : "";
      return make("span", { class: less > 0 ? "worse" : less < 0 ? "better" : "" }, less === 0 ? "the same" : `${less > 0 ? "+" : "−"}${text(Math.abs(less))}${ratio}`);
    };
    const row = (name, value, text) => [name, text(value(one)), text(value(other)), change(value(one), value(other), text)];
    const replays = (side) => side.rungs.find(([rung]) => rung === "replay")?.[2] ?? null;
    const rows = [
      row("a launch on the device", (side) => side.deviceUs, micro),
      row("a replay on the host", replays, micro),
      row("all nodes, one by one", (side) => side.totalUs, micro),
      row("critical path", (side) => (side.unit === "us" ? side.length : null), micro),
      row("nodes", (side) => side.nodes.name.length, count),
      row("edges", (side) => side.edges.before.length, count),
      row("intermediates", (side) => (side.memory ? side.memory.bytes : 0), bytes),
    ];
    const differing = each.kernels.filter(([, nodes, us, others, otherUs]) => nodes !== others || us !== otherUs).slice(0, 20);
    const kernels = differing.map(([name, nodes, us, others, otherUs]) => [name, `${count(nodes)} → ${count(others)}`, micro(us), micro(otherUs), change(us, otherUs, micro)]);
    parts.push(
      make("p", {}, `${one.step} [${one.key}] → ${other.step} [${other.key}]. `, each.firstNode ? `The first node that differs: ${each.firstNode}` : "Both have the same nodes."),
      make("div", { class: "scroll" }, table(["", DATA.runs[0].name, DATA.runs[1].name, "change"], rows, [1, 2, 3])),
      kernels.length ? make("div", { class: "scroll" }, table(["kernel", "nodes", DATA.runs[0].name, DATA.runs[1].name, "change"], kernels, [1, 2, 3, 4])) : null,
    );
  }
  body.replaceChildren(...parts.filter((part) => part));
}

// --- the page ---

function open(run, place) {
  graph = new Graph(DATA.runs[run], DATA.runs[run].graphs[place]);
  chosen = -1;
  matches = null;
  byId("search").value = "";
  byId("matches").textContent = "";
  plots.length = 0;
  const { machine, bandwidth, command } = DATA.runs[run];
  const facts = [machine.device, machine.provider && `${machine.provider} ${machine.library}`, bandwidth && `${digits(bandwidth, 0)} GB/s read`, machine.hiprt && `hiprt ${machine.hiprt}${machine.commit ? ` (${machine.commit})` : ""}`, machine.date, command];
  byId("machine").textContent = facts.filter(Boolean).join(" · ");
  drawTiles();
  makeTimeline();
  makeLadder();
  makeMemory();
  drawKernels();
  drawLegends();
  drawNodes();
  drawDetail();
}

function begin() {
  const choice = byId("graph"), notes = [];
  DATA.runs.forEach((run, i) => {
    run.graphs.forEach((each, k) => {
      const prefix = DATA.runs.length > 1 ? `${run.name}: ` : "";
      choice.append(make("option", { value: `${i} ${k}` }, `${prefix}${each.step}, ${count(each.nodes.name.length)} nodes [${each.key.slice(0, 8)}]`));
    });
    for (const [what, left] of Object.entries(run.leftOut)) if (left) notes.push(`${run.name}: ${count(left)} more ${what} were not kept.`);
    const untimed = run.graphs.find((each) => each.unit !== "us");
    if (untimed) notes.push(`${run.name}, ${untimed.step}: node times ${untimed.method}.`);
  });
  byId("graph-choice").hidden = choice.length < 2;
  choice.addEventListener("change", () => open(...choice.value.split(" ").map(Number)));
  byId("search").addEventListener("input", (event) => search(event.target.value));
  byId("search").addEventListener("keydown", (event) => { if (event.key === "Enter") nextMatch(); });
  byId("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  drawComparison();
  if (!choice.length) {
    for (const section of document.querySelectorAll("#content > section")) section.hidden = true;
    notes.push("The run has no graph.");
  } else {
    const main = [...choice.options].findIndex((option) => option.value.startsWith(DATA.runs.length > 1 ? "1 " : "0 "));
    choice.selectedIndex = Math.max(0, main);
    open(...choice.value.split(" ").map(Number));
  }
  byId("note").hidden = !notes.length;
  byId("note").textContent = notes.join(" ");
}

begin();
