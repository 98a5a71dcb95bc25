#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The handshake, byte by byte, by a worker that was written from its description and
uses nothing of the package's; secrets that differ or are missing; what is received is
checked."""
import glob
import os
import random
import re
import socket
import struct
import subprocess
import sys
import threading

from torch_crew import raises, skip_without

skip_without("numpy")
import gradwire
from gradwire.joining import handshake, members
from support_caller import SECRET, Caller, dial, exactly, record
from support_threads import averages, free_port, on_threads, run_tests


# ---- by the bytes -------------------------------------------------------------


def host_of_two(**options):
    """Worker 0 in a thread; its port, the thread, and where its end is put down."""
    port, end = free_port(), []

    def run():
        try:
            with gradwire.rendezvous(0, 2, f"127.0.0.1:{port}", secret=SECRET,
                                     address="127.0.0.1", **options) as comm:
                end.append(comm.workers)
        except Exception as error:
            end.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return port, thread, end


def test_bytes():
    """A worker made of this file alone comes to the meeting and connects."""
    port, thread, end = host_of_two()
    with dial(port) as s, socket.create_server(("127.0.0.1", 0)) as listener:
        guest = Caller(s, b"GWMEET01", 1, 0)
        guest.say(3, record(1, 2, listener.getsockname()[1]))
        kind, body = guest.hear()
        assert kind == 4
        length, = struct.unpack_from("<I", body)
        zero = members.unpack(body[4:4 + length], 0, 2)
        assert zero.secret == b"" and SECRET not in body
    with dial(zero.addresses[0][1]) as s:
        caller = Caller(s, b"GWMESH01", 1, 0)
        caller.say(1)
        assert caller.hear() == (1, b"")
        thread.join()
    assert end == [2], end


def test_turned_away():
    """Replays, reflections, proofs for another purpose or rank."""
    port, thread, end = host_of_two(timeout=3)
    sent = []

    class Recorder:
        def __init__(self, s):
            self.s, self.recv = s, s.recv

        def sendall(self, data):
            sent.append(data)
            self.s.sendall(data)

    def refused(act, after):
        """The other side ends it after so many bytes, or at once, by a reset."""
        with dial(port) as s:
            try:
                act(s)
            except ConnectionError:
                return
            except AssertionError as error:
                assert after in str(error), error
                return
        raise AssertionError("was not turned away")

    with dial(port) as s:
        Caller(Recorder(s), b"GWMEET01", 1, 0)  # and leaves without a record

    def replays(s):
        for data in sent:
            s.sendall(data)
        exactly(s, 56 + 32)

    refused(replays, "after 56 of 88")
    refused(lambda s: Caller(s, b"GWMEET01", 1, 0, wrong="reflects"), "after 0 of 32")
    refused(lambda s: Caller(s, b"GWMEET01", 1, 0, secret=b"another one"), "not proved")
    for purpose, rank, peer in ((b"GWMESH01", 1, 0), (b"GWMEET01", 0, 0),
                                (b"GWMEET01", 2, 0), (b"GWMEET01", 1, 1)):
        refused(lambda s: Caller(s, purpose, rank, peer), "after 0 of 56")

    def too_long(s):
        Caller(s, b"GWMEET01", 1, 0).say(3, b"", length=(4 << 30) - 1)
        exactly(s, 1)

    refused(too_long, "after 0 of 1")
    thread.join()
    assert isinstance(end[0], gradwire.PeerError), end
    assert "worker 1 has not come" in str(end[0]) and "another secret" in str(end[0])


# ---- secrets -------------------------------------------------------------------


def test_secret_never_travels():
    """Nothing that crosses the wire of a whole rendezvous holds it."""
    seen, own = [], socket.socket.send

    def watched(self, data, *rest):
        seen.append(bytes(data))
        return own(self, data, *rest)

    port = free_port()
    socket.socket.send = watched
    try:
        on_threads(3, averages, lambda rank: gradwire.rendezvous(
            rank, 3, f"127.0.0.1:{port}", secret=SECRET, address="127.0.0.1"))
    finally:
        socket.socket.send = own
    assert len(seen) > 10 and SECRET not in b"".join(seen)


def test_wrong_secret_is_said():
    port, thread, end = host_of_two(timeout=3)
    raises(gradwire.MismatchError,
           f"worker 0 at 127.0.0.1:{port} has another secret than worker 1",
           lambda: gradwire.rendezvous(1, 2, f"127.0.0.1:{port}", secret="something else"))
    thread.join()
    assert "1 callers had another secret" in str(end[0]), end


def test_secret_is_asked_for():
    os.environ.pop("GRADWIRE_SECRET", None)
    raises(ValueError, "needs the job's secret",
           lambda: gradwire.rendezvous(1, 2, "127.0.0.1:1"))
    raises(ValueError, "easy to guess",
           lambda: gradwire.rendezvous(1, 2, "127.0.0.1:1", secret="short"))


def test_secret_is_shown():
    """Worker 0 draws one, and its line is all that the other needs."""
    port = free_port()
    code = ("import sys, gradwire\n"
            f"with gradwire.rendezvous(int(sys.argv[1]), 2, '127.0.0.1:{port}', "
            "address='127.0.0.1') as comm: comm.barrier()")
    env = {k: v for k, v in os.environ.items() if k != "GRADWIRE_SECRET"}
    zero = subprocess.Popen([sys.executable, "-c", code, "0"], env=env, text=True,
                            stderr=subprocess.PIPE)
    line = zero.stderr.readline()
    name, value = re.fullmatch(r"gradwire: .* with (GRADWIRE_SECRET)=(\S{32})\n",
                               line).groups()
    one = subprocess.run([sys.executable, "-c", code, "1"], env=dict(env, **{name: value}),
                         capture_output=True, text=True, timeout=100)
    assert one.returncode == 0 and one.stderr == "", one
    assert zero.wait(100) == 0 and zero.stderr.read() == ""


# ---- what is received ----------------------------------------------------------


def test_no_pickle():
    for path in glob.glob(os.path.join(os.path.dirname(gradwire.__file__), "*.py")):
        with open(path) as f:
            found = re.search(r"\bimport (pickle|marshal|shelve)|object_list|_object\(", f.read())
        assert not found, f"{path}: {found}"


def test_records():
    good = members.Member(1, 4, "host", b"s" * 32, (("10.0.0.1", 4321), ("b", 1)))
    assert members.unpack(good.pack(), 1, 4) == good
    long = members.Member(0, 1, "h" * 300, b"", (("a" * 255, 65535),) * 30)
    assert len(long.pack()) <= members.RECORD_MAX
    assert len(members.unpack(long.pack(), 0, 1).addresses) == members.ADDRESSES_MAX
    raises(gradwire.DataError, "says that its rank is 1", lambda: members.unpack(
        good.pack(), 2, 4))
    raises(gradwire.DataError, "as one of 4 workers, others as one of 5",
           lambda: members.unpack(good.pack(), 1, 5))
    raises(gradwire.DataError, "is not bytes, or it is longer", lambda: members.unpack({}, 1, 5))
    escapes = members.Member(1, 4, "\x1b[2J\n", b"", (("a", 1),)).pack()
    assert members.unpack(escapes, 1, 4).host == "?[2J?"


def test_mutated_records():
    seed = int(os.environ.get("GW_TEST_SEED") or os.environ.get("GW_DEFAULT_SEED") or random.randrange(1 << 32))
    print(f"seed {seed}")
    rng = random.Random(seed)
    good = members.Member(1, 4, "host", b"s" * 32, (("10.0.0.1", 4321),)).pack()
    for _ in range(20000):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        data = bytes(data[:rng.randrange(len(data) + 1)]) + rng.randbytes(rng.randrange(3))
        for read in (lambda: members.unpack(data, 1, 4), lambda: members.unpack_all(data, 2)):
            try:
                read()
            except gradwire.DataError:
                pass


def test_two_of_one_number():
    """And workers that were started for jobs of different size: worker 0 says it, and so
    does the one that is wrong; a third may come when all is over."""
    for rank, workers, text in ((1, 3, "two workers have rank 1"),
                                (2, 5, "worker 2 was started as one of 5 workers")):
        port, errors = free_port(), []

        def comms(i):
            try:
                return gradwire.rendezvous((0, 1, rank)[i], (3, 3, workers)[i],
                                           f"127.0.0.1:{port}", secret=SECRET,
                                           address="127.0.0.1", timeout=5)
            except gradwire.GradwireError as error:
                errors.append(str(error))
                raise

        raises(gradwire.GradwireError, "", lambda: on_threads(3, averages, comms))
        assert sum(text in e for e in errors) >= 2, errors


def test_words_are_bounded():
    session = handshake.Session(b"k" * 32, True, 0)
    talk = session.read_word({1: 0, 2: 500})
    assert next(talk) == 8
    raises(handshake.Stranger, "kind 2 with 501 bytes",
           lambda: talk.send(struct.pack("<II", 2, 501)))
    talk = session.read_word({1: 0})
    next(talk)
    raises(handshake.Stranger, "kind 7", lambda: talk.send(struct.pack("<II", 7, 0)))


if __name__ == "__main__":
    run_tests(globals())
