// SPDX-License-Identifier: Apache-2.0
//
// Results in a table, a part per group; what all runs have in common in a line, and
// every setting of every run on demand.

import { element } from "./element.js";
import { sample } from "./look.js";
import { bytes, link, plain, seconds } from "./numbers.js";
import { goal } from "./words.js";

// Results and what names a run already; everything else is a setting.
const results = [
  "sync",
  "sync_asked",
  "sync_advised",
  "link",
  "params",
  "test_samples",
  "transport",
  "isa",
  "version",
  "wall_s",
  "compute_s",
  "sync_s",
  "encode_s",
  "wait_s",
  "decode_s",
  "eval_s",
  "bytes_sent",
  "bytes_received",
  "messages_sent",
  "bits_per_param",
  "residual_norm",
  "mass_lost",
  "lost_norm",
  "train_loss",
  "test_loss",
  "test_accuracy",
  "test_accuracy_workers",
  "test_loss_workers",
  "perplexity",
  "perplexity_workers",
  "drift",
  "skipped",
  "stopped",
  "model_hash",
];

const has = (x) => x !== null && x !== undefined;
const small = (x) => (x !== 0 && Math.abs(x) < 1e-3 ? x.toExponential(1) : x.toPrecision(2));

// Settings that all runs share, in words.
export function common(runs) {
  const keys = Object.keys(runs[0].settings).filter((key) => !results.includes(key));
  const same = keys.filter(
    (key) => has(runs[0].settings[key]) && runs.every((run) => run.settings[key] === runs[0].settings[key]),
  );
  const words = same.map((key) => `${key.replaceAll("_", " ")} ${plain(runs[0].settings[key])}`);
  if (words.length === 0) return element("p", { hidden: "" });
  return element("p", { class: "common" }, `${runs.length > 1 ? "All runs" : "The run"}: ${words.join(", ")}.`);
}

function timeToTarget(run, group) {
  if (!group.metric || group.target === null) return "–";
  const values = run.points[group.metric.key];
  const better = (value) => group.metric.quality(value) >= group.metric.quality(group.target);
  const at = values.findIndex((value) => has(value) && better(value));
  return at < 0 ? "never" : seconds(run.points.seconds[at]);
}

// Title and text of a run; a column without any value is left out.
const columns = [
  ["accuracy", (run) => (has(run.settings.test_accuracy) ? `${(100 * run.settings.test_accuracy).toFixed(2)} %` : "–")],
  ["perplexity", (run) => plain(run.settings.perplexity)],
  ["test loss", (run) => plain(run.settings.test_loss)],
  ["time to target", timeToTarget],
  ["time per step", (run) => seconds(run.later_step_s)],
  ["sent per step", (run) => bytes(run.later_bytes_step)],
  ["drift", (run) => (has(run.settings.drift) ? small(run.settings.drift) : "–")],
];

// Of these, one is enough; and a drift is worth a column if a model really drifts.
function used(runs, groups) {
  const there = columns.filter(([, text]) =>
    groups.some((group) => group.runs.some((index) => text(runs[index], group) !== "–")),
  );
  const names = there.map(([title]) => title);
  return there.filter(
    ([title]) => title !== "test loss" || !(names.includes("accuracy") || names.includes("perplexity")),
  );
}

function nameOf(method, run) {
  return method.runs.length > 1 && has(run.settings.seed) ? `${method.name}, seed ${run.settings.seed}` : method.name;
}

function rowOf(run, index, name, group, shown, selection) {
  const box = element("input", { type: "checkbox", "aria-label": `show ${run.name}` });
  const update = () => (box.checked = selection.shown[index]);
  box.addEventListener("change", () => selection.show(index, box.checked));
  selection.addEventListener("shown", update);
  update();
  return element(
    "tr",
    { "data-runs": String(index) },
    element("th", { scope: "row" }, element("label", {}, box, sample(index), element("span", {}, name))),
    ...shown.map(([, text]) => element("td", {}, text(run, group))),
  );
}

function part(group, title, verdict, runs, shown, selection) {
  const rows = verdict.methods.flatMap((method) =>
    method.runs
      .filter((index) => group.runs.includes(index))
      .map((index) => rowOf(runs[index], index, unique(method, group, runs[index], runs), group, shown, selection)),
  );
  const target = group.target === null ? "" : `; the target is ${goal(group.metric, group.target)}`;
  const head = element("th", { colspan: String(shown.length + 1), scope: "rowgroup" }, title + target);
  return element("tbody", {}, element("tr", { class: "group" }, head), ...rows);
}

// Runs of a method in a group are told apart by their seeds, or by their directories.
function unique(method, group, run, runs) {
  const rivals = method.runs.filter((index) => group.runs.includes(index)).map((index) => runs[index]);
  const name = nameOf({ ...method, runs: rivals }, run);
  const same = rivals.filter((rival) => nameOf({ ...method, runs: rivals }, rival) === name);
  return same.length > 1 ? `${name}, ${run.directory}` : name;
}

export function resultTable(verdict, runs, titles, selection) {
  const shown = used(runs, verdict.groups);
  const head = ["run", ...shown.map(([title]) => title)].map((title) => element("th", { scope: "col" }, title));
  return element(
    "table",
    { class: "results", style: `--columns: ${shown.length}` },
    element("thead", {}, element("tr", {}, ...head)),
    ...verdict.groups.map((group, i) => part(group, titles[i], verdict, runs, shown, selection)),
  );
}

function settingsOf(run) {
  const pairs = [["directory", run.directory], ...Object.entries(run.settings)].filter(([, value]) => has(value));
  return element(
    "dl",
    {},
    ...pairs.flatMap(([key, value]) => [
      element("dt", {}, key),
      element("dd", {}, key === "link" ? `${value} (${link(value)})` : plain(value)),
    ]),
  );
}

// Filled when it is opened: 30 runs have a thousand settings.
export function allSettings(runs) {
  const each = runs.map((run, index) => {
    const made = element(
      "details",
      { "data-runs": String(index) },
      element("summary", {}, sample(index), element("span", {}, run.name)),
    );
    made.addEventListener("toggle", () => made.querySelector("dl") ?? made.append(settingsOf(run)), { once: true });
    return made;
  });
  return element(
    "details",
    { class: "settings" },
    element("summary", {}, "Every setting and result of each run, with specs written out"),
    ...each,
  );
}
