# SPDX-License-Identifier: Apache-2.0
"""charts.py - figures of the result pages: SVG charts of lines and of named rows.

    from support import charts                 # in a script under reproduce/

    fig = charts.Figure("Training loss, ResNet-20", columns=2)
    p = fig.panel("4 workers", x="steps", y="training loss", log_y=True)
    p.line("dense", xs, ys, band=spreads)      # the same name looks the same everywhere
    p.reference(0.1, "paper")
    p.mark(500, "warm-up ends")
    r = fig.rows("Accuracy after 5 epochs", x="%")
    r.row("topk:0.01", 87.1, spread=0.2)
    fig.write("docs/figures/loss.svg")

Pictures have no background and carry colours for light and dark pages. Colour is never
the only cue: every series has its own marker, or its own dashes if it has no markers.
The same calls give the same bytes. "10^-5" in a text is set with a raised exponent.
"""
import os
from html import escape

from .chart_axes import SIZE, ChartError, num, text, width_of
from .chart_panels import DASHED, Panel, Rows, dash_of, marker_path, path

__all__ = ["ChartError", "Figure"]

# (on white, on dark) for each series. Contrast is 3 or more with white and with #0d1117,
# and any two stay apart for readers who do not see red, green or blue.
PALETTE = [("#0f3dcb", "#576cff"), ("#b23b00", "#ff871c"), ("#25868c", "#5fbf9f"),
           ("#6d2f71", "#b39aff"), ("#3b2014", "#9a7366"), ("#2997f7", "#bdd7ff"),
           ("#bd8b12", "#ffdf36"), ("#000110", "#ffffd7")]
NEUTRAL = ("#656d76", "#8b949e")
INK = ("#1f2328", "#d1d7e0")
REFERENCES = ["2 3", "9 3 2 3", "14 4"]

EDGE = 6     # around the picture
LINE = 20    # of one line of the title or the legend
TITLE = 24   # above each plot
BELOW = 24   # under each plot, for the ticks' labels
LABEL = 18   # for the name of an axis


class Figure:
    """A grid of panels, filled row by row, under one title and one legend. With share_x or
    share_y all panels have the same axis."""

    def __init__(self, title, columns=2, width=860, share_x=False, share_y=False):
        self.title, self.columns, self.width = title, columns, width
        self.share = (share_x, share_y)
        self.panels, self.slots, self.references, self.keys = [], {}, {}, {}

    def panel(self, title, x="", y="", log_x=False, log_y=False, x_range=(None, None),
              y_range=(None, None), x_ticks=None, y_ticks=None):
        """A pair of axes for lines. Ranges: (low, high), None for what the data need; what
        lies outside is cut off. Ticks: values, in place of round ones."""
        self.panels.append(Panel(self, title, x, y, log_x, log_y, x_range, y_range,
                                 x_ticks, y_ticks))
        return self.panels[-1]

    def rows(self, title, x="", log_x=False, bars=False, x_range=(None, None), x_ticks=None):
        """A chart of named rows; bars start at zero, dots need not."""
        self.panels.append(Rows(self, title, x, log_x, bars, x_range, x_ticks))
        return self.panels[-1]

    def key(self, name, dashed=False, kind="line"):
        """Something in the legend that is no series, such as what dashed lines mean."""
        self.keys.setdefault(name, (kind, DASHED if dashed else ""))

    def svg(self):
        body, height = self.layout()
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{num(height)}" '
                f'viewBox="0 0 {self.width} {num(height)}" role="img">')
        title = f"<title>{escape(self.title.replace('^', ''), quote=False)}</title>"
        return "\n".join([head, title, style(), *body, "</svg>\n"])

    def write(self, path_):
        picture = self.svg()
        os.makedirs(os.path.dirname(os.path.abspath(path_)), exist_ok=True)
        with open(path_, "w", encoding="utf-8", newline="\n") as f:
            f.write(picture)

    # ---- what panels ask for -----------------------------------------------------------

    def slot(self, name, dashed, markers, join):
        """The number of a series: its colour, marker and dashes."""
        if name not in self.slots:
            if len(self.slots) == len(PALETTE):
                raise ChartError(f"chart '{self.title}', series '{name}': only {len(PALETTE)} can be "
                                 "told apart; make two figures")
            self.slots[name] = len(self.slots)
            self.keys[name] = ("series", (self.slots[name], dashed, markers, join))
        return self.slots[name]

    def reference(self, name):
        """The dashes of a named reference line."""
        if name not in self.references:
            self.references[name] = REFERENCES[len(self.references) % len(REFERENCES)]
            if name:
                self.keys.setdefault(name, ("line", self.references[name]))
        return self.references[name]

    def shared(self, k, panel):
        """The values that a panel's axis covers: its own, or those of all panels."""
        if not self.share[k]:
            return panel.values(k)
        return [v for p in self.panels if type(p) is type(panel)
                for v in p.values(k)]

    # ---- layout ------------------------------------------------------------------------

    def layout(self):
        """All parts of the picture, and its height."""
        out, y = [], EDGE
        for line in wrapped(self.title, self.width - 2 * EDGE):
            y += LINE
            out.append(text(EDGE, y - 5, line, style="title"))
        legend, y = self.legend(y)
        out += legend
        grid = [self.panels[i:i + self.columns] for i in range(0, len(self.panels), self.columns)]
        starts = self.measure(grid)
        for row in grid:
            parts, y = self.draw_row(row, y, starts[kind_of(row)])
            out += parts
        return out, y + EDGE

    def measure(self, grid):
        """Settles all axes; where the plots of each column begin. They stand below each
        other, but lines and named rows, whose labels differ in width, each for themselves."""
        starts = {}
        for kind in (False, True):
            mine = [row for row in grid if kind_of(row) == kind]
            starts[kind] = self.measure_rows(mine) if mine else []
        return starts

    def measure_rows(self, grid):
        columns = min(self.columns, len(self.panels))
        gutters, rights = [0.0] * columns, [0.0] * columns
        for row in grid:
            for c, p in enumerate(row):
                p.prepare_y()
                label = LABEL if shows_y(row, c) else 0
                gutters[c] = max(gutters[c], p.gutter + label)
                rights[c] = max(rights[c], p.right)
        width = (self.width - 2 * EDGE - sum(gutters) - sum(rights)) / columns
        if width < 80:
            raise ChartError(f"chart '{self.title}': plots of {width:.0f} units are too narrow; use "
                             "fewer columns or shorter names")
        for p in (p for row in grid for p in row):
            p.prepare_x(width)
        return [EDGE + sum(gutters[:c + 1]) + sum(rights[:c]) + c * width for c in range(columns)]

    def draw_row(self, row, y, starts):
        out = []
        for c, p in enumerate(row):
            left, top = starts[c], y + TITLE
            middle, centre = left + p.width / 2, top + p.height / 2
            out += [text(middle, top - 8, p.title, "middle", "panel"), *p.draw(left, top)]
            if p.x_label:
                out.append(text(middle, top + p.height + BELOW + 10, p.x_label, "middle"))
            if shows_y(row, c):
                x = left - p.gutter - 6
                out.append(f'<g transform="rotate(-90 {num(x)} {num(centre)})">' +
                           text(x, centre, p.y_label, "middle") + "</g>")
        label = LABEL if any(p.x_label for p in row) else 0
        return out, y + TITLE + max(p.height for p in row) + BELOW + label

    def legend(self, y):
        """What each line and sign means, in as many lines as it takes."""
        if not self.keys:
            return [], y
        out, x = [], EDGE
        y += LINE
        for name, key in sorted(self.keys.items(), key=lambda k: k[1][0] != "series"):
            wide = 34 + width_of(name) + 14
            if x > EDGE and x + wide > self.width:
                x, y = EDGE, y + LINE
            out += [*sample(key, x, y - 9), text(x + 32, y - 5, name)]
            x += wide
        return out, y + 4


def kind_of(row):
    return any(isinstance(p, Rows) for p in row)


def shows_y(row, c):
    """The name of a vertical axis stands once if the panel at its left has the same."""
    return row[c].y_label and not (c and row[c - 1].y_label == row[c].y_label)


def sample(key, x, y):
    """The sign of one entry of the legend."""
    kind, how = key
    if kind == "mark":
        return [path(f"M{num(x + 13)} {num(y + 4)}l-4-8h8z", "n dot")]
    if kind == "line":
        return [path(f"M{num(x)} {num(y)}h26", "n", how)]
    slot, dashed, markers, join = how
    line = [path(f"M{num(x)} {num(y)}h26", f"s{slot}", dash_of(slot, dashed, markers))] if join else []
    dot = [] if join and markers is False else [marker_path(slot, [f"{num(x + 13)} {num(y)}"], dashed)]
    return line + dot


def wrapped(words, width):
    """Lines of a title no wider than the picture."""
    lines = [""]
    for word in words.split():
        longer = (lines[-1] + " " + word).strip()
        if lines[-1] and 1.2 * width_of(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines if lines[0] else []


def style():
    """Colours for light pages, and again for dark ones."""
    def colours(which):
        pairs = [(f".s{i}", c[which]) for i, c in enumerate(PALETTE)] + [(".n", NEUTRAL[which])]
        return f"text{{fill:{INK[which]}}}" + "".join(f"{k}{{color:{c}}}" for k, c in pairs)

    return ("<style>\n"
            f"text{{font:{SIZE}px system-ui,sans-serif}}.title{{font-size:14px;font-weight:600}}"
            ".panel{font-weight:600}\n"
            "path{fill:none;stroke:currentColor;stroke-width:1.6;stroke-linejoin:round}"
            ".dot{fill:currentColor;stroke-width:1}\n"
            ".band{fill:currentColor;stroke:none;opacity:.18}.bar{fill:currentColor;opacity:.55;stroke:none}\n"
            ".grid{stroke-width:1;opacity:.25}.frame{stroke-width:1}\n"
            f"{colours(0)}\n@media (prefers-color-scheme:dark){{{colours(1)}}}\n</style>")
