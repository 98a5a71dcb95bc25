#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""far_link.py - two hosts that are far apart: far_link.py SECONDS_ONE_WAY WINDOW_BYTES COMMAND...

Makes two network namespaces, far-PID-0 (10.79.0.1) and far-PID-1 (10.79.0.2). Each has a TUN device, and this
process hands packets from one to the other after the delay. TCP has WINDOW_BYTES under way at most on each
connection. It runs COMMAND in a shell, with the names of the hosts in $NEAR and $FAR. It needs to be root.
"""
import collections
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
PACKETS_AT_ONCE = 64


def sh(*words):
    subprocess.run(words, check=True)


def add_host(name, address, window):
    """A host with one wire, whose other end is the descriptor that is returned."""
    wire = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    device = f"far{os.getpid()}"
    fcntl.ioctl(wire, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TUN | IFF_NO_PI))
    sh("ip", "netns", "add", name)
    sh("ip", "link", "set", device, "netns", name)
    sh("ip", "-n", name, "link", "set", "lo", "up")
    sh("ip", "-n", name, "addr", "add", f"{address}/24", "dev", device)
    sh("ip", "-n", name, "link", "set", device, "up", "mtu", "9000", "txqueuelen", "10000")
    sh("ip", "netns", "exec", name, "sh", "-c", f"echo 4096 16384 {window} >/proc/sys/net/ipv4/tcp_wmem")
    return wire


def carry(wires, delay, job):
    """Until the job has ended."""
    queues = [collections.deque(), collections.deque()]
    while job.poll() is None:
        now, wait = time.monotonic(), 0.05
        for k, queue in enumerate(queues):
            while queue and queue[0][0] <= now:
                try:
                    os.write(wires[1 - k], queue.popleft()[1])
                except OSError:
                    pass  # a packet that finds no room is lost, as on other links
            if queue:
                wait = min(wait, max(0.0, queue[0][0] - now))
        for k in select.select(wires, [], [], wait)[0]:
            for _ in range(PACKETS_AT_ONCE):
                try:
                    queues[wires.index(k)].append((time.monotonic() + delay, os.read(k, 65536)))
                except BlockingIOError:
                    break


def main():
    delay, window, command = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    names = [f"far-{os.getpid()}-{k}" for k in range(2)]
    wires = []
    try:
        for k, name in enumerate(names):
            wires.append(add_host(name, f"10.79.0.{k + 1}", window))
        job = subprocess.Popen(command, env=dict(os.environ, NEAR=names[0], FAR=names[1]))
        carry(wires, delay, job)
        return job.returncode
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main())
