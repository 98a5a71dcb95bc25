#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_walls.py - who may include whom is what docs/design.md says, and only headers that lie
lower are included. File names are unique, and no folder is too full to be looked through."""
import collections
import os
import re
import subprocess
import sys

from support_checks import check, finish

ROOT = os.environ["GRADWIRE_SOURCE"]
# Where the compiler looks, as the build files have it; a file's own folder comes first.
INCLUDE_PATHS = ["include", "src", "train", "cli", "bench", "mpi", "group", "sim"]
FILES_MOST = 35


def tracked(*patterns):
    got = subprocess.run(["git", "-C", ROOT, "ls-files", *patterns], capture_output=True, text=True)
    if got.returncode != 0:
        print("skipped: the source is not a git repository")
        sys.exit(77)
    return [f for f in got.stdout.split() if os.path.exists(os.path.join(ROOT, f))]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def drawn():
    """The folders of the drawing from top to bottom, each with what it may include."""
    text = read("docs/design.md")
    block = text.split("<!-- layers: begin -->")[1].split("<!-- layers: end -->")[0]
    layers = {}
    for line in block.strip().strip("`").strip().splitlines():
        folder, rest = line[:18].strip(), line[18:].replace(",", " ").split()
        if folder:
            layers[folder] = set()
            last = folder
        layers[last] |= set(rest)
    return layers


def room_of(path, layers):
    """The drawn folder that a file belongs to: the longest that it lies in."""
    fits = [d for d in layers if path.startswith(d + "/")]
    return max(fits, key=len) if fits else None


def real(layers):
    """Folder -> included folder -> one example of who includes what."""
    files = tracked("*.c", "*.h")
    known = set(files)
    graph = collections.defaultdict(dict)
    for path in files:
        room = room_of(path, layers)
        if room is None:
            continue
        for name in re.findall(r'^#include "([^"]+)"', read(path), re.M):
            places = [os.path.dirname(path), *INCLUDE_PATHS]
            found = [p for p in (os.path.normpath(os.path.join(d, name)) for d in places) if p in known]
            if check(found, f"{path} includes {name}, which is in no folder of the project"):
                graph[room].setdefault(room_of(found[0], layers), f"{path} includes {found[0]}")
        graph[room].pop(room, None)
    return graph


def includes(layers):
    order = list(layers)
    graph = real(layers)
    for room in layers:
        for other, example in graph[room].items():
            check(other in layers[room], f"docs/design.md does not let {room} include {other}: {example}")
        for other in layers[room] - set(graph[room]):
            check(False, f"docs/design.md says that {room} includes {other}, and it does not")
        for other in layers[room]:
            check(other in order and order.index(other) > order.index(room),
                  f"docs/design.md draws {other} above {room}, which includes it")


def folders(layers):
    """Every folder with C code of the product is drawn."""
    for path in tracked("*.c", "*.h"):
        if not path.startswith(("tests/", "fuzz/", "examples/")):
            check(room_of(path, layers), f"{path} is in no folder of the drawing in docs/design.md")


def names():
    places = collections.defaultdict(list)
    for path in tracked("*.c", "*.h"):
        places[os.path.basename(path)].append(path)
    for paths in places.values():
        check(len(paths) == 1, f"one name for several files: {' '.join(paths)}")
    count = collections.Counter(os.path.dirname(f) for f in tracked() if not f.startswith(
        ("tests/golden/", "fuzz/corpus/", "docs/")))
    for folder, n in count.items():
        check(n <= FILES_MOST, f"{folder} has {n} files; make rooms")


def binding():
    """Python calls what gradwire.h declares, and nothing inside the library."""
    for path in tracked("python/*.py"):
        check(not re.search(r"\bgwi_\w+", read(path)), f"{path} names something inside the library")


LAYERS = drawn()
folders(LAYERS)
includes(LAYERS)
names()
binding()
finish()
