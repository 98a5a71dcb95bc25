// SPDX-License-Identifier: Apache-2.0
//
// Axes with ticks at round numbers: 1, 2 or 5 times a power of ten in the unit in
// which they are written.

import { seconds } from "./numbers.js";

const time = [
  [1e-6, "µs"],
  [1e-3, "ms"],
  [1, "s"],
  [60, "min"],
  [3600, "h"],
];
const large = (unit) => [
  [1, unit],
  [1e3, `k${unit}`],
  [1e6, `M${unit}`],
  [1e9, `G${unit}`],
  [1e12, `T${unit}`],
];

// Kinds of values: units from small to large, each from how many of it on.
export const kinds = {
  count: { units: [[1, ""]], from: 0 },
  bytes: { units: large("B"), from: 1 },
  seconds: { units: time, from: 2 },
  share: { units: [[0.01, "%"]], from: 0 },
  number: { units: [[1, ""]], from: 0 },
};

function unitFor(kind, most) {
  const { units, from } = kinds[kind];
  return [...units].reverse().find(([size]) => most >= from * size) ?? units[0];
}

// Thousands are set apart by commas, as in 20,000.
const written = (x, unit) =>
  `${(+x.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 12 })} ${unit}`.trim();

// The least of 1, 2, 5, 10, ... that makes at most `most` steps of the span.
function increment(span, most) {
  const power = 10 ** Math.floor(Math.log10(span / most));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => span / step <= most + 1e-9) ?? 10 * power;
}

// Round values from min to max, at most about `most` of them, with their texts.
export function linear(kind, min, max, most) {
  const [size, unit] = unitFor(kind, Math.max(Math.abs(min), Math.abs(max)));
  const step = increment((max - min) / size || 1, Math.max(1, most));
  const made = [];
  for (let i = Math.ceil(min / size / step - 1e-9); i * step <= (max / size) * (1 + 1e-12) + 1e-12; i++)
    made.push({ value: i * step * size, text: i === 0 && kind !== "share" ? "0" : written(i * step, unit) });
  return made;
}

// On a logarithmic axis every value has its own unit; times stay in seconds.
function own(kind, value) {
  if (kind === "seconds" && value >= 1) return written(value, "s");
  if (kind === "seconds") return seconds(value);
  const [size, unit] = unitFor(kind, value);
  return written(value / size, unit);
}

// Powers of ten, with 2 and 5 times them where there is room, or only some of them.
export function logarithmic(kind, min, max, most) {
  const low = Math.floor(Math.log10(min) + 1e-9),
    high = Math.ceil(Math.log10(max) - 1e-9);
  const decades = Math.log10(max / min);
  const factors = decades * 3 <= most ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil(decades / Math.max(1, most)));
  const made = [];
  for (let power = low; power <= high; power++)
    for (const factor of factors) {
      const value = Number(`${factor}e${power}`);
      if (value >= min * (1 - 1e-9) && value <= max * (1 + 1e-9) && (power - low) % every === 0)
        made.push({ value, text: own(kind, value) });
    }
  return made;
}

// An axis of uPlot: colours, room, and our ticks. `wide` says whether it is
// logarithmic now.
export function axis(kind, colours, wide, extra) {
  const line = { stroke: colours.grid, width: 1 };
  const room = extra?.space ?? 40;
  const made = (u, at, min, max) => {
    const length = (at === 0 ? u.bbox.width : u.bbox.height) / devicePixelRatio;
    return (wide ? logarithmic : linear)(kind, min, max, Math.max(2, Math.floor(length / room)));
  };
  let last = [];
  return {
    stroke: colours.muted,
    grid: line,
    ticks: line,
    font: "11px system-ui, sans-serif",
    splits: (u, at, min, max) => (last = made(u, at, min, max)).map((tick) => tick.value),
    filter: (u, splits) => splits,
    values: (u, splits) => splits.map((value) => last.find((tick) => tick.value === value)?.text ?? ""),
    ...extra,
  };
}
