# SPDX-License-Identifier: Apache-2.0
#
# test_cli_own_data.py - the command trains on files of the user's own, as other programs
# write them: a table, one text, arrays of numpy and archives of them; --limit. What is
# wrong with a file is one line.
import io
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import zipfile

GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def train(tmp, *args):
    r = subprocess.run([GRADWIRE, "train", "--workers", "2", "--spawn", "threads", "--json", *args,
                        "--out", f"{tmp}/run", "--force"], capture_output=True, timeout=120)
    return r.returncode, r.stdout.decode(), r.stderr.decode()


def summary(tmp, *args):
    code, out, err = train(tmp, *args)
    check(code == 0, f"{args}: exit {code}, {err!r}")
    return json.loads(out) if code == 0 else {}, err


def refused(tmp, words, *args):
    code, out, err = train(tmp, *args)
    what = f"{args}: exit {code}, {err!r}"
    check(code in (1, 2) and err.count("\n") == 1 and out == "", what + ": not one line")
    check(all(w in err for w in words), what + f": lacks one of {words}")


def npy(kind, shape, values):
    """An array as numpy.save() writes it."""
    code = {"|u1": "B", "<i8": "q", "<f4": "f", "<f8": "d"}[kind]
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return (b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode()
            + struct.pack(f"<{len(values)}{code}", *values))


def arrays(rng, kind, channels=None):
    """Bright or dark pictures of 4 x 4."""
    files = {}
    for part, count in (("train", 200), ("test", 40)):
        labels = [rng.randrange(2) for _ in range(count)]
        pixels = [rng.randrange(128) + 127 * y for y in labels for _ in range(16)]
        if kind != "|u1":
            pixels = [p / 255 for p in pixels]
        shape = (count, 4, 4) if channels is None else (count, channels, 4, 4 // channels)
        files[f"x_{part}.npy"] = npy(kind, shape, pixels)
        files[f"y_{part}.npy"] = npy("<i8", (count,), labels)
    return files


def archive(files, method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, data in files.items():
            z.writestr(name, data)
    return out.getvalue()


def put(path, data):
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return path


def arrays_and_archives(tmp, rng):
    files = arrays(rng, "|u1")
    os.makedirs(f"{tmp}/arrays")
    for name, data in files.items():
        put(f"{tmp}/arrays/{name}", data)
    put(f"{tmp}/stored.npz", archive(files, zipfile.ZIP_STORED))
    put(f"{tmp}/packed.npz", archive(files, zipfile.ZIP_DEFLATED))
    flags = ["--model", "softmax", "--batch", "10", "--epochs", "20"]
    results = [summary(tmp, *flags, "--data", d)[0] for d in
               (f"npy:{tmp}/arrays", f"npz:{tmp}/stored.npz", f"npz:{tmp}/packed.npz")]
    check(len({r.get("model_hash") for r in results}) == 1, "three ways, three models")
    check(results[0].get("test_accuracy", 0) > 0.9, f"nothing learnt: {results[0]}")
    for kind in ("<f4", "<f8"):
        put(f"{tmp}/floats.npz", archive(arrays(rng, kind), zipfile.ZIP_DEFLATED))
        check(summary(tmp, *flags, "--data", f"npz:{tmp}/floats.npz")[0].get("test_accuracy", 0) > 0.9,
              f"nothing learnt from {kind}")
    put(f"{tmp}/colour.npz", archive(arrays(rng, "|u1", 2), zipfile.ZIP_DEFLATED))
    summary(tmp, *flags, "--data", f"npz:{tmp}/colour.npz")
    bad_archives(tmp, files)


def bad_archives(tmp, files):
    good = archive(files, zipfile.ZIP_DEFLATED)
    flags = ["--model", "softmax", "--data", f"npz:{tmp}/bad.npz"]
    lacking = {k: v for k, v in files.items() if k != "y_test.npy"}
    for data, words in [(good[:-40], ["damaged"]), (b"", ["damaged"]),
                        (archive(lacking, zipfile.ZIP_STORED), ["no array y_test.npy"]),
                        (good[:200] + b"\0\0\0" + good[203:], ["damaged"]),
                        (archive({**files, "x_test.npy": b"junk"}, zipfile.ZIP_STORED),
                         ["x_test.npy", "not an array"]),
                        (archive(files, zipfile.ZIP_BZIP2), ["savez_compressed"])]:
        put(f"{tmp}/bad.npz", data)
        refused(tmp, [f"{tmp}/bad.npz", *words], *flags)
    refused(tmp, ["none.npz"], "--data", f"npz:{tmp}/none.npz")
    refused(tmp, ["npz:FILE"], "--data", "npz")
    refused(tmp, ["npy:DIR"], "--data", "npy:")


def tables(tmp, rng):
    """Sorted by class, as many tables are; sizes that differ by a million."""
    rows = [f"{1e6 * k + rng.gauss(0, 1e5):.1f},{rng.gauss(0, 1e-3):.6f},{name}"
            for k, name in enumerate(("setosa", "versicolor", "virginica")) for _ in range(60)]
    table = put(f"{tmp}/iris.csv", "length,width,kind\n" + "\n".join(rows) + "\n")
    flags = ["--model", "softmax", "--batch", "8", "--epochs", "30"]
    result, err = summary(tmp, *flags, "--data", f"csv:{table}")
    check(result.get("test_accuracy", 0) > 0.9, f"nothing learnt from a table: {result}")
    check("note: " in err and "3 classes" in err and "every tenth row" in err, err)
    check(result.get("test_samples") == 18, f"{result}")
    summary(tmp, "--model", "least-squares", "--batch", "8", "--lr", "0.01", "--momentum", "0",
            "--data", f"csv:{put(tmp + '/line.csv', ''.join(f'{i},{2 * i + 0.5}' + chr(10) for i in range(50)))}")
    refused(tmp, ["line 5, column 2", "'x'"], "--data",
            f"csv:{put(tmp + '/bad.csv', 'a,b,c' + chr(10) + '1,2,0' + chr(10) * 3 + '1,x,0' + chr(10))}")
    check(summary(tmp, *flags, "--data", table)[0]["model_hash"] == result["model_hash"], "a table by its name alone")
    refused(tmp, [f"{tmp}/none.csv"], "--data", f"{tmp}/none.csv")
    refused(tmp, ["iris.dat'", "csv:FILE"], "--data", f"{tmp}/iris.dat")
    refused(tmp, ["csv:FILE"], "--data", "csv")


def one_text(tmp, rng):
    words = "the end of it all is a rest and so it goes".split()
    prose = "\n".join(" ".join(rng.choices(words, k=9)) for _ in range(300))
    text = put(f"{tmp}/book.txt", prose + "\nthese words are new\n")
    flags = ["--sequence", "6", "--batch", "4", "--epochs", "1", "--lr", "1", "--momentum", "0"]
    for options in ("", ",vocab=8", ",by=byte", ",by=word,vocab=100"):
        result, err = summary(tmp, "--model", "lstm:8", "--data", f"text:{text}{options}", *flags)
        check("90 %" in err, f"the split is not told: {err!r}")
        check(result.get("perplexity", 0) > 1, f"{options}: {result}")
        check(result["tokens_per_s"] > 0 and summary(tmp, "--model", "lstm:8", "--data", text + options, *flags)[0][
            "model_hash"] == result["model_hash"], f"{options}: a text by its name alone")
    refused(tmp, ["text:FILE"], "--model", "lstm:8", "--data", "text:")


def limits(tmp, rng):
    data = ["--model", "softmax", "--batch", "5", "--epochs", "2", "--data",
            "synthetic:train=400,test=50,dim=20,classes=4"]
    result, _ = summary(tmp, *data, "--limit", "60")
    check(result.get("steps") == 12 and result.get("test_samples") == 50, f"--limit: {result}")
    check(summary(tmp, *data, "--limit", "999")[0]["model_hash"] == summary(tmp, *data)[0]["model_hash"],
          "--limit above the number of samples changes the run")
    refused(tmp, ["--batch smaller"], *data, "--limit", "9")
    saved = ["--checkpoint-every", "4", *data, "--lr-schedule", "constant"]
    whole, _ = summary(tmp, *saved, "--limit", "60")
    code, out, err = train_again(tmp)
    check(code == 0 and json.loads(out)["model_hash"] == whole["model_hash"], f"--limit is not saved: {err!r}")
    code, out, err = train_again(tmp, "--limit", "70")
    check(code == 2 and "--limit 60, but this run has 70" in err and "samples" not in err,
          f"another --limit: {err!r}")


def train_again(tmp, *args):
    r = subprocess.run([GRADWIRE, "train", "--resume", "--out", f"{tmp}/run", "--json", *args],
                       capture_output=True, timeout=120)
    return r.returncode, r.stdout.decode(), r.stderr.decode()


with tempfile.TemporaryDirectory() as folder:
    source = random.Random(5)
    arrays_and_archives(folder, source)
    tables(folder, source)
    one_text(folder, source)
    limits(folder, source)
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
