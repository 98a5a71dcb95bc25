# SPDX-License-Identifier: Apache-2.0
"""chart_axes.py - texts, numbers and axes of the figures; see charts.py."""
import math
import re
from html import escape

SIZE = 12  # of text, in units of the picture
RAISED = r"\^([-−]?[\d.]*\d)"


class ChartError(ValueError):
    """What cannot be drawn, where, and what to do."""


# ---- text and numbers ------------------------------------------------------------------

def width_of(text):
    """Upper estimate of a text's width: fonts differ, so letters count as wide ones."""
    raised = sum(map(len, re.findall(RAISED, text)))
    text = text.replace("^", "")
    wide, narrow = sum(c in "mwMW%@—" for c in text), sum(c in "ijlt.,:;'|!()[] " for c in text)
    return SIZE * (0.95 * wide + 0.4 * narrow + 0.63 * (len(text) - wide - narrow) - 0.15 * raised)


def num(v):
    """A coordinate, short and without -0."""
    out = f"{v:.1f}".removesuffix(".0")
    return "0" if out == "-0" else out


def text(x, y, words, anchor="start", style=""):
    """A text; "^5" in it is raised."""
    plain, *rest = re.split(RAISED, escape(words, quote=False))
    body = plain
    for exponent, after in zip(rest[::2], rest[1::2]):
        body += f'<tspan dy="-4" font-size="9">{exponent.replace("-", "−")}</tspan>'
        body += f'<tspan dy="4">{after}</tspan>' if after else ""
    style = f' class="{style}"' if style else ""
    anchor = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{num(x)}" y="{num(y)}"{anchor}{style}>{body}</text>'


def number(v, step):
    """A tick's label, with as many digits as ticks that far apart need."""
    size = max(abs(v), step)
    if v and (size >= 1e7 or step < 1e-5):
        power = math.floor(math.log10(abs(v)) + 1e-9)
        out = f"{v / 10**power:.3g}×10^{power}"
    else:
        out = f"{v:,.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"
    return out.replace("-", "−")


# ---- axes ------------------------------------------------------------------------------

def linear_ticks(lo, hi, most):
    """Values a round step (1, 2 or 5 times a power of ten) apart that enclose lo..hi: of
    those with at most `most` values (3 or more) the ones that enclose it most closely."""
    if lo == hi:
        lo, hi = (lo - abs(lo) / 2, hi + abs(hi) / 2) if lo else (0.0, 1.0)
    start, best = math.floor(math.log10((hi - lo) / most)), None
    for power in range(start, start + 3):
        for digit in (1, 2, 5):
            step = float(f"{digit}e{power}")
            first, last = math.floor(lo / step + 1e-9), math.ceil(hi / step - 1e-9)
            if last - first < most and (best is None or (last - first) * step < 0.9 * best[0]):
                ticks = [float(f"{k * digit}e{power}") for k in range(first, last + 1)]
                best = ((last - first) * step, ticks)
    return best[1]


def log_ticks(lo, hi, most):
    """Powers of ten that enclose lo..hi, with 2 and 5 between if there is room."""
    a, b = math.floor(math.log10(lo) + 1e-9), math.ceil(math.log10(hi) - 1e-9)
    fine = [float(f"{m}e{e}") for e in range(a, max(a, b) + 1) for m in (1, 2, 5)]
    first = max((i for i, v in enumerate(fine) if v <= lo * (1 + 1e-9)), default=0)
    last = next(i for i, v in enumerate(fine + [math.inf]) if v >= hi * (1 - 1e-9))
    if first < last and last - first < most:
        return fine[first:last + 1]
    stride = max(1, math.ceil((b - a) / max(1, most - 1)))
    b = max(b, a + 1)
    return [10.0**e for e in range(a, b + stride, stride) if e - stride < b]


class Axis:
    """From values to parts of a length, with round ticks."""

    def __init__(self, values, log, limits=(None, None), ticks=None, most=6):
        lo, hi = (min(values), max(values)) if values else (1.0, 10.0)
        lo, hi = (b if b is not None else a for a, b in zip((lo, hi), limits))
        self.log = log
        self.ticks = ticks or (log_ticks if log else linear_ticks)(lo, max(lo, hi), max(3, most))
        ends = [*self.ticks, lo, hi]
        self.lo = limits[0] if limits[0] is not None else min(ends)
        self.hi = limits[1] if limits[1] is not None else max(ends)
        if not self.lo < self.hi:
            raise ChartError(f"axis from {self.lo:g} to {self.hi:g}: give limits of which "
                             "the second is larger")
        slack = 1e-9 * (self.hi - self.lo)
        self.ticks = [t for t in self.ticks if self.lo - slack <= t <= self.hi + slack]

    def at(self, v):
        if self.log:
            return math.log(v / self.lo) / math.log(self.hi / self.lo)
        return (v - self.lo) / (self.hi - self.lo)

    def labels(self):
        if not self.log:
            step = min((b - a for a, b in zip(self.ticks, self.ticks[1:])), default=1.0)
            return [number(t, float(f"{step:.3g}")) for t in self.ticks]
        if all(0.001 <= t < 1e5 for t in self.ticks):
            return [f"{t:,.6g}" for t in self.ticks]
        return [power_of_ten(t) for t in self.ticks]


def power_of_ten(v):
    power = math.floor(math.log10(v) + 1e-9)
    digit = round(v / 10.0**power, 3)
    return ("" if digit == 1 else f"{digit:g}×") + f"10^{power}" if power else f"{digit:g}"


def overhang(*rest):
    """How far the last label under a plot can stand out at its right."""
    return max(width_of(Axis(*rest, most=most).labels()[-1]) for most in range(3, 9)) / 2


def axis_that_fits(length, *rest):
    """As many ticks as have room for their labels beside each other."""
    for most in range(8, 2, -1):
        axis = Axis(*rest, most=most)
        places = [(axis.at(t) * length, width_of(s)) for t, s in zip(axis.ticks, axis.labels())]
        if all(b - a > (wide + next_) / 2 + 6 for (a, wide), (b, next_) in zip(places, places[1:])):
            break
    return axis
