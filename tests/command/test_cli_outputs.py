# SPDX-License-Identifier: Apache-2.0
#
# test_cli_outputs.py - flags that name a file to write: devices and FIFOs are written to and
# stay what they are, links stay links, a full device is exit status 1, two commands may write
# to one name at once, a name that cannot be written is found before a run has begun, and closed
# standard streams are not mistaken for files.
import glob
import json
import os
import shutil
import stat
import subprocess
import tempfile
import threading

from support_checks import GRADWIRE, check, expect_error, finish, run, succeed

SMALL = ["train", "--data", "synthetic:train=400,test=50,dim=20,classes=4", "--batch", "8",
         "--model", "softmax", "--workers", "2", "--steps", "5", "--quiet"]


def commands(folder):
    """Each flag that names a file to write, as (name, arguments for that file, what the bytes
    must begin with). The arguments may be given again and again."""
    train = [*SMALL, "--out", f"{folder}/run", "--force", "--checkpoint-every", "2"]
    all_of_them = [
        ("--export", lambda to: [*train, "--export", to], None),
        ("--record-gradient", lambda to: [*train, "--record-gradient", to], None),
        ("--trace", lambda to: [*train, "--trace", to], b'{"displayTimeUnit":'),
        ("weights export", lambda to: ["weights", "export", f"{folder}/given", to], None),
        ("report -o", lambda to: ["report", f"{folder}/given", "-o", to], b"<!doctype html>"),
    ]
    succeed(*SMALL, "--out", f"{folder}/given", "--checkpoint-every", "2")
    if "has no report page" in run("report", f"{folder}/given", "-o", f"{folder}/page").stderr:
        all_of_them.pop()
    return all_of_them


def kind(path):
    return stat.S_IFMT(os.lstat(path).st_mode)


def full_device(folder):
    """A device of our own like /dev/full, for whoever could replace the real one."""
    path = f"{folder}/full"
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
        os.close(os.open(path, os.O_WRONLY))
        return path
    except OSError:
        return None if os.access("/dev", os.W_OK) else "/dev/full"


def into_full_device(name, args, folder):
    path = full_device(folder)
    if path is None:
        print("no full device is tried: this folder can have none")
        return
    expect_error(1, ["cannot write", path, "No space left"], *args(path))
    check(kind(path) == stat.S_IFCHR, f"{name}: the device was replaced")


def right(name, data, begin, expected):
    if begin is not None:
        return data.lower().startswith(begin.lower())
    return data == expected


def into_fifo(name, args, begin, expected, folder):
    path, got = f"{folder}/fifo", []
    os.mkfifo(path)
    # Both ends are held open until the command has ended, so that nobody waits for ever.
    keep = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    end = os.open(path, os.O_RDONLY)
    reader = threading.Thread(target=lambda: got.extend(iter(lambda: os.read(end, 1 << 16), b"")))
    reader.start()
    succeed(*args(path))
    os.close(keep)
    reader.join()
    os.close(end)
    data = b"".join(got)
    check(kind(path) == stat.S_IFIFO, f"{name}: the FIFO was replaced")
    check(right(name, data, begin, expected), f"{name}: {len(data)} bytes came out of the FIFO")
    os.unlink(path)


def through_link(name, args, begin, expected, folder):
    for old in (True, False):
        os.mkdir(f"{folder}/far")
        target, link = f"{folder}/far/target", f"{folder}/link"
        if old:
            open(target, "w").close()
        os.symlink("far/target", link)
        succeed(*args(link))
        check(kind(link) == stat.S_IFLNK, f"{name}: the link was replaced")
        data = open(target, "rb").read() if os.path.exists(target) else b""
        check(right(name, data, begin, expected), f"{name}: {len(data)} bytes behind the link")
        check(os.listdir(f"{folder}/far") == ["target"], f"{name}: {os.listdir(folder + '/far')}")
        os.unlink(link)
        shutil.rmtree(f"{folder}/far")


def into_stdout(name, args, begin, expected, folder):
    """By a link like /dev/stdout, which is not risked itself."""
    link = f"{folder}/stdout"
    os.symlink("/proc/self/fd/1", link)
    r = subprocess.run([GRADWIRE, *args(link)], capture_output=True, timeout=120)
    check(kind(link) == stat.S_IFLNK, f"{name}: the link to standard output was replaced")
    os.unlink(link)
    check(r.returncode == 0, f"{name}: exit {r.returncode}, {r.stderr!r}")
    data = r.stdout if name in ("report -o", "weights export") else r.stdout[:len(expected)]
    check(right(name, data, begin, expected), f"{name}: standard output: {data[:60]!r}")
    if name == "report -o":
        check(data.rstrip().endswith(b"</html>"), f"{name}: ends with {data[-60:]!r}")


def compare_into_full_device(folder):
    """The page of a comparison is written like any other."""
    args = ["compare", "--sync", "dense", "--out", folder, *SMALL[1:-1]]
    r = succeed(*args)
    if "no report page" in r.stderr:
        return
    os.unlink(f"{folder}/report.html")
    device = full_device(folder)
    if device is None:
        return
    os.symlink(device, f"{folder}/report.html")
    r = run(*args)
    check(r.returncode == 1 and "cannot write" in r.stderr and "No space left" in r.stderr,
          f"compare: exit {r.returncode}, {r.stderr!r}")
    check(kind(device) == stat.S_IFCHR and kind(f"{folder}/report.html") == stat.S_IFLNK,
          "compare: the device or the link was replaced")


def standard_output_is_full(folder):
    """Also where a command flushes on its way, or prints more than a buffer holds."""
    device = full_device(folder)
    if device is None:
        return
    for args in (["compare", "--sync", "dense", "--out", folder, *SMALL[1:-1]],
                 ["help", "--completion", "bash"]):
        with open(device, "wb") as full:
            r = subprocess.run([GRADWIRE, *args], stdout=full, stderr=subprocess.PIPE, timeout=120)
        check(r.returncode == 1 and b"gradwire: cannot write to standard output" in r.stderr,
              f"{args[:2]}: exit {r.returncode}, {r.stderr!r}")


def two_at_once(folder):
    """Two exports to one name, many times: what is there is always one of the two, whole."""
    succeed(*SMALL, "--seed", "2", "--out", f"{folder}/other", "--checkpoint-every", "2")
    whole = []
    for i, source in enumerate(["given", "other"]):
        succeed("weights", "export", f"{folder}/{source}", f"{folder}/whole-{i}")
        whole.append(open(f"{folder}/whole-{i}", "rb").read())
    check(whole[0] != whole[1], "the two files should differ")
    for _ in range(20):
        both = [subprocess.Popen([GRADWIRE, "weights", "export", f"{folder}/{source}",
                                  f"{folder}/shared"], stderr=subprocess.PIPE)
                for source in ("given", "other")]
        for one in both:
            err = one.communicate(timeout=60)[1]
            check(one.returncode == 0, f"two exports: exit {one.returncode}, {err!r}")
        check(open(f"{folder}/shared", "rb").read() in whole, "two exports: a mixture is left")


def found_before(folder):
    """A name that cannot be written ends the command before anything is trained or removed."""
    succeed(*SMALL, "--out", f"{folder}/old", "--checkpoint-every", "2")
    old = open(f"{folder}/old/metrics.jsonl").read()

    def stays(*flags):
        expect_error(1, ["cannot", "nowhere"], *SMALL, "--out", f"{folder}/old", "--force", *flags)
        there = sorted(os.listdir(f"{folder}/old"))
        check("summary.json" in there and "checkpoint-000003.gwc" in there and
              open(f"{folder}/old/metrics.jsonl").read() == old,
              f"{flags}: the old run is gone: {there}")

    for flag in ("--export", "--record-gradient", "--trace"):
        stays(flag, f"{folder}/nowhere/file")
        expect_error(1, ["cannot write", "nowhere"], *SMALL, "--out", f"{folder}/new", flag,
                     f"{folder}/nowhere/file")
        check(not os.path.exists(f"{folder}/new/metrics.jsonl"), f"{flag}: it was trained")
    stays("--init", f"{folder}/nowhere")
    # A file beside the log of a run that is yet to be made.
    for flag in ("--export", "--record-gradient", "--trace"):
        succeed(*SMALL, "--out", f"{folder}/inside{flag}", flag, f"{folder}/inside{flag}/file")
        check(os.path.exists(f"{folder}/inside{flag}/file"), f"{flag}: no file in the run")


def is_record(line):
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def closed_streams(folder):
    """Whichever standard streams are closed, nothing but records is in the log."""
    args = [GRADWIRE, *SMALL[:-1], "--steps", "200"]
    for i, closed in enumerate(["<&-", ">&-", "2>&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"]):
        for out in (["--out", "run"], []):
            place = f"{folder}/closed-{i}-{len(out)}"
            os.mkdir(place)
            r = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *args, *out], cwd=place,
                               capture_output=True, timeout=120)
            # The table at the end has nowhere to go if standard output is closed.
            expected = 1 if ">&-" in closed.split() else 0
            check(r.returncode == expected, f"{closed}: exit {r.returncode}, {r.stderr!r}")
            logs = glob.glob(f"{place}/**/metrics.jsonl", recursive=True)
            lines = open(logs[0], "rb").read().splitlines() if logs else []
            check(len(lines) >= 10 and all(map(is_record, lines)),
                  f"{closed} {out}: {len(lines)} lines, not all are records")


def nothing_to_go_on_in(folder):
    """A mistyped --out of --resume makes no directory."""
    expect_error(2, ["no run directory", f"{folder}/a/b", "--resume"], *SMALL, "--resume", "--out",
                 f"{folder}/a/b")
    check(not os.path.exists(f"{folder}/a"), "--resume has made a directory")


def other_weights(folder):
    """Weights of another model are found before the old run is removed."""
    succeed(*SMALL, "--out", f"{folder}/weights", "--export", f"{folder}/weights.safetensors")
    expect_error(1, ["weight", "4 x 20", "4 x 21"], *SMALL, "--data",
                 "synthetic:train=400,test=50,dim=21,classes=4", "--out", f"{folder}/old",
                 "--force", "--init", f"{folder}/weights.safetensors")
    check(os.path.exists(f"{folder}/old/summary.json"), "--init: the old run is gone")


with tempfile.TemporaryDirectory() as folder:
    for name, args, begin in commands(folder):
        plain = f"{folder}/plain"
        succeed(*args(plain))
        expected = open(plain, "rb").read()
        check(right(name, expected, begin, expected) and len(expected) > 0, f"{name}: a file")
        into_fifo(name, args, begin, expected, folder)
        through_link(name, args, begin, expected, folder)
        into_stdout(name, args, begin, expected, folder)
        os.unlink(plain)
        with tempfile.TemporaryDirectory() as devices:
            into_full_device(name, args, devices)
    with tempfile.TemporaryDirectory() as devices:
        compare_into_full_device(devices)
    with tempfile.TemporaryDirectory() as devices:
        standard_output_is_full(devices)
    two_at_once(folder)
    found_before(folder)
    closed_streams(folder)
    nothing_to_go_on_in(folder)
    other_weights(folder)
    left = glob.glob(f"{folder}/**/*partial*", recursive=True)
    check(not left, f"partial files are left: {left}")
finish()
