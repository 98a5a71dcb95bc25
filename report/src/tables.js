// SPDX-License-Identifier: Apache-2.0
//
// The list of runs by which plots are switched, and the table of settings and
// results.

import { bytes, element, percent, plain, seconds } from "./format.js";
import { sample } from "./look.js";

export function switches(runs, selection) {
  const buttons = runs.map((run, index) => {
    const button = element("button", { type: "button", "data-run": index }, sample(index), run.name);
    button.addEventListener("click", () => selection.show(index, !selection.shown[index]));
    button.addEventListener("mouseenter", () => selection.look({ run: index, at: -1 }));
    button.addEventListener("mouseleave", () => selection.look(null));
    return button;
  });
  const all = element("button", { type: "button", class: "plain" }, "all");
  const none = element("button", { type: "button", class: "plain" }, "none");
  all.addEventListener("click", () => selection.showOnly(() => true));
  none.addEventListener("click", () => selection.showOnly(() => false));
  const update = () => buttons.forEach((b, i) => b.setAttribute("aria-pressed", selection.shown[i]));
  selection.addEventListener("shown", update);
  update();
  return element("nav", { class: "switches", "aria-label": "runs shown" }, ...buttons, all, none);
}

// Columns: title, text of a run.
const columns = [
  ["sync", (run) => run.settings.sync],
  ["model", (run) => run.settings.model],
  ["data", (run) => run.settings.data],
  ["workers", (run) => plain(run.settings.workers)],
  ["link", (run) => plain(run.settings.link)],
  ["batch", (run) => plain(run.settings.batch)],
  ["lr", (run) => plain(run.settings.lr)],
  ["momentum", (run) => plain(run.settings.momentum)],
  ["seed", (run) => plain(run.settings.seed)],
  ["steps", (run) => plain(run.settings.steps)],
  ["accuracy", (run) => percent(run.settings.test_accuracy)],
  ["perplexity", (run) => plain(run.settings.perplexity)],
  ["test loss", (run) => plain(run.settings.test_loss)],
  ["drift", (run) => plain(run.settings.drift)],
  ["sent per step", (run) => bytes(run.bytes_step)],
  ["time per step", (run) => seconds(run.step_s)],
  ["wall time", (run) => seconds(run.settings.wall_s)],
  ["model hash", (run) => plain(run.settings.model_hash)],
];

export function settings(runs) {
  const used = columns.filter(([, text]) => runs.some((run) => text(run) !== "–"));
  const head = element("tr", {}, element("th", { scope: "col" }, "run"));
  head.append(...used.map(([title]) => element("th", { scope: "col" }, title)));
  const rows = runs.map((run, index) => {
    const made = element("tr", { "data-run": index });
    made.append(element("th", { scope: "row" }, sample(index), run.name));
    made.append(...used.map(([, text]) => element("td", {}, text(run) ?? "–")));
    return made;
  });
  return element(
    "div",
    { class: "scroll", tabindex: "0" },
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)),
  );
}
