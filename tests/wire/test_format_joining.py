# SPDX-License-Identifier: Apache-2.0
"""test_format_joining.py - what workers say to each other when they join by
gradwire.rendezvous() is what "Joining" of docs/format-sockets.md says. Skipped without
numpy, and where the package has another handshake."""
import collections
import pathlib
import socket
import sys
import threading
import unittest

try:
    import numpy  # noqa: F401

    import gradwire
    import gradwire.joining.handshake  # noqa: F401
except ImportError:
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "format"))
sys.dont_write_bytecode = True

from bytes_and_checks import Unexplained  # noqa: E402
from joining import EVERYBODY, MEET, MESH, READY, RECORD, Joining  # noqa: E402

WORKERS = 3
SECRET = "a secret of this test"


class Ear:
    """Hears everything that sockets of this process send, while it is open."""

    def __enter__(self):
        self.said, self.lock = collections.defaultdict(bytes), threading.Lock()
        self.send = socket.socket.send
        ear = self

        def send(sock, data, *flags):
            count = ear.send(sock, data, *flags)
            ports = sock.getsockname()[1], sock.getpeername()[1]
            with ear.lock:
                ear.said[ports] += bytes(data[:count])
            return count

        socket.socket.send = send
        return self

    def __exit__(self, *_):
        socket.socket.send = self.send

    def connections(self):
        """Those on which both sides have said a word. On a busy machine callers may give up
        others before, and call again."""
        for a, b in {tuple(sorted(pair)) for pair in self.said}:
            if min(len(self.said[a, b]), len(self.said[b, a])) > 88:
                yield explain(self.said[a, b], self.said[b, a])


def explain(one, other):
    try:
        return Joining(SECRET.encode(), one, other)
    except Unexplained:
        return Joining(SECRET.encode(), other, one)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def join_all(where):
    """All workers meet, as threads; returns what went wrong."""
    failures = []

    def join(rank):
        try:
            with gradwire.rendezvous(rank, WORKERS, where, secret=SECRET, address="127.0.0.1") as comm:
                comm.barrier()
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=join, args=(r,)) for r in range(WORKERS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return failures


class Meeting(unittest.TestCase):
    def test_everything_is_explained(self):
        with Ear() as ear:
            self.assertEqual(join_all(f"127.0.0.1:{free_port()}"), [])
            calls = list(ear.connections())
        self.look_at_meeting([c for c in calls if c.purpose == MEET])
        mesh = [c for c in calls if c.purpose == MESH]
        self.assertEqual(sorted((c.caller, c.callee) for c in mesh), [(1, 0), (2, 0), (2, 1)])
        for call in mesh:
            self.assertEqual(call.words, {"caller": [(READY, None)], "callee": [(READY, None)]})
        self.assertTrue(all(not any(c.rest.values()) for c in calls))

    def look_at_meeting(self, calls):
        self.assertEqual(sorted((c.caller, c.callee) for c in calls), [(1, 0), (2, 0)])
        for call in calls:
            (kind, record), = call.words["caller"]
            (answer, everybody), = call.words["callee"]
            self.assertEqual((kind, answer), (RECORD, EVERYBODY))
            self.assertEqual((record["rank"], record["workers"]), (call.caller, WORKERS))
            self.assertEqual([r["rank"] for r in everybody], list(range(WORKERS)))
            self.assertEqual(everybody[call.caller], record)
            self.assertEqual(record["secret"], b"")


if __name__ == "__main__":
    unittest.main()
