# SPDX-License-Identifier: Apache-2.0
#
# test_results_pages.py - what the pages of results name exists: pictures, pages, headings,
# scripts, targets of make; and the tables of numbers behind them are well-formed.
import csv
import glob
import os
import re
import xml.etree.ElementTree as ET

from support_checks import check, finish

ROOT = os.environ["GRADWIRE_SOURCE"]
# Folders of somebody's machine have no place in results.
MACHINE = re.compile(r"(?<![\w.])/(?:home|root|tmp|work|mnt|media|srv|var|opt|Users)/\w")


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def short(path):
    return os.path.relpath(path, ROOT)


def anchors(page):
    """The names by which headings of a page can be linked to."""
    plain = re.sub(r"^```.*?^```", "", text_of(page), flags=re.S | re.M)
    for heading in re.findall(r"^#+\s+(.*?)\s*#*$", plain, flags=re.M):
        yield re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-")


def links_resolve(page):
    for target in re.findall(r"\]\(([^()\s]+)\)", text_of(page)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, part = target.partition("#")
        path = os.path.join(os.path.dirname(page), name) if name else page
        if check(os.path.exists(path), f"{short(page)}: no {target}") and part:
            check(part in anchors(path), f"{short(page)}: no heading for {target}")


def named_files_exist(page):
    """Scripts can be run; numbers and pictures are there. Patterns with * match something."""
    for name in sorted(set(re.findall(r"(?<![\w/.])(?:reproduce|results)/[\w./*-]*[\w*]", text_of(page)))):
        found = glob.glob(os.path.join(ROOT, name))
        if check(found, f"{short(page)}: no {name}") and name.startswith("reproduce/") and \
                "*" not in name and not name.startswith("reproduce/support"):
            check(os.path.isdir(found[0]) or os.access(found[0], os.X_OK),
                  f"{short(page)}: {name} cannot be run")


def make_targets_exist(page, targets, papers):
    commands = [c.strip() for line in re.findall(r"`((?:sudo )?make [^`]*)`", text_of(page))
                for c in line.split("&&")]
    for line in commands:
        words = line.removeprefix("sudo ").split()
        for word in words[1:] if words[0] == "make" else []:
            name, given, value = word.partition("=")
            if not given:
                check(name in targets, f"{short(page)}: make has no {name}")
            elif name == "PAPER" and value != "NAME":
                check(value in papers, f"{short(page)}: reproduce/results has no {value}")


def pictures_are_sound(page):
    for name in re.findall(r"\]\(([^()\s]+\.svg)\)", text_of(page)):
        path = os.path.join(os.path.dirname(page), name)
        if not os.path.exists(path):
            continue  # said by links_resolve()
        try:
            root = ET.parse(path).getroot()
        except ET.ParseError as e:
            check(False, f"{short(path)}: {e}")
            continue
        style = "".join(e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}style"))
        check(root.get("viewBox") and root.get("role") == "img", f"{short(path)}: no viewBox or role")
        check("prefers-color-scheme" in style, f"{short(path)}: the same colours on light and dark pages")


def table_is_sound(path):
    check(text_of(path).endswith("\n"), f"{short(path)}: the last line is not whole")
    check(not MACHINE.search(text_of(path)), f"{short(path)}: {MACHINE.search(text_of(path))}")
    with open(path, newline="", encoding="utf-8") as f:
        header, *rows = list(csv.reader(f)) or [[]]
    check(header and all(header) and len(set(header)) == len(header), f"{short(path)}: header {header}")
    check(rows, f"{short(path)}: no rows")
    for i, row in enumerate(rows):
        if len(row) != len(header):
            check(False, f"{short(path)}: row {i + 2} has {len(row)} fields, not {len(header)}")
            break


def main():
    docs = sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))) + [os.path.join(ROOT, "README.md")]
    pages = [d for d in docs if os.path.basename(d).startswith("results")]
    tables = sorted(glob.glob(os.path.join(ROOT, "results", "*.csv")))
    targets = re.findall(r"^([a-z-]+):", text_of(os.path.join(ROOT, "Makefile")), flags=re.M)
    papers = re.search(r"^names=\((.*?)\)", text_of(os.path.join(ROOT, "reproduce", "results")),
                       flags=re.M | re.S).group(1).split()
    check(len(pages) > 3 and len(tables) > 3 and "results" in targets and "a2sgd" in papers, "found too little")
    for page in docs:
        named_files_exist(page)
        make_targets_exist(page, targets, papers)
    for page in pages:
        links_resolve(page)
        pictures_are_sound(page)
        check(not MACHINE.search(text_of(page)), f"{short(page)}: {MACHINE.search(text_of(page))}")
    for table in tables:
        table_is_sound(table)


main()
finish()
