// SPDX-License-Identifier: Apache-2.0
//
// Buttons that hide and show runs: one per link, number of workers, method and so on
// where runs are a grid of these, else one per run.

import { element } from "./element.js";
import { colourSample, dashSample, sample } from "./look.js";
import { link, plain } from "./numbers.js";

// The sets of runs with the same value, in the order of their first run.
function split(runs, title, valueOf, textOf, drawn) {
  const found = new Map();
  runs.forEach((run, index) => {
    const value = valueOf(run, index);
    if (!found.has(value)) found.set(value, new Set());
    found.get(value).add(index);
  });
  return { title, drawn, sets: [...found].map(([value, set]) => ({ text: textOf(value), set })) };
}

// What runs differ in.
function dimensions(runs, verdict) {
  const names = [];
  for (const method of verdict.methods) for (const run of method.runs) names[run] = method.name;
  const setting = (key) => (run) => run.settings[key] ?? null;
  return [
    split(runs, "Model", setting("model"), plain),
    split(runs, "Data", setting("data"), plain),
    split(runs, "Link", setting("link"), link, dashSample),
    split(runs, "Workers", setting("workers"), plain, dashSample),
    split(runs, "Method", (_, index) => names[index], plain, colourSample),
    split(runs, "Seed", setting("seed"), plain),
  ].filter(({ sets }) => sets.length > 1);
}

// A grid has fewer values than runs, and tells all of them apart.
function isGrid(runs, found) {
  const values = found.reduce((sum, { sets }) => sum + sets.length, 0);
  const places = runs.map((_, index) => found.map(({ sets }) => sets.findIndex(({ set }) => set.has(index))).join());
  return found.length > 1 && values < runs.length && new Set(places).size === runs.length;
}

function single(runs) {
  const sets = runs.map((run, index) => ({ text: run.name, set: new Set([index]) }));
  return { title: "Run", drawn: sample, sets };
}

function button(text, set, drawn, selection) {
  const first = [...set][0];
  const made = element(
    "button",
    { type: "button", "data-runs": [...set].join(" ") },
    ...(drawn ? [drawn(first)] : []),
    text,
  );
  const update = () => made.setAttribute("aria-pressed", !selection.hiddenSets.has(set));
  made.addEventListener("click", () => selection.showSets([set], selection.hiddenSets.has(set)));
  if (set.size === 1) {
    made.addEventListener("mouseenter", () => selection.look({ run: first, at: -1 }));
    made.addEventListener("mouseleave", () => selection.look(null));
  }
  selection.addEventListener("shown", update);
  update();
  return made;
}

function row({ title, sets, drawn }, selection) {
  const all = element("button", { type: "button", class: "plain", "data-do": "all" }, "all");
  const none = element("button", { type: "button", class: "plain", "data-do": "none" }, "none of them");
  all.addEventListener("click", () =>
    selection.showSets(
      sets.map(({ set }) => set),
      true,
    ),
  );
  none.addEventListener("click", () =>
    selection.showSets(
      sets.map(({ set }) => set),
      false,
    ),
  );
  return element(
    "div",
    { class: "choices", role: "group", "aria-label": `${title} shown`, "data-dimension": title.toLowerCase() },
    element("span", { class: "title" }, title),
    ...sets.map(({ text, set }) => button(text, set, drawn, selection)),
    ...(sets.length > 2 ? [all, none] : []),
  );
}

// Methods differ by orders of magnitude in time and bytes.
function scaleSwitch(selection) {
  const box = element("input", { type: "checkbox", id: "logarithmic" });
  box.checked = selection.logarithmic;
  box.addEventListener("change", () => selection.setLogarithmic(box.checked));
  return element("label", { class: "scale" }, box, " time and bytes on a logarithmic scale");
}

export function controls(runs, verdict, selection) {
  const found = dimensions(runs, verdict);
  const rows = isGrid(runs, found) ? found : runs.length > 1 ? [single(runs)] : [];
  const buttons = rows.reduce((sum, { sets }) => sum + sets.length, 0);
  return element(
    "nav",
    { class: buttons > 16 ? "controls" : "controls near", "aria-label": "what the plots show" },
    ...rows.map((one) => row(one, selection)),
    scaleSwitch(selection),
  );
}
