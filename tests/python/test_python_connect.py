#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers that connect to each other: all together, late, more than once, or not at all
because they are dead."""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from torch_crew import raises, skip_without

skip_without("numpy")
import gradwire
from gradwire.joining import calls, lines, members, mesh
from support_caller import SECRET, Caller, dial
from support_threads import averages, free_port, on_threads, run_tests

# Far more than what is tested takes, far less than the time limit.
SOON, LIMIT = 40, 120


def test_sockets():
    """Workers that meet at an address."""
    for workers in (1, 2, 4, 9):
        port = free_port()

        def comms(rank):
            return gradwire.rendezvous(rank, workers, f"127.0.0.1:{port}", secret=SECRET,
                                       address="127.0.0.1")
        assert len(set(on_threads(workers, averages, comms))) == 1


class Table:
    """An exchange() for threads."""

    def __init__(self, workers):
        self.said = [None] * workers
        self.full = threading.Barrier(workers)

    def exchange(self, rank, mine):
        self.said[rank] = mine
        self.full.wait()
        return list(self.said)

    def where(self, rank):
        return members.unpack(self.said[rank], rank, len(self.said)).addresses[0]

    def secret(self):
        return members.unpack(self.said[0], 0, len(self.said)).secret


def test_late():
    """Worker 0 answers after the others have lost patience with it several times."""
    table, tries = Table(3), []
    own, patience = calls.Call._try, calls.TRY_SECONDS

    def counted(self, *rest):
        tries.append(self)
        return own(self, *rest)

    def comms(rank):
        def exchange(mine):
            said = table.exchange(rank, mine)
            while rank == 0 and len(tries) < 8:
                time.sleep(0.01)
            return said
        return gradwire.connect(rank, 3, exchange, address="127.0.0.1")

    calls.Call._try, calls.TRY_SECONDS = counted, 0.1
    try:
        assert len(set(on_threads(3, averages, comms))) == 1
    finally:
        calls.Call._try, calls.TRY_SECONDS = own, patience


def test_late_at_the_last_word():
    """All others are ready, and the time is over before this worker's word has left."""
    everybody = [members.Member(r, 2, f"host{r}", b"", (("127.0.0.1", 9),)) for r in (0, 1)]
    near, far = socket.socketpair()
    with near, far, socket.create_server(("127.0.0.1", 0)) as listener:
        one = mesh.Mesh(listener, 0, everybody, SECRET, time.monotonic() - 1)
        line = lines.Line(near, lambda line: iter(()), lambda line, error: None, 0)
        line.say(b"ready")
        one._taken[1], one._told, one._ready = line, {1}, {1}
        raises(gradwire.PeerError, "worker 1 on host host1", one.run)


def test_one_that_calls_again():
    """A caller proves itself and then gives up, before or after it was answered: the
    newer connection is the one."""
    for last in ("answer", "proof", "settled"):
        table = Table(2)

        def comms(rank):
            def exchange(mine):
                said = table.exchange(rank, mine)
                if rank == 1:
                    gives_up(table, last)
                return said
            return gradwire.connect(rank, 2, exchange, address="127.0.0.1")

        assert len(set(on_threads(2, averages, comms))) == 1, last


def gives_up(table, last):
    s = dial(table.where(0)[1])
    if last == "answer":
        s.sendall(b"GWMESH01" + bytes([1, 0, 0, 0, 0, 0, 0, 0]) + b"n" * 16)
        s.recv(1)
    elif last == "proof":
        Caller(s, b"GWMESH01", 1, 0, secret=table.secret(), wrong="does not wait")
    else:
        Caller(s, b"GWMESH01", 1, 0, secret=table.secret())
    s.close()


# ---- in processes --------------------------------------------------------------


def by_files(directory, rank, workers):
    """An exchange() for processes."""
    def exchange(mine):
        path = os.path.join(directory, str(rank))
        with open(path + ".part", "wb") as f:
            f.write(mine)
        os.rename(path + ".part", path)
        paths = [os.path.join(directory, str(r)) for r in range(workers)]
        while not all(map(os.path.exists, paths)):
            time.sleep(0.01)
        return [open(p, "rb").read() for p in paths]

    return exchange


def worker(directory, rank, workers, dies):
    """What a process does; if it dies, in the exchange or at its first connection."""
    exchange = by_files(directory, rank, workers)
    take = mesh.Mesh._take

    def last_exchange(mine):
        exchange(mine)
        os._exit(9)

    def says_so(self, peer, *rest):
        if dies == "take":
            os._exit(9)
        take(self, peer, *rest)
        print("takes", peer, flush=True)

    mesh.Mesh._take = says_so
    begin = time.monotonic()
    try:
        gradwire.connect(rank, workers, last_exchange if dies == "exchange" else exchange,
                         address="127.0.0.1", timeout=LIMIT)
    except (gradwire.PeerError, KeyboardInterrupt) as error:
        print(f"{time.monotonic() - begin:.1f} s: {error!r}", flush=True)


def start(directory, rank, workers, dies=""):
    return subprocess.Popen([sys.executable, __file__, directory, str(rank), str(workers),
                             dies], stdout=subprocess.PIPE, text=True)


def seconds(text):
    return float(text.splitlines()[-1].split(" s: ")[0])


def test_killed():
    """Who dies while all connect is named by the others, in seconds."""
    for victim in range(3):
        for when in ("exchange", "take"):
            with tempfile.TemporaryDirectory() as directory:
                crew = [start(directory, r, 3, when if r == victim else "")
                        for r in range(3)]
                said = [p.communicate(timeout=LIMIT + 60)[0] for p in crew]
            assert crew[victim].returncode == 9
            for text in said[:victim] + said[victim + 1:]:
                assert f"worker {victim} on host" in text, (victim, when, said)
                assert seconds(text) < SOON, (victim, when, said)


def test_interrupted():
    """Ctrl-C ends the connecting, and the others hear of it. Worker 2 listens, and does
    nothing else."""
    with tempfile.TemporaryDirectory() as directory, socket.create_server(
            ("127.0.0.1", 0)) as listener:
        crew = [start(directory, r, 3) for r in range(2)]
        by_files(directory, 2, 3)(
            members.Member(2, 3, "two", b"", (listener.getsockname(),)).pack())
        for i, process in enumerate(crew):
            assert process.stdout.readline() == f"takes {1 - i}\n"
        crew[1].send_signal(signal.SIGINT)
        said = [p.communicate(timeout=LIMIT + 60)[0] for p in crew]
    assert "KeyboardInterrupt()" in said[1], said
    assert "worker 1 was interrupted" in said[0], said
    assert all(seconds(text) < SOON for text in said), said


def test_ports():
    """GRADWIRE_PORT says at which ports workers listen, for those who have a firewall."""
    def join(table, rank):
        return gradwire.connect(rank, 3, lambda mine: table.exchange(rank, mine),
                                address="127.0.0.1")

    first, table = free_port(), Table(3)
    try:
        os.environ["GRADWIRE_PORT"] = f"{first}-{first + 40}"
        assert len(set(on_threads(3, averages, lambda rank: join(table, rank)))) == 1
        ports = {table.where(rank)[1] for rank in range(3)}
        assert len(ports) == 3 and all(first <= p <= first + 40 for p in ports), ports
        with socket.create_server(("", 0)) as taken:
            os.environ["GRADWIRE_PORT"] = str(taken.getsockname()[1])
            raises(gradwire.GradwireError, "can be used on host",
                   lambda: gradwire.connect(0, 1, lambda mine: [mine]))
        for wrong in ("http", "1-", "9-8", "0", "65000-65536", "-5"):
            os.environ["GRADWIRE_PORT"] = wrong
            raises(ValueError, f"GRADWIRE_PORT={wrong} is no port",
                   lambda: gradwire.connect(0, 1, lambda mine: [mine]))
    finally:
        del os.environ["GRADWIRE_PORT"]


def test_wrong_exchange():
    raises(ValueError, "1 records, expected 2",
           lambda: gradwire.connect(0, 2, lambda mine: [mine], address="127.0.0.1"))
    raises(gradwire.DataError, "worker 1 sent an invalid record",
           lambda: gradwire.connect(0, 2, lambda mine: [mine, b"what"],
                                    address="127.0.0.1"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        worker(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        run_tests(globals())
