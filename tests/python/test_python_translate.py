#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python/examples/translate.py: BLEU, batches, training on a toy corpus, what it says when
something is wrong. A toy translation replaces every word by its partner."""
import contextlib
import io
import math
import os
import random
import subprocess
import sys
import tempfile

import torch_crew
import torch_example

torch_crew.skip_without("numpy", "torch")
EXAMPLES = os.path.join(os.environ["GRADWIRE_SOURCE"], "python", "examples")
sys.path.insert(0, EXAMPLES)
import translation

if torch_crew.is_worker():  # the others need neither, and both take a while to load
    import torch
    import torch.distributed as dist

    import gradwire
    import translate

SMALL = ("--embedding", "24", "--hidden", "24", "--batch", "16", "--lr", "0.01", "--longest",
         "8", "--least", "1")


# ---- without workers -----------------------------------------------------------


def near(a, b):
    assert abs(a - b) < 1e-9, f"{a} is not {b}"


def bleu_by_hand():
    mat, ref = "the cat sat on the mat".split(), "the cat sat on a mat".split()
    near(translation.bleu([ref], [ref]), 100)
    # 5 of 6 words ("the" counts once), 3 of 5 pairs, 2 of 4 triples, 1 of 3 quadruples
    near(translation.bleu([mat], [ref]), 100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
    near(translation.bleu(["a b c d".split()], ["a b c d e f".split()]), 100 * math.exp(-0.5))
    # A longer translation pays by its precision alone: 4/6, 3/5, 2/4, 1/3.
    near(translation.bleu(["a b c d x y".split()], ["a b c d".split()]),
         100 * (4 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
    # Counts of all sentences are added first: 10/11, 8/9, 6/7, 4/5, 11 words of 12.
    near(translation.bleu(["a b c d e x".split(), "f g h i j".split()],
                          ["a b c d e f".split(), "f g h i j k".split()]),
         100 * (10 / 11 * 8 / 9 * 6 / 7 * 4 / 5) ** 0.25 * math.exp(1 - 12 / 11))
    # Not smoothed: without a common quadruple it is 0, as it is for nothing at all.
    assert translation.bleu(["a b c x".split()], ["a b c d".split()]) == 0
    assert translation.bleu([[]], ["a b c d".split()]) == 0


def words_and_batches():
    words = translation.Vocabulary([["b", "a", "b"], ["c", "a", "b"]], least=2)
    assert words.words == translation.SPECIAL + ["b", "a"], words.words
    assert words.encode(["a", "c", "b"], 2) == [5, translation.UNKNOWN]
    assert words.decode([4, 5, translation.END, 4]) == ["b", "a"]
    assert len(translation.Vocabulary([["b", "a"]], most=5)) == 5
    assert translation.padded([[1], [1, 2]]) == [[1, translation.PAD], [1, 2]]

    rng = random.Random(2)
    pairs = [([i] * rng.randint(1, 9), [i]) for i in range(103)]
    both = [list(translation.batches(pairs, rank, 2, 5, seed=3)) for rank in (0, 1)]
    assert [len(b) for b in both] == [10, 10] and all(len(b) == 5 for b in both[0] + both[1])
    seen = [pair[1][0] for b in both[0] + both[1] for pair in b]
    assert len(set(seen)) == 100, "a sentence came twice"
    assert both[0] == list(translation.batches(pairs, 0, 2, 5, seed=3))
    assert both[0] != list(translation.batches(pairs, 0, 2, 5, seed=4))


def corpora(directory):
    torch_crew.raises(translation.CorpusError, "there is no train.en or train.en.gz in",
                      lambda: translation.read_pairs(os.path.join(directory, "x"), "train"))
    for name, lines in (("a.en", "one\n"), ("a.de", "eins\nzwei\n"), ("b.en", "\n"), ("b.de", "\n")):
        with open(os.path.join(directory, name), "w") as f:
            f.write(lines)
    torch_crew.raises(translation.CorpusError, "1 lines of en and 2 of de",
                      lambda: translation.read_pairs(directory, "a"))
    torch_crew.raises(translation.CorpusError, "there is no sentence",
                      lambda: translation.read_pairs(directory, "b"))
    with open(os.path.join(directory, "c.en.gz"), "wb") as f:
        f.write(b"not gzip")
    torch_crew.raises(translation.CorpusError, "cannot be read",
                      lambda: translation.read_pairs(directory, "c"))


def ends_with(status, text, *words, **env):
    r = subprocess.run([sys.executable, os.path.join(EXAMPLES, "translate.py"), *words],
                       env=dict(os.environ, **env), capture_output=True, text=True)
    assert r.returncode == status and text in r.stderr, (r.returncode, r.stderr)
    assert r.stderr.count("\n") == 1, r.stderr


def ends_early(directory):
    ends_with(2, "torchrun starts it")
    ends_with(2, "'dropp'", "--sync", "dropp:0.9", RANK="0")
    ends_with(1, "no train.en", "--data-dir", directory, RANK="0")


# ---- with two workers ----------------------------------------------------------


def padding_changes_nothing(rank, workers):
    torch.manual_seed(1)
    for norm in (False, True):
        model = translate.Translator(20, 20, 12, 16, norm).eval()
        short, long = torch.tensor([[4, 5, 6]]).t(), torch.tensor([[7, 8, 9, 10, 11]]).t()
        both = torch.tensor([[4, 5, 6, 0, 0], [7, 8, 9, 10, 11]]).t()
        target = torch.tensor([[1, 9, 8, 2]]).t()
        alone = [model(short, target), model(long, target)]
        together = model(both, torch.cat([target, target], 1)).split(3)
        for a, b in zip(alone, together):
            assert torch.allclose(a, b, atol=1e-5), (a - b).abs().max()


def wrong_usage(words, text):
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            translate.parse(words)
    except SystemExit as end:
        assert end.code == 2 and text in said.getvalue(), said.getvalue()
        assert said.getvalue().count("\n") == 1, said.getvalue()
        return
    raise AssertionError(f"{words} was accepted")


def usage(rank, workers):
    """Only worker 0 speaks."""
    if rank == 0:
        wrong_usage(["--lr", "-1"], "--lr: -1 is not above 0")
        wrong_usage(["--steps", "many"], "--steps: invalid number value: 'many'")
        wrong_usage(["--json", "/nowhere/at/all.json"], "there is no directory")


def trained(*words):
    args = translate.parse(["--data-dir", os.environ["TOY_CORPUS"], *SMALL, *words])
    with contextlib.redirect_stdout(io.StringIO()):
        training = translate.train(args, translate.Corpus(args))
    flat = torch.cat([p.detach().reshape(-1) for p in training.model.parameters()])
    return training, flat


def equal_on_all(flat):
    everybody = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, flat)
    return all(torch.equal(flat, other) for other in everybody)


def learns(rank, workers):
    training, flat = trained("--epochs", "100", "--steps", "150", "--sync", "drop:0.9",
                             "--layer-norm")
    assert equal_on_all(flat)
    found = translate.summary(training)
    assert found["bleu"] > 40, found
    assert found["steps"] == 150 and found["workers"] == 2
    assert found["params"] == flat.numel() and found["version"] == gradwire.version()
    assert found["step_s"] > 0 and found["bytes_sent"] > 0
    training.handle.detach()


def same_again(rank, workers):
    words = ("--steps", "6", "--sync", "drop:0.9+2bit", "--layer-norm")
    runs = [trained(*words), trained(*words), trained(*words, "--seed", "2")]
    assert torch.equal(runs[0][1], runs[1][1]), "the same seed gave another model"
    assert not torch.equal(runs[0][1], runs[2][1])
    for training, _ in runs:
        training.handle.detach()


def alone(rank, workers):
    """Without exchange every worker has a model of its own."""
    training, flat = trained("--steps", "3", "--sync", "none")
    assert not equal_on_all(flat)
    training.handle.detach()


def too_few(rank, workers):
    torch_crew.raises(translation.CorpusError, "give a smaller --batch",
                      lambda: trained("--limit", "31", "--steps", "3"))


def main():
    if torch_crew.is_worker():
        torch_crew.main([padding_changes_nothing, usage, same_again, alone, too_few, learns],
                        [2])
        return
    bleu_by_hand()
    words_and_batches()
    with tempfile.TemporaryDirectory() as directory:
        corpora(directory)
        ends_early(directory)
        torch_example.make_corpus(directory)
        os.environ["TOY_CORPUS"] = directory
        torch_crew.main([], [2])


main()
