// SPDX-License-Identifier: Apache-2.0
//
// check_verdict.mjs - reads the page's words as a person would and compares them with
// what recompute.py found in the runs' files.

const units = { µs: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, "%": 0.01, points: 0.01, times: 1 };

// "3.7 s" -> 3.7, "84 %" -> 0.84
export function numberOf(text) {
  const [, digits, unit] = /^([\d.,]+) (\S+)$/.exec(text.trim());
  return Number(digits.replaceAll(",", "")) * (units[unit] ?? NaN);
}

const number = "[\\d.,]+ (?:µs|ms|s|min|h|%|points)";
const range = `(?: \\(${number} to ${number}\\))?`;
const near = (text, value, part) => Math.abs(numberOf(text) - value) <= part * Math.abs(value);
const linkWords = { "100mbit,100us": "On 100 Mbit/s, 100 µs, with ", "1gbit,50us": "On 1 Gbit/s, 50 µs, with " };

function match(check, text, pattern, what) {
  const found = new RegExp(pattern).exec(text);
  check(found !== null, `${what}: '${text}'`);
  return found ?? [];
}

// Words have two or three digits, so 5 % of a value is the rounding.
function raceIs(text, group, check) {
  if (group.first === "dense") {
    const [, goal, seconds] = match(
      check,
      text,
      `dense (?:is the first to reach|reaches) (${number}),? in (${number})`,
      "dense first",
    );
    return check(
      near(goal ?? "0 s", group.target, 1e-6) && near(seconds, group.seconds, 0.05),
      `${group.target} in ${group.seconds}: ${text}`,
    );
  }
  const race = `(\\S+) reaches (${number}) in (${number})${range}, dense in (${number})${range}\\.`;
  const pattern = `${race} It sends (${number}|[\\d.]+ times)(?: of)? the bytes of dense`;
  const [found, first, goal, seconds, dense, share] = match(check, text, pattern, "a first method");
  if (found === undefined) return;
  check(first === group.first, `the first is ${group.first}, not ${first}`);
  check(near(goal, group.target, 1e-6), `the target is ${group.target}, not ${goal}`);
  check(near(seconds, group.seconds, 0.05), `${first} needs ${group.seconds}, not ${seconds}`);
  check(near(dense, group.dense_seconds, 0.05), `dense needs ${group.dense_seconds}, not ${dense}`);
  check(near(share, group.share, 0.05), `the share is ${group.share}, not ${share}`);
}

function priceIs(text, group, check) {
  if (group.first === "dense") return check(!text.includes("At the end it has"), `dense costs nothing: ${text}`);
  const pattern = `At the end it has (${number})${range}, dense (${number})${range}: (.*?)\\.(?= |$)`;
  const [found, end, dense, rest] = match(check, text, pattern, "a price");
  if (found === undefined) return;
  check(
    Math.abs(numberOf(end) - group.end) < 6e-4 && Math.abs(numberOf(dense) - group.dense_end) < 6e-4,
    `ends: ${found}`,
  );
  const gap = group.end - group.dense_end;
  if (Math.abs(gap) < 1e-9) return check(rest === "no difference", `no difference: ${rest}`);
  const [, points, word, judged, chance] = match(
    check,
    `${rest}.`,
    `^(${number}) (lower|higher), (.*) \\((${number})\\)\\.$`,
    "a difference",
  );
  if (points === undefined) return;
  check(near(points, Math.abs(gap), 0.06) && word === (gap < 0 ? "lower" : "higher"), `the gap is ${gap}: ${rest}`);
  check(judged === (Math.abs(gap) > group.chance ? "more than chance" : "which may be chance"), `chance: ${rest}`);
  check(near(chance, group.chance, 0.06), `the limit is ${group.chance}: ${chance}`);
}

function safeIs(text, group, check) {
  if (group.safe === group.first) return check(!text.includes("lose nothing at the end"), `no second choice: ${text}`);
  const pattern = `lose nothing at the end, (\\S+) is the first, in (${number}).*?ends at (${number})`;
  const [found, safe, seconds, end] = match(check, text, pattern, "a careful choice");
  if (found === undefined) return;
  check(
    safe === group.safe && near(seconds, group.safe_seconds, 0.05),
    `${group.safe} in ${group.safe_seconds}: ${found}`,
  );
  check(Math.abs(numberOf(end) - group.safe_end) < 6e-4, `it ends at ${group.safe_end}: ${end}`);
}

function steadyIs(text, group, check) {
  const other = group.steady !== null;
  const found = /In longer runs (\S+) may be the first of these/.exec(text);
  check((found?.[1] ?? null) === (other ? group.steady : null), `the fastest step has ${group.steady}: ${text}`);
}

function neverIs(text, group, check) {
  if (group.never.length > 5)
    return check(text.includes(`${group.never.length} of the ${group.methods} methods do not reach`), text);
  const [, list] =
    group.never.length > 0
      ? match(check, text, "([^.]*(?:\\.\\d[^.]*)*) (?:do|does) not reach", "those that fail")
      : [];
  for (const name of group.never) check(list?.includes(name), `${name} does not reach it: ${list}`);
}

function aloneIs(text, group, check) {
  const [name, value] = Object.entries(group.ends)[0];
  const [, who, end] = match(check, text, `(\\S+) ends at (${number})`, "one result");
  check(who === name && Math.abs(numberOf(end ?? "0 %") - value) < 6e-4, `${name} ends at ${value}: ${text}`);
}

export async function verdictIs(page, expected, check) {
  const texts = (await page.$$eval("p.verdict", (all) => all.map((p) => p.textContent))).map((t) =>
    t.replaceAll("\u00a0", " "),
  );
  check(texts.length === expected.groups.length, `${texts.length} paragraphs for ${expected.groups.length} links`);
  expected.groups.forEach((group, i) => {
    const text = texts[i] ?? "",
      begins = `${linkWords[group.link]}${group.workers} workers: `;
    check(text.startsWith(begins), `it begins with '${begins}': ${text}`);
    const rest = text.slice(begins.length);
    if (group.methods === 1) return aloneIs(rest, group, check);
    for (const part of [raceIs, priceIs, safeIs, steadyIs, neverIs]) part(rest, group, check);
  });
  const caveats = (await page.$$eval(".caveats", (all) => all.map((p) => p.textContent))).join(" ");
  if (expected.groups.every((group) => group.methods === 1)) return;
  check(
    expected.seeds > 1
      ? caveats.includes(`means over ${expected.seeds} seeds`)
      : caveats.includes("One seed is one seed"),
    caveats,
  );
  const top = await page.$eval("p.verdict", (p) => p.getBoundingClientRect().top);
  check(top < 200, `the answer is at the top: ${top}`);
}
