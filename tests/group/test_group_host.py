# SPDX-License-Identifier: Apache-2.0
#
# test_group_host.py - a worker that runs the meeting of its job itself (train --meet): the same
# model as on one machine, an end that leaves nobody alone, and workers on another host that find
# the one that calls its meeting at 127.0.0.1. The hosts are network namespaces.
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from support_checks import GRADWIRE, check, expect_error, finish, run, succeed

SMALL = ["--model", "softmax", "--data", "synthetic:train=400,test=50,dim=20,classes=4", "--batch", "8", "--seed", "3"]
ENDLESS = ["--steps", 10**9, "--eval-every", 0]
INSIDE, THIS = "--inside", os.path.abspath(__file__)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def start(*args, before=()):
    return subprocess.Popen([*before, GRADWIRE, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def train(*args, before=()):
    return start("train", *SMALL, "--key-file", "job.key", *args, before=before)


def await_line(process, words):
    """Reads what a worker says until a line has the words in it."""
    for line in process.stderr:
        if words in line:
            return line
    check(False, f"a worker ended before it said '{words}'")
    return ""


def port_of(host):
    return re.search(r"tcp://\S+:(\d+)'", await_line(host, "others join by")).group(1)


def hash_of(ends):
    """What the worker that joined first has printed."""
    return json.loads("".join(out for out, _ in ends))["model_hash"]


def same_model():
    flags = ["--sync", "topk:0.1", "--epochs", 4, "--json"]
    alone = json.loads(succeed("train", *SMALL, *flags, "--workers", 2, "--out", "alone").stdout)
    host = train(*flags, "--workers", 2, "--meet", "127.0.0.1:0", "--out", "together")
    other = train(*flags, "--workers", 2, "--join", f"tcp://127.0.0.1:{port_of(host)}", "--out", "together")
    ends = [p.communicate(timeout=120) for p in (host, other)]
    check(host.returncode == 0 and other.returncode == 0, f"both end: {ends}")
    check(hash_of(ends) == alone["model_hash"], "another model")


def host_leaves():
    """The others go on, with a meeting, until they have left, too."""
    flags = [*ENDLESS, "--workers", "1:3", "--out", "goes-on", "--sync", "topk:0.1"]
    host = train(*flags, "--meet", "127.0.0.1:0")
    where = f"tcp://127.0.0.1:{port_of(host)}"
    await_line(host, "entry 1")
    pair = [train(*flags, "--join", where) for _ in range(2)]
    for other in pair:
        await_line(other, "entry")
    host.send_signal(signal.SIGINT)
    await_line(host, "the meeting stays open")
    await_line(pair[1], "2 workers, 0 new, 1 gone")
    pair[0].kill()
    pair[0].communicate()
    await_line(pair[1], "1 worker, 0 new, 1 gone")
    check(host.poll() is None, "the host goes before the others")
    pair[1].send_signal(signal.SIGINT)
    for process in (pair[1], host):
        process.communicate(timeout=120)
        check(process.returncode == 130, f"an exit code of {process.returncode} after Ctrl-C")


def host_is_asked_twice():
    flags = [*ENDLESS, "--workers", "1:2", "--out", "twice"]
    host = train(*flags, "--meet", "127.0.0.1:0")
    where = f"tcp://127.0.0.1:{port_of(host)}"
    other = train(*flags, "--join", where)
    await_line(other, "entry")
    host.send_signal(signal.SIGINT)
    await_line(host, "the meeting stays open")
    host.send_signal(signal.SIGINT)
    host.communicate(timeout=120)
    check(host.returncode == -signal.SIGINT, f"Ctrl-C ends the meeting: {host.returncode}")
    other.send_signal(signal.SIGINT)
    other.communicate(timeout=120)
    check(other.returncode == 130, f"the other one ends with {other.returncode}")


def wrong():
    expect_error(2, ["--join", "--meet", "one of them"], "train", *SMALL, "--key-file", "job.key", "--workers", 2,
                 "--meet", "127.0.0.1:0", "--join", "tcp://127.0.0.1:1")
    expect_error(2, ["--meet", "--workers N"], "train", *SMALL, "--key-file", "job.key", "--meet", "127.0.0.1:0")
    expect_error(2, ["invalid address 'here'"], "train", *SMALL, "--key-file", "job.key", "--workers", 2, "--meet",
                 "here")
    expect_error(2, ["no key"], "train", *SMALL, "--workers", 2, "--meet", "127.0.0.1:0")


def build_network():
    sh = ["ip link set lo up", "ip netns add b", "ip link add wan type veth peer name wan netns b",
          "ip addr add 10.79.0.1/24 dev wan", "ip link set wan up", "ip -n b addr add 10.79.0.2/24 dev wan",
          "ip -n b link set wan up", "ip -n b link set lo up"]
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run/netns"], check=True, capture_output=True)
    for line in sh:
        subprocess.run(line.split(), check=True, capture_output=True)


def inside():
    """Worker 0 calls its meeting at 127.0.0.1, where the other host finds nobody."""
    try:
        build_network()
    except (OSError, subprocess.CalledProcessError) as error:
        skip(f"no network namespaces here: {error}")
    flags = ["--epochs", 2, "--workers", 2, "--out", "hosts", "--json"]
    alone = json.loads(succeed("train", *SMALL, "--epochs", 2, "--workers", 2, "--out", "one", "--json").stdout)
    host = train(*flags, "--meet", ":7077")
    await_line(host, "waiting for 1 more worker")
    other = train(*flags, "--join", "tcp://10.79.0.1:7077", before=["ip", "netns", "exec", "b"])
    ends = [p.communicate(timeout=120) for p in (host, other)]
    check(host.returncode == 0 and other.returncode == 0, f"both end: {ends}")
    check(hash_of(ends) == alone["model_hash"], "another model on two hosts")
    finish()


def on_two_hosts():
    if os.geteuid() != 0 or any(shutil.which(tool) is None for tool in ("ip", "unshare", "mount")):
        print("not on two hosts: that needs root, iproute2 and util-linux")
        return
    os.makedirs("/run/netns", exist_ok=True)
    # When the test ends, in whatever way, all processes and namespaces of it are gone.
    own = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    code = subprocess.run([*own, sys.executable, "-B", THIS, INSIDE]).returncode
    check(code in (0, 77), "workers on two hosts")


if INSIDE in sys.argv:
    inside()
if "no OpenSSL" in run("meet").stderr:
    skip("this build has no OpenSSL")
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    succeed("meet", "--new-key", "job.key")
    same_model()
    host_leaves()
    host_is_asked_twice()
    wrong()
    on_two_hosts()
    os.chdir("/")
finish()
