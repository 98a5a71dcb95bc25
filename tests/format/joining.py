# SPDX-License-Identifier: Apache-2.0
"""joining.py - how workers join, as docs/format-sockets.md has it: both directions of a
connection, given the job's secret."""
import hashlib
import hmac
import struct

from bytes_and_checks import Parts, require

MEET, MESH = b"GWMEET01", b"GWMESH01"
READY, FAILED, RECORD, EVERYBODY = range(1, 5)
RECORD_MAX, REASON_MAX = 4426, 500


def keyed(key, *pieces):
    return hmac.new(key, b"".join(pieces), hashlib.sha256).digest()


def padded(role):
    return role.encode().ljust(8, b"\0")


class Joining:
    """One connection: who called whom for what, the words that were said, and what follows
    them."""

    def __init__(self, secret, from_caller, from_callee):
        ahead, back = Parts(from_caller), Parts(from_callee)
        self.purpose = ahead.take(8)
        require(self.purpose in (MEET, MESH), f"purpose {self.purpose}")
        self.caller, self.callee = ahead.numbers("II")
        nonces = [ahead.take(16)]
        require(back.take(8) == self.purpose, "the callee speaks of something else")
        nonces.append(back.take(16))
        fields = struct.pack("<II", self.caller, self.callee) + b"".join(nonces)

        def proof(role):
            return keyed(secret, self.purpose, padded(role), fields)

        require(back.take(32) == proof("callee"), "the callee proves nothing")
        require(ahead.take(32) == proof("caller"), "the caller proves nothing")
        require(back.take(32) == proof("settle"), "the connection is not settled")
        self.key = proof("session")
        self.words = {"caller": self.read_words(ahead, "caller"),
                      "callee": self.read_words(back, "callee")}
        self.rest = {"caller": ahead.rest(), "callee": back.rest()}

    def read_words(self, parts, role):
        """At most one, since each side says one; frames follow only what is ready."""
        if parts.at == len(parts.data):
            return []
        begin = parts.at
        kind, length = parts.numbers("II")
        content = parts.take(length)
        due = keyed(self.key, padded(role), parts.data[begin:parts.at])
        require(parts.take(32) == due, f"the check of a word of the {role} does not fit")
        return [(kind, self.read_content(kind, content))]

    def read_content(self, kind, content):
        if kind == READY:
            require(self.purpose == MESH and not content, "ready, with something in it")
            return None
        if kind == FAILED:
            require(len(content) <= REASON_MAX, "a long reason")
            return content.decode()
        require(self.purpose == MEET and kind in (RECORD, EVERYBODY), f"a word of kind {kind}")
        return read_record(content) if kind == RECORD else read_everybody(content)


def read_everybody(content):
    parts, records = Parts(content), []
    while parts.at < len(content):
        records.append(read_record(parts.take(*parts.numbers("I"))))
    return records


def read_record(content):
    parts = Parts(content)
    require(len(content) <= RECORD_MAX, "a long record")
    rank, workers = parts.numbers("II")
    host = parts.take(*parts.numbers("B")).decode()
    secret = parts.take(*parts.numbers("B"))
    require(len(secret) in (0, *range(16, 33)), "a secret of another length")
    count, = parts.numbers("B")
    require(1 <= count <= 16, f"{count} addresses")
    addresses = [(parts.take(*parts.numbers("B")).decode(), *parts.numbers("H"))
                 for _ in range(count)]
    parts.end()
    return {"rank": rank, "workers": workers, "host": host, "secret": secret,
            "addresses": addresses}
