# SPDX-License-Identifier: Apache-2.0
"""test_wire_python.py - the decoder written from docs/format.md understands the
golden messages as the library does, and an example of the page is one of them."""
import json
import pathlib
import re
import struct
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracle"))
sys.dont_write_bytecode = True

from wire_decoder import Malformed, decode  # noqa: E402

GOLDEN = sorted((HERE.parent / "golden").glob("*.gwm"))
COLS = {"sparse_columns": 8}


def bits_of(values):
    """Floats as integers, so that -0 differs from 0 and NaN equals itself."""
    return [struct.unpack("<I", struct.pack("<f", x))[0] for x in values]


class Golden(unittest.TestCase):
    def test_there_are_some(self):
        self.assertGreaterEqual(len(GOLDEN), 15)

    def test_meanings_agree(self):
        for path in GOLDEN:
            with self.subTest(path.stem):
                got = decode(path.read_bytes(), COLS.get(path.stem))
                want = json.loads(path.with_suffix(".json").read_text())
                values = [float.fromhex(x) for x in want.pop("values")]
                self.assertEqual(bits_of(got.pop("values")), bits_of(values))
                self.assertEqual(got, want)

    def test_truncation_is_noticed(self):
        for path in GOLDEN:
            message = path.read_bytes()
            for cut in range(len(message)):
                with self.subTest(path.stem, cut=cut), self.assertRaises(Malformed):
                    decode(message[:cut], COLS.get(path.stem))

    def test_more_bytes_are_noticed(self):
        for path in GOLDEN:
            with self.subTest(path.stem), self.assertRaises(Malformed):
                decode(path.read_bytes() + b"\0", COLS.get(path.stem))

    def test_the_example_of_the_page(self):
        page = (HERE.parents[1] / "docs" / "format.md").read_text()
        name, block = re.search(r"```hex golden (\w+)\n(.*?)```", page, re.S).groups()
        text = "".join(line.split("#")[0] for line in block.splitlines())
        golden = (HERE.parent / "golden" / f"{name}.gwm").read_bytes()
        self.assertEqual(bytes.fromhex(text), golden)


if __name__ == "__main__":
    unittest.main()
