# SPDX-License-Identifier: Apache-2.0
#
# support_etcd.py - a cluster of etcd on this machine, whose members can be killed.
import atexit
import os
import shutil
import socket
import subprocess
import time

from support_checks import run


def free_ports(count):
    """Ports that were free a moment ago."""
    found = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in found]
    for s in found:
        s.close()
    return ports


class Etcd:
    """Three members in the folder `etcd` of the working directory."""

    def __init__(self, members=3):
        ports = free_ports(2 * members)
        self.clients, self.peers = ports[:members], ports[members:]
        self.processes = [None] * members
        atexit.register(self.end)  # also if the test ends too early
        for i in range(members):
            self.start(i)

    def start(self, i):
        crowd = ",".join(f"e{k}=http://127.0.0.1:{port}" for k, port in enumerate(self.peers))
        client, peer = f"http://127.0.0.1:{self.clients[i]}", f"http://127.0.0.1:{self.peers[i]}"
        os.makedirs("etcd", exist_ok=True)
        with open(f"etcd/e{i}.log", "ab") as log:
            self.processes[i] = subprocess.Popen(
                ["etcd", "--name", f"e{i}", "--data-dir", f"etcd/e{i}", "--listen-client-urls", client,
                 "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                 "--initial-cluster", crowd], stdout=log, stderr=log)

    def kill(self, i):
        self.processes[i].kill()
        self.processes[i].wait()

    def meeting(self, job):
        return "etcd://" + ",".join(f"127.0.0.1:{port}" for port in self.clients) + "/" + job

    def wait(self, key_file, seconds=240.0):
        """Whether they answer in time."""
        end = time.monotonic() + seconds
        while run("status", self.meeting("nobody"), "--key-file", key_file).returncode != 0:
            if time.monotonic() > end or self.processes[0].poll() is not None:
                return False
            time.sleep(0.1)
        return True

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


def is_there():
    return shutil.which("etcd") is not None
