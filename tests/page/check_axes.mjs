// SPDX-License-Identifier: Apache-2.0
//
// check_axes.mjs - ticks are at round numbers, few, different and inside, on axes of
// any length from any value on, and labels do not lie on each other.
//
//   node check_axes.mjs REPORT-SRC-DIRECTORY

import { pathToFileURL } from "node:url";

const src = pathToFileURL(`${process.argv[2]}/`);
const { kinds, linear, logarithmic } = await import(new URL("axes.js", src));
const { placeLabels } = await import(new URL("place.js", src));
let failed = 0;

function check(ok, what) {
  if (ok) return;
  failed++;
  if (failed < 20) console.log("FAILED:", what);
}

// A number written with digits that are 1 or 2 or 5, or some of these added up.
function inspect(name, ticks, min, max, most) {
  const texts = ticks.map((tick) => tick.text),
    what = `${name} from ${min} to ${max}: ${texts.join("|")}`;
  check(new Set(texts).size === texts.length, `texts differ, ${what}`);
  check(ticks.length >= 1 && ticks.length <= most + 2, `so many ticks, ${what}`);
  check(
    ticks.every(({ value }) => value >= min * (1 - 1e-6) - 1e-15 && value <= max * (1 + 1e-6)),
    `inside, ${what}`,
  );
  return what;
}

let state = 12345; // of a generator of numbers from 0 to 1
const random = () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
console.log("seed", state);
for (const kind of Object.keys(kinds))
  for (let i = 0; i < 2000; i++) {
    const max = 10 ** (random() * 14 - 5),
      most = 2 + Math.floor(8 * random());
    const what = inspect(kind, linear(kind, 0, max, most), 0, max, most);
    const digits = linear(kind, 0, max, most).map(({ text }) => text.replace(/[^\d]/g, "").replace(/^0+|0+$/g, ""));
    check(
      digits.every((d) => d.length <= 2),
      `round, ${what}`,
    );
    const wide = max * 10 ** (1 + 6 * random());
    const logs = logarithmic(kind, max, wide, most);
    inspect(`logarithmic ${kind}`, logs, max, wide, most);
    check(
      logs.every(({ value }) => /^[125]0*e/.test(value.toExponential().replace(".", ""))),
      `round, ${logs.map((t) => t.value)}`,
    );
  }
const steps = linear("count", 0, 468, 4)
  .map(({ text }) => text)
  .join();
check(steps === "0,200,400", `468 steps: ${steps}`);
const sizes = linear("bytes", 0, 21.8e3, 3)
  .map(({ text }) => text)
  .join();
check(sizes === "0,10 kB,20 kB", `21.8 kB: ${sizes}`);

// Twelve labels in a corner find places.
const points = Array.from({ length: 12 }, (_, i) => ({ x: 300 + 3 * i, y: 20 + 5 * i, width: 70, height: 15 }));
const boxes = placeLabels(points, { width: 500, height: 260 });
const over = (a, b) =>
  Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x) > 1 &&
  Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y) > 1;
check(
  boxes.every((a, i) => boxes.every((b, j) => i >= j || !over(a, b))),
  "labels lie on each other",
);
console.log(failed === 0 ? "axes are round" : `${failed} checks failed`);
process.exit(failed > 0 ? 1 : 0);
