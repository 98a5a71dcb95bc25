# SPDX-License-Identifier: Apache-2.0
"""format_reader.py - an independent reader of everything that gradwire sends and saves,
written from docs/format*.md. It shares nothing with the library.

    /usr/bin/python3 tests/wire/format_reader.py FILE...

says what is in a message (.gwm), a checkpoint (.gwc), a state, or a run that
tests/wire/capture_driver.c has written down, or what is wrong with it. The parts are in
tests/format/; test_format*.py run it on what every recipe makes."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "format"))
sys.dont_write_bytecode = True

from bytes_and_checks import Unexplained  # noqa: E402
from callers import Calls  # noqa: E402
from checkpoint_file import Checkpoint  # noqa: E402
from headed import NOTE, SPARSE, open_message  # noqa: E402
from saved_state import VECTORS, read_state  # noqa: E402
from steps import Replay  # noqa: E402
from tape import Run  # noqa: E402


def explain_message(data):
    m = open_message(data)
    if m.kind == NOTE:
        return f"a note about worker {m.note[0]}, tensor {m.note[1]}, step {m.step}"
    kind = "sparse" if m.kind == SPARSE else "dense"
    return f"{kind}, {m.k} of {m.n} values, step {m.step}, coding {m.coding}, {len(data)} bytes"


def explain_state(data):
    state = read_state(data)
    held = ", ".join(name for name in VECTORS.values() if state[name] is not None)
    return f"the state of '{state['spec']}' after step {state['step']}: {held or 'no vectors'}"


def explain_checkpoint(data):
    checkpoint = Checkpoint(data)
    checkpoint.check()
    return "a checkpoint: " + ", ".join(f"{k} {v}" for k, v in checkpoint.job.items())


def explain_run(run, until=None):
    """Reads everything in a run; `until` is the step after which it was broken off."""
    if run.word("spec") == "collectives":
        Calls(run).follow()
    else:
        Replay(run).follow(until)
    size = sum(len(data) for _, _, data in run.messages)
    return f"a run of '{run.word('spec')}': {len(run.messages)} messages, {size} bytes"


def explain(data):
    if data[:8] == b"GWCHECK1":
        return explain_checkpoint(data)
    if data[:8] == b"GWSTATE1":
        return explain_state(data)
    return explain_message(data) if data[:1] == b"\xd2" else explain_run(Run(data))


def main(paths):
    failed = False
    for path in paths:
        try:
            print(f"{path}: {explain(pathlib.Path(path).read_bytes())}")
        except Unexplained as error:
            print(f"{path}: not as the pages have it: {error}")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
