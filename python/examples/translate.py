#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Translates with a small attentional encoder-decoder, by DistributedDataParallel and gradwire.

    torchrun --nproc_per_node 2 python/examples/translate.py --data-dir multi30k

The corpus is Multi30k, English to German, or any other in the same form: train.en,
train.de, test_2016_flickr.en, test_2016_flickr.de, each plain or with .gz, one sentence a
line with spaces between its words. After the training the test sentences are translated
and compared with the references by BLEU.
"""
import argparse
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
import gradwire

from seq2seq import Translator
from translation import (BEGIN, END, PAD, CorpusError, Vocabulary, batches, bleu, padded,
                         read_pairs)

OPTIMIZERS = {"adam": torch.optim.Adam, "adagrad": torch.optim.Adagrad,
              "sgd": torch.optim.SGD}
TEST_BATCH = 100
LAST = 50  # steps whose mean is the loss of the training


class Parser(argparse.ArgumentParser):
    """Complains in one line, and on one worker only."""

    def error(self, message):
        if os.environ.get("RANK", "0") == "0":
            sys.stderr.write(f"{self.prog}: {message}; --help says what there is\n")
        sys.exit(2)


def positive(kind):
    def convert(text):
        value = kind(text)
        if not value > 0 or value == float("inf"):
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return value
    convert.__name__ = "number"
    return convert


def parse(words=None):
    parser = Parser(prog="translate.py", description=__doc__,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    add, whole = parser.add_argument, positive(int)
    add("--data-dir", default=os.environ.get("GRADWIRE_DATA", "."), metavar="DIR",
        help="where the corpus is (GRADWIRE_DATA, or here)")
    add("--source", default="en", metavar="LANG", help="translate from this (en)")
    add("--target", default="de", metavar="LANG", help="into this (de)")
    add("--test", default="test_2016_flickr", metavar="PART",
        help="what BLEU is computed on (test_2016_flickr)")
    add("--sync", default="drop:0.99", metavar="SPEC", help="the method (drop:0.99)")
    add("--layer-norm", action="store_true", help="normalize inside the network")
    add("--epochs", type=whole, default=5, help="passes over the sentences (5)")
    add("--steps", type=whole, help="stop after so many")
    add("--limit", type=whole, help="use so many training sentences")
    add("--batch", type=whole, default=32, help="sentences per worker (32)")
    add("--optimizer", choices=OPTIMIZERS, default="adam", help="how steps are made (adam)")
    add("--momentum", choices=("auto", "off"), default="auto",
        help="whether the method is made to fit the optimizer (auto)")
    add("--lr", type=positive(float), default=0.004, help="learning rate (0.004)")
    add("--clip", type=positive(float), default=1.0, help="norm of the gradient at most (1)")
    add("--embedding", type=whole, default=192, help="features of a word (192)")
    add("--hidden", type=whole, default=192, help="units of each GRU (192)")
    add("--vocabulary", type=whole, default=5000, help="words per language at most (5000)")
    add("--least", type=whole, default=2, help="times that a word must occur (2)")
    add("--longest", type=whole, default=50, help="words of a sentence at most (50)")
    add("--seed", type=int, default=1, help="of weights and order (1)")
    add("--json", metavar="FILE", help="write a summary there")
    args = parser.parse_args(words)
    folder = os.path.dirname(os.path.abspath(args.json or "."))
    if not os.path.isdir(folder):
        parser.error(f"--json {args.json}: there is no directory {folder}")
    return args


# ---- the corpus ----------------------------------------------------------------


class Corpus:
    """Sentences as numbers."""

    def __init__(self, args):
        languages = (args.source, args.target)
        train = read_pairs(args.data_dir, "train", languages, args.limit)
        self.test = read_pairs(args.data_dir, args.test, languages)
        self.longest = args.longest
        self.source, self.target = (
            Vocabulary([pair[i] for pair in train], args.least, args.vocabulary)
            for i in (0, 1))
        self.train = [self.numbers(pair) for pair in train]

    def numbers(self, pair):
        return (self.source.encode(pair[0], self.longest),
                [BEGIN] + self.target.encode(pair[1], self.longest) + [END])


def tensors(pairs):
    """Source and target of a batch, time x batch."""
    return [torch.tensor(padded([pair[i] for pair in pairs])).t().contiguous()
            for i in (0, 1)]


def loss_of(model, pairs):
    """Mean over the words of the targets."""
    source, target = tensors(pairs)
    wanted = target[1:].t().flatten()
    return cross_entropy(model(source, target), wanted[wanted != PAD])


# ---- training ------------------------------------------------------------------


class Training:
    def __init__(self, args, corpus):
        self.args, self.corpus = args, corpus
        self.rank, self.workers = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(args.seed)
        self.model = DistributedDataParallel(
            Translator(len(corpus.source), len(corpus.target), args.embedding, args.hidden,
                       args.layer_norm), gradient_as_bucket_view=True)
        self.optimizer = OPTIMIZERS[args.optimizer](self.model.parameters(), lr=args.lr)
        self.handle = gradwire.attach(self.model, args.sync, self.optimizer,
                                      momentum=args.momentum)
        self.losses, self.seconds = [], 0.0

    def step(self, pairs):
        self.optimizer.zero_grad()
        loss = loss_of(self.model, pairs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip)
        self.optimizer.step()
        self.losses.append(loss.item())

    def epoch(self, number):
        """One pass; False once there were as many steps as asked for."""
        begin = time.perf_counter()
        for pairs in batches(self.corpus.train, self.rank, self.workers, self.args.batch,
                             1000 * self.args.seed + number):
            if self.args.steps is not None and len(self.losses) >= self.args.steps:
                break
            self.step(pairs)
        self.seconds += time.perf_counter() - begin
        return self.args.steps is None or len(self.losses) < self.args.steps

    def last_loss(self):
        last = self.losses[-LAST:]
        return sum(last) / len(last)

    def run(self):
        if len(self.corpus.train) < self.workers * self.args.batch:
            raise CorpusError(f"{len(self.corpus.train)} training sentences are less than a "
                              f"batch of {self.args.batch} for each of {self.workers} "
                              "workers: give a smaller --batch")
        for number in range(self.args.epochs):
            more = self.epoch(number)
            if self.rank == 0:
                print(f"epoch {number + 1}: {len(self.losses)} steps, "
                      f"loss {self.last_loss():.3f}", flush=True)
            if not more:
                break


# ---- how good it is ------------------------------------------------------------


@torch.no_grad()
def evaluate(model, corpus):
    """BLEU of the translations, and the loss per word of the references."""
    model.eval()
    order = sorted(range(len(corpus.test)), key=lambda i: len(corpus.test[i][0]))
    found, loss, words = {}, 0.0, 0
    for begin in range(0, len(order), TEST_BATCH):
        places = order[begin:begin + TEST_BATCH]
        pairs = [corpus.numbers(corpus.test[i]) for i in places]
        chosen = model.translate(tensors(pairs)[0], corpus.longest)
        found.update(zip(places, map(corpus.target.decode, chosen)))
        count = sum(len(pair[1]) - 1 for pair in pairs)
        loss, words = loss + count * loss_of(model, pairs).item(), words + count
    return bleu([found[i] for i in range(len(order))],
                [pair[1] for pair in corpus.test]), loss / words


def summary(training):
    """Figures of this worker. Of a step, exchange is what encoding, waiting and decoding
    took, of which dense does part beside the backward pass; compute is the rest."""
    args, stats = training.args, training.handle.stats()
    steps = len(training.losses)
    exchange = sum(stats[f"{what}_seconds"] for what in ("encode", "wait", "decode"))
    score, loss = evaluate(training.model.module, training.corpus)
    return {"sync": args.sync, "layer_norm": args.layer_norm, "workers": training.workers,
            "batch": args.batch, "optimizer": args.optimizer, "lr": args.lr,
            "seed": args.seed, "params": sum(p.numel() for p in training.model.parameters()),
            "steps": steps, "bleu": score, "loss": loss, "train_loss": training.last_loss(),
            "step_s": training.seconds / steps, "exchange_s": exchange / steps,
            "compute_s": max(0.0, training.seconds - exchange) / steps,
            "bytes_sent": stats["bytes_sent"], "version": gradwire.version()}


def show(found):
    print(f"sent {found['bytes_sent'] / 1e6:.2f} MB in {found['steps']} steps of "
          f"{1e3 * found['step_s']:.1f} ms, of which exchange {1e3 * found['exchange_s']:.1f}")
    print(f"loss {found['loss']:.3f}, BLEU {found['bleu']:.2f}", flush=True)


def complain(error, status):
    """Ends this worker. What all notice is said once."""
    rank = os.environ.get("RANK", "0")
    if rank == "0":
        sys.stderr.write(f"translate.py: {error}\n")
    elif isinstance(error, gradwire.PeerError):
        sys.stderr.write(f"translate.py, worker {rank}: {error}\n")
    sys.exit(status)


def train(args, corpus):
    """The training, done: with the model that all agree on or, with none, each its own."""
    training = Training(args, corpus)
    training.run()
    training.handle.finish()
    return training


def work(args):
    gradwire.check_spec(args.sync)
    corpus = Corpus(args)
    dist.init_process_group("gloo")
    training = train(args, corpus)
    if training.rank == 0:
        found = summary(training)
        show(found)
        if args.json:
            with open(args.json, "w", encoding="utf-8") as f:
                json.dump(found, f, indent=1)
    dist.barrier()


def main():
    args = parse()
    if "RANK" not in os.environ:
        complain("torchrun starts it and says who is who: torchrun --nproc_per_node 2 "
                 "python/examples/translate.py", 2)
    try:
        work(args)
    except KeyboardInterrupt:
        sys.exit(130)
    except gradwire.SpecError as error:
        complain(error, 2)
    except (CorpusError, OSError, gradwire.GradwireError) as error:
        complain(error, 1)


if __name__ == "__main__":
    main()
