// SPDX-License-Identifier: Apache-2.0
//
// Which method is best under which conditions. Everything is computed from the runs
// alone, without a page, so that a test can compute it again.
//
// A group holds the runs of one model, data set, link and number of workers. A method
// is what was chosen: a spec and the optimizer's settings. Runs of a method in a group
// differ in their seeds only, and its figures are their means.
//
// The target of a group is the round number below what dense has at the end, less what
// chance makes of such figures. A method reaches it at the first record that has it.

// Better is more: of an accuracy itself, of a perplexity or loss the logarithm. The
// factor makes a difference of 0.005 mean a twentieth.
const falling = { quality: (x) => -0.1 * Math.log(x), value: (q) => Math.exp(-10 * q), roundTarget: roundUp };
export const metrics = [
  { key: "perplexity", name: "perplexity", ...falling },
  { key: "test_accuracy", name: "accuracy", share: true, quality: (x) => x, value: (q) => q, roundTarget: roundDown },
  { key: "test_loss", name: "test loss", ...falling },
  { key: "loss", name: "training loss", ...falling },
];

// Differences of the quality below this are chance where nothing better is known.
const usualScatter = 0.005;

// Whole percents; finer where fewer errors are left. Nothing below 0 is a target.
function roundDown(accuracy) {
  const errors = 1 - accuracy;
  const parts = errors >= 0.1 ? 100 : errors >= 0.01 ? 1000 : 10000;
  const rounded = Math.floor(accuracy * parts + 1e-9) / parts;
  return rounded > 0 ? rounded : null;
}

// Three digits.
function roundUp(value) {
  if (!(value > 0) || !Number.isFinite(value)) return null;
  const unit = 10 ** (Math.floor(Math.log10(value)) - 2);
  return Number((Math.ceil(value / unit - 1e-9) * unit).toPrecision(3));
}

const mean = (values) => values.reduce((sum, x) => sum + x, 0) / values.length;
const known = (x) => x !== null && x !== undefined && Number.isFinite(x);
const finished = (run) => run.settings.stopped === false;
const specOf = (run) => run.settings.sync_asked ?? run.settings.sync ?? run.name;

// ---- methods and groups -----------------------------------------------------------

// What makes two runs two methods, and how a name says it.
const choices = [
  ["optimizer", (x) => x],
  ["lr", (x) => `lr ${x}`],
  ["momentum", (x) => `momentum ${x}`],
  ["nesterov", (x) => (x ? "Nesterov" : "no Nesterov")],
  ["weight_decay", (x) => `weight decay ${x}`],
  ["batch", (x) => `batch ${x}`],
  ["augment", (x) => `augment ${x}`],
  ["sync_advised", (x) => `as ${x}`],
];

// How long a run was, in epochs or in steps: whichever most runs have in common. With
// more workers an epoch has fewer steps, and so many steps are more epochs.
function lengthOf(runs) {
  const kinds = (key) => new Set(runs.map((run) => run.settings[key] ?? null)).size;
  return kinds("epochs") <= kinds("steps")
    ? ["epochs", (x) => `${+x.toPrecision(3)} epochs`]
    : ["steps", (x) => `${x} steps`];
}

// A name has the spec, and of the choices what tells it from others with its spec.
function nameMethods(methods, choices) {
  for (const method of methods) {
    const rivals = methods.filter((other) => other.spec === method.spec);
    const parts = choices
      .filter(([key]) => new Set(rivals.map((rival) => rival.settings[key] ?? null)).size > 1)
      .map(([key, words]) => ((method.settings[key] ?? null) === null ? `no ${key}` : words(method.settings[key])));
    method.name = [method.spec, ...parts].join(", ");
  }
}

export function methodsOf(runs) {
  const found = new Map();
  const all = [...choices, lengthOf(runs)];
  runs.forEach((run, index) => {
    const key = JSON.stringify([specOf(run), ...all.map(([name]) => run.settings[name] ?? null)]);
    if (!found.has(key)) found.set(key, { spec: specOf(run), settings: run.settings, runs: [] });
    found.get(key).runs.push(index);
  });
  const methods = [...found.values()];
  nameMethods(methods, all);
  return methods;
}

// Bits per second, for sorting; no link is the fastest.
function rate(link) {
  const found = /^([\d.]+)([kmg])bit/.exec(link ?? "");
  return found ? Number(found[1]) * { k: 1e3, m: 1e6, g: 1e9 }[found[2]] : Infinity;
}

const conditions = ["model", "data", "link", "workers"];

export function groupsOf(runs) {
  const found = new Map();
  runs.forEach((run, index) => {
    const values = conditions.map((key) => run.settings[key] ?? null);
    const key = JSON.stringify(values);
    if (!found.has(key)) found.set(key, { ...Object.fromEntries(conditions.map((c, i) => [c, values[i]])), runs: [] });
    found.get(key).runs.push(index);
  });
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  return [...found.values()].sort(
    (a, b) =>
      order(a.model ?? "", b.model ?? "") ||
      order(a.data ?? "", b.data ?? "") ||
      order(rate(a.link), rate(b.link)) ||
      order(a.workers, b.workers),
  );
}

// ---- figures of a method ----------------------------------------------------------

// Records that have a value of the metric.
function tested(run, metric) {
  return (run.points[metric.key] ?? [])
    .map((value, i) => ({ value, seconds: run.points.seconds[i], bytes: run.points.bytes_sent[i] }))
    .filter((record) => known(record.value));
}

// The first record that is as good as the target.
function reach(records, metric, target) {
  return records.find((record) => metric.quality(record.value) >= metric.quality(target)) ?? null;
}

function figures(method, runs, metric) {
  const all = method.runs.map((index) => tested(runs[index], metric));
  const last = all.map((records) => records[records.length - 1]).filter(Boolean);
  const there = last.length === all.length;
  const finals = last.map((record) => record.value);
  return {
    ...method,
    records: all,
    tests: Math.max(...all.map((records) => records.length)),
    final: there ? mean(finals) : null,
    low: there ? Math.min(...finals) : null,
    high: there ? Math.max(...finals) : null,
    seconds: there ? mean(last.map((record) => record.seconds)) : null,
    bytes: there ? mean(last.map((record) => record.bytes)) : null,
    step: mean(method.runs.map((index) => runs[index].later_step_s ?? NaN)),
    samples: runs[method.runs[0]].settings.test_samples ?? null,
    differ: method.runs.some((index) => known(runs[index].settings.drift)),
  };
}

// Means over the runs if all of them got there; else how many did.
function reached(method, metric, target) {
  const hits = method.records.map((records) => reach(records, metric, target)).filter(Boolean);
  if (hits.length < method.records.length) return { reach: null, hits: hits.length };
  const times = hits.map((hit) => hit.seconds);
  return {
    hits: hits.length,
    reach: {
      seconds: mean(times),
      low: Math.min(...times),
      high: Math.max(...times),
      bytes: mean(hits.map((hit) => hit.bytes)),
    },
  };
}

// ---- judging a group --------------------------------------------------------------

// By how much figures like this one differ by chance: the standard error of the
// difference of two accuracies on so many samples, and half the range over the seeds,
// if that is more. `gradwire compare` has the same rule.
function scatterOf(method, metric) {
  const p = method.final;
  const chance = metric.share && method.samples > 0 ? Math.sqrt((2 * p * (1 - p)) / method.samples) : usualScatter;
  return Math.max(chance, Math.abs(metric.quality(method.high) - metric.quality(method.low)) / 2);
}

function best(methods, key) {
  return methods.reduce((top, method) => (top === null || key(method) > key(top) ? method : top), null);
}

function targetOf(method, metric, scatter) {
  const each = method.records.map((records) => Math.max(...records.map((record) => metric.quality(record.value))));
  return metric.roundTarget(metric.value(Math.min(metric.quality(method.final) - scatter, ...each)));
}

// Whether another method is at least as good at no more cost, and better in one of them.
function dominated(method, methods, metric, cost) {
  const q = metric.quality(method.final);
  return methods.some((other) => {
    const p = metric.quality(other.final);
    return p >= q && other[cost] <= method[cost] && (p > q || other[cost] < method[cost]);
  });
}

function judgeGroup(group, methods, runs) {
  const inside = methods
    .map((method) => ({ ...method, runs: method.runs.filter((i) => group.runs.includes(i) && finished(runs[i])) }))
    .filter((method) => method.runs.length > 0);
  const indices = inside.flatMap((method) => method.runs);
  const metric = metrics.find((m) => indices.some((i) => tested(runs[i], m).length > 0)) ?? null;
  const made = { ...group, metric, methods: [], target: null, left: group.runs.length - indices.length };
  if (metric === null) return made;
  made.methods = inside.map((method) => figures(method, runs, metric));
  const sound = made.methods.filter((method) => known(method.final) && Number.isFinite(metric.quality(method.final)));
  made.top = best(sound, (method) => metric.quality(method.final));
  made.dense = best(
    sound.filter((method) => method.spec === "dense"),
    (method) => metric.quality(method.final),
  );
  if (made.top === null) return made;
  made.scatter = scatterOf(made.top, metric);
  made.target = targetOf(made.dense ?? made.top, metric, made.scatter);
  for (const method of made.methods) {
    method.sound = sound.includes(method);
    method.ties = method.sound && metric.quality(method.final) >= metric.quality(made.top.final) - made.scatter;
    for (const cost of ["seconds", "bytes"])
      method[`dominated_${cost}`] = method.sound && dominated(method, sound, metric, cost);
    Object.assign(method, made.target === null ? { reach: null, hits: 0 } : reached(method, metric, made.target));
  }
  chooseFirst(made);
  return made;
}

// The first at the target, the first of those that lose nothing at the end, and of
// these the one with the fastest step past the beginning, in which methods may send
// more. The method that exchanges nothing is a control, not a choice.
function chooseFirst(group) {
  const soonest = (methods) =>
    best(
      methods.filter((method) => method.reach !== null),
      (m) => -m.reach.seconds,
    );
  const choice = group.methods.filter((method) => method.spec !== "none");
  group.none = group.methods.find((method) => method.spec === "none") ?? null;
  group.first = soonest(choice);
  group.safe = soonest(choice.filter((method) => method.ties));
  group.next = soonest(choice.filter((method) => method !== group.first));
  group.steady = best(
    choice.filter((method) => method.ties && method.step > 0),
    (method) => -method.step,
  );
}

// All runs, judged. Runs that have not ended have no part in it; each group says how
// many there are of them.
export function judge(runs) {
  const methods = methodsOf(runs);
  return { methods, groups: groupsOf(runs).map((group) => judgeGroup(group, methods, runs)) };
}
