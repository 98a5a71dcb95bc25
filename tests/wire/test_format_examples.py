# SPDX-License-Identifier: Apache-2.0
"""test_format_examples.py - the examples in docs/format*.md are what gradwire writes, and
tests/wire/format_reader.py can read them. Skipped without numpy."""
import os
import pathlib
import sys
import tempfile
import unittest

try:
    import numpy  # noqa: F401
except ImportError:
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import format_reader  # noqa: E402
from bytes_and_checks import Parts, section_check  # noqa: E402
from frames import read_stream  # noqa: E402
from headed import DENSE, NOTE, SPARSE  # noqa: E402
from joining import MESH, READY, Joining, read_record  # noqa: E402
from tape import build_driver, capture  # noqa: E402
from worked_examples import examples_of  # noqa: E402

PAGES = sorted((HERE.parents[1] / "docs").glob("format*.md"))
SECRET = b"correct horse"


def examples(kind):
    """The words behind the kind, and the bytes, of all examples of that kind."""
    for page in PAGES:
        for words, data in examples_of(page.read_text()):
            if words[0] == kind:
                yield words[1:], data


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.driver = build_driver(os.environ["GRADWIRE_SOURCE"], os.environ["GRADWIRE_BUILD"],
                                  pathlib.Path(cls.folder.name) / "capture_driver")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_of(self, spec, *words):
        model = next((w[6:] for w in words if w.startswith("model=")), "tiny")
        words = [w for w in words if not w.startswith("model=")]
        return capture(self.driver, spec, 2, 1, 1, model, words)

    def test_messages_of_runs(self):
        kinds = set()
        for (spec, pair, place, *words), data in examples("run"):
            with self.subTest(spec, pair=pair, place=place, words=words):
                run = self.run_of(spec, *words)
                format_reader.explain_run(run)
                sender, receiver = map(int, pair.split(">"))
                there = [d for s, r, d in run.messages if (s, r) == (sender, receiver)]
                self.assertEqual(there[int(place)].hex(" "), data.hex(" "))
            if data[0] == 0xD2:
                kinds.add(data[1])
        self.assertEqual(kinds, {DENSE, SPARSE, NOTE})

    def test_golden(self):
        found = list(examples("golden"))
        self.assertTrue(found)
        for (name,), data in found:
            golden = (HERE.parent / "golden" / f"{name}.gwm").read_bytes()
            self.assertEqual(golden.hex(" "), data.hex(" "))

    def test_golden_messages_are_read(self):
        for path in (HERE.parent / "golden").glob("*.gwm"):
            format_reader.explain_message(path.read_bytes())

    def test_states(self):
        found = list(examples("state"))
        self.assertTrue(found)
        for (spec, worker), data in found:
            state = self.run_of(spec).states[1][int(worker)]
            self.assertEqual(state.hex(" "), data.hex(" "))
            format_reader.explain_state(data)

    def test_sections(self):
        (_, data), = examples("section")
        parts = Parts(data)
        kind, worker, length = parts.numbers("4sIQ")
        self.assertEqual((kind, worker, parts.take(length)), (b"TENS", 0, b"w 2 2\nb 1 2\n"))
        self.assertEqual(parts.numbers("Q"), (section_check(data[:-8]),))
        parts.end()

    def test_frames(self):
        (_, first), (_, second) = examples("frames")
        stream = read_stream(first)
        self.assertEqual(stream.messages, [b"", bytes.fromhex("9eca3aef")])
        self.assertEqual((stream.signs, stream.goodbye), (1, True))
        self.assertEqual(read_stream(second).reason, "out of paper")

    def test_joining(self):
        said = {role: data for (role,), data in examples("joining")}
        call = Joining(SECRET, said["caller"], said["callee"])
        self.assertEqual((call.purpose, call.caller, call.callee), (MESH, 1, 0))
        self.assertEqual(call.words, {"caller": [(READY, None)], "callee": [(READY, None)]})
        self.assertEqual(call.rest, {"caller": b"", "callee": b""})

    def test_record(self):
        (_, data), = examples("record")
        self.assertEqual(read_record(data), {"rank": 1, "workers": 2, "host": "host1", "secret": b"",
                                             "addresses": [("127.0.0.1", 8080)]})

    def test_nothing_is_left_out(self):
        """No example is of a kind that nobody looks at."""
        known = {"run", "golden", "state", "section", "frames", "joining", "record"}
        for page in PAGES:
            text = page.read_text()
            kinds = [words[0] for words, _ in examples_of(text)]
            self.assertEqual(len(kinds), text.count("```hex"), page.name)
            self.assertLessEqual(set(kinds), known, page.name)


if __name__ == "__main__":
    unittest.main()
