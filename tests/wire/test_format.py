# SPDX-License-Identifier: Apache-2.0
"""test_format.py - tests/wire/format_reader.py, which was written from docs/format*.md, explains every
byte that runs of all recipes send and save, and computes from it what the workers had.
By hand:

    GRADWIRE_SOURCE=. GRADWIRE_BUILD=build /usr/bin/python3 tests/wire/test_format.py [TEST...]

GW_TEST_SEED chooses the gradients, GW_TEST_SPECS="SPEC SPEC" other specs. Skipped without
numpy."""
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import numpy  # noqa: F401
except ImportError:
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import format_reader  # noqa: E402
from bytes_and_checks import Unexplained, crc32c, fnv1a  # noqa: E402
from tape import build_driver, capture  # noqa: E402

SEED = int(os.environ.get("GW_TEST_SEED") or os.environ.get("GW_DEFAULT_SEED") or time.time_ns() % 1000000)
STEPS = 5

# Beside the specs that every sync is tried with (tests/support/support_conform.c).
SPECS = [
    "dense+check:2", "local:2+check:3", "topk:0.05+check:0", "dense+q:4", "local:3+q:6",
    "local:2+dense+bf16", "qsgd:4,via=scatter", "pqasgd:2,4,via=gather,residual=on",
    "qsgd:4,dense_below=100", "qsgd:8,dense_below=100,residual=on", "qsgd:3,bucket=64,seed=9",
    "gtopk:0.05,dense_below=100", "drop:0.9,dense_below=100", "gtopk:0.02,putback=paper+2bit",
    "gtopk:0.02,putback=paper+bf16", "gtopk:0.02,via=pairs+bf16", "topk:0.02+1bit:centre=column", "topk:0.02+1bit:centre=threshold",
    "topk:0.1,warmup=2+momentum:0.9", "drop:0.9+momentum:0.5,clip=0.5,mask=off", "topk:0.02+q:8,norm=l2",
    "drop:0.99,ladder=1,warmup=1", "qsgd:2,warmup=2", "local:2,start=3+gtopk:0.1", "oneshot:average=polyak",
    "local:3,average=polyak", "spa:4000",
    "randk:0.3,residual=off,seed=7", "randk:0.01,ladder=1,warmup=1", "randk:0.05,dense_below=1000000",
    "sign:8", "sign:65536,residual=off", "sign:via=gather,warmup=2", "sign:64,dense_below=100",
    "topk:0.05,warmup=2,dense_below=100+momentum:0.9,velocity=local", "topk:0.1+momentum:0.5,dampening=1",
    "drop:0.9+momentum:0.5,clip=0.5,mask=off,velocity=local", "gtopk:0.05+momentum:0.9,velocity=local",
    "gtopk:0.05,warmup=1,dense_below=100+q:4+momentum:0.9,clip=0.5,nesterov=on,dampening=0.3",
    "topk:0.05,warmup=2+momentum:0.9,nesterov=on,dampening=0.2", "drop:0.9,dense_below=100+momentum:0.9,clip=0.3",
    "update:scale=auto+topk:0.05,warmup=2+momentum:0.6,dampening=0.6",
    "update:1,scale=auto+gtopk:0.05+q:4+momentum:0.5,nesterov=on", "update:scale=auto", "local:2+topk:0.1,warmup=4",
    "update+topk:0.05,warmup=2+ef21", "update:2,scale=auto+randk:0.1,seed=7",
    "update:2,scale=1.5+randk:0.1", "update:0,scale=0.7+drop:0.9,dense_below=100", "update:1+dense+q:6",
    "topk:0.05+2bit+ef21:0.1", "gtopk:0.05,putback=paper+ef21", "drop:0.9,warmup=2+ef21:0.7", "randk:0.1+ef21:0.9",
    "dense+bf16+ef21", "update:1+topk:0.05+ef21", "topk:1+ef21", "local:2,start=2+gtopk:0.1+ef21",
    "oktopk:0.05+q:4", "oktopk:0.1,residual=off+1bit", "oktopk:0.02,ladder=1,warmup=1", "oktopk:0.05+momentum:0.9",
    "oktopk:0.05+1bit:centre=column", "oktopk:0.1,dense_below=100+ef21:0.5", "oktopk:1", "update:1+oktopk:0.05+bf16",
    "lowrank:2,error=own,residual=off", "lowrank:1+ef21", "lowrank:3+ef21:0.2", "lowrank:0", "lowrank:1000",
    "local:2,start=2+lowrank:2", "update:1+lowrank:4,error=own", "lowrank:6,warmup=2",
    "sparta:0.1,seed=7", "sparta:0.01,turns,seed=3", "sparta:1",
    "sparta:0.1,resync=2+check:3", "sparta:0.1,turns,resync=2+outer:0.5,0.5",
    "update:2+bf16", "update:0+topk:0.01,ladder=1", "update:3+check:2", "update+topk:0.1",
    "diloco:2,start=2+gtopk:0.1+q:6", "update:2,scale=2+topk:0.1+outer:0.5,0.5", "local:2+randk:0.1+outer",
    "topk:0.02,tile=300,ladder=1", "topk:0.02,dense_below=100,tile=64,combine=senders",
    "topk:0.05,decay=0.5+2bit:best", "topk:0.05+2bit:hivemind", "gtopk:0.05,via=tree+2bit:hivemind",
    "sparseloco:2,tile=128,lr=0.4,momentum=0.5,decay=1", "sparseloco:2,combine=all",
    "demo:0.05,decay=1,chunk=64,update=mean", "demo:0.02,residual=off", "distro:0.1,chunk=9,dense_below=100",
    "demo:0.3,chunk=2,combine=all", "demo:0.05,delay=1", "distro:0.1,chunk=9,delay=1,lead=0.5", "adasum:delay=1",
    "topk:0.05,via=auto+1bit", "topk:0.1,residual=off,via=owner", "topk:0.05,dense_below=100,via=owner+ef21",
    "local:2+adasum+outer:0.5,0", "update:1+adasum",
    "local:4,fragments=2,start=1+q:4+check:2", "diloco:3,fragments=3,mix=0.5+gtopk:0.1,dense_below=100",
    "local:5,fragments=2,delay=1+randk:0.1+check:1", "sparseloco:4,tile=128,delay=3,mix=1",
    "local:4,fragments=3,cut=tensors+gtopk:0.1,dense_below=100", "local:4,fragments=3+lowrank:2", "diloco:5,fragments=5+randk:0.2",
    "local:3,fragments=3,cut=tensors+lowrank:2",
    "qsgd:2,code=entropy", "qsgd:3,norm=l2,code=entropy,via=scatter", "qsgd:6,code=entropy", "pqasgd:2,5,code=entropy",
    "dense+q:7,code=entropy", "topk:0.3+q:6,norm=l2,bucket=64,code=entropy", "drop:0.7+2bit:code=entropy",
    "topk:0.3+1bit:code=entropy", "sign:64,via=gather,code=entropy",
    # Switched off, all or in part.
    "topk:1", "topk:1,combine=senders+q:4", "demo:1", "randk:1", "topk:1,dense_below=100", "drop:0", "qsgd:32", "local:1", "spa:1", "pqasgd:1,4",
    "local:1+topk:0.1", "local:2+q:32", "pqasgd:2,32", "pqasgd:1,32", "update:2", "update:0,scale=2+topk:1",
    "topk:0.1+momentum:0,clip=0.1", "local:2+outer:1,0", "diloco:1,1,0", "diloco:2,1,0+topk:0.1",
]

# Spec, workers, steps, model and words of the driver.
RUNS = [
    ("dense", 2, 2, "ring"), ("dense", 3, 2, "ring"), ("dense", 5, 1, "ring"), ("dense", 2, 1, "chunks"),
    ("dense", 3, 1, "chunks"), ("dense", 2, 1, "buckets"), ("dense", 7, 2, "tiny"),
    ("local:1,average=polyak", 3, 2, "ring"), ("topk:0.001", 3, 2, "chunks"), ("gtopk:0.01+q:4", 4, 2, "ring"),
    ("demo", 3, 2, "ring"), ("distro:0.01", 2, 2, "chunks"), ("demo:0.3", 3, 3, "tiny"),
    ("qsgd:4", 3, 2, "ring"), ("qsgd:3,norm=l2,code=entropy", 3, 2, "ring"), ("qsgd:2,code=entropy", 2, 1, "chunks"),
    ("qsgd:4,code=entropy", 5, 3, "tiny"), ("a2sgd", 2, 2, "chunks"), ("qsgd:4", 5, 3, "tiny"), ("spa:2", 3, 3, "ring"),
    ("randk:0.2", 3, 2, "chunks"), ("randk:0.5", 5, 3, "tiny"), ("sign", 3, 2, "ring"), ("sign", 5, 3, "tiny"),
    ("dense", 8, 2, "small"), ("gtopk:0.05", 8, 3, "small"),
    ("dense", 3, 3, "small", "parts"), ("dense", 2, 1, "buckets", "parts", "bad=1", "skip"),
    ("topk:0.1", 3, 3, "small", "link"), ("dense", 3, 2, "ring", "link"),
    ("dense", 3, 2, "small", "mismatch"), ("dense+check:1", 3, 3, "small", "differ=2"),
    ("local:2", 3, 4, "small", "ill=2"),
    ("pqasgd:2,8", 3, 4, "small", "ill=2"), ("local:2+gtopk:0.1", 3, 4, "small", "ill=2"),
    ("local:2+randk:0.1", 3, 4, "small", "ill=2"), ("update:1+topk:0.1", 3, 4, "small", "ill=3"),
    ("update:1+topk:0.1", 3, 4, "small", "bad=2", "skip"), ("update:1+topk:0.1", 3, 4, "small", "ignore"),
    ("update:0", 2, 1, "buckets"),
    ("local:4,fragments=2", 3, 4, "small", "ill=2"), ("local:4,fragments=2,delay=1+topk:0.1", 3, 4, "small", "ill=2"),
    ("local:4,delay=2", 3, 8, "small", "ill=2"), ("local:4,fragments=3,cut=tensors", 3, 4, "small", "ill=1"),
    ("local:4,fragments=4", 3, 4, "ring"), ("local:9,fragments=6+topk:0.1", 2, 9, "tiny"),
    ("update:scale=auto+topk:0.1,warmup=1+momentum:0.6", 2, 20, "small"), ("update:scale=auto+topk:0.1", 3, 4, "small", "ill=3"),
    ("update:scale=auto+gtopk:0.001", 3, 2, "chunks"), ("topk:0.001+momentum:0.9,clip=0.5,nesterov=on", 3, 3, "chunks"),
]

# What becomes of bad numbers.
BAD = ["qsgd:3,bucket=65536,via=scatter,residual=on,code=entropy", "qsgd:4,via=gather,residual=on,code=entropy", "dense", "dense:delay=1", "topk:0.02,delay=1,lead=0", "topk:0.02", "topk:0.02+2bit", "gtopk:0.02+q:4", "gtopk:0.02,putback=paper", "drop:0.95",
       "qsgd:4", "qsgd:4,via=gather,residual=on", "qsgd:8,residual=on", "qsgd:4,dense_below=100", "dense+bf16",
       "a2sgd", "topk:0.02,dense_below=100", "topk:0.02+momentum:0.9",
       "topk:0.02+momentum:0.9,velocity=local", "gtopk:0.02+momentum:0.9,velocity=local",
       "gtopk:0.02,dense_below=100+momentum:0.9,nesterov=on,dampening=0.5", "topk:0.02,warmup=2+momentum:0.9",
       "demo:0.02", "demo:0.02,update=mean,dense_below=100", "distro:0.05",
       "adasum", "oktopk:0.02", "oktopk:0.02,residual=off", "oktopk:0.02,dense_below=100+q:4",
       "lowrank:2", "lowrank:2,error=own", "lowrank:2,residual=off",
       "update:2+topk:0.02", "topk:0.02,dense_below=100+ef21", "gtopk:0.02,warmup=2+ef21:0.5", "dense+q:6+ef21",
       "randk:0.1", "randk:0.1,residual=off", "randk:0.1,dense_below=100", "sign", "sign:64,via=gather,dense_below=100"]
TROUBLES = [("bad=2", "skip"), ("bad=2",), ("high=2", "skip"), ("high=2",), ("ignore",)]

SOCKETS = [("dense", 3), ("gtopk:0.05", 4), ("qsgd:4", 3), ("topk:0.05,dense_below=100", 2), ("local:2", 3)]


def conform_specs():
    text = (HERE.parent / "support" / "support_conform.c").read_text()
    table = re.search(r"conform_specs\[\] = \{(.*?)\};", text, re.S).group(1)
    return re.findall(r'"([^"]+)"', table)


class WithDriver(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.driver = build_driver(os.environ["GRADWIRE_SOURCE"], os.environ["GRADWIRE_BUILD"],
                                  pathlib.Path(cls.folder.name) / "capture_driver")
        print(f"GW_TEST_SEED={SEED}", flush=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def capture(self, spec, workers, steps=STEPS, model="small", *words):
        return capture(self.driver, spec, workers, steps, SEED, model, words)


class Runs(WithDriver):
    """Every run is followed to its end, and nothing is left over."""

    def explain(self, spec, workers, steps=STEPS, model="small", *words, until=None):
        run = self.capture(spec, workers, steps, model, *words)
        with self.subTest(spec, workers=workers, model=model, words=words):
            format_reader.explain_run(run, until)
        return run

    def test_every_spec(self):
        for spec in os.environ.get("GW_TEST_SPECS", "").split() or conform_specs():
            for workers in (2, 3, 5):
                self.explain(spec, workers)

    def test_more_specs(self):
        for spec in SPECS:
            for workers in (2, 3):
                self.explain(spec, workers)

    def test_every_recipe_is_there(self):
        names = subprocess.run([str(self.driver), "recipes"], stdout=subprocess.PIPE, text=True,
                               check=True).stdout.split()
        there = {spec.split(":")[0].split("+")[0] for spec in conform_specs()}
        self.assertGreaterEqual(len(names), 11)
        self.assertEqual(set(names) - there, set())

    def test_lengths_and_models(self):
        for row in RUNS:
            self.explain(*row)

    def test_one_worker_sends_nothing(self):
        for spec in conform_specs():
            self.assertEqual(self.capture(spec, 1).messages, [], spec)

    def test_bad_numbers(self):
        for spec in BAD:
            for words in TROUBLES:
                self.explain(spec, 3, 4, "small", *words)

    def test_collectives(self):
        for workers in (2, 3, 5):
            self.explain("collectives", workers, 1, "tiny")

    def test_sockets(self):
        for spec, workers in SOCKETS:
            run = self.explain(spec, workers, STEPS, "small", "sockets")
            self.assertTrue(all(end.goodbye for end in run.ends.values()))

    def test_a_failure_on_sockets(self):
        # Others may still be in step 2 when worker 1 is through it and fails.
        run = self.explain("dense", 3, 4, "small", "sockets", "fail=2", until=1)
        for (sender, _), end in run.ends.items():
            self.assertFalse(end.goodbye)
            if sender == 1:
                self.assertIn("enough is enough", end.reason)


class Damage(WithDriver):
    """The reader would notice if anything were different."""

    def noticed(self, run, what):
        with self.assertRaises((Unexplained, UnicodeDecodeError), msg=what):
            format_reader.explain_run(run)

    def test_messages(self):
        """One bit of one message, one number of a result, one message less or more."""
        rng = random.Random(SEED)
        for spec in conform_specs():
            run = self.capture(spec, 3)
            place = rng.randrange(len(run.messages))
            sender, receiver, data = run.messages[place]
            bit = rng.randrange(8 * len(data))
            damaged = bytearray(data)
            damaged[bit // 8] ^= 1 << bit % 8
            run.messages[place] = sender, receiver, bytes(damaged)
            self.noticed(run, f"{spec}: bit {bit} of message {place}")
            run.messages[place] = sender, receiver, data + b"\0"
            self.noticed(run, f"{spec}: message {place} is longer")
            del run.messages[place]
            self.noticed(run, f"{spec}: message {place} is missing")

    def test_results(self):
        for spec in conform_specs()[SEED % 3::3]:
            run = self.capture(spec, 3)
            for name in ("update", "after", "finish"):
                key = max(k for k in run.vectors if k[0] == name)
                good = run.vectors[key][1]
                run.vectors[key][1] = good.copy()
                run.vectors[key][1][7] += 0.5
                self.noticed(run, f"{spec}: {name}")
                run.vectors[key][1] = good

    def test_states(self):
        rng = random.Random(SEED)
        for spec in conform_specs()[SEED % 3::3]:
            run = self.capture(spec, 2)
            state = bytearray(run.states[3][1])
            at = rng.randrange(len(state) - 8)
            state[at] ^= 1 << rng.randrange(8)
            state[-8:] = fnv1a(state[:-8]).to_bytes(8, "little")
            run.states[3][1] = bytes(state)
            self.noticed(run, f"{spec}: byte {at} of a state")


class Checks(unittest.TestCase):
    def test_crc32c(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)
        data = random.Random(SEED).randbytes(100000)
        for length in (0, 1, 511, 4096, 5000, 100000):
            slow = 0xFFFFFFFF
            for byte in data[:length]:
                slow ^= byte
                for _ in range(8):
                    slow = slow >> 1 ^ (0x82F63B78 if slow & 1 else 0)
            self.assertEqual(crc32c(data[:length]), slow ^ 0xFFFFFFFF)


if __name__ == "__main__":
    unittest.main()
