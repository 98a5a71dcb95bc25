# SPDX-License-Identifier: Apache-2.0
"""What translate.py needs besides a network: sentences, words, batches, and BLEU.

A corpus is a directory with one file for each part and language, one sentence a line, its
words between spaces: train.en and train.de, or train.en.gz and train.de.gz, and so on.
Line n of one language is the translation of line n of the other.
"""
import collections
import gzip
import math
import random
from pathlib import Path

PAD, BEGIN, END, UNKNOWN = range(4)
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
POOL = 40  # batches that are sorted together; more wastes less padding, and mixes less


class CorpusError(Exception):
    """What is wrong with a corpus, in one line."""


def read_lines(directory, part, language):
    name = f"{part}.{language}"
    for path in (Path(directory) / name, Path(directory) / f"{name}.gz"):
        if path.exists():
            opener = gzip.open if path.suffix == ".gz" else open
            try:
                with opener(path, "rt", encoding="utf-8") as f:
                    return [line.split() for line in f]
            except (OSError, EOFError, UnicodeDecodeError) as error:
                raise CorpusError(f"{path} cannot be read: {error}") from None
    raise CorpusError(f"there is no {name} or {name}.gz in {directory}: give the "
                      "directory of the corpus by --data-dir")


def read_pairs(directory, part, languages=("en", "de"), limit=None):
    """[(words, words of the translation)], without pairs of which one is empty."""
    source, target = (read_lines(directory, part, language) for language in languages)
    if len(source) != len(target):
        raise CorpusError(f"{part} has {len(source)} lines of {languages[0]} and "
                          f"{len(target)} of {languages[1]}: they must be translations, "
                          "line by line")
    pairs = [pair for pair in zip(source, target) if pair[0] and pair[1]][:limit]
    if not pairs:
        raise CorpusError(f"there is no sentence in {part} of {directory}")
    return pairs


# ---- words ---------------------------------------------------------------------


class Vocabulary:
    """Words and their numbers: the most frequent, of equally frequent ones those that
    come first in the alphabet. All others are <unk>."""

    def __init__(self, sentences, least=1, most=None):
        counts = collections.Counter(word for words in sentences for word in words)
        seen = sorted((w for w in counts if counts[w] >= least),
                      key=lambda word: (-counts[word], word))
        self.words = SPECIAL + seen[:None if most is None else max(0, most - len(SPECIAL))]
        self.numbers = {word: number for number, word in enumerate(self.words)}

    def __len__(self):
        return len(self.words)

    def encode(self, words, longest):
        return [self.numbers.get(word, UNKNOWN) for word in words[:longest]]

    def decode(self, numbers):
        """The words before the first </s>."""
        words = []
        for number in numbers:
            if number == END:
                break
            words.append(self.words[number])
        return words


def padded(rows):
    """Rows of numbers as rows of equal length."""
    length = max(map(len, rows))
    return [row + [PAD] * (length - len(row)) for row in rows]


# ---- batches -------------------------------------------------------------------


def batches(pairs, rank, workers, batch, seed):
    """The pairs of one worker in one epoch, batch by batch: all workers shuffle alike,
    each takes its own. Sentences of a batch, and of the batches that the workers have at
    the same time, are of similar length. What is left over in the end is not used."""
    order, shuffler = list(pairs), random.Random(seed)
    shuffler.shuffle(order)
    size = batch * workers
    common = []
    for begin in range(0, len(order), POOL * size):
        pool = sorted(order[begin:begin + POOL * size],
                      key=lambda pair: (len(pair[0]), len(pair[1])))
        common += [pool[i:i + size] for i in range(0, len(pool) - size + 1, size)]
    shuffler.shuffle(common)
    for pool in common:
        yield pool[rank::workers]


# ---- BLEU ----------------------------------------------------------------------


def grams(words, n):
    return collections.Counter(tuple(words[i:i + n]) for i in range(len(words) - n + 1))


def bleu(translations, references):
    """Corpus BLEU-4 in percent, one reference each, not smoothed: the geometric mean of
    the shares of 1- to 4-grams that are in the reference (each as often as there at
    most), times exp(1 - r/c) if the c words of the translations are fewer than the r of
    the references."""
    if len(translations) != len(references):
        raise ValueError(f"{len(translations)} translations, {len(references)} references")
    right, total = [0] * 4, [0] * 4
    for words, reference in zip(translations, references):
        for n in range(4):
            mine, theirs = grams(words, n + 1), grams(reference, n + 1)
            right[n] += sum((mine & theirs).values())
            total[n] += sum(mine.values())
    if min(right) == 0:
        return 0.0
    made, wanted = sum(map(len, translations)), sum(map(len, references))
    precision = sum(math.log(r / t) for r, t in zip(right, total)) / 4
    return 100 * math.exp(precision + min(0.0, 1 - wanted / made))
