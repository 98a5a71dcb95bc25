// SPDX-License-Identifier: Apache-2.0
//
// Numbers for people.

const prefixes = ["", "k", "M", "G", "T"];
const absent = (x) => x === null || x === undefined || !Number.isFinite(x);

// 12345 -> "12.3 k"; small numbers keep their digits.
export function scaled(x, unit, digits = 3) {
  if (absent(x)) return "–";
  let i = 0;
  while (Math.abs(x) >= 1000 && i + 1 < prefixes.length) {
    x /= 1000;
    i++;
  }
  const text = `${+x.toPrecision(digits)} ${prefixes[i]}${unit}`;
  return text.trimEnd();
}

export const bytes = (x, digits) => scaled(x, "B", digits);

export function seconds(x, digits = 3) {
  if (absent(x)) return "–";
  if (x === 0) return "0 s";
  if (x < 1e-3) return `${+(x * 1e6).toPrecision(digits)} µs`;
  if (x < 1) return `${+(x * 1e3).toPrecision(digits)} ms`;
  if (x < 120) return `${+x.toPrecision(digits)} s`;
  if (x < 7200) return `${+(x / 60).toPrecision(digits)} min`;
  return `${+(x / 3600).toPrecision(digits)} h`;
}

export function plain(x) {
  if (x === null || x === undefined || x === "") return "–";
  if (typeof x !== "number") return String(x);
  return String(+x.toPrecision(5));
}

export const percent = (x) => (absent(x) ? "–" : `${+(100 * x).toPrecision(4)} %`);

// "100mbit,100us" -> "100 Mbit/s, 100 µs".
const linkWords = { kbit: "kbit/s", mbit: "Mbit/s", gbit: "Gbit/s", us: "µs" };
export function link(text) {
  if (text === null || text === undefined) return "no emulated link";
  return text
    .split(",")
    .map((part) => part.replace(/^([\d.]+)([a-z]+)$/, (_, x, unit) => `${x} ${linkWords[unit] ?? unit}`))
    .join(", ");
}

// "a", "a and b", "a, b and c".
export function list(words) {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;
}

export const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
