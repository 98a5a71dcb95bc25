# SPDX-License-Identifier: Apache-2.0
"""worked_examples.py - the examples of the pages: blocks that begin with ```hex and words that
say what they are an example of.

In a block a line holds bytes in hexadecimal, text in double quotes, and `x N` after a byte
that comes N times; what follows a # is a remark."""
import re

TOKEN = re.compile(r'"([^"]*)"|x (\d+)|([0-9a-f]{2})(?= |$)|(\S+)')


def read_line(line):
    data = b""
    for text, times, byte, other in TOKEN.findall(line):
        if other:
            raise ValueError(f"'{other}' in '{line}'")
        if times:
            data += data[-1:] * (int(times) - 1)
        else:
            data += text.encode() or bytes.fromhex(byte)
    return data


def examples_of(page):
    """The words of each example, and its bytes."""
    for words, block in re.findall(r"^```hex (.*)\n([^`]*)^```$", page, re.M):
        lines = (line.split("#")[0].strip() for line in block.splitlines())
        yield words.split(), b"".join(map(read_line, lines))
