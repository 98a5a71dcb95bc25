# SPDX-License-Identifier: Apache-2.0
"""test_oracle.py - every method of the library against a slow simulation of P workers
that follows the paper's text (tests/oracle/). Run by ctest; by hand:

    GRADWIRE_SOURCE=. GRADWIRE_BUILD=build /usr/bin/python3 tests/sync/test_oracle.py [SPEC...]

GW_TEST_SEED chooses other gradients. Specs that this build lacks are skipped."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracle"))
sys.dont_write_bytecode = True

import invariants  # noqa: E402
import planted  # noqa: E402
from adaptive_sum import AdaptiveSum  # noqa: E402
from builders import (centred, change, ef21, late, levels, local, momentum,  # noqa: E402
                      more_means, moving, one_momentum, outer, pqasgd, qsgd, qsgd_dense_below,
                      shares, sparse, stream, update)
from comparison import (Difference, check_drained, check_unbiased, compare,  # noqa: E402
                        compare_recordings)
from cosine_topk import CosineTopK  # noqa: E402
from gradient_drop import Bins, Centres, Drop  # noqa: E402
from gtopk_tree import GlobalTopK  # noqa: E402
from local_steps import SparseAverage  # noqa: E402
from low_rank import LowRank  # noqa: E402
from owner_topk import OwnerTopK  # noqa: E402
from quantized import bf16  # noqa: E402
from random_choice import RandomK, Sparta  # noqa: E402
from recording import Absent, build_driver, record  # noqa: E402
from sign_vote import SignVote  # noqa: E402
from sparse_topk import TopK  # noqa: E402
from sync_method import Dense, Gradients, Silence  # noqa: E402
from two_means import TwoMeans  # noqa: E402

SEED = int(os.environ.get("GW_TEST_SEED", "1"))
STEPS = 20
SKIP = 77


class Row:
    """One spec on several numbers of workers; methods(layout, workers) gives the
    simulations of which one must fit, the most exact first."""

    def __init__(self, spec, methods, workers=(1, 2, 3, 5), steps=STEPS, model="small",
                 words=()):
        self.spec, self.methods, self.workers = spec, methods, workers
        self.steps, self.model, self.words = steps, model, words

    def check(self, driver, workers):
        recording = record(driver, self.spec, workers, self.steps, SEED, self.model, self.words)
        made = self.methods(recording.layout, workers)
        choices = made if isinstance(made, list) else [made]
        differences = []
        for i, method in enumerate(choices):
            try:
                remark = compare(recording, method, SEED, self.words)
                return f"as form {i + 1} of {len(choices)} {remark}" if i else remark
            except Difference as difference:
                differences.append(str(difference))
        raise Difference("; or ".join(differences))


class Property(Row):
    """Not followed step by step: look(driver, recording) sees the whole of it."""

    def __init__(self, spec, look, **options):
        super().__init__(spec, None, **options)
        self.look = look

    def check(self, driver, workers):
        recording = record(driver, self.spec, workers, self.steps, SEED, self.model, self.words)
        return self.look(driver, recording)


def same_as_dense(driver, recording):
    dense = record(driver, "dense", recording.workers, recording.steps, SEED)
    return compare_recordings(recording, dense)


def drains(limit):
    return lambda _driver, recording: check_drained(recording, limit)


def unbiased(_driver, recording):
    return check_unbiased(recording)


def leaks(_driver, recording):
    try:
        check_drained(recording, 1e-4)
    except Difference:
        return "loses mass, as published"
    raise Difference("nothing was lost: this is not the published put-back")


GRID = {"words": ("grid",)}
FEW = {"words": ("few",), "workers": (1, 2, 3, 5, 8)}
TINY = {"model": "tiny", "workers": (1, 2, 3, 5)}
DRAIN = {"words": ("drain=8",), "workers": (2, 3, 5)}

TABLE = [
    Row("dense", lambda *_: Gradients(Dense()), workers=(1, 2, 3, 4, 5, 8)),
    Row("dense", lambda *_: Gradients(Dense()), **TINY),
    Row("none", lambda *_: Silence()),

    Row("topk:0.01", sparse(TopK, 0.01)),
    Row("topk:0.01", sparse(TopK, 0.01), **GRID),
    Row("topk:0.3", sparse(TopK, 0.3), **TINY),
    Row("topk:0.01", sparse(TopK, 0.01), model="large", workers=(2,), steps=4),
    Row("topk:0.01,residual=off", sparse(TopK, 0.01, residual=False)),
    Row("topk:0.05,warmup=3", sparse(TopK, 0.05, warmup=3)),
    Row("topk:0.002,ladder=2", sparse(TopK, 0.002, ladder=2)),
    Row("topk:0.01,warmup=3,ladder=2", sparse(TopK, 0.01, warmup=3, ladder=2)),
    Row("topk:0.02,dense_below=100", sparse(TopK, 0.02, dense_below=100)),
    Row("topk:0.02,dense_below=1000", sparse(TopK, 0.02, dense_below=1000)),
    Row("topk:0.05+2bit", sparse(TopK, 0.05, code=Centres(2))),
    Row("topk:0.05+1bit", sparse(TopK, 0.05, code=Centres(1))),
    Row("topk:0.05+q:4", sparse(TopK, 0.05, code=levels(4))),
    Row("topk:0.05+q:3,bucket=64,seed=9", sparse(TopK, 0.05, code=levels(3, 64, seed=9))),
    Row("topk:0.05,residual=off+q:3,bucket=64,norm=l2",
        sparse(TopK, 0.05, residual=False, code=levels(3, 64, "l2"))),
    Row("topk:0.05+bf16", sparse(TopK, 0.05, code=bf16)),
    Row("topk:0.05+momentum:0.9,velocity=local", momentum(0.9)),
    Row("topk:0.05+momentum:0.9,velocity=local", momentum(0.9), model="tiny", workers=(1, 3)),
    Row("topk:0.05+momentum:0.9,mask=off,velocity=local", momentum(0.9, mask=False)),
    Row("topk:0.05+momentum:0.9,clip=4,velocity=local", momentum(0.9, clip=4.0)),
    Row("topk:0.05+momentum:0.9", one_momentum(0.9)),
    Row("topk:0.05+momentum:0.9", one_momentum(0.9), model="tiny", workers=(1, 3)),
    Row("topk:0.05+momentum:0.9,clip=4", one_momentum(0.9, clip=4.0)),
    Row("topk:0.05,warmup=3+momentum:0.9,clip=4", one_momentum(0.9, clip=4.0, warmup=3)),
    Row("topk:0.05+momentum:0.9,nesterov=on", one_momentum(0.9, nesterov=True)),
    Row("topk:0.05+momentum:0.8,dampening=0.5", one_momentum(0.8, dampening=0.5)),
    Row("topk:0.05,warmup=3+momentum:0.9,nesterov=on",
        one_momentum(0.9, nesterov=True, warmup=3)),
    Row("topk:0.02,dense_below=100+momentum:0.9",
        one_momentum(0.9, density=0.02, dense_below=100)),
    Row("gtopk:0.05+momentum:0.9", one_momentum(0.9, GlobalTopK)),
    Row("drop:0.9+momentum:0.9", one_momentum(0.9, Drop, 0.9)),

    Row("topk:0.05+ef21", ef21(1, TopK, 0.05)),
    Row("topk:0.05+ef21", ef21(1, TopK, 0.05), **GRID),
    Row("topk:0.05+ef21:0.2", ef21(0.2, TopK, 0.05)),
    Row("topk:0.05,warmup=3,dense_below=100+ef21:0.3",
        ef21(0.3, TopK, 0.05, warmup=3, dense_below=100)),
    Row("gtopk:0.05+ef21", ef21(1, GlobalTopK, 0.05), workers=(1, 2, 3, 5, 8)),
    Row("gtopk:0.05,putback=keep+ef21:0.5", ef21(0.5, GlobalTopK, 0.05, "keep")),
    Row("drop:0.9+ef21", ef21(1, Drop, 0.9)),
    Row("randk:0.05+ef21", ef21(1, RandomK, 0.05, seed=SEED)),
    Row("topk:0.05+q:4+ef21", ef21(1, TopK, 0.05, code=levels(4))),

    Row("topk:0.05", sparse(TopK, 0.05), **FEW),
    Row("topk:0.05,dense_below=100", sparse(TopK, 0.05, dense_below=100), **FEW),
    Row("topk:0.05+1bit", sparse(TopK, 0.05, code=Centres(1)), **FEW),
    Row("topk:0.05+1bit:column", sparse(TopK, 0.05, code=Centres(1, "column")), **FEW),
    Row("topk:0.05+2bit", sparse(TopK, 0.05, code=Centres(2)), **FEW),
    Row("topk:0.05+q:4", sparse(TopK, 0.05, code=levels(4)), **FEW),
    Row("topk:0.05+1bit", sparse(TopK, 0.05, code=Centres(1)), words=("few", "drain=3")),

    Row("topk:0.05,tile=64", sparse(TopK, 0.05, tile=64)),
    Row("topk:0.05,tile=1000", sparse(TopK, 0.05, tile=1000), **GRID),
    Row("topk:0.3,tile=3", sparse(TopK, 0.3, tile=3), **TINY),
    Row("topk:0.05,tile=100000000", sparse(TopK, 0.05)),
    Row("topk:0.02,tile=512,ladder=2,warmup=1", sparse(TopK, 0.02, tile=512, ladder=2, warmup=1)),
    Row("topk:0.02,dense_below=100,tile=256", sparse(TopK, 0.02, dense_below=100, tile=256)),
    Row("topk:0.02,residual=off,tile=256", sparse(TopK, 0.02, residual=False, tile=256)),
    Row("topk:0.02,decay=0.9", sparse(TopK, 0.02, decay=0.9)),
    Row("topk:0.1,combine=senders", sparse(TopK, 0.1, senders=True), workers=(1, 2, 3, 5, 8)),
    Row("topk:0.1,residual=off,combine=senders,dense_below=100",
        sparse(TopK, 0.1, residual=False, senders=True, dense_below=100)),
    Row("topk:0.05+2bit:best", sparse(TopK, 0.05, code=Centres(2, "best"))),
    Row("topk:0.05+2bit:hivemind", sparse(TopK, 0.05, code=Bins())),
    Row("topk:0.05+2bit:hivemind", sparse(TopK, 0.05, code=Bins()), **FEW),
    Row("sparseloco:4,density=0.05,tile=256,centre=hivemind", outer(
        4, 1, 0, kind=TopK, density=0.05, tile=256, decay=0.95, senders=True, code=Bins())),
    Row("local:4+topk:0.05,tile=128,decay=0.8,combine=senders+2bit:best+outer:0.7,0",
        outer(4, 0.7, 0, kind=TopK, density=0.05, tile=128, decay=0.8, senders=True,
              code=Centres(2, "best"))),
    Row("sparseloco:4,density=0.05,tile=256", outer(
        4, 1, 0, kind=TopK, density=0.05, tile=256, decay=0.95, senders=True,
        code=Centres(2, "best"))),
    Row("sparseloco:4", outer(4, 1, 0, kind=TopK, density=1 / 64, tile=4096, decay=0.95, senders=True,
                              code=Centres(2, "best"))),

    Row("dense:delay=1", late(lambda *_: Gradients(Dense()))),
    Row("dense:delay=1", late(lambda *_: Gradients(Dense())), **TINY),
    Row("topk:0.05,delay=1,lead=0", late(sparse(TopK, 0.05), 0), **GRID),
    Row("topk:0.05,warmup=3,delay=1+momentum:0.9", late(one_momentum(0.9, warmup=3))),
    Row("topk:0.05,delay=1,lead=0.5", late(sparse(TopK, 0.05), 0.5), **GRID),
    Row("drop:0.9,delay=1+ef21", late(ef21(1, Drop, 0.9))),
    Row("gtopk:0.05,delay=1", late(sparse(GlobalTopK, 0.05)), **FEW),
    Row("adasum:delay=1", late(sparse(AdaptiveSum)), workers=(2, 3, 4)),
    Row("demo:0.05,0.9,delay=1", late(sparse(CosineTopK, 0.05, decay=0.9, update="mean"), signs=True)),
    Row("demo:0.05,update=mean,delay=1,lead=0", late(sparse(CosineTopK, 0.05, update="mean"), 0)),
    Row("distro:0.05,delay=1,lead=0", late(sparse(CosineTopK, 0.05, code=Centres(1), update="mean"), 0, True)),

    Row("gtopk:0.01", sparse(GlobalTopK, 0.01), workers=(1, 2, 3, 4, 5, 6, 7, 8)),
    Row("gtopk:0.05", sparse(GlobalTopK, 0.05), **FEW),
    Row("gtopk:0.01,via=tree", sparse(GlobalTopK, 0.01, via="tree"), workers=(1, 2, 3, 4, 5, 6, 7, 8)),
    Row("gtopk:0.05,putback=paper,via=tree", sparse(GlobalTopK, 0.05, "paper", "tree"), **FEW),
    Row("gtopk:0.05,putback=keep,via=tree", sparse(GlobalTopK, 0.05, "keep", "tree"), workers=(3, 5)),
    Row("gtopk:0.01,putback=keep", sparse(GlobalTopK, 0.01, "keep"), workers=(2, 3, 5, 8)),
    Row("gtopk:0.05,putback=keep", sparse(GlobalTopK, 0.05, "keep"), **FEW),
    Row("gtopk:0.05,putback=paper", sparse(GlobalTopK, 0.05, "paper"), **FEW),
    Row("gtopk:0.05", sparse(GlobalTopK, 0.05), words=("few", "grid")),
    Row("gtopk:0.01", sparse(GlobalTopK, 0.01), **GRID),
    Row("gtopk:0.3", sparse(GlobalTopK, 0.3), **TINY),
    Row("gtopk:0.01,putback=paper", sparse(GlobalTopK, 0.01, "paper"), workers=(2, 3, 5, 8)),
    Row("gtopk:0.05,putback=paper", sparse(GlobalTopK, 0.05, "paper"), **GRID),
    Row("gtopk:0.05,residual=off", sparse(GlobalTopK, 0.05, residual=False)),
    Row("gtopk:0.01,warmup=2,ladder=2", sparse(GlobalTopK, 0.01, warmup=2, ladder=2)),
    Row("gtopk:0.02,dense_below=100", sparse(GlobalTopK, 0.02, dense_below=100)),
    Property("gtopk:0.1", drains(1e-5), steps=100, **DRAIN),
    Property("gtopk:0.1,putback=paper", leaks, steps=100, words=("drain=8",), workers=(5, 8)),
    Property("gtopk:0.1,putback=keep", drains(1e-5), steps=100, **DRAIN),
    Property("gtopk:0.1,putback=keep+q:4", drains(1e-5), steps=150, **DRAIN),
    # Rounding makes entries that cancel each other, which wait where they are: with some seeds
    # 6 % of all for thousands of steps. That nothing is lost is for test_conformance.c.
    Property("gtopk:0.1+q:4", drains(0.2), steps=400, **DRAIN),
    Property("gtopk:0.1,via=pairs+q:4", drains(0.2), steps=400, **DRAIN),
    Property("gtopk:0.1+2bit", drains(5e-3), steps=400, **DRAIN),
    Property("gtopk:0.1+bf16", drains(1e-5), steps=150, **DRAIN),

    Row("adasum", sparse(AdaptiveSum), workers=(1, 2, 3, 4, 5, 6, 7, 8)),
    Row("adasum", sparse(AdaptiveSum), **TINY),
    Row("local:4+adasum", change(4, AdaptiveSum)),

    Row("oktopk:0.01", sparse(OwnerTopK, 0.01, seed=SEED), workers=(1, 2, 3, 5, 8)),
    Row("oktopk:0.05", sparse(OwnerTopK, 0.05, seed=SEED), **FEW),
    Row("oktopk:0.05", sparse(OwnerTopK, 0.05, seed=SEED), **GRID),
    Row("oktopk:0.3", sparse(OwnerTopK, 0.3, seed=SEED), **TINY),
    Row("oktopk:0.05,residual=off", sparse(OwnerTopK, 0.05, residual=False, seed=SEED)),
    Row("oktopk:0.02,warmup=2,ladder=2,dense_below=100",
        sparse(OwnerTopK, 0.02, warmup=2, ladder=2, dense_below=100, seed=SEED)),
    Row("local:4+oktopk:0.05", change(4, OwnerTopK, 0.05, seed=SEED)),
    Property("oktopk:0.1", drains(1e-5), steps=100, **DRAIN),
    Property("oktopk:0.1+bf16", drains(1e-5), steps=150, **DRAIN),

    Row("topk:0.05,via=owner", sparse(OwnerTopK, 0.05, seed=SEED), workers=(1, 2, 3, 5)),
    Row("topk:0.05,via=auto", sparse(OwnerTopK, 0.05, seed=SEED), workers=(3, 5)),
    Row("topk:0.05,via=auto", sparse(TopK, 0.05), workers=(1, 2)),
    Row("topk:0.05,via=auto,combine=all+momentum:0.9", one_momentum(0.9), workers=(2,)),

    Row("drop:0.9", sparse(Drop, 0.9)),
    Row("drop:0.9", sparse(Drop, 0.9), **GRID),
    Row("drop:0.99", sparse(Drop, 0.99), **GRID),
    Row("drop:0.5", sparse(Drop, 0.5), **GRID),
    Row("drop:0.5", sparse(Drop, 0.5), **TINY),
    Row("drop:0.99,threshold=tensor", sparse(Drop, 0.99, "tensor"), **GRID),
    Row("drop:0.8,threshold=tensor", sparse(Drop, 0.8, "tensor"), **GRID),
    Row("drop:0.8,threshold=tensor", sparse(Drop, 0.8, "tensor"), **TINY),
    Row("drop:0.9,dense_below=100", sparse(Drop, 0.9, dense_below=100), **GRID),
    Row("drop:0.9,threshold=tensor,dense_below=100",
        sparse(Drop, 0.9, "tensor", dense_below=100), **GRID),
    Row("drop:0.9+1bit", sparse(Drop, 0.9, code=Centres(1)), model="tiny"),
    Row("drop:0.99", sparse(Drop, 0.99), model="large", workers=(2,), steps=5),
    Row("drop:0.9,threshold=tensor", sparse(Drop, 0.9, "tensor")),
    Row("drop:0.9,threshold=tensor", sparse(Drop, 0.9, "tensor"), model="large",
        workers=(2,), steps=4),
    Row("drop:0.9,residual=off", sparse(Drop, 0.9, residual=False)),
    Row("drop:0.9,warmup=3", sparse(Drop, 0.9, warmup=3)),
    Row("drop:0.99,ladder=3", sparse(Drop, 0.99, ladder=3)),
    Row("drop:0.9,dense_below=100", sparse(Drop, 0.9, dense_below=100)),
    Row("drop:0.9,threshold=tensor,dense_below=100",
        sparse(Drop, 0.9, "tensor", dense_below=100)),
    Row("drop:0.9+1bit", sparse(Drop, 0.9, code=Centres(1))),
    Row("drop:0.9+1bit:threshold", centred(0.9, 1, "threshold")),
    Row("drop:0.9+1bit:column", sparse(Drop, 0.9, code=Centres(1, "column"))),
    Row("drop:0.9,threshold=tensor+1bit:column",
        sparse(Drop, 0.9, "tensor", code=Centres(1, "column"))),
    Row("drop:0.9+2bit", centred(0.9, 2)),
    Row("drop:0.9+2bit:threshold", centred(0.9, 2, "threshold")),

    Row("randk:0.05", sparse(RandomK, 0.05, seed=SEED)),
    Row("randk:0.3", sparse(RandomK, 0.3, seed=SEED), **TINY),
    Row("randk:0.05,residual=off,seed=7", sparse(RandomK, 0.05, residual=False, seed=SEED + 7)),
    Row("randk:0.01,warmup=3,ladder=2", sparse(RandomK, 0.01, warmup=3, ladder=2, seed=SEED)),
    Row("randk:0.05,dense_below=100", sparse(RandomK, 0.05, dense_below=100, seed=SEED)),
    Row("local:4+randk:0.1", change(4, RandomK, 0.1, seed=SEED)),
    Property("randk:0.1", drains(1e-3), steps=150, **DRAIN),

    Row("lowrank:2", sparse(LowRank, 2, SEED)),
    Row("lowrank:4,error=own", sparse(LowRank, 4, SEED, "own")),
    Row("lowrank:1,residual=off", sparse(LowRank, 1, SEED, residual=False)),
    Row("lowrank:1,warmup=3", sparse(LowRank, 1, SEED, warmup=3), **TINY),
    Row("local:4+lowrank:2", change(4, LowRank, 2, SEED)),
    Row("lowrank:1000", lambda *_: Gradients(Dense())),

    Row("qsgd:2", qsgd(levels(2)), workers=(1, 2, 3)),
    Row("qsgd:4", qsgd(levels(4)), workers=(1, 2, 3, 5)),
    Row("qsgd:4", qsgd(levels(4)), **TINY),
    # What is coded once more says the same.
    Row("qsgd:2,norm=l2,code=entropy", qsgd(levels(2, norm="l2")), workers=(1, 2, 3)),
    Row("qsgd:4,residual=on,code=entropy", qsgd(levels(4), residual=True), workers=(1, 2)),
    Row("topk:0.3+q:4,code=entropy", sparse(TopK, 0.3, code=levels(4))),
    Row("qsgd:8", qsgd(levels(8)), workers=(1, 2, 3, 5)),
    Row("qsgd:4,norm=l2,bucket=64,seed=7", qsgd(levels(4, 64, "l2", seed=7)), workers=(2, 3)),
    Row("qsgd:4,residual=on", qsgd(levels(4), residual=True), workers=(1, 2)),
    Row("qsgd:4,warmup=3", qsgd(levels(4), warmup=3), workers=(1, 2)),
    Row("qsgd:4,dense_below=100", qsgd_dense_below(levels(4), 100), workers=(1, 2, 3)),
    Row("qsgd:4,via=gather,residual=on,dense_below=100",
        qsgd_dense_below(levels(4), 100, residual=True), workers=(1, 2, 3, 5)),
    Row("qsgd:4,via=gather,residual=on,dense_below=1000,bucket=64",
        qsgd_dense_below(levels(4, 64), 1000, residual=True)),
    Row("qsgd:4,dense_below=10000", lambda *_: Gradients(Dense())),
    Property("qsgd:2", unbiased, steps=200, words=("fixed",), workers=(2, 3, 5)),
    Property("qsgd:4", unbiased, steps=200, words=("fixed",), workers=(2, 3, 5)),
    Property("qsgd:4,norm=l2", unbiased, steps=200, words=("fixed",), workers=(2, 3, 5)),

    Row("sign", sparse(SignVote)),
    Row("sign", sparse(SignVote), **TINY),
    Row("sign:64,residual=off", sparse(SignVote, 64, residual=False)),
    Row("sign:64,via=gather", sparse(SignVote, 64, via="gather"), workers=(3, 5)),
    Row("sign:64,via=scatter", sparse(SignVote, 64, via="scatter"), workers=(1, 2, 5)),
    Row("sign:64,dense_below=100,warmup=2", sparse(SignVote, 64, dense_below=100, warmup=2)),

    Row("demo", sparse(CosineTopK, 1 / 128)),
    Row("demo:0.05,decay=0.9", sparse(CosineTopK, 0.05, decay=0.9), workers=(1, 2, 3, 5, 8)),
    Row("demo:0.05,0.9,update=mean", sparse(CosineTopK, 0.05, decay=0.9, update="mean")),
    Row("demo:0.1,1,chunk=7,combine=all,update=mean",
        sparse(CosineTopK, 0.1, decay=1, chunk=7, senders=False, update="mean")),
    Row("demo:0.3,0.5,chunk=2", sparse(CosineTopK, 0.3, decay=0.5, chunk=2), **TINY),
    Row("demo:0.1,dense_below=100,update=mean",
        sparse(CosineTopK, 0.1, dense_below=100, update="mean")),
    Row("demo:0.1,residual=off,update=mean", sparse(CosineTopK, 0.1, residual=False, update="mean")),
    Row("distro:0.05,0.9", sparse(CosineTopK, 0.05, decay=0.9, code=Centres(1))),
    Row("distro:0.05,update=mean", sparse(CosineTopK, 0.05, code=Centres(1), update="mean")),
    Property("demo:0.1,decay=1,combine=all,update=mean", drains(1e-5), steps=150, **DRAIN),

    Row("a2sgd", lambda _, workers: TwoMeans(workers)),
    Row("a2sgd", lambda _, workers: TwoMeans(workers), **TINY),
    Row("a2sgd:resync=5", lambda _, workers: TwoMeans(workers, resync=5)),
    Row("a2sgd:per=tensor", more_means("tensor")),
    Row("a2sgd:per=row", more_means("row")),
    Row("a2sgd:per=row,bucket=5", more_means("row", 5), **TINY),
    Row("a2sgd:bucket=64", more_means("all", 64)),
    Row("a2sgd:resync=5,per=tensor,bucket=1000", more_means("tensor", 1000, resync=5)),

    Row("local:4", local(every=4)),
    Row("local:4", local(every=4), **TINY),
    Row("local:4", local(every=4), workers=(3,), steps=18),
    Row("local:grow", local(grow=1.0), workers=(1, 2, 3)),
    Row("local:grow,grow=4", local(grow=4.0), steps=30),
    Row("local:4,start=6", local(every=4, start=6)),
    Row("local:4,start=6", local(every=4, start=6), workers=(3,), steps=18),
    Row("local:4,start=6", local(every=4, start=6), workers=(3,), steps=5),
    Row("local:4,start=6,average=polyak", local(every=4, start=6, polyak=True)),
    Row("local:grow,grow=2,average=polyak", local(grow=2.0, polyak=True)),
    Row("oneshot", local(every=STEPS + 1)),
    Row("oneshot:polyak", local(every=STEPS + 1, polyak=True)),
    Row("local:4+outer:0.7,0.9", outer(4, 0.7, 0.9)),
    Row("local:4+outer:0.7,0.9", outer(4, 0.7, 0.9), workers=(3,), steps=18),
    Row("local:4+outer:0.7,0.9", outer(4, 0.7, 0.9), **TINY),
    Row("local:4+outer:0.4,0", outer(4, 0.4, 0)),
    Row("local:4+outer:0.3,0.5,nesterov=off", outer(4, 0.3, 0.5, nesterov=False)),
    Row("local:4,start=6+outer", outer(4, 0.7, 0.9, dense=6)),
    Row("local:1+outer:0.5,0.9", outer(1, 0.5, 0.9)),
    Row("local:4,average=polyak+outer", outer(4, 0.7, 0.9, polyak=True)),
    Row("local:4+topk:0.05+outer:0.7,0.9", outer(4, 0.7, 0.9, kind=TopK, density=0.05)),
    Row("local:4+topk:0.05+2bit+outer:0.4,0",
        outer(4, 0.4, 0, kind=TopK, density=0.05, code=Centres(2))),
    Row("diloco:5", outer(5, 0.7, 0.9)),
    Row("diloco:5,0.5,0.8,start=3", outer(5, 0.5, 0.8, dense=3)),
    Row("local:4,fragments=2", stream(4, 2)),
    Row("local:4,fragments=2", stream(4, 2), **TINY),
    Row("local:5,fragments=3,mix=0.5", stream(5, 3, mix=0.5)),
    Row("local:4,fragments=3,cut=tensors", stream(4, 3, tensors=True)),
    Row("local:8,fragments=7,delay=0+topk:0.05", stream(8, 7, kind=TopK, density=0.05)),
    Row("local:6,fragments=2,delay=1,cut=tensors+topk:0.05",
        stream(6, 2, delay=1, kind=TopK, density=0.05, tensors=True)),
    Row("local:5,delay=4", stream(5, 1, delay=4)),
    Row("diloco:7,fragments=2,delay=2", stream(7, 2, 0.7, 0.9, delay=2)),
    Row("diloco:7,fragments=2,delay=2,mix=0.25,start=3",
        stream(7, 2, 0.7, 0.9, delay=2, mix=0.25, dense=3)),
    Row("local:6,fragments=3,delay=1+topk:0.05+outer:0.4,0",
        stream(6, 3, 0.4, delay=1, kind=TopK, density=0.05)),
    Row("sparseloco:6,density=0.05,tile=256,fragments=2,delay=2,mix=0.5",
        stream(6, 2, delay=2, mix=0.5, kind=TopK, density=0.05, tile=256, decay=0.95, senders=True,
               code=Centres(2, "best"))),
    Row("local:4+outer:1,0", local(every=4)),
    Row("diloco:4,lr=1,momentum=0", local(every=4)),
    Row("local:4+topk:0.05", change(4, TopK, 0.05)),
    Row("local:4+gtopk:0.05", change(4, GlobalTopK, 0.05)),
    Row("local:2+topk:0.1+2bit", change(2, TopK, 0.1, code=Centres(2))),
    Row("local:2+drop:0.9+1bit", change(2, Drop, 0.9, code=Centres(1))),
    Row("update:3+topk:0.05", update(3, 1, TopK, 0.05)),
    Row("update:0,scale=2+gtopk:0.05", update(0, 2, GlobalTopK, 0.05)),
    Row("update:2+drop:0.9", update(2, 1, Drop, 0.9)),
    Row("update:scale=auto+topk:0.05", update(0, "auto", TopK, 0.05)),
    Row("update:2,scale=auto+gtopk:0.05,warmup=4", update(2, "auto", GlobalTopK, 0.05, warmup=4)),
    Row("update+topk:0.05,warmup=3,ladder=2", update(0, 1, TopK, 0.05, warmup=3, ladder=2)),
    Row("update:scale=1.5+topk:0.05,warmup=2+momentum:0.6,dampening=0.6",
        update(0, 1.5, moving(TopK, 0.6, dampening=0.6), 0.05, warmup=2)),
    Row("update:scale=auto+drop:0.9+momentum:0.6,dampening=0.6,nesterov=on",
        update(0, "auto", moving(Drop, 0.6, dampening=0.6, nesterov=True), 0.9)),
    Row("spa:4", lambda layout, _: SparseAverage(layout, 4)),
    Row("spa:4", lambda layout, _: SparseAverage(layout, 4), **TINY),
    Row("spa:7", lambda layout, _: SparseAverage(layout, 7)),
    Row("sparta:0.05", lambda layout, _: Sparta(layout, 0.05, SEED)),
    Row("sparta:0.3,turns,seed=7", lambda layout, _: Sparta(layout, 0.3, SEED + 7, True)),
    Row("sparta:0.3,turns", lambda layout, _: Sparta(layout, 0.3, SEED, True), **TINY),
    Row("sparta:0.1,resync=4", lambda layout, _: Sparta(layout, 0.1, SEED, resync=4)),
    Row("sparta:0.05,resync=5+outer:0.7,0.9", shares(0.05, 5, 0.7, 0.9)),
    Row("sparta:0.1,order=turns,resync=3+outer:0.4,0.5,nesterov=off", shares(0.1, 3, 0.4, 0.5, False, turns=True)),
    Row("pqasgd:4,8", pqasgd(4, levels(8)), workers=(1, 2, 3, 5)),
    Row("pqasgd:4,8", pqasgd(4, levels(8)), workers=(2, 3), steps=19),
    Row("pqasgd:2,4,residual=on", pqasgd(2, levels(4), residual=True), workers=(1, 2)),
] + [
    Property(spec, same_as_dense, workers=(1, 2, 3, 4), steps=6)
    for spec in ("topk:1", "topk:1+ef21", "gtopk:1", "drop:0", "qsgd:32", "local:1", "pqasgd:1,32", "spa:1", "sparta:1", "lowrank:0", "oktopk:1",
                 "demo:1")
]


def name_of(row, workers):
    extra = " ".join([row.model, *row.words, type(row).__name__.lower()])
    return f"{row.spec} ({extra}), {workers} workers"


def check_table(driver, wanted):
    """Counts of what passed, failed and was skipped."""
    passed, failed, absent = 0, 0, []
    for row in TABLE:
        if wanted and row.spec not in wanted:
            continue
        for workers in row.workers:
            name = name_of(row, workers)
            try:
                remark = row.check(driver, workers)
                passed += 1
                if remark:
                    print(f"passed: {name}: {remark}")
            except Absent:
                absent.append(row.spec)
                break
            except (Difference, RuntimeError) as problem:
                failed += 1
                print(f"FAILED: {name}: {problem}")
    for spec in dict.fromkeys(absent):
        print(f"skipped: {spec}: not in this build")
    return passed, failed, len(absent)


def check_recipes(driver):
    """How many recipes of the library have no simulation here."""
    names = subprocess.run([str(driver), "recipes"], check=True, capture_output=True,
                           text=True).stdout.split()
    simulated = {re.split("[:+]", row.spec)[0] for row in TABLE if row.methods is not None}
    missing = [name for name in names if name not in simulated]
    for name in missing:
        print(f"FAILED: '{name}' is a recipe of the library but has no simulation in TABLE")
    return len(missing)


def check_simulations():
    """The simulations and the comparison themselves."""
    suite = unittest.TestSuite()
    for module in (invariants, planted):
        suite.addTests(unittest.defaultTestLoader.loadTestsFromModule(module))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=0).run(suite)
    return result.testsRun, len(result.failures) + len(result.errors)


def main():
    source, build = os.environ.get("GRADWIRE_SOURCE"), os.environ.get("GRADWIRE_BUILD")
    if not source or not build:
        print("set GRADWIRE_SOURCE and GRADWIRE_BUILD")
        return SKIP
    print(f"seed {SEED} (GW_TEST_SEED)")
    with tempfile.TemporaryDirectory() as folder:
        driver = build_driver(source, build, pathlib.Path(folder) / "oracle_driver")
        passed, failed, absent = check_table(driver, sys.argv[1:])
        failed += 0 if sys.argv[1:] else check_recipes(driver)
    ran, broken = (0, 0) if sys.argv[1:] else check_simulations()
    print(f"{passed + ran - broken} passed, {failed + broken} failed, {absent} skipped")
    return 1 if failed + broken else 0


if __name__ == "__main__":
    sys.exit(main())
