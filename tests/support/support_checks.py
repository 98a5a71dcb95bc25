# SPDX-License-Identifier: Apache-2.0
#
# support_checks.py - what tests of the command share: running it, and checks that
# are counted and go on after a failure.
import os
import subprocess
import sys

GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])

_failures = []
_count = 0


def check(ok, what):
    global _count
    _count += 1
    if not ok:
        _failures.append(what)
        print("FAILED:", what)
    return bool(ok)


def run(*args, timeout=120, **options):
    return subprocess.run([GRADWIRE, *map(str, args)], capture_output=True, text=True,
                          errors="replace", timeout=timeout, **options)


def succeed(*args, **options):
    r = run(*args, **options)
    check(r.returncode == 0, f"{args}: exit {r.returncode}, {r.stderr!r}")
    return r


def expect_error(code, words, *args, **options):
    """It fails with that code and one line that has the words in it."""
    r = run(*args, **options)
    what = f"{args}: exit {r.returncode}, {r.stderr!r}"
    check(r.returncode == code, what + f": not exit {code}")
    check(r.stderr.startswith("gradwire: ") and r.stderr.count("\n") == 1,
          what + ": not one line")
    check(all(w in r.stderr for w in words), what + f": lacks one of {words}")
    return r


def finish():
    print(f"{_count - len(_failures)} of {_count} checks passed")
    sys.exit(1 if _failures else 0)
