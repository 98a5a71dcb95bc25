// SPDX-License-Identifier: Apache-2.0
//
// Bars, one per run: where the time of a step went, and how many bits of a
// parameter were sent.

import { element, scaled, seconds } from "./format.js";
import { sample } from "./look.js";

// Parts of a bar, in the order of a step; names are those of page.css.
const parts = [
  ["compute", "computing"],
  ["encode", "encoding"],
  ["wait", "waiting for messages"],
  ["decode", "decoding"],
];

function row(run, index, cells, text) {
  return element(
    "li",
    { "data-run": index },
    element("span", { class: "name" }, sample(index), run.name),
    element("span", { class: "bar" }, ...cells),
    element("span", { class: "value" }, text),
  );
}

function cell(kind, share, title) {
  const made = element("span", { class: kind, title });
  made.style.width = `${100 * share}%`;
  return made;
}

function list(name, title, rows) {
  return element(
    "figure",
    { class: "bars", "data-plot": name },
    element("figcaption", {}, title),
    element("ul", {}, ...rows),
  );
}

function legend() {
  const keys = parts.map(([kind, title]) => element("span", {}, element("i", { class: kind }), title));
  return element("p", { class: "legend" }, ...keys);
}

export function timeBars(runs) {
  const longest = Math.max(...runs.map((run) => run.step_s ?? 0), 1e-12);
  const rows = runs.map((run, index) => {
    const cells = parts.map(([kind, title]) =>
      cell(kind, (run.parts[kind] ?? 0) / longest, `${title}: ${seconds(run.parts[kind])} per step`),
    );
    return row(run, index, cells, seconds(run.step_s));
  });
  const made = list("time", "Time of a step", rows);
  made.append(legend());
  return made;
}

// On a logarithmic scale: methods differ by factors of a thousand.
export function bitBars(runs) {
  const most = Math.max(...runs.map((run) => run.bits ?? 0), 1), least = 1e-4;
  const share = (bits) => (bits > least ? Math.log(bits / least) / Math.log(most / least) : 0);
  const rows = runs.map((run, index) =>
    row(run, index, [cell("bits", share(run.bits ?? 0), "")], scaled(run.bits, "bit")),
  );
  return list("bits", "Bits sent per parameter and step (logarithmic)", rows);
}
