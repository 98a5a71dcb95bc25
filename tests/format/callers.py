# SPDX-License-Identifier: Apache-2.0
"""callers.py - the collectives that callers have for themselves, in the order in which
tests/wire/capture_driver.c calls them."""
import numpy as np

from bytes_and_checks import require
from collectives_read import Mail, allreduce, barrier, reduce_scatter, spread, to_all, transfer
from specs import part

SLOT = 100  # floats of a slot of the gathering


class Calls:
    def __init__(self, run):
        self.run, self.workers, self.step = run, run.number("workers"), 0
        self.mail = Mail(self.workers, run.messages)

    def vectors(self, name):
        found = self.run.vectors[name, self.step]
        return [found[w] for w in range(self.workers)]

    def next(self):
        self.step += 1
        return self.vectors("before")

    def expect(self, want, what):
        for w, (found, due) in enumerate(zip(self.vectors("after"), want)):
            require(found.tobytes() == due.tobytes(), f"{what} of worker {w}")

    def sum(self):
        total, _ = allreduce(self.mail, self.next())
        self.expect([total] * self.workers, "the sum")

    def scatter(self):
        before = self.next()
        own = reduce_scatter(self.mail, before)
        for w, found in enumerate(self.vectors("after")):
            begin, end = part(len(found), self.workers, w)
            require(found[begin:end].tobytes() == own[w].tobytes(), f"the part of worker {w}")

    def spread(self):
        before = self.next()
        spread(self.mail, before[1].tobytes(), 1)
        self.expect([before[1]] * self.workers, "what was spread")

    def gather(self):
        before = self.next()
        to_all(self.mail, [x[:w].tobytes() for w, x in enumerate(before)])
        for found in self.vectors("after"):
            for w, x in enumerate(before):
                got = found[SLOT * w:SLOT * w + w]
                require(got.tobytes() == x[:w].tobytes(), f"what worker {w} brought")

    def transfer(self):
        before = self.next()
        transfer(self.mail, 1, 0, before[1][:100].tobytes())
        due = np.concatenate([before[0][:100], before[1][:100]])
        self.expect([due, *before[1:]], "what was transferred")

    def barrier(self):
        self.next()
        barrier(self.mail)

    def follow(self):
        self.sum()
        self.sum()
        self.scatter()
        self.spread()
        self.gather()
        self.transfer()
        self.barrier()
        self.mail.end()
