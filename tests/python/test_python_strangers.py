#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strangers who call where workers connect neither end that, nor delay it, nor have
anything of theirs run."""
import os
import socket
import struct
import tempfile
import threading
import time

from torch_crew import raises, skip_without

skip_without("numpy")
import gradwire
from gradwire.joining import addresses, lines, meeting, members
from support_caller import Caller, dial, record
from support_strangers import KINDS, call, drips, is_silent, sends_a_pickle
from support_threads import averages, free_port, on_threads, run_tests

SECRET = "a secret of this test"
# Far more than what is tested takes, far less than strangers would make of it.
SOON = 30


def meets(workers, strangers, **options):
    """A rendezvous to which strangers come first; how long the others took."""
    port, kept = free_port(), []
    began = []

    def comms(rank):
        if rank == 1:
            kept.extend(call(("127.0.0.1", port), kind) for kind in strangers)
            began.append(time.monotonic())
        elif rank > 1:
            while not began:
                time.sleep(0.01)
        return gradwire.rendezvous(rank, workers, f"127.0.0.1:{port}", secret=SECRET,
                                   address="127.0.0.1", **options)

    assert len(set(on_threads(workers, averages, comms))) == 1
    for s in kept:
        s.close()
    return time.monotonic() - began[0]


def test_each_kind_at_the_meeting():
    for kind in KINDS:
        took = meets(2, [kind])
        assert took < SOON, f"{kind.__name__}: {took} s"


def test_all_kinds_at_once():
    took = meets(3, KINDS * 3)
    assert took < SOON, f"{took} s"


def test_more_than_are_listened_to():
    took = meets(2, [is_silent] * (lines.GUESTS_MAX + 20))
    assert took < SOON, f"{took} s"


def test_many_workers_at_once():
    """More than are listened to at a time, each with its greeting: none is turned away."""
    workers = 3 * lines.GUESTS_MAX
    with addresses.listen_at(("127.0.0.1", 0), workers) as door:
        callers = []
        for rank in range(1, workers):
            callers.append(socket.create_connection(door.getsockname(), timeout=SOON))
            callers[-1].sendall(struct.pack("<8sII16s", b"GWMEET01", rank, 0, b"n" * 16))
        host = meeting.Host(door, workers, door.getsockname(), SECRET.encode(),
                            time.monotonic() + SOON)
        thread = threading.Thread(target=lambda: raises(
            gradwire.PeerError, "worker 1 has left", lambda: host.gather(b"")))
        thread.start()
        answered = [len(s.recv(56)) for s in callers]
        with dial(door.getsockname()[1]) as s:  # ends it
            Caller(s, b"GWMEET01", 1, 0, SECRET.encode()).say(3, record(1, workers, 1))
        thread.join()
    assert answered == [56] * (workers - 1), answered.count(56)
    for s in callers:
        s.close()


def connects(strangers):
    """The same in connect(): strangers call worker 0 once its address is known."""
    said, kept = [b"", b""], []
    both = threading.Barrier(2)
    began = []

    def comms(rank):
        def exchange(mine):
            said[rank] = mine
            both.wait()
            if rank == 1:
                where = members.unpack(said[0], 0, 2).addresses[0]
                kept.extend(call(where, kind) for kind in strangers)
                began.append(time.monotonic())
            both.wait()
            return list(said)
        return gradwire.connect(rank, 2, exchange, address="127.0.0.1")

    assert len(set(on_threads(2, averages, comms))) == 1
    for s in kept:
        s.close()
    return time.monotonic() - began[0]


def test_connect():
    took = connects(KINDS * 3)
    assert took < SOON, f"{took} s"


def test_the_limit_is_for_all_of_it():
    """A stranger that drips does not make a worker wait longer than it was told to."""
    port = free_port()
    begin = time.monotonic()
    stop = threading.Event()

    def bother():
        while not stop.is_set():
            call(("127.0.0.1", port), drips)
            stop.wait(0.3)

    threading.Thread(target=bother, daemon=True).start()
    raises(gradwire.PeerError, f"worker 1 has not come to 127.0.0.1:{port}",
           lambda: gradwire.rendezvous(0, 2, f"127.0.0.1:{port}", timeout=2, secret=SECRET,
                                       address="127.0.0.1"))
    stop.set()
    assert time.monotonic() - begin < 20


def test_nothing_of_theirs_is_run():
    """Neither by worker 0, whom a stranger calls, nor by a worker that has called a
    stranger."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "run")
        meets(2, [sends_a_pickle(path)])
        assert not os.path.exists(path)
        with socket.create_server(("127.0.0.1", 0)) as door:
            threading.Thread(target=false_host, args=(door, sends_a_pickle(path)),
                             daemon=True).start()
            raises(gradwire.PeerError, "worker 0 cannot be reached at 127.0.0.1",
                   lambda: gradwire.rendezvous(
                       1, 2, f"127.0.0.1:{door.getsockname()[1]}", timeout=2, address="127.0.0.1",
                       secret=SECRET))
        assert not os.path.exists(path)


def false_host(door, kind):
    kept = []
    while True:
        try:
            kept.append(door.accept()[0])
            kept[-1].recv(1)
            kind(kept[-1])
        except OSError:
            return


def echo(door):
    """Says whatever is said to it."""
    def back(s):
        try:
            while True:
                s.sendall(s.recv(4096) or b"?")
        except OSError:
            pass

    while True:
        try:
            s, _ = door.accept()
        except OSError:
            return
        threading.Thread(target=back, args=(s,), daemon=True).start()


def test_an_echo_is_nobody():
    """Who sends back what it hears is not taken for a worker, and hears no secret."""
    secret = b"0123456789abcdef"
    with socket.create_server(("127.0.0.1", 0)) as door:
        threading.Thread(target=echo, args=(door,), daemon=True).start()
        there = members.Member(0, 2, "there", secret, (door.getsockname(),)).pack()
        raises(gradwire.PeerError, "worker 0 on host there cannot be reached",
               lambda: gradwire.connect(1, 2, lambda mine: [there, mine], timeout=1,
                                    address="127.0.0.1"))


def test_unreachable():
    there = members.Member(0, 2, "there", b"x" * 16, (("127.0.0.1", 9),)).pack()
    error = raises(gradwire.PeerError, "worker 0 on host there cannot be reached at "
                   "127.0.0.1:9",
                   lambda: gradwire.connect(1, 2, lambda mine: [there, mine], timeout=0.5,
                                    address="127.0.0.1"))
    assert "GRADWIRE_ADDRESS" in str(error)


if __name__ == "__main__":
    run_tests(globals())
