// SPDX-License-Identifier: Apache-2.0
//
// The page: reads the runs that the command wrote into it and puts plots, bars and
// tables in their places.

import { bitBars, timeBars } from "./bars.js";
import { bytes, element, percent, plain, scaled, seconds } from "./format.js";
import { Plot } from "./plot.js";
import { Selection } from "./selection.js";
import { settings, switches } from "./tables.js";

const steps = { key: "step", label: "steps", format: (x) => scaled(x, "") };
const time = { key: "seconds", label: "time", format: seconds, wide: true };
const sent = { key: "bytes_sent", label: "bytes sent", format: bytes, wide: true };
const loss = { key: "loss", label: "Training loss", format: plain };
const accuracy = { key: "test_accuracy", label: "Test accuracy", format: percent };
const perplexity = { key: "perplexity", label: "Perplexity", format: plain };
const residual = { key: "residual_norm", label: "Norm of what waits to be sent", format: plain };
const drift = { key: "drift", label: "Drift between workers", format: plain };

const groups = [
  ["What was learned", [loss, accuracy, perplexity].flatMap((y) => [steps, time, sent].map((x) => ({ x, y })))],
  ["What is held back", [residual, drift].map((y) => ({ x: steps, y }))],
];

const data = JSON.parse(document.getElementById("runs").textContent);
const page = document.getElementById("page");
const selection = new Selection(data.runs.length);
const plots = [];

function header() {
  const count = `${data.runs.length} run${data.runs.length === 1 ? "" : "s"}`;
  page.append(element("header", {}, element("h1", {}, data.title), element("p", {}, `${count}, gradwire ${data.version}`)));
  if (data.notes.length > 0)
    page.append(element("ul", { class: "notes" }, ...data.notes.map((note) => element("li", {}, note))));
  document.title = data.title;
}

// Plots without a single point are left out.
function section(title, specs) {
  const made = specs
    .map((spec) => new Plot({ ...spec, name: `${spec.y.key}-${spec.x.key}` }, data.runs, selection))
    .filter((plot) => plot.count > 0);
  if (made.length === 0) return;
  plots.push(...made);
  page.append(element("h2", {}, title), element("div", { class: "grid" }, ...made.map((plot) => plot.box)));
}

// Methods differ by orders of magnitude in time and bytes.
function scaleSwitch() {
  const box = element("input", { type: "checkbox", id: "logarithmic" });
  box.addEventListener("change", () => selection.setLogarithmic(box.checked));
  return element("label", { class: "help" }, box, " time and bytes on a logarithmic scale");
}

function dimRows() {
  for (const row of document.querySelectorAll("li[data-run], tr[data-run]"))
    row.classList.toggle("off", !selection.shown[Number(row.dataset.run)]);
}

function redraw() {
  plots.forEach((plot) => plot.draw());
}

function redrawWhenResized() {
  let width = window.innerWidth, waiting;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 100);
  });
}

header();
if (data.runs.length > 0) {
  page.append(switches(data.runs, selection));
  page.append(element("p", { class: "help" }, "Drag over a plot to zoom, double-click to go back; click a run to hide or show it."));
  page.append(scaleSwitch());
  groups.forEach(([title, specs]) => section(title, specs));
  page.append(element("h2", {}, "What it cost"));
  page.append(element("div", { class: "grid two" }, timeBars(data.runs), bitBars(data.runs)));
  page.append(element("h2", {}, "Settings and results"), settings(data.runs));
  selection.addEventListener("shown", dimRows);
  selection.addEventListener("scale", redraw);
  redraw();
  redrawWhenResized();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}
document.documentElement.dataset.ready = "yes";
