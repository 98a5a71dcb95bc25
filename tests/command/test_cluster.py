# SPDX-License-Identifier: Apache-2.0
#
# test_cluster.py - the test cluster (bench/cluster): hosts come up, have names and
# wires of their own, and nothing is left of them whatever ends the command; gradwire
# gives the same model there as on this machine, and counts the bytes that the
# interfaces count. Nothing here is timed. Skipped where no cluster is possible.
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.environ["GRADWIRE_SOURCE"]
BUILD = os.environ["GRADWIRE_BUILD"]
GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])
EXCHANGE = os.path.join(BUILD, "gradwire-exchange")
CLUSTER = os.path.join(ROOT, "bench", "cluster", "cluster")
LIMIT = 100

failures = []
passed = 0


def check(ok, what):
    global passed
    if ok:
        passed += 1
    else:
        failures.append(what)
        print("FAILED:", what, flush=True)


def cluster(*words, **more):
    return subprocess.run([CLUSTER, *words], capture_output=True, text=True, timeout=LIMIT,
                          stdin=subprocess.DEVNULL, **more)


def start(*words):
    return subprocess.Popen([CLUSTER, *words], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def left_of(pid):
    """What is left of the cluster of that process."""
    names = os.listdir("/run/netns") if os.path.isdir("/run/netns") else []
    left = [n for n in names if n.startswith(f"gw{pid}-")]
    folder = f"/run/gradwire-cluster/{pid}"
    return left + ([folder] if os.path.exists(folder) else [])


def interfaces():
    return sorted(os.listdir("/sys/class/net"))


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_for(happened):
    end = time.monotonic() + LIMIT
    while not happened():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def sleepers(folder, hosts):
    """A command whose ranks write their process ids and stay."""
    return ["--hosts", str(hosts), "--", "sh", "-c", f"echo $$ >{folder}/$(hostname).new && "
            f"mv {folder}/$(hostname).new {folder}/$(hostname) && exec sleep 600"]


def pids_in(folder):
    found = [n for n in os.listdir(folder) if not n.endswith(".new")]
    return [int(open(os.path.join(folder, n)).read()) for n in found]


def hosts_have_names():
    done = cluster("--hosts", "3", "--", "hostname")
    check(done.returncode == 0 and sorted(done.stdout.split()) == ["host0", "host1", "host2"],
          f"host names: {done}")
    done = cluster("--hosts", "2", "--per-host", "2", "--rate", "full", "--", "hostname")
    check(done.returncode == 0 and sorted(done.stdout.split()) == ["host0"] * 2 + ["host1"] * 2,
          f"two ranks on each host: {done}")


def plain_launch():
    done = cluster("--hosts", "3", "--launch", "plain", "--", "sh", "-c",
                   "echo $RANK $WORLD_SIZE $MASTER_ADDR $(hostname) \"$0 $1\"", "a b", "c'd")
    wanted = [f"{i} 3 10.77.0.1 host{i} a b c'd" for i in range(3)]
    check(done.returncode == 0 and sorted(done.stdout.splitlines()) == wanted, f"plain: {done}")
    done = cluster("--hosts", "3", "--launch", "plain", "--", "sh", "-c",
                   "[ $RANK != 1 ] || exit 5; sleep 600")
    check(done.returncode == 5, f"one fails, the others are ended: {done}")


def exit_codes(tmp):
    command = start("--hosts", "2", "--", "sh", "-c", "exit 3")
    out, err = command.communicate(timeout=LIMIT)
    check(command.returncode == 3, f"exit status {command.returncode}: {out} {err}")
    check(left_of(command.pid) == [], f"after a failure: {left_of(command.pid)}")
    for words in (["--hosts", "0", "--", "true"], ["--rate", "fast", "--", "true"], [],
                  ["--mtu", "1", "--", "true"]):
        check(cluster(*words).returncode == 2, f"wrong usage: {words}")
    done = cluster("--check", user=65534, group=65534, extra_groups=[], cwd="/")
    check(done.returncode in (77, 126, 127) or not os.access(ROOT, os.X_OK), f"not root: {done}")
    if done.returncode == 77:
        check("root" in done.stderr and done.stderr.count("\n") == 1, f"not root: {done}")


def signals(tmp):
    """Asked to end, the cluster ends the job and leaves nothing."""
    for number in (signal.SIGINT, signal.SIGTERM):
        folder = os.path.join(tmp, number.name)
        os.mkdir(folder)
        command = start(*sleepers(folder, 2))
        check(wait_for(lambda: len(pids_in(folder)) == 2), f"{number.name}: ranks do not come")
        command.send_signal(number)
        command.communicate(timeout=LIMIT)
        check(command.returncode == 128 + number, f"{number.name}: exit {command.returncode}")
        check(left_of(command.pid) == [], f"{number.name}: left {left_of(command.pid)}")
        check(not any(is_alive(p) for p in pids_in(folder)), f"{number.name}: a rank lives on")


def early_signals():
    """The same at any moment of coming up."""
    for delay in (0.05, 0.15, 0.25, 0.4):
        command = start("--hosts", "4", "--", "sleep", "600")
        time.sleep(delay)
        command.send_signal(signal.SIGTERM)
        command.communicate(timeout=LIMIT)
        check(command.returncode in (143, -signal.SIGTERM), f"early: exit {command.returncode}")
        check(left_of(command.pid) == [], f"early: left {left_of(command.pid)}")


def on_the_way():
    """A process of the job that has not entered its host yet when the end comes does not live on: it
    would write into the folder that is being removed."""
    code = """if True:
        import subprocess, hosts
        hosts.adopt_orphans()
        cluster = hosts.Cluster(1, None, 1500, 16384)
        cluster.up()
        subprocess.run(["sh", "-c", "sleep 600 & echo $!"])
        cluster.down()
    """
    command = subprocess.Popen([sys.executable, "-B", "-c", code], cwd=os.path.dirname(CLUSTER), text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    said = command.communicate(timeout=LIMIT)[0]
    check(command.returncode == 0 and not is_alive(int(said)), "on the way: a process lives on")
    check(left_of(command.pid) == [], f"on the way: left {left_of(command.pid)}")


def killed(tmp):
    """Killed, it leaves its hosts, and --clean removes them - not those of another."""
    folder, other_folder = os.path.join(tmp, "killed"), os.path.join(tmp, "other")
    os.mkdir(folder)
    os.mkdir(other_folder)
    command, other = start(*sleepers(folder, 2)), start(*sleepers(other_folder, 2))
    check(wait_for(lambda: len(pids_in(folder)) == 2 and len(pids_in(other_folder)) == 2),
          "two clusters at once: ranks do not come")
    command.kill()
    command.communicate(timeout=LIMIT)
    check(left_of(command.pid) != [], "a killed cluster leaves nothing to be cleaned?")
    done = cluster("--clean")
    check(done.returncode == 0 and f"gw{command.pid}" in done.stdout and
          f"gw{other.pid}" not in done.stdout, f"--clean: {done}")
    check(left_of(command.pid) == [], f"cleaned: left {left_of(command.pid)}")
    check(wait_for(lambda: not any(is_alive(p) for p in pids_in(folder))), "a rank lives on")
    check(all(is_alive(p) for p in pids_in(other_folder)), "--clean ended another's ranks")
    other.terminate()
    other.communicate(timeout=LIMIT)
    check(left_of(other.pid) == [], f"other: left {left_of(other.pid)}")


def built_with_open_mpi():
    """Under another MPI's mpirun every rank would think it is alone."""
    if not os.path.exists(EXCHANGE):
        return False
    used = subprocess.run(["ldd", EXCHANGE], capture_output=True, text=True).stdout
    return "libmpi.so" in used and "libmpich" not in used


def same_model(tmp):
    """A run on the cluster ends with the same bits as one with local workers."""
    flags = [GRADWIRE, "train", "--model", "softmax", "--data", "synthetic:train=600,test=50,dim=20,classes=4",
             "--batch", "8", "--steps", "12", "--advice", "off", "--eval-every", "0", "--quiet", "--json"]
    for number, sync in enumerate(("dense", "gtopk:0.05", "local:4+q:4")):
        hashes = []
        for where in ([CLUSTER, "--hosts", "3", "--rate", "100mbit", "--"], []):
            out = os.path.join(tmp, f"run{number}{len(hashes)}")
            more = ["--sync", sync, "--out", out] + ([] if where else ["--workers", "3"])
            done = subprocess.run(where + flags + more, capture_output=True, text=True, timeout=LIMIT,
                                  stdin=subprocess.DEVNULL)
            check(done.returncode == 0, f"train {sync}: {done}")
            hashes.append(json.loads(done.stdout)["model_hash"] if done.returncode == 0 else None)
        check(hashes[0] == hashes[1], f"train {sync}: cluster and local differ: {hashes}")


def has_line(path):
    return os.path.exists(path) and os.path.getsize(path) > 0


def cut_host(tmp):
    """A host that is cut off ends the job, mpirun included, with the flags of docs/clusters.md (here
    with shorter times); without them mpirun waits for its daemon there for a quarter of an hour."""
    out = os.path.join(tmp, "cut")
    settings = {"oob_tcp_keepalive_time": 2, "oob_tcp_keepalive_intvl": 1, "oob_tcp_keepalive_probes": 3}
    with open(os.path.join(ROOT, "docs", "clusters.md")) as f:
        page = f.read()
    check(all(f"--mca {name} " in page for name in settings), "docs/clusters.md lacks the flags")
    command = start("--hosts", "3", "--mpirun=" + " ".join(f"--mca {n} {v}" for n, v in settings.items()), "--",
                    GRADWIRE, "train", "--model", "softmax", "--data", "synthetic:train=600,test=50,dim=20,classes=4",
                    "--batch", "8", "--steps", "1000000000", "--log-every", "1", "--quiet", "--out", out)
    check(wait_for(lambda: has_line(f"{out}/metrics.jsonl") or command.poll() is not None), "cut: no step is made")
    subprocess.run(["ip", "-n", f"gw{command.pid}-2", "link", "set", "wire", "down"], check=False)
    try:
        err = command.communicate(timeout=LIMIT)[1]
        check(command.returncode not in (0, 77) and "host2" in err, f"cut: exit {command.returncode}, {err[-800:]}")
    except subprocess.TimeoutExpired:
        check(False, "cut: mpirun stays")
        command.terminate()
        command.communicate(timeout=LIMIT)
    check(left_of(command.pid) == [], f"cut: left {left_of(command.pid)}")


def bytes_of(tmp, sync, steps):
    """Bytes by gradwire and by the interfaces, all hosts together."""
    counts = os.path.join(tmp, "count.json")
    done = cluster("--hosts", "3", "--rate", "1gbit", "--count", counts, "--", EXCHANGE, "--params", "500000",
                   "--warmup", "0", "--steps", str(steps), "--sync", sync)
    check(done.returncode == 0, f"exchange {sync}: {done}")
    said = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    with open(counts) as f:
        hosts = json.load(f)
    check([h["host"] for h in hosts] == ["host0", "host1", "host2"], f"counted: {hosts}")
    received, sent = (sum(h[k] for h in hosts) for k in ("rx_bytes", "tx_bytes"))
    check(abs(received - sent) < 0.01 * sent, f"{sync}: {sent} bytes sent, {received} received")
    return said["bytes_sent_all"] * steps, sent


def same_bytes(tmp):
    """The start of MPI is in neither difference. What comes on top of gradwire's bytes: headers of
    MPI (up to 64 bytes a message), of packets (66 of up to 9000, fewer as the kernel hands them
    over), acknowledgements, and the barriers between steps (about 2 kB a step)."""
    for sync, steps, more in (("dense", 10, 1.05), ("gtopk:0.05", 20, 1.10)):
        short, long = bytes_of(tmp, sync, 2), bytes_of(tmp, sync, 2 + steps)
        ours, theirs = long[0] - short[0], long[1] - short[1]
        print(f"{sync}: interfaces counted {100 * (theirs / ours - 1):+.2f} %")
        check(0.99 * ours <= theirs <= more * ours, f"{sync}: {ours} bytes, interfaces {theirs}")


def main():
    done = cluster("--check")
    if done.returncode == 77:
        print("skipped:", done.stderr.strip())
        return 77
    before = interfaces()
    with tempfile.TemporaryDirectory() as tmp:
        hosts_have_names()
        plain_launch()
        exit_codes(tmp)
        signals(tmp)
        early_signals()
        on_the_way()
        killed(tmp)
        if built_with_open_mpi():
            same_model(tmp)
            same_bytes(tmp)
            cut_host(tmp)
        else:
            print("not run: this build has no Open MPI")
    check(interfaces() == before, f"the machine's interfaces: {before}, then {interfaces()}")
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


sys.exit(main())
