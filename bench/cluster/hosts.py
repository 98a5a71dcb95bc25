# SPDX-License-Identifier: Apache-2.0
"""hosts.py - hosts on one machine: brings them up, counts their bytes, takes them down.

    host0 [wire]--[port0]  switch  [port1]--[wire] host1
                           bridge  [port2]--[wire] host2 ...

Every host and the switch is a network namespace, named gwPID-0, gwPID-1, ..., gwPID-sw
after the process that stands behind it. All interfaces are made inside of them: the
machine's own network sees nothing. Each wire is shaped where it leaves the host (`wire`)
and where it leaves the switch (`port`), that is, in both directions.

As long as the process lives it holds a lock in /run/gradwire-cluster/PID, so that what a
killed one left can be told from what is in use.
"""
import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import time

RUN = "/run/gradwire-cluster"
SUBNET = "10.77.0.0/24"
MAX_HOSTS = 64
# No IPv6, so that nothing but the job's own traffic is counted; and one congestion control
# whatever the machine prefers: cubic, or reno where cubic may not be used in a namespace.
SETTINGS = """cd /proc/sys/net
for f in ipv6/conf/all ipv6/conf/default; do
    [ ! -e $f/disable_ipv6 ] || echo 1 >$f/disable_ipv6
done
{ echo cubic >ipv4/tcp_congestion_control; } 2>/dev/null || echo reno >ipv4/tcp_congestion_control
"""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
UNITS = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}


class Trouble(Exception):
    """Something that the user should read, in one line."""


def parse_rate(text):
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(kbit|mbit|gbit)", text)
    if not found or float(found[1]) == 0:
        raise Trouble(f"rate '{text}': write it like 100mbit or 2.5gbit")
    return float(found[1]) * UNITS[found[2]]


def run(*words):
    """Runs a tool to its end, whatever signals come; its output."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if done.returncode != 0:
        raise Trouble(f"'{' '.join(words)}' failed: {done.stderr.strip() or done.returncode}")
    return done.stdout


def address(host):
    return f"10.77.0.{host + 1}"


def names_of(prefix):
    """The namespaces of one cluster."""
    if not os.path.isdir("/run/netns"):
        return []
    return sorted(n for n in os.listdir("/run/netns") if n.startswith(prefix + "-"))


def pids_on(name):
    try:
        return [int(p) for p in run("ip", "netns", "pids", name).split()]
    except Trouble:
        return []  # killed while it was being made, it is but an empty file


def adopt_orphans():
    """Whatever this process starts, and whatever that starts, stays below it even when what was between
    has ended (PR_SET_CHILD_SUBREAPER): a daemon that is still on its way to its host can be found."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def reap():
    """Takes note of children that have ended. Whoever waits for one of them with subprocess has done so."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


def parents():
    """The parent of every process that has not ended."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                state, parent = f.read().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue  # has just ended
        if state not in "ZX":
            found[int(pid)] = int(parent)
    return found


def descendants():
    """All processes below this one."""
    parent_of, mine, found = parents(), {os.getpid()}, []
    while mine:
        mine = {pid for pid, parent in parent_of.items() if parent in mine}
        found += mine
    return found


def end_processes(find):
    """Ends the processes that find() finds, until it finds none; what does not end."""
    limit = time.monotonic() + 10
    while time.monotonic() < limit:
        reap()
        pids = find()
        if not pids:
            break
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
    return pids


def remove(prefix, of_mine=lambda: []):
    """Removes a cluster: processes on its hosts and those that of_mine() finds on their way to them,
    namespaces (and with them the interfaces), files."""
    names = names_of(prefix)
    living = end_processes(lambda: of_mine() + [p for n in names for p in pids_on(n)])
    for name in names:
        run("ip", "netns", "delete", name)
    folder = os.path.join(RUN, prefix[2:])
    try:
        if os.path.exists(folder):
            shutil.rmtree(folder)
    except OSError as e:
        raise Trouble(f"cannot remove {folder}: {e.strerror}") from e
    if living:
        raise Trouble("processes of the job do not end: " + " ".join(map(str, living)))


def try_lock(folder):
    """An open, locked file; None if another process holds it."""
    fd = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd
    except BlockingIOError:
        os.close(fd)
        return None


def leftovers():
    """Prefixes of clusters behind which no process stands any more."""
    found = set()
    if os.path.isdir("/run/netns"):
        found |= {n.split("-")[0] for n in os.listdir("/run/netns")
                  if re.fullmatch(r"gw\d+-(sw|\d+)", n)}
    if os.path.isdir(RUN):
        found |= {"gw" + pid for pid in os.listdir(RUN) if pid.isdigit()}
    return sorted(p for p in found if is_left(p))


def is_left(prefix):
    folder = os.path.join(RUN, prefix[2:])
    if not os.path.isdir(folder):
        return True
    fd = try_lock(folder)
    if fd is None:
        return False
    os.close(fd)
    return True


class Cluster:
    """P hosts; up() and down()."""

    def __init__(self, hosts, rate, mtu, burst):
        self.prefix = f"gw{os.getpid()}"
        self.folder = os.path.join(RUN, str(os.getpid()))
        self.hosts = hosts
        self.rate = rate
        self.mtu = mtu
        self.burst = burst
        self.lock = None

    def up(self):
        remove(self.prefix)  # of a process that had the same number
        os.makedirs(self.folder, mode=0o700)
        self.lock = try_lock(self.folder)
        os.mkdir(os.path.join(self.folder, "tmp"))
        with open(os.path.join(self.folder, "hosts"), "w") as f:
            f.write("127.0.0.1 localhost\n")
            f.writelines(f"{address(i)} host{i}\n" for i in range(self.hosts))
        switch = f"{self.prefix}-sw"
        self.add_namespace(switch)
        run("ip", "-n", switch, "link", "add", "bridge", "mtu", str(self.mtu), "type", "bridge")
        run("ip", "-n", switch, "link", "set", "bridge", "up")
        for i in range(self.hosts):
            self.add_host(i, switch)

    def add_namespace(self, name):
        run("ip", "netns", "add", name)
        run("ip", "netns", "exec", name, "sh", "-c", SETTINGS)
        run("ip", "-n", name, "link", "set", "lo", "up")

    def add_host(self, i, switch):
        name, port = f"{self.prefix}-{i}", f"port{i}"
        self.add_namespace(name)
        run("ip", "-n", switch, "link", "add", port, "mtu", str(self.mtu), "type", "veth",
            "peer", "name", "wire", "mtu", str(self.mtu), "netns", name)
        run("ip", "-n", switch, "link", "set", port, "master", "bridge")
        run("ip", "-n", name, "address", "add", f"{address(i)}/{SUBNET.split('/')[1]}", "dev", "wire")
        for where, device in ((switch, port), (name, "wire")):
            self.shape(where, device)
            run("ip", "-n", where, "link", "set", device, "up")

    def shape(self, where, device):
        """Long packets, as a network card would take them from the kernel and cut them
        up itself, cost little time. With their headers they must fit into the bucket,
        because tbf cuts up longer ones. The queue is long enough that nothing is lost
        when all hosts send to one."""
        if self.rate is None:
            return
        run("ip", "-n", where, "link", "set", device, "gso_max_size",
            str(self.burst * 9 // 10))
        run("tc", "-n", where, "qdisc", "add", "dev", device, "root", "tbf", "rate",
            f"{self.rate:.0f}bit", "burst", str(self.burst), "limit", str(16 << 20))

    def counters(self):
        """What the interfaces and the shapers counted, host by host."""
        rows = []
        for i in range(self.hosts):
            name = f"{self.prefix}-{i}"
            link = json.loads(run("ip", "-n", name, "-s", "-j", "link", "show", "dev", "wire"))[0]
            stats = link["stats64"]
            row = {"host": f"host{i}", "address": address(i)}
            for way in ("tx", "rx"):
                row[f"{way}_bytes"] = stats[way]["bytes"]
                row[f"{way}_packets"] = stats[way]["packets"]
            if self.rate is not None:
                row["tx_wire_bytes"], lost = self.shaped(name, "wire")
                row["rx_wire_bytes"], more = self.shaped(f"{self.prefix}-sw", f"port{i}")
                row["dropped"] = lost + more
            rows.append(row)
        return rows

    def shaped(self, where, device):
        found = json.loads(run("tc", "-n", where, "-s", "-j", "qdisc", "show", "dev", device))
        tbf = next(q for q in found if q["kind"] == "tbf")
        return tbf["bytes"], tbf["drops"]

    def down(self):
        remove(self.prefix, descendants)
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None
