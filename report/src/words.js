// SPDX-License-Identifier: Apache-2.0
//
// A verdict in words: a paragraph per group, and what holds for all of them.

import { bytes, count, link, list, plain, seconds } from "./numbers.js";

const digits = (x, n) => String(+x.toPrecision(n));
const time = (x) => seconds(x, 2);

// An accuracy has one place after the point, or two where few errors are left.
export function figure(metric, value) {
  if (!metric.share) return digits(value, 3);
  return `${(100 * value).toFixed(1 - value >= 0.1 ? 1 : 2)} %`;
}

export function goal(metric, target) {
  return metric.share ? `${digits(100 * target, 4)} %` : `a ${metric.name} of ${plain(target)}`;
}

// "On 100 Mbit/s, 100 µs, with 4 workers".
export function where(group, verdict) {
  const one = (key) => new Set(verdict.groups.map((other) => other[key])).size === 1;
  const job = [
    ["model", ""],
    ["data", "on "],
  ]
    .filter(([key]) => !one(key))
    .map(([key, word]) => word + plain(group[key]));
  const net = group.link === null ? "without an emulated link" : `on ${link(group.link)}`;
  const workers = group.workers === null ? "" : `with ${count(group.workers, "worker")}`;
  const text = [job.join(" "), net, workers].filter(Boolean).join(", ");
  return job.length > 0 ? text : text[0].toUpperCase() + text.slice(1);
}

// What was sent until the target, next to dense.
function share(method, dense) {
  const part = method.reach.bytes,
    whole = dense.reach.bytes;
  if (part === 0) return "sends nothing until then";
  if (!(whole > 0)) return `sends ${bytes(part, 2)} until then`;
  if (part > 1.5 * whole) return `sends ${digits(part / whole, 2)} times the bytes of ${dense.name} until then`;
  return `sends ${digits((100 * part) / whole, 2)} % of the bytes of ${dense.name} until then`;
}

// Differences of accuracies in points, of others in percent.
function gap(metric, value, from) {
  if (metric.share) return `${digits(100 * Math.abs(value - from), 2)} points`;
  return `${digits(100 * Math.abs(value / from - 1), 2)} %`;
}

function chance(group) {
  if (group.metric.share) return `${digits(100 * group.scatter, 2)} points`;
  return `${digits(100 * (group.metric.value(-group.scatter) - 1), 2)} %`;
}

// ---- sentences --------------------------------------------------------------------

// The range over seeds, if it can be seen.
const between = (low, high) => (low === high ? "" : ` (${low} to ${high})`);

function took(method) {
  const { seconds: s, low, high } = method.reach;
  return time(s) + between(time(low), time(high));
}

function ended(method, metric) {
  return figure(metric, method.final) + between(figure(metric, method.low), figure(metric, method.high));
}

function alone(group) {
  const [method] = group.methods;
  if (!method.sound) return [`${method.name} has no result.`];
  const sent = method.bytes === 0 ? "Nothing was sent." : `Each worker sent ${bytes(method.bytes, 2)}.`;
  return [
    `${method.name} ends at ${metricWords(group.metric)}${ended(method, group.metric)} after ${time(method.seconds)}.`,
    sent,
    "There is no other method here to compare it with.",
  ];
}

const metricWords = (metric) => (metric.share ? "" : `a ${metric.name} of `);

function race(group) {
  const { first, dense, next, metric, target } = group;
  const goalText = goal(metric, target);
  if (first === null) return [`no method that exchanges anything reaches ${goalText}.`];
  if (first === dense && next === null)
    return [`dense reaches ${goalText} in ${took(dense)}, and no other method does.`];
  if (first === dense)
    return [
      `dense is the first to reach ${goalText}, in ${took(dense)}; ${next.name} needs ${took(next)} ` +
        `and ${share(next, dense)}.`,
      "Do not compress here.",
    ];
  if (dense === null || dense.reach === null)
    return [
      `${first.name} is the first to reach ${goalText}, in ${took(first)}, with ${bytes(first.reach.bytes, 2)} sent per worker.`,
      "There is no finished run of dense here to compare it with.",
    ];
  const made = [
    `${first.name} reaches ${goalText} in ${took(first)}, ${dense.name} in ${took(dense)}.`,
    `It ${share(first, dense)}.`,
  ];
  if (dense.reach.seconds < 1.1 * first.reach.seconds) made.push("That is hardly faster, and no reason to compress.");
  return made;
}

// What the method costs at the end, next to dense or to the best.
function price(group) {
  const { first, dense, top, metric } = group;
  const other = dense ?? top;
  if (first === null || first === other) return [];
  const better = metric.quality(first.final) > metric.quality(other.final);
  const away = Math.abs(metric.quality(first.final) - metric.quality(other.final));
  const ends = `At the end it has ${metricWords(metric)}${ended(first, metric)}, ${other.name} ${ended(other, metric)}`;
  if (away < 1e-9) return [`${ends}: no difference.`];
  const word = better === Boolean(metric.share) ? "higher" : "lower";
  const judged = away <= group.scatter ? "which may be chance" : "more than chance";
  return [`${ends}: ${gap(metric, first.final, other.final)} ${word}, ${judged} (${chance(group)}).`];
}

// Another choice, if the first costs something at the end.
function careful(group) {
  const { first, safe, dense, top, metric } = group;
  if (first === null || safe === null || safe === first || first.ties) return [];
  const all = `Of those that lose nothing at the end, ${safe.name} is the first`;
  const sent = dense?.reach && dense !== safe ? `It ${share(safe, dense)} and ends` : "It ends";
  const tie = safe === top ? "the best of all" : `a tie with the best, ${top.name}`;
  return [`${all}, in ${took(safe)}. ${sent} at ${metricWords(metric)}${ended(safe, metric)}, ${tie}.`];
}

// Who is fastest past the beginning, if that is another one by more than a tenth.
function later(group) {
  const { first, safe, steady, dense } = group;
  if (steady === null || steady === first || steady === safe) return [];
  if (safe === null || !(steady.step <= 0.9 * safe.step)) return [];
  const than = dense?.step > 0 && dense !== steady ? `, ${dense.name} ${time(dense.step)}` : "";
  return [
    `In longer runs ${steady.name} may be the first of these: its steps in the second half take ${time(steady.step)}${than}.`,
  ];
}

function drifts(group) {
  if (!group.first?.differ) return [];
  return [`The workers' models differ with ${group.first.name}, and its figure is that of their average.`];
}

function others(group) {
  const { first, none, metric, target } = group;
  const made = [];
  const never = group.methods
    .filter((method) => method.reach === null && method.hits === 0)
    .map((method) => method.name);
  const some = group.methods.filter((method) => method.reach === null && method.hits > 0);
  if (never.length > 5)
    made.push(`${never.length} of the ${group.methods.length} methods do not reach ${goal(metric, target)}.`);
  else if (never.length > 0)
    made.push(`${list(never)} ${never.length === 1 ? "does" : "do"} not reach ${goal(metric, target)}.`);
  for (const method of some)
    made.push(`${method.name} reaches it with ${method.hits} of ${method.runs.length} seeds only.`);
  if (none?.reach && (first === null || none.reach.seconds <= first.reach.seconds))
    made.push(`none, which exchanges nothing, is there in ${took(none)}: this job does not need the other workers.`);
  return made;
}

function sentences(group) {
  if (group.metric === null) return ["no run has ended with a result."];
  if (group.methods.length === 1) return alone(group);
  if (group.top === null) return ["no run has a result that is a number."];
  if (group.target === null)
    return [`the best at the end is ${group.top.name} with ${ended(group.top, group.metric)}.`];
  return [...race(group), ...price(group), ...drifts(group), ...careful(group), ...later(group), ...others(group)];
}

// ---- what holds for all -----------------------------------------------------------

function seedsWords(methods) {
  const counts = methods.map((method) => method.runs.length);
  const least = Math.min(...counts),
    most = Math.max(...counts);
  if (most === 1)
    return "One seed is one seed: each figure is of a single run, and another seed gives another one. Repeat with --seeds 3 before you rely on a small difference.";
  const runs = least === most ? `${most} seeds` : `${least} to ${most} seeds`;
  return `Figures are means over ${runs}, with the lowest and the highest in brackets.`;
}

function testsWords(groups) {
  const methods = groups.flatMap((group) => group.methods);
  if (groups.every((group) => group.metric.key === "loss"))
    return "The runs were not tested; the loss is that of training.";
  if (methods.every((method) => method.tests <= 1))
    return "Each run was tested once, at its end, so these are times of whole runs. With --eval-every 50 they would show who is there earlier.";
  return "Times and bytes are those of the first test that was as good.";
}

function caveats(verdict, runs) {
  const groups = verdict.groups.filter((group) => group.methods.length > 0);
  const compared = groups.filter((group) => group.methods.length > 1);
  const made = [];
  if (compared.length > 0) made.push(seedsWords(compared.flatMap((group) => group.methods)), testsWords(compared));
  if (compared.length > 0 && runs.some((run) => run.validated))
    made.push("Tests before the end of a run are on the validation set.");
  const left = verdict.groups.reduce((sum, group) => sum + group.left, 0);
  if (left > 0) made.push(`${count(left, "run")} that did not end ${left === 1 ? "has" : "have"} no part in this.`);
  return made;
}

// {paragraphs: [{where, text, names}], caveats: text}; the names are those to choose from.
export function say(verdict, runs) {
  const paragraphs = verdict.groups
    .filter((group) => group.methods.length > 0 || group.left === 0)
    .map((group) => ({
      where: where(group, verdict),
      text: sentences(group).join(" "),
      names: [...new Set([group.first, group.safe].filter(Boolean).map((method) => method.name))],
    }));
  return { paragraphs, caveats: caveats(verdict, runs).join(" ") };
}
