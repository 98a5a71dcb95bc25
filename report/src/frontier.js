// SPDX-License-Identifier: Apache-2.0
//
// What a method is worth: how good its model is at the end, against what it took. A
// point per method; those that another one beats in both are pale. uPlot draws the
// axes; points, names and the line through the best are elements above it. Where there
// are too many for their names, the pale ones have numbers, and a list names them.

import uPlot from "uplot";
import { axis } from "./axes.js";
import { drawing, element } from "./element.js";
import { colourOf, theme } from "./look.js";
import { bytes, seconds } from "./numbers.js";
import { placeLabels } from "./place.js";
import { figure } from "./words.js";

const costs = {
  seconds: { title: "time", kind: "seconds", text: seconds },
  bytes: { title: "bytes sent per worker", kind: "bytes", text: bytes },
};

// More names than this are too many for a plot.
const namesMost = 14;

// The best first; its place is a method's number.
function ranked({ methods, metric }) {
  return methods.filter((method) => method.sound).sort((a, b) => metric.quality(b.final) - metric.quality(a.final));
}

// The list that goes with numbers, or nothing.
export function numberList(group) {
  const methods = ranked(group);
  if (methods.length <= namesMost) return [];
  return [
    element(
      "ol",
      { class: "numbers" },
      ...methods.map((method) => element("li", { "data-runs": method.runs.join(" ") }, method.name)),
    ),
  ];
}

export class Frontier {
  constructor(group, cost, title, selection) {
    this.metric = group.metric;
    this.cost = cost;
    this.selection = selection;
    this.ranks = ranked(group);
    this.methods = this.ranks.filter((method) => method[cost] !== null).sort((a, b) => this.pale(a) - this.pale(b));
    this.canvas = element("div", { class: "canvas" });
    const name = this.metric.name[0].toUpperCase() + this.metric.name.slice(1);
    this.box = element(
      "figure",
      {
        class: "frontier",
        "data-plot": `frontier-${cost}`,
        role: "group",
        "aria-label": `${name} against ${costs[cost].title}, ${title}`,
      },
      element("figcaption", {}, name, element("span", {}, ` at the end, against ${costs[cost].title}`)),
      this.canvas,
    );
    selection.addEventListener("shown", () => this.applyShown());
  }

  pale(method) {
    return method[`dominated_${this.cost}`] ? 1 : 0;
  }

  // Far apart values need a logarithmic axis, on which 0 stands at the left end.
  get wide() {
    const positive = this.methods.map((method) => method[this.cost]).filter((x) => x > 0);
    return positive.length > 1 && Math.max(...positive) / Math.min(...positive) > 5;
  }

  rangeX() {
    const all = this.methods.map((method) => method[this.cost]);
    const most = Math.max(...all),
      positive = all.filter((x) => x > 0);
    if (!this.wide) return [0, most > 0 ? 1.15 * most : 1];
    const least = Math.min(...positive),
      room = (most / least) ** 0.08;
    return [least / (all.includes(0) ? room ** 3 : room), most * room ** 1.5];
  }

  rangeY() {
    const all = this.methods.flatMap((method) => [method.low, method.high]);
    const low = Math.min(...all),
      high = Math.max(...all);
    const room = 0.18 * (high - low) || 0.05 * Math.abs(high) || 1;
    return [low - room, high + room];
  }

  draw() {
    this.plot?.destroy();
    const width = Math.max(220, this.canvas.clientWidth),
      colours = { grid: theme("grid"), muted: theme("muted") };
    const [fromX, toX] = this.rangeX(),
      [fromY, toY] = this.rangeY();
    this.plot = new uPlot(
      {
        mode: 2,
        width,
        height: Math.min(420, 250 + 9 * this.methods.length),
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: { time: false, distr: this.wide ? 3 : 1, range: () => [fromX, toX] },
          y: { range: () => [fromY, toY] },
        },
        axes: [
          axis(costs[this.cost].kind, colours, this.wide, { space: 64, size: 34 }),
          axis(this.metric.share ? "share" : "number", colours, false, { space: 34, size: 56 }),
        ],
        series: [
          null,
          {
            facets: [
              { scale: "x", auto: true },
              { scale: "y", auto: true },
            ],
            paths: () => null,
            points: { show: false },
          },
        ],
      },
      [
        null,
        [
          [fromX, toX],
          [fromY, toY],
        ],
      ],
      this.canvas,
    );
    // uPlot lays out in a microtask; positions are right only after it.
    queueMicrotask(() => this.addPoints());
  }

  position(method, value) {
    const x = this.wide && method[this.cost] === 0 ? this.rangeX()[0] : method[this.cost];
    return { x: this.plot.valToPos(x, "x"), y: this.plot.valToPos(value, "y") };
  }

  addPoints() {
    const over = this.plot.over;
    const labels = this.methods.map((method) => this.label(method));
    const lines = drawing("svg", { class: "lines", "aria-hidden": "true" });
    over.append(lines, ...this.methods.map((method) => this.point(method)), ...labels);
    const points = this.methods.map((method, i) => ({
      ...this.position(method, method.final),
      width: labels[i].offsetWidth,
      height: labels[i].offsetHeight,
    }));
    lines.append(this.staircase(), ...this.methods.flatMap((method) => this.range(method)));
    placeLabels(points, { width: over.clientWidth, height: over.clientHeight }).forEach((box, i) => {
      labels[i].style.left = `${box.x}px`;
      labels[i].style.top = `${box.y}px`;
      if (box.far) lines.append(this.leader(points[i], box, this.methods[i]));
    });
    this.applyShown();
  }

  words(method) {
    return `${method.name}: ${figure(this.metric, method.final)}, ${costs[this.cost].text(method[this.cost])}`;
  }

  mark(method, name, ...inside) {
    const made = element(
      "span",
      {
        class: `${name}${this.pale(method) ? " pale" : ""}`,
        "data-runs": method.runs.join(" "),
        title: this.words(method),
      },
      ...inside,
    );
    made.addEventListener("mouseenter", () => this.selection.look({ run: method.runs[0], at: -1 }));
    made.addEventListener("mouseleave", () => this.selection.look(null));
    return made;
  }

  label(method) {
    const zero = this.wide && method[this.cost] === 0 ? ` (${costs[this.cost].text(0)})` : "";
    const number = this.ranks.length > namesMost ? String(this.ranks.indexOf(method) + 1) : "";
    return this.mark(method, "label", number && this.pale(method) ? number : `${number} ${method.name}${zero}`.trim());
  }

  point(method) {
    const made = this.mark(method, "point"),
      { x, y } = this.position(method, method.final);
    made.style.left = `${x}px`;
    made.style.top = `${y}px`;
    made.style.background = colourOf(method.runs[0]);
    return made;
  }

  // From the lowest to the highest of the seeds.
  range(method) {
    if (method.low === method.high) return [];
    const low = this.position(method, method.low),
      high = this.position(method, method.high);
    const made = drawing("line", {
      x1: low.x,
      x2: high.x,
      y1: low.y,
      y2: high.y,
      "data-runs": method.runs.join(" "),
      class: "range",
    });
    made.style.stroke = colourOf(method.runs[0]);
    return [made];
  }

  leader(point, box, method) {
    const x = Math.max(box.x, Math.min(point.x, box.x + box.width));
    const y = Math.max(box.y, Math.min(point.y, box.y + box.height));
    return drawing("line", {
      x1: point.x,
      y1: point.y,
      x2: x,
      y2: y,
      class: "leader",
      "data-runs": method.runs.join(" "),
    });
  }

  // What can be had for no more than so much.
  staircase() {
    const best = this.methods.filter((method) => !this.pale(method)).sort((a, b) => a[this.cost] - b[this.cost]);
    const path = best.map((method, i) => {
      const { x, y } = this.position(method, method.final);
      return i === 0 ? `M${x},${y}` : `H${x}V${y}`;
    });
    return drawing("path", { d: `${path.join("")}H${this.plot.over.clientWidth}`, class: "staircase" });
  }

  applyShown() {
    for (const mark of this.canvas.querySelectorAll("[data-runs]"))
      mark.classList.toggle(
        "gone",
        mark.dataset.runs.split(" ").every((run) => !this.selection.shown[Number(run)]),
      );
  }
}
