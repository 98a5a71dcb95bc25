#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One host of reproduce/translation's timing: BATCH ROUNDS RESULT SYNC... Started on every
host of the test cluster. All sentences have the same length, so all steps are alike; in
each round every sync has its turn."""
import json
import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "python", "examples"), os.path.join(ROOT, "python")]
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import gradwire  # noqa: E402
import translate  # noqa: E402
from translation import BEGIN, END  # noqa: E402

# Long enough for communication to be as small a part of a step as in the paper.
WORDS, LENGTH = 3000, 30
TURN_SECONDS, MAX_STEPS = 1.0, 40


class Sentences:
    """As much of a corpus as a training needs, made up."""

    def __init__(self, batch, rank):
        g = torch.Generator().manual_seed(rank)
        self.source = self.target = range(WORDS)
        words = torch.randint(4, WORDS, (batch, 2, LENGTH), generator=g).tolist()
        self.pairs = [(a, [BEGIN] + b + [END]) for a, b in words]


class Way:
    """A training by one sync."""

    def __init__(self, sync, sentences, batch):
        args = translate.parse(["--sync", sync, "--layer-norm", "--batch", str(batch), "--embedding",
                                "128", "--hidden", "128"])
        self.pairs, self.took, self.steps = sentences.pairs, [], 3
        self.training = translate.Training(args, sentences)

    def turn(self):
        """Seconds per step of the slower host."""
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(self.steps):
            self.training.step(self.pairs)
        took = torch.tensor([(time.perf_counter() - begin) / self.steps])
        dist.all_reduce(took, dist.ReduceOp.MAX)
        return float(took)

    def warm_up(self):
        """Lets DDP lay out its buckets, and finds how many steps a turn has."""
        self.turn()
        self.steps = max(2, min(MAX_STEPS, round(TURN_SECONDS / self.turn())))

    def result(self):
        stats = self.training.handle.stats()
        return {"seconds": self.took, "bytes_per_step": stats["bytes_sent"] / stats["steps"]}


def main():
    batch, rounds, result, syncs = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    sentences = Sentences(batch, dist.get_rank())
    ways = {sync: Way(sync, sentences, batch) for sync in syncs}
    for way in ways.values():
        way.warm_up()
    for _ in range(rounds):
        for way in ways.values():
            way.took.append(way.turn())
    if dist.get_rank() == 0:
        with open(result, "w") as f:
            json.dump({"version": gradwire.version(), "syncs": {s: w.result() for s, w in ways.items()}}, f)
    dist.barrier()


if __name__ == "__main__":
    main()
