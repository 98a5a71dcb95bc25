# SPDX-License-Identifier: Apache-2.0
"""specs.py - what a canonical spec asks for, in which steps workers talk, and how vectors
are cut, from docs/format-exchange.md."""
import math

import numpy as np

from headed import BF16, CENTRES, F32, LEVELS, SIGNS

ORDER = {
    "dense": "delay lead", "none": "", "adasum": "delay lead", "bf16": "",
    "topk": "density residual warmup ladder dense_below tile decay combine via delay lead",
    "gtopk": "density putback via residual warmup ladder dense_below delay lead",
    "drop": "rate threshold residual warmup ladder dense_below delay lead",
    "randk": "density residual warmup ladder dense_below seed delay lead",
    "qsgd": "bits bucket norm residual via warmup dense_below seed delay lead code",
    "sign": "bucket residual via warmup dense_below delay lead code",
    "demo": "density decay chunk update combine residual dense_below delay lead",
    "distro": "density decay chunk update combine residual dense_below delay lead",
    "a2sgd": "resync per bucket", "local": "every grow start average fragments delay mix cut", "oneshot": "average",
    "outer": "lr momentum nesterov", "diloco": "every lr momentum nesterov start average fragments delay mix cut",
    "sparseloco": "every density tile decay combine centre residual lr momentum nesterov start "
                  "fragments delay mix cut code",
    "update": "start scale", "spa": "chunks", "pqasgd": "every bits bucket norm residual via seed code",
    "q": "bits bucket norm seed code", "1bit": "centre code", "2bit": "centre code",
    "momentum": "momentum clip mask velocity nesterov dampening", "check": "every",
    "lowrank": "rank error residual warmup delay lead", "ef21": "eta", "sparta": "density order seed resync",
    "oktopk": "density residual warmup ladder dense_below delay lead",
}
# Not written where they are as usual, unless the stage has another default.
UNSAID = {"tile": "0", "decay": "1", "combine": "all", "via": "gather", "delay": "0", "lead": "1",
          "fragments": "1", "mix": "0", "cut": "even", "per": "all", "code": "raw", "resync": "0"}
OUTER = ("lr", "momentum", "nesterov")  # of the outer step; gradients have two of them, too
REALS = ("mix", "lr", "lead", "decay", "density", "rate", "grow", "scale", "momentum", "clip", "dampening", "eta")
WORDS = ("residual", "putback", "threshold", "norm", "via", "average", "centre", "mask",
         "velocity", "nesterov", "order", "error", "combine", "update", "lists_via", "per", "cut", "code")
LOSSY = ("lists", "tree", "swaps", "owners", "common", "coded", "thin")  # exchanges that do not send all as it is
LADDER = (0.25, 0.0625, 0.015625, 0.004)


def usual(name, key):
    """The value of a key that is not written."""
    return "auto" if (name, key) == ("gtopk", "via") else UNSAID[key]


def read_stage(text):
    """The name of a stage, and its options."""
    name, _, rest = text.partition(":")
    options = dict(item.split("=") for item in rest.split(",")) if rest else {}
    unsaid = ("delay", "lead", "fragments", "mix", "cut", "code") if name in ("sparseloco", "demo", "distro") else [
        key for key in UNSAID if {"via": name in ("topk", "gtopk"), "resync": name == "sparta"}.get(key, True)]
    if name == "a2sgd" and "bucket" not in options:
        options["bucket"] = "0"
    elif name == "a2sgd" and options["bucket"] == "0":
        raise ValueError(f"'{text}' says what it need not")
    due = [key for key in ORDER[name].split() if key in options or key not in unsaid]
    if list(options) != due or any(options.get(key) == usual(name, key) for key in unsaid):
        raise ValueError(f"'{text}' has not the options of its stage, in their order")
    if name in ("topk", "gtopk"):
        options["lists_via"] = options.pop("via", usual(name, "via"))
    return name, {key: read_value(key, value) for key, value in options.items()}


def read_value(key, value):
    if key in WORDS or value in ("grow", "auto"):
        return value
    return float(value) if key in REALS else int(value)


class Spec:
    """The options of all stages, and what they mean together."""

    def __init__(self, canonical, workers):
        self.text, self.workers = canonical, workers
        self.density, self.rate, self.every, self.grow, self.start = 1.0, 0.0, 1, 0.0, 0
        self.chunks, self.bits, self.bucket, self.norm = 1, 32, 512, "max"
        self.warmup = self.ladder = self.dense_below = self.resync = self.seed = 0
        self.momentum = self.clip = self.dampening = 0.0
        self.eta, self.rank, self.error, self.per = 1.0, 0, "mean", "all"
        self.scale, self.velocity, self.nesterov = 1.0, "global", "off"
        self.mask, self.check, self.residual, self.threshold = "on", 1000, "off", "global"
        self.code = "raw"
        self.centre, self.putback, self.average, self.via = "mean", "own", "none", "auto"
        stages = [read_stage(stage) for stage in canonical.split("+")]
        self.names = [name for name, _ in stages]
        self.tile, self.decay, self.combine = 0, 1.0, "all"
        self.delay, self.lead, self.fragments, self.mix, self.cut = 0, 1.0, 1, 0.0, "even"
        self.outer = {"lr": 1.0, "momentum": 0.0, "nesterov": "on"}
        for name, options in stages:
            if name == "check":
                options = {"check": options["every"]}
            if "lr" in options:
                self.outer = {key: options.pop(key) for key in OUTER}
            self.__dict__.update(options)
        self.streams = self.has("local", "diloco", "sparseloco") and (
            self.fragments > 1 or self.delay > 0 or self.mix > 0)
        self.steps_outside = self.outer["lr"] != 1 or self.outer["momentum"] > 0
        self.choose()

    def has(self, *names):
        return any(name in self.names for name in names)

    def choose(self):
        if self.has("drop"):
            self.density = 1 - self.rate
        self.coding = BF16 if self.has("bf16") else F32
        if self.has("q", "qsgd", "pqasgd") and self.bits != 32:
            self.coding = LEVELS
        if self.has("1bit", "2bit", "sparseloco", "distro"):
            self.coding, self.bits = CENTRES, 1 if self.has("1bit", "distro") else 2
        if self.has("sign"):
            self.coding, self.bits = SIGNS, 1
        if self.coding in (F32, BF16):
            self.bits = 0
        self.selects = self.density < 1 and self.has("sparseloco", "topk", "gtopk", "oktopk", "drop", "randk",
                                                     "demo", "distro")
        self.in_cosines = self.selects and self.has("demo", "distro")
        self.exchange = self.choose_exchange()
        self.what = self.choose_what()
        lossy = self.exchange in LOSSY and self.what != "models"
        self.estimates = self.has("ef21") and lossy
        self.remembers = self.residual == "on" and self.exchange in LOSSY or self.estimates

    def choose_exchange(self):
        if self.has("a2sgd"):
            return "means"
        if self.has("adasum"):
            return "pairs"
        if self.rank > 0:
            return "thin"
        if self.selects and (self.has("oktopk") or self.has("topk") and (
                self.lists_via == "owner" or self.lists_via == "auto" and self.workers > 2)):
            return "owners"
        if self.selects:
            if self.has("gtopk"):
                coded = self.lists_via == "auto" and self.coding != F32
                return "tree" if coded or self.lists_via == "tree" else "swaps"
            return "common" if self.has("randk") else "lists"
        return "sum" if self.coding == F32 else "coded"

    def choose_what(self):
        """Gradients, models, changes of models, chunks of models, or nothing in steps."""
        if self.has("none"):
            return "nothing"
        if self.has("oneshot"):
            return "end"
        if self.has("spa") and self.chunks > 1:
            return "chunks"
        if self.has("sparta") and self.density < 1:
            return "shares"
        if self.has("update"):
            return "changes"
        if not self.has("local", "diloco", "sparseloco", "spa", "sparta", "pqasgd"):
            return "gradients"
        if self.steps_outside or self.streams:
            return "changes"
        if self.every == 1 and self.average == "none":
            return "gradients"
        return "models" if self.exchange == "sum" and not self.has("pqasgd") else "changes"

    def by_scatter(self, workers):
        return self.via == "scatter" or (self.via == "auto" and workers > 2)

    def density_at(self, step):
        if self.ladder == 0:
            return self.density
        rung = (step - self.warmup - 1) // self.ladder
        return max(LADDER[rung], self.density) if rung < len(LADDER) else self.density

    def most_density(self):
        return max(LADDER[0], self.density) if self.ladder else self.density

    def period(self, done, workers):
        if self.every != "grow":
            return self.every
        return max(1, math.floor(self.grow * math.sqrt(float(done)) / workers))


class Moment:
    """What a step does."""

    def __init__(self, gradient=False, dense=False, model=False, begins=False, fragment=0):
        self.gradient, self.dense, self.model = gradient, dense, model
        self.begins, self.fragment = begins, fragment


class Schedule:
    """Which steps do what; to be asked for each step in its order."""

    def __init__(self, spec, workers):
        self.spec, self.workers, self.begin, self.end = spec, workers, 0, 0

    def at(self, step):
        spec = self.spec
        if spec.what in ("nothing", "end"):
            return Moment()
        if spec.what == "gradients":
            return Moment(gradient=True, dense=step <= spec.warmup)
        if step <= spec.start:
            self.begin = self.end = spec.start
            return Moment(gradient=True, dense=True)
        if spec.streams:
            return self.turn_at(step)
        if step > self.end:
            self.begin = step - 1
            self.end = step - 1 + spec.period(step - 1 - spec.start, self.workers)
        return Moment(model=step == self.end, dense=step <= spec.warmup)


    def turn_at(self, step):
        """Fragments have their turns one after the other, in each period."""
        spec, local = self.spec, step - self.spec.start
        within = (local - 1) % spec.every + 1
        ends = [f * spec.every // spec.fragments for f in range(spec.fragments + 1)]
        fragment = next(f for f in range(spec.fragments) if within <= ends[f + 1])
        self.begin, self.end = (step - within + ends[fragment + i] for i in range(2))
        return Moment(model=step == self.end, begins=step == self.end - spec.delay,
                      dense=step <= spec.warmup, fragment=fragment)


# ---- cutting --------------------------------------------------------------------

def part(n, parts, r):
    begin = r * (n // parts) + min(r, n % parts)
    return begin, begin + n // parts + (r < n % parts)


class Layout:
    """The tensors of a model, one after the other in one vector."""

    def __init__(self, tensors, numbers=None, sizes=None):
        """Of a part of a model: the numbers of its tensors in the whole, and their sizes there."""
        self.tensors, self.spans, at = tensors, [], 0
        for _, rows, cols in tensors:
            self.spans.append((at, at + rows * cols))
            at += rows * cols
        self.n = at
        self.numbers = numbers or list(range(len(tensors)))
        self.sizes = sizes or [rows * cols for _, rows, cols in tensors]

    def tensor_of(self, index):
        return next(i for i, (_, end) in enumerate(self.spans) if index < end)

    def columns(self):
        """A number for each entry, the same for those of one column."""
        first, numbers = 0, []
        for _, rows, cols in self.tensors:
            numbers.append(np.tile(first + np.arange(cols), rows))
            first += cols
        return np.concatenate(numbers)

    def buckets(self):
        """The spans that are averaged by themselves, in their order."""
        spans, last = [], len(self.tensors)
        while last > 0:
            first, end = last, self.spans[last - 1][1]
            while first > 0 and (first == last or end - self.spans[first][0] < 2**20):
                first -= 1
            spans.append((self.spans[first][0], end))
            last = first
        return spans

    def fragments(self, count, cut):
        """Where each begins and ends."""
        ends = list(self.even_ends(count)) if cut == "even" else self.tensor_ends(count)
        return list(zip([0, *ends], [*ends, self.n]))

    def even_ends(self, count):
        for f in range(1, count):
            goal = f * self.n // count
            tensor = self.tensor_of(goal)
            begin, cols = self.spans[tensor][0], self.tensors[tensor][2]
            rows = [begin + (goal - begin) // cols * cols + i * cols for i in range(2)]
            short = cols <= self.n // count // 16
            yield min(rows, key=lambda row: abs(row - goal)) if short else goal

    def tensor_ends(self, count):
        starts, ends = [b for b, _ in self.spans], [0]
        for f in range(1, count):
            allowed = range(ends[-1] + 1, len(starts) - (count - f) + 1)
            ends.append(min(allowed, key=lambda t: (abs(count * starts[t] - f * self.n), t)))
        return [starts[t] for t in ends[1:]]

    def part(self, begin, end):
        """The layout of some floats: tensors, and pieces of those that are cut."""
        tensors, numbers = [], []
        for number, ((name, _, cols), (first, last)) in enumerate(zip(self.tensors, self.spans)):
            at, stop = max(first, begin), min(last, end)
            while at < stop:
                inside = (at - first) % cols
                rows = 1 if inside or stop - at < cols else (stop - at) // cols
                width = min(cols - inside, stop - at)
                tensors.append((name, rows, width))
                numbers.append(number)
                at += rows * width
        return Layout(tensors, numbers, [self.sizes[i] for i in numbers])

    def small(self, limit):
        """The positions of tensors that are sent whole."""
        spans = [range(b, e) for (b, e), size in zip(self.spans, self.sizes) if size < limit]
        return np.concatenate([np.array(s) for s in spans]) if spans else np.zeros(0, np.int64)


def segments(n, bucket, workers):
    """Whole buckets: begin, end and first bucket of each worker's."""
    result = []
    for s in range(workers):
        first, last = part(-(-n // bucket), workers, s)
        result.append((min(first * bucket, n), min(last * bucket, n), first))
    return result
