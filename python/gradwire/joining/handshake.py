# SPDX-License-Identifier: Apache-2.0
"""How two workers prove to each other that they belong to one job.

The job has a secret. Both sides show that they know it by a keyed hash of two fresh
numbers; the secret itself is never sent. Nothing that a caller says is read, beyond the
fixed lengths below, before it has proved itself. Numbers are little-endian.

    1  caller -> callee   8 bytes: purpose | u32: from | u32: to | 16 bytes: nonce A
    2  callee -> caller   8 bytes: purpose | 16 bytes: nonce B | 32 bytes: proof "callee"
    3  caller -> callee   32 bytes: proof "caller"
    4  callee -> caller   32 bytes: proof "settle"

    purpose      "GWMESH01" between any two workers, where the higher rank calls the lower;
                 "GWMEET01" at the meeting of rendezvous(), where everybody calls worker 0
    from, to     the ranks of the caller and the callee
    nonce A, B   random, drawn by the caller and the callee for this connection
    proof ROLE   HMAC-SHA256(secret, purpose | ROLE, filled up to 8 bytes with zeros |
                             u32: from | u32: to | A | B)

With 4 the callee takes this connection for the one to that worker, in place of an earlier
one. A caller that waits too long for 4 closes the connection and calls again; one that
has received 4 stays. So both mean the same connection.

Then both sides say words, each with a check under a key that belongs to this connection:

    u32: kind | u32: length | as many bytes | 32 bytes: check

    key      HMAC-SHA256(secret, as a proof, with the role "session")
    check    HMAC-SHA256(key, "caller" or "callee", whoever speaks, filled up to 8 bytes
                         with zeros | u32: kind | u32: length | the bytes)

    kind 1, ready      0 bytes: the speaker has a connection to every other worker
    kind 2, failed     at most 500 bytes of UTF-8: why the speaker gives up
    kind 3, record     of the speaker (members.py), at most 4,426 bytes; from a guest of the
                       meeting to worker 0
    kind 4, everybody  u32: length | record, for each worker in the order of ranks; from
                       worker 0 to each guest, once all have come

On a connection of the mesh each side says `ready` or `failed` once; after both have said
`ready` the frames of the sockets transport follow. A connection of the meeting ends with
`everybody` or `failed`.
"""
from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
from typing import Callable, Container, Dict, Generator, NamedTuple, Tuple, Union

MESH, MEET = b"GWMESH01", b"GWMEET01"
READY, FAILED, RECORD, EVERYBODY = 1, 2, 3, 4
REASON_MAX = 500

_HELLO = struct.Struct("<8sII16s")
_ANSWER = struct.Struct("<8s16s32s")
_PROVED = struct.Struct("<8s8sII16s16s")
_WORD = struct.Struct("<II")
_CHECK = 32

# A conversation yields bytes that are to be sent, or how many bytes it wants next.
Talk = Generator[Union[bytes, int], bytes, "Session"]


class Stranger(Exception):
    """Whoever is at the other end is not the worker that was meant."""


class WrongSecret(Stranger):
    """It speaks as gradwire does, and has another secret."""


class Session(NamedTuple):
    """A connection between two workers that have proved themselves."""
    key: bytes
    calls: bool  # this side is the caller
    peer: int

    def _check(self, calls: bool, data: bytes) -> bytes:
        return _hmac(self.key, struct.pack("<8s", b"caller" if calls else b"callee") + data)

    def word(self, kind: int, body: bytes = b"") -> bytes:
        """The bytes of a word of this side's."""
        data = _WORD.pack(kind, len(body)) + body
        return data + self._check(self.calls, data)

    def read_word(self, most: Dict[int, int]) -> Generator[int, bytes, Tuple[int, bytes]]:
        """Kind and bytes of the other side's next word; most[kind] is how long it may
        be, and nothing is said for kinds that must not come."""
        head = yield _WORD.size
        kind, length = _WORD.unpack(head)
        if length > most.get(kind, -1):
            raise Stranger(f"a message of kind {kind} with {length} bytes")
        body = (yield length) if length else b""
        if not hmac.compare_digest((yield _CHECK), self._check(not self.calls, head + body)):
            raise Stranger("a message with a wrong checksum")
        return kind, body


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()


class _Proofs:
    """What only those can say who know the secret, for one connection."""

    def __init__(self, secret: bytes, purpose: bytes, caller: int, callee: int,
                 nonces: Tuple[bytes, bytes]):
        self._secret = secret
        self._fields = (caller, callee, *nonces)
        self._purpose = purpose

    def of(self, role: bytes) -> bytes:
        return _hmac(self._secret, _PROVED.pack(self._purpose, role, *self._fields))


def call(secret: bytes, purpose: bytes, rank: int, peer: int,
         chosen: Callable[[], None] = lambda: None) -> Talk:
    """The caller's side. `chosen` is told before this side proves itself, which it
    must do on one connection to a worker at a time."""
    mine = secrets.token_bytes(16)
    yield _HELLO.pack(purpose, rank, peer, mine)
    word, theirs, proof = _ANSWER.unpack((yield _ANSWER.size))
    if word != purpose:
        raise Stranger("the other side is not the expected worker")
    proofs = _Proofs(secret, purpose, rank, peer, (mine, theirs))
    if not hmac.compare_digest(proof, proofs.of(b"callee")):
        raise WrongSecret("the callee has another secret")
    chosen()
    yield proofs.of(b"caller")
    if not hmac.compare_digest((yield _CHECK), proofs.of(b"settle")):
        raise Stranger("the other side is not the expected worker")
    return Session(proofs.of(b"session"), True, peer)


def answer(secret: bytes, purpose: bytes, rank: int, callers: Container[int]) -> Talk:
    """The callee's side, which takes calls of some ranks only."""
    word = yield len(purpose)  # junk is turned away by its first bytes
    if word != purpose:
        raise Stranger("the caller is not a worker of this job")
    _, caller, callee, theirs = _HELLO.unpack(word + (yield _HELLO.size - len(word)))
    if callee != rank or caller not in callers:
        raise Stranger(f"worker {caller} calls worker {callee}")
    mine = secrets.token_bytes(16)
    proofs = _Proofs(secret, purpose, caller, callee, (theirs, mine))
    yield _ANSWER.pack(purpose, mine, proofs.of(b"callee"))
    try:
        proof = yield _CHECK
    except EOFError:
        raise WrongSecret("the caller rejected the proof") from None
    if not hmac.compare_digest(proof, proofs.of(b"caller")):
        raise WrongSecret("a caller has another secret")
    yield proofs.of(b"settle")
    return Session(proofs.of(b"session"), False, caller)


def clean(text: str) -> str:
    """What somebody else has written, in one line that a terminal can show."""
    return "".join(c if c.isprintable() else "?" for c in text)[:REASON_MAX]
