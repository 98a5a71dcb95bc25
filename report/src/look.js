// SPDX-License-Identifier: Apache-2.0
//
// How runs are told apart: eight colours that people with any colour vision can
// tell from each other, then the same with dashes. Values for light and dark are
// in page.css.

const colours = 8;
const dashes = [[], [8, 4], [2, 3], [8, 3, 2, 3]];

export function look(index) {
  const style = getComputedStyle(document.documentElement);
  return {
    colour: style.getPropertyValue(`--run-${index % colours}`).trim(),
    dash: dashes[Math.floor(index / colours) % dashes.length],
  };
}

export function theme(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A short piece of the run's line, for lists.
export function sample(index) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  const line = document.createElementNS(ns, "line");
  svg.setAttribute("viewBox", "0 0 28 8");
  svg.setAttribute("aria-hidden", "true");
  svg.classList.add("sample");
  for (const [key, value] of Object.entries({ x1: 1, x2: 27, y1: 4, y2: 4 })) line.setAttribute(key, value);
  line.style.stroke = `var(--run-${index % colours})`;
  line.style.strokeDasharray = look(index).dash.join(" ");
  svg.append(line);
  return svg;
}
