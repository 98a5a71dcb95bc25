# SPDX-License-Identifier: Apache-2.0
"""Tables and pages in Markdown, and what a page says of where its figures are from."""
import math
import os
import re
import statistics
import textwrap

from support.store import ROOT

DOCS = os.path.join(ROOT, "docs")


def table(header, lines):
    out = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(out + ["| " + " | ".join(str(c) for c in line) + " |" for line in lines]) + "\n"


def percent(x, digits=2):
    return f"{100 * x:.{digits}f} %"


def number(x):
    """Three significant digits, thousands separated by commas."""
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def spread(values, digits=2):
    """Mean and standard deviation; of a single value the value."""
    mean = f"{statistics.fmean(values):.{digits}f}"
    return mean + (f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else "")


def values(rows, name, times=1.0):
    return [times * float(r[name]) for r in rows if r[name]]


def score(rows):
    """The test perplexity of language models, the test accuracy in percent of others."""
    if any(r["perplexity"] for r in rows):
        return spread(values(rows, "perplexity"), 1)
    return spread(values(rows, "accuracy", 100))


def own_score(rows):
    """The same of the workers' own models; nothing where these are equal."""
    if any(r["perplexity"] for r in rows):
        own = [math.exp(v) for v in values(rows, "test_loss_workers")]
        return spread(own, 1) if own else ""
    own = values(rows, "accuracy_workers", 100)
    return spread(own) if own else ""


def made_by(command, rows):
    """One sentence: by what, when, where, with which version."""
    dates, machines, versions = (sorted({r[k] for r in rows if r.get(k)}) for k in ("date", "machine", "version"))
    if not dates:
        raise SystemExit("there are no results yet; run this without --page first")
    when = dates[0] + (f" to {dates[-1]}" if len(dates) > 1 else "")
    return f"Made by `{command}`, {when}, {' and '.join(machines)}, gradwire {', '.join(versions)}."


def paragraph(text):
    """One paragraph or list item in lines of at most 110 characters."""
    indent = " " * len(re.match(r"(?:[-*] |\d+\. )?", text)[0])
    return textwrap.fill(text, 110, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def wrapped(text):
    """The text with its prose in lines of at most 110 characters. Tables, headings, pictures
    and code stay as they are."""
    out, code = [], False
    for block in re.split(r"(\n{2,}|\n(?=[-*] |\d+\. |```))", text):
        fences = len(re.findall(r"^```", block, flags=re.M))
        prose = not code and not fences and not re.match(r"\s*$|[|#<!]", block)
        code ^= fences % 2 == 1
        end = re.search(r"\n*$", block)[0]
        out.append(paragraph(block) + end if prose else block)
    return "".join(out)


def write_between(page, name, text):
    """Replaces what stands between the marks called name in docs/PAGE."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    path = os.path.join(DOCS, page)
    with open(path) as f:
        old = f.read()
    if begin not in old or end not in old:
        raise SystemExit(f"docs/{page} has no markers for {name}")
    with open(path, "w") as f:
        f.write(old[:old.index(begin)] + begin + wrapped(text).rstrip("\n") + "\n" + old[old.index(end):])
