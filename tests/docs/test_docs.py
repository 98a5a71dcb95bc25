# SPDX-License-Identifier: Apache-2.0
#
# test_docs.py - the pages keep to 120 columns, and what they name is in the tree: files, C symbols,
# pages that they link to and the headings in them. It reports all faults at once, as file:line.
import fnmatch
import glob
import os
import re

from support_checks import check, finish

ROOT = os.environ["GRADWIRE_SOURCE"]
WIDEST = 120
SOURCE = re.compile(r"\.(?:c|h|py|md|sh|mjs|js|csv|svg|png|cmake)$")
SYMBOL = re.compile(r"\b(?:gw|gwi|gwt|gwm|gwc)_[a-z0-9_]+\b")
# Folders that hold what was built or what users made, not what is in the tree.
MADE = re.compile(r"^(?:build.*|runs|node_modules|__pycache__|\..*)$")

# Files that users bring or get, which the tree does not have.
RUN_FILES = {"metrics.csv", "train.csv", "test.csv"}


class Tree:
    """The files and folders of the source tree, and the C names in its source."""

    def __init__(self, root):
        self.paths = set()
        self.symbols = set()
        for folder, folders, files in os.walk(root):
            folders[:] = [f for f in folders if not MADE.match(f)]
            for name in folders + files:
                self.paths.add(os.path.relpath(os.path.join(folder, name), root))
            for name in files:
                if re.search(r"\.(?:c|h|py)$", name):
                    self.symbols.update(SYMBOL.findall(text_of(os.path.join(folder, name))))

    def fault(self, name):
        """What is wrong with the name of a file or folder, which may have wildcards or stand for
        many (NAME, KIND); or None. A name without its folders is right if one file alone has it."""
        name = re.sub(r"NAME|KIND", "*", name.rstrip("/"))
        found = [p for p in self.paths
                 if fnmatch.fnmatchcase(p, name) or fnmatch.fnmatchcase(p, "*/" + name)]
        if not found:
            return f"there is no '{name}'"
        if len(found) > 1 and name not in self.paths and not re.search(r"[*?[]", name):
            return f"'{name}' may be any of {', '.join(sorted(found))}"
        return None

    def is_path(self, word):
        """Whether a word is meant as a path of the tree."""
        if word in RUN_FILES:
            return False
        first, *rest = word.split("/")
        if MADE.match(first) or not re.fullmatch(r"[\w.*?-]+(?:/[\w.*?-]+)*/?", word):
            return False
        return bool(SOURCE.search(word)) or bool(rest) and first in self.paths


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def without_code(text):
    """The text with blocks of code emptied, so that its lines keep their numbers."""
    return re.sub(r"^( *)```.*?^ *```", lambda m: "\n" * m[0].count("\n"), text, flags=re.S | re.M)


def only_code(text):
    """The blocks of code, each line where it was."""
    outside = without_code(text).split("\n")
    return "\n".join("" if line == other else line for line, other in zip(text.split("\n"), outside))


def lines_with(pattern, text):
    """Every match, and the number of the line in which it begins."""
    for match in re.finditer(pattern, text):
        yield text.count("\n", 0, match.start()) + 1, match


def anchors(page):
    """The names by which headings of a page can be linked to."""
    seen = {}
    for heading in re.findall(r"^#+\s+(.*?)\s*#*$", without_code(text_of(page)), flags=re.M):
        plain = re.sub(r"\]\([^)]*\)", "", heading).lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        seen[name] = seen.get(name, -1) + 1
        yield f"{name}-{seen[name]}" if seen[name] else name


def wide_lines(text):
    """Lines that are too wide, addresses not counted."""
    for i, line in enumerate(without_code(text).split("\n"), 1):
        width = len(re.sub(r"https?://[^\s)]+", "", line))
        if width > WIDEST:
            yield i, f"{width} columns; at most {WIDEST}"


def broken_links(page, text):
    for i, match in lines_with(r"\]\(([^()\s]+)\)", without_code(text)):
        name, _, part = match[1].partition("#")
        path = os.path.join(os.path.dirname(page), name) if name else page
        if re.match(r"[a-z]+:", match[1]):
            continue
        if not os.path.exists(path):
            yield i, f"link to {match[1]}: no such file"
        elif part and part not in anchors(path):
            yield i, f"link to {match[1]}: no such heading"


def missing_names(tree, text):
    """Files and C symbols that are not in the tree."""
    for i, match in lines_with(r"`([^`]+)`", without_code(text)):
        for word in match[1].split():
            if tree.is_path(word) and tree.fault(word):
                yield i, tree.fault(word)
    for i, word in lines_with(r"(?<![^\s(])[\w.-]+/[\w./-]*\w(?![^\s)])", only_code(text)):
        if tree.is_path(word[0]) and tree.fault(word[0]):
            yield i, tree.fault(word[0])
    for i, match in lines_with(SYMBOL, text):
        if match[0] not in tree.symbols:
            yield i, f"there is no symbol '{match[0]}'"


def main():
    tree = Tree(ROOT)
    pages = [os.path.join(ROOT, p) for p in ("README.md", "CONTRIBUTING.md")]
    pages += sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))
    check(len(pages) > 10 and "gw_sync_new" in tree.symbols, "found too little")
    for page in pages:
        text = text_of(page)
        faults = [*wide_lines(text), *broken_links(page, text), *missing_names(tree, text)]
        for line, what in sorted(faults):
            check(False, f"{os.path.relpath(page, ROOT)}:{line}: {what}")
        check(True, page)


main()
finish()
