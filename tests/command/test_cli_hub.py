# SPDX-License-Identifier: Apache-2.0
#
# test_cli_hub.py - workers behind routers that let nobody in (--out-only): they train with others, get
# the same model, and are missed when they die; when the hub dies, another worker is it, and then the
# meeting. Every host is a network namespace, and routers translate addresses, as those of homes do.
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from support_checks import GRADWIRE, check, finish, run, succeed

SMALL = ["--model", "softmax", "--data", "synthetic:train=400,test=50,dim=20,classes=4", "--batch", "8", "--seed", "3"]
INSIDE = "--inside"
MASQUERADE = """table ip home {
    chain out { type nat hook postrouting priority 100; oifname "wan" masquerade; }
    chain in { type filter hook forward priority 0; ct state established,related accept; iifname "wan" drop; }
}"""


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def sh(*words, text=None):
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


def add_host(name, address, to="switch"):
    """A host with one wire, to a bridge on the host `to`."""
    sh("ip", "netns", "add", name)
    sh("ip", "-n", name, "link", "set", "lo", "up")
    sh("ip", "-n", name, "link", "add", "wan", "type", "veth", "peer", "name", f"to-{name}", "netns", to)
    sh("ip", "-n", name, "addr", "add", address, "dev", "wan")
    sh("ip", "-n", name, "link", "set", "wan", "up")
    if to == "switch":
        sh("ip", "-n", to, "link", "set", "dev", f"to-{name}", "master", "bridge")
    sh("ip", "-n", to, "link", "set", "dev", f"to-{name}", "up")


def add_home(name, number):
    """A host behind a router; all homes have the same addresses inside."""
    router = f"r{number}"
    add_host(router, f"10.78.0.{100 + number}/24")
    add_host(name, "192.168.1.2/24", to=router)
    sh("ip", "-n", router, "addr", "add", "192.168.1.1/24", "dev", f"to-{name}")
    sh("ip", "-n", name, "route", "add", "default", "via", "192.168.1.1")
    sh("ip", "netns", "exec", router, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
    sh("ip", "netns", "exec", router, "nft", "-f", "-", text=MASQUERADE)


def build_network():
    """Hosts a and b can be called; those at home, c, d and e, cannot."""
    sh("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
    sh("ip", "netns", "add", "switch")
    sh("ip", "-n", "switch", "link", "add", "bridge", "type", "bridge")
    sh("ip", "-n", "switch", "link", "set", "bridge", "up")
    add_host("a", "10.78.0.1/24")
    add_host("b", "10.78.0.2/24")
    for number, name in enumerate("cde"):
        add_home(name, number)


def on(host, *words):
    return subprocess.Popen(["ip", "netns", "exec", host, GRADWIRE, *map(str, words)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def worker(host, workers, *more):
    calls = ["--out-only"] if host in "cde" else []
    return on(host, "train", *SMALL, "--join", WHERE, "--key-file", "job.key", "--workers", workers, *calls, *more)


def await_line(process, words):
    """Reads what a worker says until a line has the words in it."""
    for line in process.stderr:
        if all(w in line for w in words):
            return line
    return check(False, f"a worker ended before it said {words}")


def ends_of(workers):
    ends = [w.communicate(timeout=240) for w in workers]
    check(all(w.returncode == 0 for w in workers), f"workers ended: {ends}")
    return [json.loads(out) for out, _ in ends if out.strip()]


def status(*more):
    return subprocess.run(["ip", "netns", "exec", "e", GRADWIRE, "status", WHERE, "--key-file", "job.key", *more],
                          capture_output=True, text=True, timeout=100).stdout


def open_meeting():
    meeting = on("a", "meet", "--listen", "10.78.0.1:7077", "--key-file", "job.key")
    check("port 7077" in meeting.stdout.readline(), "the meeting opens")
    return meeting


def same_model():
    """The same bits as on one machine, with a hub among the workers and with the meeting as the hub."""
    flags = ["--sync", "gtopk:0.1+q:4", "--epochs", 4, "--json"]
    for hosts in "abcd", "ced":
        alone = json.loads(succeed("train", *SMALL, *flags, "--workers", len(hosts), "--out", f"alone-{hosts}").stdout)
        crew = [worker(host, len(hosts), *flags, "--out", f"run-{hosts}") for host in hosts]
        told = ends_of(crew)
        check([t["model_hash"] for t in told] == [alone["model_hash"]], f"{hosts}: another model")


def homes_cannot_be_called():
    """The network is as it should be: without --out-only the one that must call a home cannot."""
    inside = on("c", "train", *SMALL, "--join", WHERE, "--key-file", "job.key", "--workers", 2)
    await_line(inside, ["waiting for 1 more worker"])
    outside = worker("b", 2, "--timeout", 3)
    _, err = outside.communicate(timeout=100)
    check(outside.returncode == 1 and "cannot be reached" in err and "out" in err, f"calls a home: {err}")
    inside.kill()
    inside.communicate()


def models_in(lines):
    """One that has still to apply the last step's result, "model one step behind", says no hash."""
    return set(re.findall(r"model ([0-9a-f]{8})", "".join(filter(None, lines))))


def deaths():
    flags = ["--sync", "topk:0.1", "--steps", 10**8, "--out", "long", "--eval-every", 0]
    crew = {"a": worker("a", "2:5", *flags)}
    await_line(crew["a"], ["waiting for 1 more worker"])  # so it is worker 0, and the hub
    for host in "bcde":
        crew[host] = worker(host, "2:5", *flags)
    for host in "abcde":
        await_line(crew[host], [": 5 workers"])
    said = status()
    check(re.search(r"3 workers only call out and talk to each other through \d+ ", said), f"status: {said}")
    told = json.loads(status("--json"))
    check([w["state"] for w in told["workers"]].count("hub") == 1, f"status: {told}")
    check(sorted(w["out_only"] for w in told["workers"]) == [False, False, True, True, True], f"status: {told}")
    hub = next(w["address"] for w in told["workers"] if w["state"] == "hub")
    check(hub.startswith("10.78.0.1:"), f"the hub is {hub}")
    # One at home dies, then the hub, then the other one that could be the hub.
    for dies, left in ("d", "abce"), ("a", "bce"), ("b", "ce"):
        crew[dies].kill()
        crew[dies].communicate()
        lines = [await_line(crew[host], [f": {len(left)} workers, 0 new, 1 gone"]) for host in left]
        check(len(models_in(lines)) <= 1 and all(lines), f"{dies} died: {lines}")
    said = status()
    check("2 workers only call out and talk to each other through the meeting" in said, f"status: {said}")
    for host in "ce":
        crew[host].kill()
        crew[host].communicate()


def inside():
    global WHERE
    WHERE = "tcp://10.78.0.1:7077"
    try:
        build_network()
    except OSError as error:
        skip(f"no network namespaces with address translation here: {error}")
    succeed("meet", "--new-key", "job.key")
    meeting = open_meeting()
    same_model()
    homes_cannot_be_called()
    deaths()
    meeting.terminate()
    meeting.wait()
    finish()


if INSIDE in sys.argv:
    inside()
if "no OpenSSL" in run("meet").stderr:
    skip("this build has no OpenSSL")
if os.geteuid() != 0:
    skip("only root can make network namespaces")
for tool in "ip", "nft", "unshare", "mount":
    if shutil.which(tool) is None:
        skip(f"there is no '{tool}'; install iproute2, nftables and util-linux")
os.makedirs("/run/netns", exist_ok=True)
with tempfile.TemporaryDirectory() as folder:
    # When the test ends, in whatever way, all processes and namespaces of it are gone.
    own = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    sys.exit(subprocess.run([*own, sys.executable, "-B", os.path.abspath(__file__), INSIDE], cwd=folder).returncode)
