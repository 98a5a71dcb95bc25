// SPDX-License-Identifier: Apache-2.0
//
// What a step costs, a row per method and a list per group, the fastest first: the time
// of a step and the bits sent on logarithmic scales, because methods differ by factors
// of a thousand, and where the time went.

import { logarithmic } from "./axes.js";
import { element } from "./element.js";
import { colourSample } from "./look.js";
import { count, scaled, seconds } from "./numbers.js";

// Parts of a step, in its order; names are those of page.css.
const parts = [
  ["compute", "computing"],
  ["encode", "encoding"],
  ["wait", "waiting for messages"],
  ["decode", "decoding"],
];

const mean = (values) => values.reduce((sum, x) => sum + (x ?? NaN), 0) / values.length;

// The figures of a method in a group: means over its runs.
function rowsOf(group, methods, runs) {
  return methods
    .map((method) => ({ name: method.name, runs: method.runs.filter((run) => group.runs.includes(run)) }))
    .filter((row) => row.runs.length > 0)
    .map((row) => {
      const each = row.runs.map((run) => runs[run]);
      const made = {
        ...row,
        step: mean(each.map((run) => run.later_step_s)),
        bits: mean(each.map((run) => (8 * run.later_bytes_step) / run.settings.params)),
      };
      for (const [kind] of parts) made[kind] = mean(each.map((run) => run.parts[kind]));
      return made;
    })
    .sort((a, b) => (a.step || Infinity) - (b.step || Infinity));
}

// From a bit below the least to the most of all groups.
function scaleOf(values) {
  const positive = values.filter((x) => x > 0);
  if (positive.length === 0) return null;
  const least = Math.min(...positive),
    most = Math.max(...positive);
  const low = 10 ** Math.floor(Math.log10(least / 1.5)),
    high = Math.max(most, 10 * low);
  return { low, high, share: (x) => Math.log(x / low) / Math.log(high / low) };
}

function ticksOf(kind, scale) {
  return logarithmic(kind, scale.low, scale.high, 3).filter(({ value }) => scale.share(value) < 0.97);
}

function bar(kind, scale, tickKind, value, text) {
  const cell = element("span", { class: "bar" });
  for (const { value: at } of ticksOf(tickKind, scale)) {
    const line = element("i", { class: "tick" });
    line.style.left = `${100 * scale.share(at)}%`;
    cell.append(line);
  }
  const filled = element("span", { class: kind });
  filled.style.width = `${value > 0 ? Math.max(0.5, 100 * scale.share(value)) : 0}%`;
  cell.append(filled);
  return [cell, element("span", { class: `value of-${kind}` }, text)];
}

function shares(row) {
  const all = parts.reduce((sum, [kind]) => sum + (row[kind] || 0), 0);
  const cell = element("span", { class: "bar shares" });
  for (const [kind, title] of parts) {
    const part = (row[kind] || 0) / all;
    const made = element("span", {
      class: kind,
      title: `${title}: ${Math.round(100 * part)} %, ${seconds(row[kind])} per step`,
    });
    made.style.width = `${100 * part}%`;
    if (all > 0) cell.append(made);
  }
  return cell;
}

function head(scales) {
  const axis = (kind, scale, title) => {
    const made = element("span", { class: "axis" }, element("b", {}, title));
    for (const { value, text } of ticksOf(kind, scale)) {
      const label = element("i", {}, text);
      label.style.left = `${100 * scale.share(value)}%`;
      made.append(label);
    }
    return made;
  };
  return element(
    "li",
    { class: "head", "aria-hidden": "true" },
    element("span", { class: "name" }),
    scales.step ? axis("seconds", scales.step, "time of a step") : element("span"),
    element("span", { class: "value" }),
    element("span", { class: "axis" }, element("b", {}, "where it went")),
    scales.bits ? axis("number", scales.bits, "bits per parameter") : element("span"),
    element("span", { class: "value" }),
  );
}

function line(row, scales) {
  const none = [element("span", { class: "bar" }), element("span", { class: "value" }, "–")];
  return element(
    "li",
    { "data-runs": row.runs.join(" ") },
    element("span", { class: "name" }, colourSample(row.runs[0]), row.name),
    ...(scales.step && row.step > 0 ? bar("total", scales.step, "seconds", row.step, seconds(row.step)) : none),
    shares(row),
    ...(scales.bits && row.bits >= 0
      ? bar("bits", scales.bits, "number", row.bits, scaled(row.bits, "bit"))
      : none.map((cell) => cell.cloneNode(true))),
  );
}

function legend() {
  const keys = parts.map(([kind, title]) => element("span", {}, element("i", { class: kind }), title));
  return element("p", { class: "legend" }, ...keys, element("span", {}, "(of the whole run)"));
}

// A figure per group; titles are those of the groups.
export function stepBars(verdict, runs, titles) {
  const all = verdict.groups.map((group) => rowsOf(group, verdict.methods, runs));
  const scales = {
    step: scaleOf(all.flat().map((row) => row.step)),
    bits: scaleOf(all.flat().map((row) => row.bits)),
  };
  const many = all.flat().some((row) => row.runs.length > 1);
  return all.map((rows, i) =>
    element(
      "figure",
      { class: "bars", "data-plot": "steps" },
      element(
        "figcaption",
        {},
        titles[i],
        element("span", {}, many ? `, means over ${count(rows[0].runs.length, "run")}` : ""),
      ),
      element("ul", {}, head(scales), ...rows.map((row) => line(row, scales))),
      legend(),
    ),
  );
}
