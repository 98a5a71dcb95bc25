// SPDX-License-Identifier: Apache-2.0
//
// How runs are told apart: a colour per method, which people with any colour vision
// can tell from the others, and dashes per link and number of workers. Beyond eight
// methods the colours come again with other dashes. Values for light and dark are in
// page.css.

import { drawing } from "./element.js";

const colours = 8;
const dashes = [[], [8, 4], [2, 3], [8, 3, 2, 3], [14, 4], [2, 6], [14, 3, 2, 3, 2, 3], [5, 2]];
let dressed = [];

// Gives every run a colour and dashes. Runs of one method and group share them.
export function dress(count, { methods, groups }) {
  const rounds = Math.ceil(methods.length / colours);
  dressed = new Array(count).fill(null).map((_, i) => ({ colour: i % colours, dash: [] }));
  methods.forEach((method, m) =>
    method.runs.forEach((run) => {
      const group = groups.findIndex((one) => one.runs.includes(run));
      const round = group * rounds + Math.floor(m / colours);
      dressed[run] = { colour: m % colours, dash: dashes[round % dashes.length] };
    }),
  );
}

export const colourOf = (index) => `var(--run-${dressed[index].colour})`;

// The values as they are now, for a canvas.
export function look(index) {
  return { colour: theme(`run-${dressed[index].colour}`), dash: dressed[index].dash };
}

export function theme(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function piece(stroke, dash) {
  const line = drawing("line", { x1: 1, x2: 27, y1: 4, y2: 4 });
  line.style.stroke = stroke;
  line.style.strokeDasharray = dash.join(" ");
  return drawing("svg", { viewBox: "0 0 28 8", "aria-hidden": "true", class: "sample" }, line);
}

// A short piece of the run's line, for lists.
export const sample = (index) => piece(colourOf(index), dressed[index].dash);

// A piece in the method's colour, or with the group's dashes alone.
export const colourSample = (index) => piece(colourOf(index), []);
export const dashSample = (index) => piece("currentColor", dressed[index].dash);
