# SPDX-License-Identifier: Apache-2.0
#
# test_cli_capture.py - whoever captures the packets between two workers sees no gradient.
# Two workers train in a network namespace of their own, whose packets this test captures:
# once without encryption, to see that it would find the gradient, and once with it.
import fcntl
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading

from support_checks import GRADWIRE, check, finish, run, succeed

JOB = ["--model", "softmax", "--data", "synthetic:train=400,test=50,dim=400,classes=8", "--batch", "8", "--seed", "3",
       "--sync", "dense", "--steps", "5", "--workers", "2", "--eval-every", "0", "--quiet", "--momentum", "0"]
INSIDE = "--inside"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def bring_up(name):
    """A new namespace has a loopback that is down."""
    request = struct.pack("16sh14x", name.encode(), 1 | 64)  # IFF_UP, IFF_RUNNING
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x8914, request)  # SIOCSIFFLAGS


class Capture:
    """All packets on an interface, from now until end()."""

    def __init__(self, interface):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # ETH_P_ALL
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)  # as much as the kernel allows
        self.socket.bind((interface, 0))
        self.socket.settimeout(0.1)
        self.packets, self.over = [], False
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        while True:
            try:
                self.packets.append(self.socket.recv(1 << 17))
            except socket.timeout:
                if self.over:
                    return

    def end(self):
        """Returns what was captured, once nothing more comes."""
        self.over = True
        self.thread.join()
        self.socket.close()
        return b"\n".join(self.packets)


def train(encrypt):
    """Returns the packets of a job, and the gradient of its last step."""
    capture = Capture("lo")
    meeting = subprocess.Popen([GRADWIRE, "meet", "--listen", "127.0.0.1:0", "--key-file", "job.key"],
                               stdout=subprocess.PIPE, text=True)
    where = "tcp://127.0.0.1:" + re.search(r"port (\d+)", meeting.stdout.readline()).group(1)
    crew = [subprocess.Popen([GRADWIRE, "train", *JOB, "--join", where, "--key-file", "job.key", "--encrypt", encrypt,
                              "--out", f"run-{encrypt}", "--record-gradient", f"gradient-{encrypt}"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ends = [w.communicate(timeout=100) for w in crew]
    check(all(w.returncode == 0 for w in crew), f"--encrypt {encrypt}: {ends}")
    meeting.terminate()
    meeting.wait()
    with open(f"gradient-{encrypt}", "rb") as f:
        return capture.end(), f.read()


def found(packets, gradient):
    """How many stretches of eight numbers of the gradient are in the packets."""
    return sum(gradient[at:at + 32] in packets for at in range(0, len(gradient) - 31, 32) if any(gradient[at:at + 32]))


def inside():
    bring_up("lo")
    there = tempfile.TemporaryDirectory()
    os.chdir(there.name)
    succeed("meet", "--new-key", "job.key")
    with open("job.key", "rb") as f:
        key = f.read().strip()
    for encrypt in "off", "on":
        packets, gradient = train(encrypt)
        count = found(packets, gradient)
        check(len(gradient) == 4 * 8 * 401 and len(packets) > 5 * len(gradient) / 2,
              f"--encrypt {encrypt}: {len(packets)} bytes of packets, {len(gradient)} of a gradient")
        check(key not in packets, f"--encrypt {encrypt}: the key is sent")
        if encrypt == "off":
            check(count > 100, f"without encryption the packets have only {count} stretches of the gradient")
        else:
            check(count == 0, f"the packets have {count} stretches of the gradient, in plain bytes")
            check(b"GWENTRY" not in packets and b"welcome" not in packets, "lines are sent in plain bytes")
    os.chdir("/")
    finish()


if sys.argv[-1] == INSIDE:
    inside()
else:
    if "no OpenSSL" in run("meet").stderr:
        skip("this build has no OpenSSL")
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode:
        skip("this machine does not allow network namespaces")
    sys.exit(subprocess.run(["unshare", "-rn", sys.executable, __file__, INSIDE]).returncode)
