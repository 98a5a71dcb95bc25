# SPDX-License-Identifier: Apache-2.0
"""chart_panels.py - what stands in one cell of a figure: a pair of axes with lines, or
named rows with values; see charts.py."""
import math

from .chart_axes import Axis, ChartError, axis_that_fits, num, overhang, text, width_of

# Marker of each series, about 6 units wide around its point, and whether it is filled.
MARKERS = [("m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z", True), ("m-2.7-2.7h5.4v5.4h-5.4z", True),
           ("m0-3.6l3.4 6h-6.8z", True), ("m0-3.8l3.8 3.8-3.8 3.8-3.8-3.8z", True),
           ("m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z", False), ("m-2.7-2.7h5.4v5.4h-5.4z", False),
           ("m0 3.6l3.4-6h-6.8z", True), ("m-3-3l6 6m-6 0l6-6", False)]
# Dashes of each series when it has no markers.
DASHES = ["", "7 3", "2 2", "8 3 2 3", "12 4", "4 4", "10 3 2 3 2 3", "1 3"]
DASHED = "5 3"

HEIGHT = 200  # of the plot in a panel of lines
ROW = 20      # of one value in a chart of rows
MANY = 30     # points beyond which only some carry a marker


def path(d, style, dash=""):
    dash = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path class="{style}" d="{d}"{dash}/>'


def marker_path(slot, spots, hollow=False):
    """Markers of one series at all spots ("x y"), as one path."""
    shape, filled = MARKERS[slot]
    style = "" if hollow or not filled else " dot"
    return path("".join(f"M{spot}{shape}" for spot in spots), f"s{slot}{style}")


def dash_of(slot, dashed, markers):
    return DASHED if dashed else DASHES[slot] if markers is False else ""


def pick(spots, slot, markers, join):
    """Which points carry a marker: all, none, or of many points some, which are others
    for each series so that markers of lines that coincide do not."""
    if markers is False and join:
        return []
    if markers or not join or len(spots) <= MANY:
        return spots
    first, last = spots[0][0], spots[-1][0]
    wanted = [first + (last - first) * (i + (slot + 0.5) / 8) / 8 for i in range(8)]
    return [min(spots, key=lambda p: abs(p[0] - x)) for x in wanted]


def finite(v):
    return v is not None and math.isfinite(v)


def clipped(a, b):
    """The part of the line from a to b inside the unit square, or None."""
    t0, t1 = 0.0, 1.0
    for k in (0, 1):
        d = b[k] - a[k]
        for room, move in ((a[k], -d), (1 - a[k], d)):
            room += 1e-12  # points on the edge are inside
            if move == 0 and room < 0:
                return None
            if move < 0:
                t0 = max(t0, room / move)
            elif move > 0:
                t1 = min(t1, room / move)
    if t0 >= t1 and a != b:
        return None
    ends = (tuple(p + t * (q - p) for p, q in zip(a, b)) for t in (t0, t1))
    return tuple(p if 0 < t < 1 else (a, b)[int(t)] for p, t in zip(ends, (t0, t1)))


def thinned(points, columns):
    """At most four points of each column of the picture: its ends, least and greatest."""
    if len(points) <= 2 * columns:
        return points
    groups = {}
    for i, (x, y) in enumerate(points):
        groups.setdefault(math.floor(x * columns), []).append((y, i))
    keep = {i for g in groups.values() for i in (g[0][1], g[-1][1], min(g)[1], max(g)[1])}
    return [points[i] for i in sorted(keep)]


class Panel:
    """One pair of axes with lines. Made by Figure.panel()."""

    def __init__(self, figure, title, x, y, log_x, log_y, x_range, y_range, x_ticks, y_ticks):
        self.figure, self.title, self.x_label, self.y_label = figure, title, x, y
        self.log = (log_x, log_y)
        self.limits, self.given = (x_range, y_range), (x_ticks, y_ticks)
        self.lines, self.levels, self.marks = [], [], []
        self.height = HEIGHT

    def line(self, name, xs, ys, band=None, dashed=False, markers=None, join=True):
        """A series. None, NaN and infinity leave a gap. band: spreads, or (low, high)
        pairs. markers: at all points (True), none (False) or as many as are readable;
        join=False draws points alone."""
        xs, ys = list(xs), list(ys)
        band = list(band) if band is not None else None
        if len(xs) != len(ys) or (band is not None and len(band) != len(ys)):
            self.fail(name, f"{len(xs)} x, {len(ys)} y and {len(band or ys)} band values: "
                            "give as many of each")
        for which, log, values in zip("xy", self.log, (xs, ys)):
            bad = [i for i, v in enumerate(values) if log and finite(v) and v <= 0]
            if bad:
                self.fail(name, f"{which} is {values[bad[0]]:g} at point {bad[0]}, which a logarithmic "
                                "axis cannot show: leave it out (None) or use a linear axis")
        points = [(x, y, self.edges(y, b)) for x, y, b in zip(xs, ys, band or [None] * len(ys))
                  if finite(x)]
        slot = self.figure.slot(name, dashed, markers, join)
        self.lines.append((slot, points, dashed, markers, join))

    def edges(self, y, band):
        """Lower and upper edge of the band at a point, or None. Where a spread is larger
        than the mean a logarithmic axis shows a tenth of the mean as the lower edge."""
        if band is None or not finite(y):
            return None
        lo, hi = band if isinstance(band, (tuple, list)) else (y - band, y + band)
        if not finite(lo) or not finite(hi):
            return None
        return (max(lo, y / 10) if self.log[1] else lo), hi

    def reference(self, y, name=None):
        """A horizontal line."""
        if self.log[1] and y <= 0:
            self.fail(name, f"a line at {y:g} on a logarithmic axis: use a linear axis")
        self.levels.append((y, self.figure.reference(name)))

    def mark(self, x, name=None, like=None, line=False):
        """A triangle on the lower axis, in the colour of the series `like`, if wanted
        with a vertical line."""
        if self.log[0] and x <= 0:
            self.fail(name, f"a mark at {x:g} on a logarithmic axis: use a linear axis")
        if name:
            self.figure.key(name, kind="mark")
        self.marks.append((x, like, line))

    def fail(self, name, why):
        raise ChartError(f"chart '{self.figure.title}', panel '{self.title}', '{name}': {why}")

    def values(self, k):
        """All that the axis k (0: x, 1: y) has to cover."""
        points = [p for line in self.lines for p in line[1] if finite(p[1])]
        edges = [e for p in points if k == 1 and p[2] for e in p[2]]
        return [p[k] for p in points] + edges + [v[0] for v in (self.marks, self.levels)[k]]

    def prepare_y(self):
        values = self.figure.shared(1, self)
        self.y = Axis(values, self.log[1], self.limits[1], self.given[1],
                      most=8)
        self.gutter = max(map(width_of, self.y.labels())) + 8
        self.right = max(14, overhang(self.figure.shared(0, self), self.log[0], self.limits[0],
                                      self.given[0]))

    def prepare_x(self, width):
        values = self.figure.shared(0, self)
        self.x = axis_that_fits(width, values, self.log[0], self.limits[0], self.given[0])
        self.width, self.columns = width, int(width / 2)

    def draw(self, left, top):
        self.left, self.top = left, top
        out = [*self.draw_axes()]
        for y, dash in self.levels:
            if 0 <= self.y.at(y) <= 1:
                out.append(path(f"M{num(left)} {num(self.down(self.y.at(y)))}h{num(self.width)}",
                                "n", dash))
        for line in self.lines:
            out += self.draw_line(*line)
        for mark in self.marks:
            out += self.draw_mark(*mark)
        if not self.lines:
            out.append(text(left + self.width / 2, top + self.height / 2, "no data", "middle"))
        return out

    def draw_axes(self):
        bottom = self.top + self.height
        for t, label in zip(self.x.ticks, self.x.labels()):
            x = self.across(self.x.at(t))
            yield path(f"M{num(x)} {num(bottom)}v4", "n")
            yield text(x, bottom + 17, label, "middle")
        for t, label in zip(self.y.ticks, self.y.labels()):
            y = self.down(self.y.at(t))
            yield path(f"M{num(self.left)} {num(y)}h{num(self.width)}", "n grid")
            yield text(self.left - 6, y + 4, label, "end")
        yield path(f"M{num(self.left)} {num(self.top)}h{num(self.width)}v{num(self.height)}"
                   f"H{num(self.left)}z", "n frame")

    def across(self, part):
        return self.left + self.width * part

    def down(self, part):
        return self.top + self.height * (1 - part)

    def draw_band(self, slot, points):
        edges = [(self.x.at(x), [min(1, max(0, self.y.at(e))) for e in b])
                 for x, _, b in points if b and 0 <= self.x.at(x) <= 1]
        if len(edges) < 2:
            return []
        low = [(x, b[0]) for x, b in edges]
        high = [(x, b[1]) for x, b in edges]
        around = thinned(low, self.columns) + thinned(high, self.columns)[::-1]
        return [path("M" + "L".join(self.spot(p) for p in around) + "z", f"s{slot} band")]

    def spot(self, p):
        return f"{num(self.across(p[0]))} {num(self.down(p[1]))}"

    def draw_line(self, slot, points, dashed, markers, join):
        out = self.draw_band(slot, points)
        runs, fresh = [], True
        for x, y, _ in points:
            if finite(y):
                runs += [[]] if fresh else []
                runs[-1].append((self.x.at(x), self.y.at(y)))
            fresh = not finite(y)
        runs = [thinned(r, self.columns) for r in runs]
        if join:
            d = "".join(self.trace(r) for r in runs)
            out += [path(d, f"s{slot}", dash_of(slot, dashed, markers))] if d else []
        spots = [p for r in runs for p in r]
        spots = [p for p in pick(spots, slot, markers, join)
                 if all(-1e-9 <= v <= 1 + 1e-9 for v in p)]
        if spots:
            out.append(marker_path(slot, [self.spot(p) for p in spots], dashed))
        return out

    def trace(self, run):
        """The path of one unbroken stretch, without what lies outside the axes."""
        d, end = "", None
        for a, b in zip(run, run[1:]):
            part = clipped(a, b)
            if part:
                d += ("" if end == part[0] else "M" + self.spot(part[0])) + "L" + self.spot(part[1])
            end = part[1] if part else None
        return d

    def draw_mark(self, x, like, line):
        if not 0 <= self.x.at(x) <= 1:
            return []
        if like is not None and like not in self.figure.slots:
            self.fail(like, "a mark is to look like it, but no line has that name")
        style = "n" if like is None else f"s{self.figure.slots[like]}"
        where = f"M{num(self.across(self.x.at(x)))} {num(self.top + self.height)}"
        upright = [path(f"{where}v-{num(self.height)}", style, "3 3")] if line else []
        return [*upright, path(f"{where}l-4-8h8z", style + " dot")]


# ---- rows ------------------------------------------------------------------------------

class Rows:
    """Named rows with a value each, or one for each of several series: dots with their
    spread, or bars. Made by Figure.rows()."""

    def __init__(self, figure, title, x, log_x, bars, x_range, x_ticks):
        self.figure, self.title, self.x_label, self.y_label = figure, title, x, ""
        self.log, self.bars = log_x, bars
        self.limits, self.given = x_range, x_ticks
        self.items, self.levels = {}, []

    def row(self, name, value, spread=None, series=None, label=None):
        """value: None if there is none; `label` then says why ("diverged"). label: what
        stands at the right, else the value with as many digits as the spread needs."""
        if self.log and finite(value) and value <= 0:
            raise ChartError(f"chart '{self.figure.title}', rows '{self.title}', '{name}': {value:g} "
                             "cannot be on a logarithmic axis; leave it out (None) or use a linear axis")
        slot = self.figure.slot(series, False, None, False) if series else 0
        label = label if label is not None else with_spread(value, spread)
        self.items.setdefault(name, []).append((value, spread or 0.0, slot, label))

    def reference(self, x, name=None):
        """A vertical line."""
        self.levels.append((x, self.figure.reference(name)))

    @property
    def height(self):
        return 8 + sum(6 + ROW * len(values) for values in self.items.values())

    def values(self, k):
        """All that the axis has to cover; only x has values."""
        found = [e for r in self.items.values() for v, s, _, _ in r if finite(v) and k == 0
                 for e in (v - s, v, v + s) if not self.log or e > 0]
        zero = [0.0] if self.bars and not self.log and k == 0 else []
        return found + zero + [x for x, _ in self.levels if k == 0]

    def prepare_y(self):
        self.gutter = max(map(width_of, self.items), default=0) + 10
        labels = [width_of(v[3]) for r in self.items.values() for v in r]
        self.right = max(12 + max(labels, default=0),
                         overhang(self.figure.shared(0, self), self.log, self.limits, self.given))

    def prepare_x(self, width):
        self.x = axis_that_fits(width, self.figure.shared(0, self), self.log, self.limits,
                                self.given)
        self.width = width

    def draw(self, left, top):
        self.left = left
        bottom, y, out = top + self.height, top + 4, []
        for t, label in zip(self.x.ticks, self.x.labels()):
            out += [path(f"M{num(self.across(t))} {num(top)}V{num(bottom)}", "n grid"),
                    text(self.across(t), bottom + 17, label, "middle")]
        out.append(path(f"M{num(left)} {num(top)}V{num(bottom)}H{num(left + self.width)}", "n frame"))
        out += [path(f"M{num(self.across(x))} {num(top)}V{num(bottom)}", "n", dash)
                for x, dash in self.levels]
        for name, values in self.items.items():
            tall = 6 + ROW * len(values)
            out.append(text(left - 8, y + tall / 2 + 4, name, "end"))
            for i, value in enumerate(values):
                out += self.draw_value(y + 3 + ROW * (i + 0.5), *value)
            y += tall
        return out

    def across(self, v):
        return self.left + self.width * min(1, max(0, self.x.at(v)))

    def draw_value(self, y, value, spread, slot, label):
        out = [text(self.left + self.width + 8, y + 4, label)]
        if not finite(value):
            return out
        x = num(self.across(value))
        if self.bars:
            start = num(self.across(self.x.lo if self.log else max(0.0, self.x.lo)))
            out.append(path(f"M{start} {num(y - 5)}H{x}v10H{start}z", f"s{slot} bar"))
        else:
            out.append(marker_path(slot, [f"{x} {num(y)}"]))
        if spread:
            low = value - spread if not self.log else max(value - spread, self.x.lo)
            a, b = num(self.across(low)), num(self.across(value + spread))
            out.append(path(f"M{a} {num(y - 3)}v6m0-3H{b}m0-3v6", f"s{slot}"))
        return out


def with_spread(value, spread):
    """A value with as many digits as its spread: two of the spread's, four if none."""
    if not finite(value):
        return "–"
    if not spread:
        return f"{value:,.4g}".replace("-", "−")
    digits = max(0, 1 - math.floor(math.log10(spread)))
    return f"{value:,.{digits}f} ± {spread:,.{digits}f}".replace("-", "−")
