// SPDX-License-Identifier: Apache-2.0
//
// One plot of lines, a line per run. Runs have x values of their own, so uPlot is
// used in the mode in which each series brings them; lines and the nearest point
// under the pointer are then ours to draw and to find.

import uPlot from "uplot";
import { axis } from "./axes.js";
import { element } from "./element.js";
import { look, theme } from "./look.js";

const height = 240;

// Points of a run that have both values, with the record they come from. A
// logarithmic axis has no place for 0.
function facets(run, x, y, positive) {
  const xs = [], ys = [], at = [];
  run.points[y].forEach((value, i) => {
    const where = run.points[x][i];
    if (value !== null && where !== null && (!positive || where > 0)) {
      xs.push(where);
      ys.push(value);
      at.push(i);
    }
  });
  return { xs, ys, at };
}

// The index of the value nearest to x in ascending xs.
function nearest(xs, x) {
  let low = 0, high = xs.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - xs[low - 1] < xs[low] - x ? low - 1 : low;
}

// A path through all points. Of those in one column of pixels only the first, the
// lowest, the highest and the last can be seen.
function trace(line, position) {
  const path = new Path2D();
  let column = null, low, high, last;
  const close = () => {
    if (column === null) return;
    path.lineTo(column, low);
    path.lineTo(column, high);
    path.lineTo(column, last);
  };
  for (let i = 0; i < line.xs.length; i++) {
    const [x, y] = position(i);
    if (column !== null && Math.abs(x - column) < 0.5) {
      low = Math.min(low, y);
      high = Math.max(high, y);
      last = y;
      continue;
    }
    close();
    path.lineTo(x, y);
    column = x;
    low = high = last = y;
  }
  close();
  return path;
}

export class Plot {
  constructor(spec, runs, selection) {
    this.spec = spec;
    this.runs = runs;
    this.selection = selection;
    this.collect();
    this.paths = [];
    this.looks = [];
    this.hint = element("div", { class: "hint", hidden: "" });
    this.canvas = element("div", { class: "canvas" });
    this.box = element(
      "figure",
      { class: "plot", "data-plot": spec.name, role: "group", "aria-label": `${spec.y.label} against ${spec.x.label}` },
      element("figcaption", {}, spec.y.label, element("span", {}, ` against ${spec.x.label}`)),
      this.canvas,
      this.hint,
    );
    selection.addEventListener("shown", () => this.applyShown());
    selection.addEventListener("focus", () => this.applyFocus());
    selection.addEventListener("zoom", (event) => this.applyZoom(event.detail));
  }

  get logarithmic() {
    return Boolean(this.spec.x.wide) && this.selection.logarithmic;
  }

  collect() {
    const { x, y } = this.spec;
    this.lines = this.runs.map((run) => facets(run, x.key, y.key, this.logarithmic));
  }

  // Whether a run has a line here that is not all zeros; single points are in the table.
  get drawable() {
    return this.lines.some((line) => line.xs.length > 1 && line.ys.some((y) => y !== 0));
  }

  // Makes the plot anew, at the width there is and in the colours of the theme.
  draw() {
    this.plot?.destroy();
    this.collect();
    this.paths = [];
    this.looks = this.runs.map((_, i) => look(i));
    this.plot = new uPlot(this.options(), [null, ...this.lines.map((line) => [line.xs, line.ys])], this.canvas);
    this.applyZoom(this.spec.x.key);
  }

  options() {
    const { x, y } = this.spec, colours = { grid: theme("grid"), muted: theme("muted") };
    return {
      mode: 2,
      width: Math.max(220, this.canvas.clientWidth),
      height,
      legend: { show: false },
      cursor: { drag: { x: true, y: false, setScale: true }, points: { show: false }, y: false },
      scales: { x: { time: false, distr: this.logarithmic ? 3 : 1, range: (u, min, max) => this.range(min, max) } },
      axes: [
        axis(x.kind, colours, this.logarithmic, { space: 64, size: 34 }),
        axis(y.kind, colours, false, { space: 34, size: 56 }),
      ],
      series: [null, ...this.runs.map((_, i) => this.series(i))],
      hooks: {
        setCursor: [(u) => this.point(u)],
        setSelect: [(u) => this.selected(u)],
        draw: [(u) => this.mark(u)],
        ready: [(u) => this.listen(u)],
      },
    };
  }

  // From 0 to the end of the longest line, unless the axis is zoomed.
  range(min, max) {
    const zoom = this.selection.zoom[this.spec.x.key];
    if (zoom) return zoom;
    if (min === null || max === null) return this.logarithmic ? [1, 10] : [0, 1];
    return this.logarithmic ? [min / 1.1, max * 1.1] : [0, max > 0 ? max : 1];
  }

  series(i) {
    return {
      label: this.runs[i].name,
      show: this.selection.shown[i],
      facets: [{ scale: "x", auto: true }, { scale: "y", auto: true }],
      paths: (u, s) => this.line(u, s),
    };
  }

  // Draws the line of series s (runs begin at 1).
  line(u, s) {
    const { xs, ys } = this.lines[s - 1];
    const { colour, dash } = this.looks[s - 1];
    const focus = this.selection.focus, ctx = u.ctx, ratio = uPlot.pxRatio;
    if (xs.length === 0) return null;
    ctx.save();
    ctx.beginPath();
    ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    ctx.clip();
    ctx.strokeStyle = colour;
    ctx.globalAlpha = focus && focus.run !== s - 1 ? 0.25 : 1;
    ctx.lineWidth = (focus?.run === s - 1 ? 2.5 : 1.5) * ratio;
    ctx.setLineDash(dash.map((d) => d * ratio));
    ctx.stroke(this.path(u, s - 1));
    if (xs.length === 1) this.dot(u, xs[0], ys[0], colour);
    ctx.restore();
    return null;
  }

  // The run's line on the canvas, kept as long as the scales stay: pointing at a
  // plot redraws all of them.
  path(u, run) {
    const { x, y } = u.scales, line = this.lines[run];
    const key = [x.min, x.max, y.min, y.max, u.bbox.width].join();
    if (this.paths[run]?.key !== key) this.paths[run] = { key, path: trace(line, (i) => [
      u.valToPos(line.xs[i], "x", true), u.valToPos(line.ys[i], "y", true)]) };
    return this.paths[run].path;
  }

  dot(u, x, y, colour) {
    u.ctx.fillStyle = colour;
    u.ctx.beginPath();
    u.ctx.arc(u.valToPos(x, "x", true), u.valToPos(y, "y", true), 4 * uPlot.pxRatio, 0, 2 * Math.PI);
    u.ctx.fill();
  }

  // Where the record that is looked at lies in this plot, or -1.
  place() {
    const focus = this.selection.focus;
    if (!focus || !this.selection.shown[focus.run]) return -1;
    return this.lines[focus.run].at.indexOf(focus.at);
  }

  mark(u) {
    const i = this.place(), focus = this.selection.focus;
    if (i < 0) return;
    const line = this.lines[focus.run];
    this.dot(u, line.xs[i], line.ys[i], this.looks[focus.run].colour);
  }

  // The point nearest to the pointer, of any run that is shown.
  point(u) {
    const { left, top } = u.cursor;
    if (left === undefined || left < 0) return;
    const x = u.posToVal(left, "x");
    let best = null, least = 60;
    this.lines.forEach((line, run) => {
      if (!this.selection.shown[run] || line.xs.length === 0) return;
      const i = nearest(line.xs, x);
      const away = Math.hypot(u.valToPos(line.xs[i], "x") - left, u.valToPos(line.ys[i], "y") - top);
      if (away < least) {
        least = away;
        best = { run, at: line.at[i] };
      }
    });
    this.selection.look(best);
  }

  listen(u) {
    u.over.addEventListener("mouseleave", () => this.selection.look(null));
    u.over.addEventListener("dblclick", () => this.selection.zoomTo(this.spec.x.key, undefined));
  }

  selected(u) {
    const { left, width } = u.select;
    if (width > 0) this.selection.zoomTo(this.spec.x.key, [u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
  }

  applyShown() {
    if (!this.plot) return;
    this.plot.batch(() =>
      this.selection.shown.forEach((on, i) => {
        if (this.plot.series[i + 1].show !== on) this.plot.setSeries(i + 1, { show: on });
      }),
    );
  }

  applyFocus() {
    if (!this.plot) return;
    this.plot.redraw(false);
    const i = this.place(), focus = this.selection.focus;
    this.hint.hidden = i < 0;
    if (i < 0) return;
    const line = this.lines[focus.run], { x, y } = this.spec;
    this.hint.textContent = `${this.runs[focus.run].name}: ${y.format(line.ys[i])} at ${x.format(line.xs[i])}`;
  }

  applyZoom(axis) {
    if (!this.plot || axis !== this.spec.x.key) return;
    const all = this.lines.flatMap((line) => (line.xs.length ? [line.xs[0], line.xs[line.xs.length - 1]] : []));
    if (all.length === 0) return;
    const [min, max] = this.range(Math.min(...all), Math.max(...all));
    this.plot.setScale("x", { min, max });
  }
}
