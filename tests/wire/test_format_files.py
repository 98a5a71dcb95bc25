# SPDX-License-Identifier: Apache-2.0
"""test_format_files.py - tests/wire/format_reader.py reads the checkpoints that `gradwire train`
writes with every recipe, as docs/format-files.md has them, and notices what is wrong with
others. Skipped without numpy."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import numpy as np
except ImportError:
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import format_reader  # noqa: E402
from bytes_and_checks import Unexplained  # noqa: E402
from checkpoint_file import Checkpoint, read_sections  # noqa: E402

GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])
SEED = int(os.environ.get("GW_TEST_SEED") or os.environ.get("GW_DEFAULT_SEED") or time.time_ns() % 1000000)
DATA = ["--data", "synthetic:train=300,test=30,dim=20,classes=4", "--batch", "5"]
SOFTMAX = ["--model", "softmax", *DATA]
# Spec, whether all models are equal, and other settings.
RUNS = [
    ("dense", True, []), ("none", False, []), ("topk:0.1", True, ["--momentum", "0"]),
    ("topk:0.1+momentum:0.9", True, ["--momentum", "0"]),
    ("topk:0.1+momentum:0.9,velocity=local", True, ["--momentum", "0"]),
    ("gtopk:0.1,putback=paper", True, ["--momentum", "0"]), ("drop:0.9", True, ["--momentum", "0"]),
    ("qsgd:4", True, ["--optimizer", "adam", "--lr", "0.001"]), ("a2sgd", False, []), ("local:4", False, []),
    ("local:grow,average=polyak", False, ["--optimizer", "adagrad"]), ("oneshot", False, []),
    ("spa:3", False, []), ("pqasgd:4,4", False, []), ("local:4,start=2+topk:0.1", False, []),
    ("update:2+topk:0.1", False, ["--optimizer", "adam", "--lr", "0.001"]),
]
SLOTS = {"sgd": 1, "adagrad": 1, "adam": 2, "adamw": 2}


class Files(unittest.TestCase):
    def train(self, *args):
        """Runs the command; its checkpoints, and what it says in the end."""
        self.out = pathlib.Path(self.folder.name) / f"run{len(os.listdir(self.folder.name))}"
        command = [GRADWIRE, "train", "--workers", "3", "--steps", "9", "--checkpoint-every", "4",
                   "--keep", "9", "--quiet", "--json", "--out", str(self.out), *args]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        files = sorted(self.out.glob("*.gwc"))
        self.assertGreaterEqual(len(files), 2)
        return [Checkpoint(path.read_bytes()) for path in files]

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def test_every_recipe(self):
        for spec, equal, settings in RUNS:
            with self.subTest(spec):
                for checkpoint in self.train(*SOFTMAX, "--sync", spec, *settings):
                    self.look_at(checkpoint, equal, settings)

    def look_at(self, checkpoint, equal, settings):
        checkpoint.check()
        job, sync = checkpoint.job, [w["sync"] for w in checkpoint.workers]
        self.assertEqual((job["workers"], job["models"]), (3, 1 if equal else 3))
        optimizer = settings[1] if settings[:1] == ["--optimizer"] else "sgd"
        self.assertEqual(job["slots"], SLOTS[optimizer])
        self.assertEqual(sum(s["bytes_sent"] for s in sync), sum(s["bytes_received"] for s in sync))
        log = (self.out / "metrics.jsonl").read_bytes()[:job["metrics"]]
        self.assertTrue(log == b"" or log.endswith(b"\n"))
        for line in log.splitlines():
            json.loads(line)
        if sync[0]["reference"] is not None:
            self.assertEqual(len({s["reference"].tobytes() for s in sync}), 1)
        if sync[0]["velocity"] is not None:
            common = "velocity=global" in sync[0]["spec"]
            self.assertEqual(len({s["velocity"].tobytes() for s in sync}), 1 if common else len(sync))

    def test_the_last_model(self):
        """It is that of the weights which the command exports."""
        path = pathlib.Path(self.folder.name) / "w.safetensors"
        last = self.train(*SOFTMAX, "--sync", "dense", "--steps", "8", "--export", str(path))[-1]
        data = path.read_bytes()
        head = 8 + int.from_bytes(data[:8], "little")
        self.assertEqual(last.models[0].tobytes(), data[head:])

    def test_statistics_and_carried_state(self):
        resnet = self.train("--model", "resnet20", "--data", "synthetic:train=40,test=10,classes=4,dim=3072",
                            "--batch", "2", "--steps", "8")[-1]
        resnet.check()
        self.assertGreater(resnet.job["stats"], 0)
        self.assertTrue(np.isfinite(resnet.workers[1]["stats"]).all())
        text = pathlib.Path(self.folder.name) / "text"
        text.mkdir()
        for name in ("train", "test"):
            (text / f"{name}.txt").write_text("the cat sat on the mat, the dog on the cat\n" * 60)
        lstm = self.train("--model", "lstm:8", "--data", f"text:{text}", "--batch", "2", "--sequence",
                          "5")[-1]
        lstm.check()
        self.assertGreater(lstm.job["carry"], 0)
        self.assertTrue(np.isfinite(lstm.workers[2]["carry"]).all())

    def test_damage(self):
        print(f"GW_TEST_SEED={SEED}", flush=True)
        rng = random.Random(SEED)
        self.train(*SOFTMAX, "--sync", "topk:0.1", "--momentum", "0")
        good = sorted(self.out.glob("*.gwc"))[0].read_bytes()
        format_reader.explain_checkpoint(good)
        for _ in range(20):
            bad = bytearray(good)
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            with self.assertRaises(Unexplained):
                read_sections(bytes(bad))
        for cut in [0, 7, 8, 100, len(good) - 1, rng.randrange(len(good))]:
            with self.assertRaises(Unexplained):
                read_sections(good[:cut])
        with self.assertRaises(Unexplained):
            read_sections(good + b"\0")


if __name__ == "__main__":
    unittest.main()
