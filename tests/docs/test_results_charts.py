# SPDX-License-Identifier: Apache-2.0
#
# test_results_charts.py - figures of the result pages: they parse, show all of the data,
# nothing leaves the picture, and there are colours for light and dark pages.
import itertools
import math
import os
import re
import sys
import tempfile
import xml.etree.ElementTree as ET

from support_checks import check, finish

sys.path.insert(0, os.path.join(os.environ["GRADWIRE_SOURCE"], "reproduce"))
from support import chart_axes, charts  # noqa: E402

NS = "{http://www.w3.org/2000/svg}"
NAMES = ["dense", "topk:0.001", "gtopk:0.001", "qsgd:4", "local:8", "pqasgd:bits=8,period=4",
         "a2sgd", "none"]


def example():
    """All kinds of panels, with names and values that are hard to place."""
    fig = charts.Figure("Loss & <accuracy> of everything there is, once more, with a title that takes two lines "
                        "because nobody thought of a shorter one, at 10^-5", columns=2)
    for workers in (4, 1024):
        p = fig.panel(f"{workers} workers", x="steps", y="training loss", log_y=workers > 4)
        for i, name in enumerate(NAMES):
            ys = [2.3 * math.exp(-k / (60 + 9 * i)) + 0.01 * (1 + k * 7919 % 13) for k in range(500)]
            ys[100] = (None, math.nan, math.inf)[i % 3]
            p.line(name, [2000 * k for k in range(500)], ys, band=[0.2 * i] * 500 if i < 3 else None)
        p.reference(0.1, "paper")
        p.mark(5000, "warm-up ends", like="dense", line=True)
    p = fig.panel("cut off", x="workers", y="speed-up", log_x=True, y_range=(2, 20),
                  x_ticks=[1, 2, 4, 8, 16, 32])
    p.line("dense", [1, 2, 4, 8, 16, 32], [1, 2, 40, 8, 16, 32], markers=False)
    p.line("qsgd:4", [1, 2, 4, 8, 16, 32], [1, 1, 1, 1, 1, 1], dashed=True)
    fig.panel("nothing yet", x="steps")
    rows = fig.rows("Accuracy", x="%")
    for i, name in enumerate(NAMES):
        rows.row(name, 85 + i / 3, 0.2 + i / 9)
    rows.row("signs", None, label="diverged")
    rows.reference(86, "again")
    bars = fig.rows("Time per step", x="ms", bars=True)
    for i, name in enumerate(NAMES[:4]):
        bars.row(name, 1e4 + 3000 * i, 500, series="dense")
        bars.row(name, 1e3 * i, series="a2sgd")
    return fig


def spots(d):
    """The points that a path visits, and how far its arcs reach at least."""
    x = y = 0.0
    for command, rest in re.findall(r"([MLHVmlhvaz])([^MLHVmlhvaz]*)", d):
        v = [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", rest)]
        if command in "Hh":
            x = v[0] + (x if command == "h" else 0)
        elif command in "Vv":
            y = v[0] + (y if command == "v" else 0)
        elif command != "z":
            v = v[5:] if command == "a" else v
            for a, b in zip(v[::2], v[1::2]):
                x, y = (a, b) if command in "ML" else (x + a, y + b)
                yield x, y
        if command != "z":
            yield x, y


def box_of(element):
    """What a text may cover, by the module's own upper estimate."""
    words = "".join(element.itertext())
    wide = chart_axes.width_of(words) * (1.2 if element.get("class") == "title" else 1)
    x, y = float(element.get("x")), float(element.get("y"))
    x -= {"middle": wide / 2, "end": wide}.get(element.get("text-anchor"), 0)
    return [(x, y - 12), (x + wide, y + 4)]


def stays_inside(svg, what):
    root = ET.fromstring(svg)
    _, _, width, height = map(float, root.get("viewBox").split())
    turned = {id(t) for g in root.iter(NS + "g") for t in g.iter(NS + "text")}
    points = [p for e in root.iter(NS + "path") for p in spots(e.get("d"))]
    points += [p for e in root.iter(NS + "text") if id(e) not in turned for p in box_of(e)]
    out = [p for p in points if not (0 <= p[0] <= width and 0 <= p[1] <= height)]
    check(not out, f"{what}: {len(out)} of {len(points)} points outside {width} x {height}: {out[:3]}")
    for g in root.iter(NS + "g"):
        half = chart_axes.width_of("".join(g.itertext())) / 2
        x, y = map(float, re.findall(r"[\d.]+", g.get("transform"))[-2:])
        check(x >= 10 and y - half >= 0 and y + half <= height, f"{what}: name of an axis leaves it")
    check("nan" not in svg and "inf" not in svg.replace("infinity", ""), f"{what}: a number is none")


def whole_picture():
    svg = example().svg()
    root = ET.fromstring(svg)
    check(root.tag == NS + "svg" and root.get("role") == "img", "not a picture")
    check(root.find(NS + "title").text.startswith("Loss & <accuracy>"), "no title")
    check("<rect" not in svg and "background" not in svg, "has a background")
    stays_inside(svg, "example")
    check(svg == example().svg(), "the same calls give other bytes")
    texts = ["".join(e.itertext()) for e in root.iter(NS + "text")]
    wanted = NAMES + ["paper", "again", "warm-up ends", "diverged", "no data", "training loss"]
    check(all(w in texts for w in wanted), f"lacks {[w for w in wanted if w not in texts]}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "new", "a.svg")
        example().write(path)
        check(open(path, encoding="utf-8").read() == svg, "the file is not the picture")


def small_pictures():
    """Single points, empty figures, very large and very small numbers."""
    for x, y in itertools.product([1.0, 0.37, 2.5e9, 3e-9], [1.0, 42.0, 9.99e8, 1e-12]):
        for log in (False, True):
            fig = charts.Figure("one point", columns=1)
            fig.panel("", x="x", y="y", log_x=log, log_y=log).line("a", [x], [y])
            stays_inside(fig.svg(), f"one point {x}, {y}, log {log}")
    for title in ("", "nothing"):
        ET.fromstring(charts.Figure(title).svg())
    fig = charts.Figure("below zero", columns=3)
    fig.panel("a").line("a", [-5, 0, 3], [-0.2, 0, -0.1])
    fig.rows("b").row("a", -3.5, 0.1)
    stays_inside(fig.svg(), "below zero")


def ticks_cover():
    """Ticks enclose the data, are round, and not more than there is room for."""
    ends = [0.0, 1e-9, 0.013, 0.99, 1.0, 1.01, 7.3, 99.0, 3125.0, 123456.0, 8e8]
    for lo, hi in itertools.product(ends + [-v for v in ends], repeat=2):
        for most in range(3, 9):
            if lo <= hi:
                covers(chart_axes.linear_ticks(lo, hi, most), lo, hi, most, {1, 2, 5})
            if 0 < lo <= hi:
                covers(chart_axes.log_ticks(lo, hi, most), lo, hi, most, None)


def covers(ticks, lo, hi, most, digits):
    what = f"ticks {ticks} of {lo} to {hi}, at most {most}"
    slack = 1e-8 * max(hi - lo, abs(lo), abs(hi))
    check(ticks[0] <= lo + slack and ticks[-1] >= hi - slack, what + ": do not cover")
    check(2 <= len(ticks) <= most and ticks == sorted(set(ticks)), what + ": number or order")
    if digits:
        step = ticks[1] - ticks[0]
        first = round(step / 10 ** math.floor(math.log10(step) + 1e-6))
        check(first in digits, what + f": step {step}")
    else:
        check(all(f"{t:e}"[0] in "125" and abs(t - float(f"{t:.0e}")) <= 1e-9 * t for t in ticks),
              what + ": not round")


def colours():
    def channel(c):
        c /= 255
        return c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4

    def luminance(c):
        r, g, b = (channel(int(c[i:i + 2], 16)) for i in (1, 3, 5))
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    light, dark = example().svg().split("@media (prefers-color-scheme:dark)")
    for which, (text, page) in enumerate(((light, "#ffffff"), (dark, "#0d1117"))):
        inks = [(c[which], 3.0) for c in charts.PALETTE] + [(charts.NEUTRAL[which], 3.0), (charts.INK[which], 7.0)]
        for colour, least in inks:
            a, b = sorted((luminance(colour), luminance(page)))
            contrast = (b + 0.05) / (a + 0.05)
            check(contrast >= least, f"{colour} on {page}: contrast {contrast:.2f}, not {least}")
            check(colour in text, f"{colour} is not in the style for {page}")
    check(len({c for pair in charts.PALETTE for c in pair}) == 16, "a colour stands for two series")


def refuses(words, call):
    try:
        call()
    except charts.ChartError as e:
        check(all(w in str(e) for w in words) and "\n" not in str(e), f"'{e}' lacks one of {words}")
    else:
        check(False, f"no error with {words}")


def errors():
    fig = charts.Figure("F", columns=1)
    p = fig.panel("P", log_x=True, log_y=True)
    refuses(["F", "P", "dense", "y is 0", "point 1", "logarithmic", "linear"],
            lambda: p.line("dense", [1, 2], [1, 0]))
    refuses(["x is -1", "point 0"], lambda: p.line("dense", [-1, 2], [1, 1]))
    refuses(["logarithmic"], lambda: p.reference(0.0, "zero"))
    refuses(["logarithmic"], lambda: p.mark(0, "zero"))
    refuses(["2 x, 3 y"], lambda: p.line("dense", [1, 2], [1, 2, 3]))
    refuses(["logarithmic", "R"], lambda: fig.rows("R", log_x=True).row("a", 0.0))
    for i in range(8):
        p.line(f"s{i}", [1, 2], [1, 2])
    refuses(["two figures"], lambda: p.line("s8", [1, 2], [1, 2]))
    p.mark(1, like="nobody")
    refuses(["nobody", "no line"], fig.svg)
    wrong = charts.Figure("F")
    wrong.panel("P", y_range=(2, 1)).line("a", [1], [1])
    refuses(["limits"], wrong.svg)
    narrow = charts.Figure("F", columns=12)
    for i in range(12):
        narrow.panel("P").line("a", [1, 2], [1, 2])
    refuses(["narrow", "columns"], narrow.svg)


whole_picture()
small_pictures()
ticks_cover()
colours()
errors()
finish()
