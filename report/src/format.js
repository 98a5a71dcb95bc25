// SPDX-License-Identifier: Apache-2.0
//
// Numbers and elements for people.

const prefixes = ["", "k", "M", "G", "T"];

// 12345 -> "12.3 k"; small numbers keep their digits.
export function scaled(x, unit) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  let i = 0;
  while (Math.abs(x) >= 1000 && i + 1 < prefixes.length) {
    x /= 1000;
    i++;
  }
  const text = `${+x.toPrecision(3)} ${prefixes[i]}${unit}`;
  return text.trimEnd();
}

export const bytes = (x) => scaled(x, "B");

export function seconds(x) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  if (x === 0) return "0 s";
  if (x < 1e-3) return `${+(x * 1e6).toPrecision(3)} µs`;
  if (x < 1) return `${+(x * 1e3).toPrecision(3)} ms`;
  if (x < 120) return `${+x.toPrecision(3)} s`;
  return `${+(x / 60).toPrecision(3)} min`;
}

export function plain(x) {
  if (x === null || x === undefined || x === "") return "–";
  if (typeof x !== "number") return String(x);
  return String(+x.toPrecision(5));
}

export const percent = (x) => (Number.isFinite(x) ? `${+(100 * x).toPrecision(4)} %` : "–");

// element("p", {class: "note"}, "text", child): text is never markup.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
