// SPDX-FileCopyrightText: The slurmscope authors
// SPDX-License-Identifier: Apache-2.0
//
// Charts that answer: figures and times under the pointer or by the arrow keys, and a part of the time by dragging.
// They work on the server's own picture, which stays what it is for who has no script.

const words = JSON.parse(document.body.dataset.words);
const SVG = "http://www.w3.org/2000/svg";
const LEAST = 6; // units of the picture that a drag must be long, or it is a click
const FEWEST = 3; // steps that a zoom shows at least
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200]
  .concat([1, 2, 7, 14, 28, 91, 364].map((days) => days * 86400));

// --- times and figures ----------------------------------------------------------------------------------------------

function clock(timeZone) {
  const day = { weekday: "short", day: "2-digit", month: "short" };
  const time = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "longOffset" };
  const language = document.documentElement.lang;
  const format = new Intl.DateTimeFormat("en-GB", { ...day, ...time, timeZone });
  const named = new Intl.DateTimeFormat(language === "en" ? "en-GB" : language, { ...day, timeZone });
  const told = (by, when) => Object.fromEntries(by.formatToParts(when * 1000).map(({ type, value }) => [type, value]));
  return (when) => {
    const parts = { ...told(format, when), ...told(named, when) };
    const offset = parts.timeZoneName.replace("GMT", "");
    return { ...parts, offset: offset && offset !== "+00:00" ? offset : "UTC" };
  };
}
const clocks = new Map();
const of = (zone) => clocks.get(zone) ?? clocks.set(zone, clock(zone)).get(zone);
/** In the reader's zone, which the page may learn a moment after it was loaded. */
const here = (when) => of(document.body.dataset.zone)(when);
const utc = (when) => of("UTC")(when);

function moment(when, told, step) {
  const at = told(when);
  const seconds = step < 60 ? `:${at.second}` : "";
  return `${at.weekday} ${at.day} ${at.month} ${at.hour}:${at.minute}${seconds} ${at.offset}`;
}

const figure = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });

function offset(when) {
  const found = /([+-])(\d\d):(\d\d)/.exec(here(when).offset);
  return found ? (found[1] === "-" ? -1 : 1) * (found[2] * 3600 + found[3] * 60) : 0;
}

// --- one chart ------------------------------------------------------------------------------------------------------

function element(name, values = {}) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(values)) made.setAttribute(key, value);
  return made;
}

class Chart {
  constructor(frame) {
    this.frame = frame; // what scrolls, and has the focus
    this.at = null; // the bucket that is pointed at
    this.shown = null; // from when to when, where that is not all
    this.drag = null; // where it began
    const on = (name, does) => frame.addEventListener(name, does.bind(this));
    on("pointerdown", this.begin);
    on("pointermove", this.move);
    on("pointerup", this.finish);
    on("pointercancel", this.leave);
    on("pointerleave", this.leave);
    on("dblclick", this.whole);
    on("keydown", this.key);
    on("blur", this.leave);
  }

  get svg() { return this.frame.querySelector("svg[data-chart]"); }

  /** What it is drawn from; another after each refresh. */
  get data() {
    const text = this.svg.dataset.chart;
    if (this.text !== text) {
      this.text = text;
      this.parsed = JSON.parse(text);
      this.parsed.times = this.parsed.times.map((one) => one + this.parsed.ends[0]);
    }
    return this.parsed;
  }

  get ends() { return this.shown ?? this.data.ends; }

  x(when) {
    const [[left, right], [start, end]] = [this.data.box, this.ends];
    return left + ((right - left) * (when - start)) / (end - start);
  }

  y(value) {
    const [[, , top, bottom], [low, high]] = [this.data.box, this.data.range];
    return bottom - (bottom - top) * Math.max(0, Math.min(1, (value - low) / (high - low)));
  }

  /** Where a pointer is in the picture's own units, within the plot. */
  place(event) {
    const box = this.svg.getBoundingClientRect();
    const [left, right] = this.data.box;
    const x = ((event.clientX - box.left) * this.svg.viewBox.baseVal.width) / box.width;
    return Math.max(left, Math.min(right, x));
  }

  when(x) {
    const [[left, right], [start, end]] = [this.data.box, this.ends];
    return start + ((end - start) * (x - left)) / (right - left);
  }

  inside() {
    const { times, step } = this.data;
    const [start, end] = this.ends;
    return times.map((_, at) => at).filter((at) => times[at] + step > start && times[at] < end);
  }

  nearest(when) {
    const { times, step } = this.data;
    const away = (at) => Math.abs(times[at] + step / 2 - when);
    return this.inside().reduce((best, at) => (best === null || away(at) < away(best) ? at : best), null);
  }

  // --- pointing ---

  begin(event) {
    if (event.button || !this.svg) return;
    if (event.pointerType === "mouse") {
      this.drag = this.place(event);
      this.frame.setPointerCapture(event.pointerId);
    }
    this.move(event);
  }

  move(event) {
    if (!this.svg) return;
    const x = this.place(event);
    this.point(this.nearest(this.when(x)));
    if (this.drag !== null) this.mark(Math.min(x, this.drag), Math.abs(x - this.drag));
  }

  finish(event) {
    if (this.drag === null || !this.svg) return;
    const ends = [this.drag, this.place(event)].sort((one, other) => one - other);
    this.drag = null;
    this.mark(0, 0);
    if (ends[1] - ends[0] >= LEAST) this.zoom(...ends.map((one) => this.when(one)));
  }

  leave() {
    if (this.drag !== null) return;
    this.point(null);
  }

  key(event) {
    if (!this.svg || event.ctrlKey || event.metaKey || event.altKey || event.target !== this.frame) return;
    const inside = this.inside();
    const now = this.at === null ? -1 : inside.indexOf(this.at);
    const [far, last] = [event.shiftKey ? 10 : 1, inside.length - 1];
    const to = { ArrowRight: now + far, ArrowLeft: now < 0 ? last : now - far, Home: 0, End: last }[event.key];
    if (to !== undefined && inside.length) {
      this.point(inside[Math.max(0, Math.min(last, to))]);
      document.getElementById("said").textContent = this.tip().innerText;
    } else if (event.key === "+" || event.key === "-") {
      this.near(event.key === "+" ? 0.5 : 2);
    } else if (event.key === "Escape") {
      if (this.shown) this.whole();
      else this.leave();
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Closer to what is pointed at, or further away. */
  near(factor) {
    const { times, step } = this.data;
    const [start, end] = this.ends;
    const middle = this.at === null ? (start + end) / 2 : times[this.at] + step / 2;
    this.zoom(middle - (middle - start) * factor, middle + (end - middle) * factor);
  }

  // --- what is shown of it ---

  cursor() {
    let found = this.svg.querySelector("g.cursor");
    if (!found) {
      found = element("g", { class: "cursor", "data-ours": "", "aria-hidden": "true" });
      this.svg.append(found);
    }
    return found;
  }

  tip() {
    const figure = this.frame.closest("figure");
    let found = figure.querySelector(".tip");
    if (!found) {
      found = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
      found.dataset.ours = "";
      figure.append(found);
    }
    return found;
  }

  mark(x, width) {
    const [, , top, bottom] = this.data.box;
    const cursor = this.cursor();
    cursor.querySelector("rect")?.remove();
    if (width) cursor.append(element("rect", { x, y: top, width, height: bottom - top }));
  }

  point(at) {
    this.at = at;
    const [cursor, tip] = [this.cursor(), this.tip()];
    cursor.querySelectorAll("line, circle").forEach((one) => one.remove());
    tip.hidden = at === null;
    if (at === null) return;
    const { times, step, series, unit, box } = this.data;
    const x = Math.max(box[0], Math.min(box[1], this.x(times[at] + step / 2)));
    cursor.append(element("line", { x1: x, x2: x, y1: box[2], y2: box[3] }));
    const lines = series.map(({ name, values }, index) => {
      const value = values[at];
      const dot = { class: `l l${index % 6}`, cx: x, cy: this.y(value), r: 3 };
      if (value !== null) cursor.append(element("circle", dot));
      const line = document.createElement("div");
      const told = value === null ? words.not_measured : `${figure(value)} ${unit}`;
      line.textContent = series.length > 1 ? `${name}: ${told}` : told;
      return line;
    });
    const [local, world] = [document.createElement("b"), document.createElement("span")];
    local.textContent = moment(times[at], here, step);
    world.textContent = local.textContent.endsWith("UTC") ? "" : moment(times[at], utc, step);
    world.className = "soft";
    tip.replaceChildren(local, world, ...lines);
    this.lay(tip, x);
  }

  /** Beside the line, on the side where there is room; above the plot where it would cover most of it. */
  lay(tip, x) {
    const [svg, figure] = [this.svg.getBoundingClientRect(), this.frame.closest("figure").getBoundingClientRect()];
    const at = svg.left - figure.left + (x * svg.width) / this.svg.viewBox.baseVal.width;
    const left = at + 12 + tip.offsetWidth <= figure.width ? at + 12 : at - 12 - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(left, figure.width - tip.offsetWidth))}px`;
    const narrow = tip.offsetWidth > figure.width * 0.45;
    tip.style.top = `${svg.top - figure.top + (narrow ? -tip.offsetHeight - 2 : 4)}px`;
  }

  // --- a part of the time ---

  zoom(from, to) {
    const { ends, step } = this.data;
    const least = Math.min(FEWEST * step, ends[1] - ends[0]);
    const middle = (from + to) / 2;
    let [start, end] = to - from < least ? [middle - least / 2, middle + least / 2] : [from, to];
    if (start < ends[0]) [start, end] = [ends[0], end + ends[0] - start];
    if (end > ends[1]) [start, end] = [start - end + ends[1], ends[1]];
    start = Math.max(start, ends[0]);
    if (end - start >= ends[1] - ends[0] - 1) return this.whole();
    this.saved ??= ["lines", "times"].map((name) => [...this.svg.querySelector(`g.${name}`).childNodes]);
    this.svg.dataset.zoomed = "";
    this.shown = [start, end];
    this.draw();
    this.button().hidden = false;
    this.point(this.at === null ? null : this.nearest(this.data.times[this.at] + step / 2));
    return undefined;
  }

  whole() {
    if (!this.shown) return;
    ["lines", "times"].forEach((name, at) => this.svg.querySelector(`g.${name}`).replaceChildren(...this.saved[at]));
    delete this.svg.dataset.zoomed;
    this.saved = this.shown = null;
    const button = this.button();
    if (document.activeElement === button) this.frame.focus({ preventScroll: true });
    button.hidden = true;
    this.point(this.at);
  }

  button() {
    const figure = this.frame.closest("figure");
    let found = figure.querySelector("button.all");
    if (!found) {
      const properties = { type: "button", className: "all", textContent: words.whole };
      found = Object.assign(document.createElement("button"), properties);
      found.dataset.ours = "";
      found.addEventListener("click", () => this.whole());
      figure.append(found);
    }
    return found;
  }

  draw() {
    const lines = this.svg.querySelector("g.lines");
    lines.replaceChildren();
    this.data.series.forEach(({ values }, index) => {
      for (const run of this.runs(values)) {
        const points = run.map(([when, value]) => `${this.x(when).toFixed(1)} ${this.y(value).toFixed(1)}`);
        const [zero, first, last] = [this.y(0).toFixed(1), this.x(run[0][0]), this.x(run.at(-1)[0])];
        const closed = ` L${last.toFixed(1)} ${zero} L${first.toFixed(1)} ${zero} Z`;
        if (index === 0) lines.append(element("path", { class: "area", d: `M${points.join(" L")}${closed}` }));
        lines.append(element("path", { class: `l l${index % 6}`, d: `M${points.join(" L")}` }));
      }
    });
    this.svg.querySelector("g.times").replaceChildren(...this.ticks());
  }

  /** Points of what is known one after the other, cut off where the plot ends. */
  runs(values) {
    const { times, step } = this.data;
    const found = [];
    let before = null;
    times.forEach((when, at) => {
      if (values[at] === null) return;
      if (before === null || values[at - 1] === null || when - before > 1.5 * step) found.push([[when, values[at]]]);
      found.at(-1).push([when + step / 2, values[at]]);
      before = when;
      const last = values[at + 1] === undefined || values[at + 1] === null || times[at + 1] - when > 1.5 * step;
      if (last) found.at(-1).push([when + step, values[at]]);
    });
    return found.map((run) => cut(run, ...this.ends)).filter((run) => run.length > 1);
  }

  ticks() {
    const [left, right, , bottom] = this.data.box;
    const [start, end] = this.ends;
    const most = Math.max(2, Math.floor((right - left) / 70));
    const step = STEPS.find((one) => (end - start) / one <= most) ?? STEPS.at(-1);
    const shift = offset(start);
    const found = [];
    for (let when = Math.ceil((start + shift) / step) * step - shift; when <= end; when += step) {
      const at = here(when);
      const midnight = at.hour === "00" && at.minute === "00" && at.second === "00";
      const time = `${at.hour}:${at.minute}${step < 60 ? `:${at.second}` : ""}`;
      const day = `${Number(at.day)} ${at.month}`;
      const text = element("text", { class: "soft", "text-anchor": "middle", y: bottom + 15 });
      text.textContent = step >= 86400 || midnight ? day : found.length ? time : `${day} ${time}`;
      const x = this.x(when);
      const half = text.textContent.length * 3.2;
      text.setAttribute("x", Math.max(left + half, Math.min(this.svg.viewBox.baseVal.width - half, x)).toFixed(1));
      found.push(element("line", { class: "base", x1: x, x2: x, y1: bottom, y2: bottom + 3 }), text);
    }
    return found;
  }
}

/** A line between two times, ended where it crosses them. */
function cut(run, start, end) {
  const found = [];
  run.forEach(([when, value], at) => {
    const next = run[at + 1];
    if (when >= start && when <= end) found.push([when, value]);
    for (const edge of [start, end]) {
      if (next && (when - edge) * (next[0] - edge) < 0) {
        found.push([edge, value + ((next[1] - value) * (edge - when)) / (next[0] - when)]);
      }
    }
  });
  return found;
}

const charts = new WeakMap();

function enhance() {
  for (const svg of document.querySelectorAll("svg[data-chart]")) {
    const frame = svg.parentElement;
    const chart = charts.get(frame);
    if (!chart) charts.set(frame, new Chart(frame));
    // what is pointed at has moved on
    else if (chart.at !== null && !chart.shown) chart.point(chart.at < chart.data.times.length ? chart.at : null);
  }
}

document.addEventListener("portal:changed", enhance);
enhance();
