// SPDX-License-Identifier: Apache-2.0
//
// The page: reads the runs that the command wrote into it and puts the verdict, plots,
// bars and tables in their places.

import { stepBars } from "./bars.js";
import { controls } from "./controls.js";
import { element } from "./element.js";
import { Frontier, numberList } from "./frontier.js";
import { dress } from "./look.js";
import { bytes, count, percent, plain, scaled, seconds } from "./numbers.js";
import { Plot } from "./plot.js";
import { Selection } from "./selection.js";
import { allSettings, common, resultTable } from "./tables.js";
import { judge } from "./verdict.js";
import { say, where } from "./words.js";

const steps = { key: "step", label: "steps", kind: "count", format: (x) => scaled(x, "", 6) };
const time = { key: "seconds", label: "time", kind: "seconds", format: seconds, wide: true };
const sent = { key: "bytes_sent", label: "bytes sent", kind: "bytes", format: bytes, wide: true };
const loss = { key: "loss", label: "Training loss", kind: "number", format: plain };
const accuracy = { key: "test_accuracy", label: "Test accuracy", kind: "share", format: percent };
const perplexity = { key: "perplexity", label: "Perplexity", kind: "number", format: plain };
const residual = { key: "residual_norm", label: "Norm of what waits to be sent", kind: "number", format: plain };
const drift = { key: "drift", label: "Drift between workers", kind: "number", format: plain };

const curveSpecs = [
  ...[accuracy, perplexity, loss].flatMap((y) => [time, sent, steps].map((x) => ({ x, y }))),
  ...[residual, drift].map((y) => ({ x: steps, y })),
];

const data = JSON.parse(document.getElementById("runs").textContent);
const page = document.getElementById("page");
const runs = data.runs;
const selection = new Selection(runs.length);
const plots = [];

function header() {
  page.append(
    element(
      "header",
      {},
      element("h1", {}, data.title),
      element("p", {}, `${count(runs.length, "run")}, gradwire ${data.version}`),
    ),
  );
  if (data.notes.length > 0)
    page.append(element("ul", { class: "notes" }, ...data.notes.map((note) => element("li", {}, note))));
  document.title = data.title;
}

function section(title, ...children) {
  page.append(element("section", {}, element("h2", {}, title), ...children));
}

// Numbers stay with their units, and flags in one piece.
function prose(text) {
  const whole = text.replace(/(\d) (?=%|[kMGT]?B\b|[kMG]bit|[mµ]?s\b|min\b|h\b)/g, "$1\u00a0");
  return whole.split(/(--[a-z-]+(?: \d+)?)/).map((part, i) => (i % 2 === 1 ? element("code", {}, part) : part));
}

// The same, with each name set off where it comes first.
function named(text, names) {
  const [name, ...rest] = names;
  const at = name === undefined ? -1 : text.indexOf(name);
  if (at < 0) return prose(text);
  const after = named(text.slice(at + name.length), rest);
  return [...prose(text.slice(0, at)), element("b", {}, name), ...after];
}

function answer(verdict) {
  const said = say(verdict, runs);
  const paragraphs = said.paragraphs.map(({ where: place, text, names }) =>
    element("p", { class: "verdict" }, element("strong", {}, ...prose(`${place}: `)), ...named(text, names)),
  );
  const caveats = said.caveats === "" ? [] : [element("p", { class: "caveats" }, ...prose(said.caveats))];
  const compared = verdict.groups.some((group) => group.methods.length > 1);
  section(compared ? "Which method?" : "Result", ...paragraphs, ...caveats);
}

// Two plots for every group that has something to compare.
function frontiers(verdict, titles) {
  const boxes = verdict.groups.flatMap((group, i) => {
    if (group.methods.filter((method) => method.sound).length < 2) return [];
    const made = ["seconds", "bytes"].map((cost) => new Frontier(group, cost, titles[i], selection));
    plots.push(...made);
    return [
      element("h3", {}, titles[i]),
      element("div", { class: "grid two" }, ...made.map((plot) => plot.box)),
      ...numberList(group),
    ];
  });
  if (boxes.length === 0) return;
  const help = "Up is better, and left is cheaper. A pale method is beaten: another one is as good and costs no more.";
  const falling =
    "Down is better, and left is cheaper. A pale method is beaten: another one is as good and costs no more.";
  const share = verdict.groups.find((group) => group.metric !== null).metric.share;
  section("What you get for what it takes", element("p", { class: "help" }, share ? help : falling), ...boxes);
}

// Whether the longest run is so much longer that the others could not be seen.
function farApart() {
  const ends = runs.map((run) => run.points.seconds[run.points.seconds.length - 1]).filter((x) => x > 0);
  return ends.length > 1 && Math.max(...ends) > 5 * Math.min(...ends);
}

function curves(verdict) {
  const made = curveSpecs
    .map((spec) => new Plot({ ...spec, name: `${spec.y.key}-${spec.x.key}` }, runs, selection))
    .filter((plot) => plot.drawable);
  if (made.length === 0) return;
  plots.push(...made);
  selection.logarithmic = farApart();
  const help = "Drag over a plot to zoom, double-click to go back.";
  const boxes = element("div", { class: "grid" }, ...made.map((plot) => plot.box));
  section("Curves", controls(runs, verdict, selection), element("p", { class: "help" }, help), boxes);
}

function dimRows() {
  for (const row of document.querySelectorAll("li[data-runs], tr[data-runs]"))
    row.classList.toggle(
      "off",
      row.dataset.runs.split(" ").every((run) => !selection.shown[Number(run)]),
    );
}

function redraw() {
  plots.forEach((plot) => plot.draw());
}

function redrawWhenResized() {
  let width = window.innerWidth,
    waiting;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 100);
  });
}

// Paper has its own width and is light; plots are drawn for it and then again.
function redrawForPaper() {
  const paper = (on) => () => {
    document.documentElement.classList.toggle("paper", on);
    redraw();
  };
  window.addEventListener("beforeprint", paper(true));
  window.addEventListener("afterprint", paper(false));
}

function show() {
  const verdict = judge(runs);
  const titles = verdict.groups.map((group) => where(group, verdict));
  dress(runs.length, verdict);
  answer(verdict);
  frontiers(verdict, titles);
  curves(verdict);
  section("What a step costs", ...stepBars(verdict, runs, titles));
  section("Results and settings", common(runs), resultTable(verdict, runs, titles, selection), allSettings(runs));
  selection.addEventListener("shown", dimRows);
  selection.addEventListener("scale", redraw);
  redraw();
  redrawWhenResized();
  redrawForPaper();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

header();
if (runs.length > 0) show();
document.documentElement.dataset.ready = "yes";
