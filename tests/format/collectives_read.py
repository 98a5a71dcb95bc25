# SPDX-License-Identifier: Apache-2.0
"""collectives_read.py - messages without a header: sums, spreading, gathering, comparing, as
docs/format-exchange.md has them. Every byte of every message is compared with what the
page says was to be sent, given what the workers brought."""
import collections
import struct

import numpy as np

from bytes_and_checks import Unexplained, crc32c, require
from specs import part

CHUNK, DOUBLING = 14336, 8192


class Mail:
    """The messages of a run, each pair's in the order in which they were sent."""

    def __init__(self, workers, messages, head=0):
        self.workers, self.head = workers, head
        self.queues = collections.defaultdict(collections.deque)
        for sender, receiver, data in messages:
            self.queues[sender, receiver].append(data)
        self.counts = np.zeros((workers, 4), np.int64)  # as the counters of a state have them

    def take(self, sender, receiver):
        queue = self.queues[sender, receiver]
        require(queue, f"there is no further message from {sender} to {receiver}")
        data = queue.popleft()
        self.counts[sender, [0, 2]] += len(data) + self.head, 1
        self.counts[receiver, [1, 3]] += len(data) + self.head, 1
        return data

    def expect(self, sender, receiver, data, what):
        """Takes a message that must be these very bytes."""
        found = self.take(sender, receiver)
        if found != data:
            differs = next((i for i, (a, b) in enumerate(zip(found, data)) if a != b),
                           min(len(found), len(data)))
            raise Unexplained(f"{what} from {sender} to {receiver}: {len(found)} bytes, "
                              f"{len(data)} were due; they differ from byte {differs} on")

    def end(self):
        for (sender, receiver), queue in self.queues.items():
            require(not queue, f"{len(queue)} messages from {sender} to {receiver} are left, "
                    f"the first of {len(queue[0]) if queue else 0} bytes")


def check_bytes(data):
    return struct.pack("<I", crc32c(data))


def lesser(a, b):
    """The note of two that counts."""
    return b if a == 0 or (b != 0 and b < a) else a


# ---- sums -----------------------------------------------------------------------

def allreduce(mail, xs, notes=None, divide=1):
    """The sum over the workers of their vectors, all of one length, or its quotient; and
    the least of their notes, if any ride along."""
    n, p = len(xs[0]), mail.workers
    if p == 1:
        return xs[0].copy(), notes[0] if notes else None
    if n <= DOUBLING or n < p:
        return by_doubling(mail, xs, notes, divide)
    return by_ring(mail, xs, notes, divide)


def by_doubling(mail, xs, notes, divide, combine=np.add):
    p, q = mail.workers, 1 << mail.workers.bit_length() - 1
    acc = [np.array(x, "<f4") for x in xs]
    held = list(notes) if notes else None

    def packed(r):
        data = acc[r].tobytes() + (struct.pack("<Q", held[r]) if notes else b"")
        return data + check_bytes(data)

    for r in range(q, p):
        mail.expect(r, r - q, packed(r), "a vector to be added")
        acc[r - q] = combine(acc[r - q], acc[r])
        if notes:
            held[r - q] = lesser(held[r - q], held[r])
    bit = 1
    while bit < q:
        for r in range(q):
            mail.expect(r, r ^ bit, packed(r), "a vector by doubling")
        acc = [combine(acc[r], acc[r ^ bit]) for r in range(q)] + acc[q:]
        if notes:
            held = [lesser(held[r], held[r ^ bit]) for r in range(q)] + held[q:]
        bit *= 2
    if divide != 1:
        acc = [x / np.float32(divide) for x in acc[:q]] + acc[q:]
    for r in range(q, p):
        mail.expect(r - q, r, packed(r - q), "a result")
    return acc[0], held[0] if notes else None


def ring_rounds(mail, acc, notes, divide, rounds):
    """Rounds of the ring; acc and notes are those of each worker, and change."""
    p, n = mail.workers, len(acc[0])
    chunks = -(-n // p) // CHUNK + 1
    for t in range(rounds):
        adds = t < p - 1
        for r in range(p):
            right, (begin, end) = (r + 1) % p, part(n, p, (r - t - 1) % p)
            sent = b""
            for c in range(chunks):
                first, last = (begin + x for x in part(end - begin, chunks, c))
                if first < last:
                    data = acc[r][first:last].tobytes()
                    mail.expect(r, right, data, f"chunk {c} of round {t}")
                    sent += data
            note = struct.pack("<Q", notes[r]) if notes and adds else b""
            mail.expect(r, right, note + check_bytes(sent + note), f"the seal of round {t}")
        turn_ring(acc, notes, t, adds, divide)


def turn_ring(acc, notes, t, adds, divide):
    """What workers do with what they have received in round t."""
    p, n = len(acc), len(acc[0])
    for r in range(p):
        left, (begin, end) = (r - 1) % p, part(n, p, (r - t - 2) % p)
        got = acc[left][begin:end]
        acc[r][begin:end] = acc[r][begin:end] + got if adds else got
        if t == p - 2 and divide != 1:
            acc[r][begin:end] = acc[r][begin:end] / np.float32(divide)
    if notes and adds:
        notes[:] = [lesser(notes[r], notes[r - 1]) for r in range(p)]


def by_ring(mail, xs, notes, divide):
    acc, held = [np.array(x, "<f4") for x in xs], list(notes) if notes else None
    ring_rounds(mail, acc, held, divide, 2 * (mail.workers - 1))
    require(all(a.tobytes() == acc[0].tobytes() for a in acc), "the ring leaves different sums")
    return acc[0], held[0] if notes else None


def reduce_scatter(mail, xs):
    """Each worker's own part of the sum."""
    acc = [np.array(x, "<f4") for x in xs]
    ring_rounds(mail, acc, None, 1, mail.workers - 1)
    return [acc[r][slice(*part(len(acc[r]), mail.workers, r))] for r in range(mail.workers)]


# ---- the others -----------------------------------------------------------------

def edges(workers, root=0):
    """Who sends to whom when something is spread."""
    for w in range(workers):
        bit = w & -w if w else 1 << (workers - 1).bit_length()
        while bit > 1:
            bit //= 2
            if w + bit < workers:
                yield (root + w) % workers, (root + w + bit) % workers


def spread(mail, data, root=0, checked=True):
    for sender, receiver in edges(mail.workers, root):
        mail.expect(sender, receiver, data, "what is spread")
        if checked:
            mail.expect(sender, receiver, check_bytes(data), "its check")


def to_all(mail, blocks):
    """Raw bytes of each worker, with checks."""
    for sender, data in enumerate(blocks):
        for receiver in range(mail.workers):
            if receiver != sender:
                mail.expect(sender, receiver, data, "bytes to all")
                mail.expect(sender, receiver, check_bytes(data), "their check")


def transfer(mail, sender, receiver, data):
    mail.expect(sender, receiver, data, "a transfer")
    mail.expect(sender, receiver, check_bytes(data), "its check")


def barrier(mail):
    d = 1
    while d < mail.workers:
        for r in range(mail.workers):
            mail.expect(r, (r + d) % mail.workers, b"", "a barrier")
        d *= 2


def compare(mail, words):
    """Whether all workers have the same u64, the lowest bit apart."""
    if mail.workers == 1:
        return True
    nothing = [np.zeros(0, "<f4")] * mail.workers
    _, least = by_doubling(mail, nothing, [w | 1 for w in words], 1)
    _, inverse = by_doubling(mail, nothing, [~(w | 1) & 2**64 - 1 | 1 for w in words], 1)
    return least | 1 == ~inverse & 2**64 - 1 | 1
