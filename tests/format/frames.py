# SPDX-License-Identifier: Apache-2.0
"""frames.py - the bytes of a socket, as docs/format-sockets.md has them."""
from bytes_and_checks import Parts, require

MESSAGE, GOODBYE, FAILURE, ALIVE, BUSY, PAUSE = range(6)
REASON_MAX = 511
LENGTHS = {GOODBYE: 0, ALIVE: 0, BUSY: 8, PAUSE: 0}


class Stream:
    """One direction of a connection: the messages, signs of life, and how it ended."""

    def __init__(self):
        self.messages, self.signs, self.goodbye, self.reason = [], 0, False, None

    def take(self, kind, body):
        if kind == MESSAGE:
            self.messages.append(body)
        elif kind == GOODBYE:
            self.goodbye = True
        elif kind == FAILURE:
            require(len(body) <= REASON_MAX, "a long reason")
            self.reason = body.decode()
        else:
            self.signs += 1


def read_stream(data):
    parts, stream = Parts(data), Stream()
    while parts.at < len(data):
        head, = parts.numbers("Q")
        length, kind = head & 2**56 - 1, head >> 56
        require(not stream.goodbye and stream.reason is None, "a frame after the last")
        require(kind <= PAUSE, f"a frame of kind {kind}")
        require(LENGTHS.get(kind, length) == length, f"a frame of kind {kind} with {length} bytes")
        stream.take(kind, parts.take(length))
    return stream
