# SPDX-License-Identifier: Apache-2.0
"""joining.py - how a worker joins a job, written from the documented handshake alone.

Nothing of gradwire is imported. Every piece of bytes passes through `tamper` before it
is sent, so that a peer can also misbehave while it joins. Calls block: the other side
serves all of its callers at once, so that the order in which this one goes to them does
not matter.
"""
import hashlib
import hmac
import os
import socket
import struct
import time

MESH, MEET = b"GWMESH01", b"GWMEET01"
READY, FAILED, RECORD, EVERYBODY = 1, 2, 3, 4


class NotJoined(Exception):
    """The other side did not go on, or is not what it should be."""


def keyed(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def untouched(_, data):
    return data


def read(sock, length):
    data = b""
    while len(data) < length:
        part = sock.recv(length - len(data))
        if not part:
            raise NotJoined("the connection ended")
        data += part
    return data


class Line:
    """A connection on which both sides have proved themselves."""

    def __init__(self, sock, proof, calls, peer, tamper):
        self.sock, self.peer = sock, peer
        self._key, self._calls, self._tamper = proof(b"session"), calls, tamper

    def _check(self, calls, data):
        speaker = b"caller" if calls else b"callee"
        return keyed(self._key, struct.pack("<8s", speaker) + data)

    def say(self, name, kind, body=b""):
        body = self._tamper(name + " body", body)
        data = self._tamper(name + " word", struct.pack("<II", kind, len(body)) + body)
        self.sock.sendall(self._tamper(name, data + self._check(self._calls, data)))

    def hear(self, wanted):
        head = read(self.sock, 8)
        kind, length = struct.unpack("<II", head)
        body = read(self.sock, length)
        if read(self.sock, 32) != self._check(not self._calls, head + body):
            raise NotJoined("a word with a wrong check")
        if kind != wanted:
            raise NotJoined("a word of kind %d: %r" % (kind, body))
        return body


class Joining:
    def __init__(self, rank, workers, where, secret, seconds, tamper=untouched):
        self.rank, self.workers, self.where, self.secret = rank, workers, where, secret
        self.tamper = tamper
        self._deadline = time.monotonic() + seconds

    def run(self):
        """Sockets to all others, by rank."""
        with self._listen(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            lines = {}
            try:
                everybody = self._meet(self._record(port))
                self._connect(listener, everybody, lines)
            except BaseException:
                for line in lines.values():
                    line.sock.close()
                raise
            return {peer: line.sock for peer, line in lines.items()}

    # ---- one connection --------------------------------------------------------

    def _left(self):
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise NotJoined("no time is left")
        return left

    def _listen(self, where):
        listener = socket.create_server(where, backlog=64)
        listener.settimeout(self._left())
        return listener

    def _proofs(self, purpose, caller, callee, nonces):
        def proof(role):
            fields = struct.pack("<8s8sII", purpose, role, caller, callee)
            return keyed(self.secret, fields + nonces)
        return proof

    def _reach(self, where):
        while True:
            try:
                sock = socket.create_connection(where, timeout=self._left())
                sock.settimeout(self._left())
                return sock
            except ConnectionRefusedError:  # worker 0 has not opened its door yet
                time.sleep(min(0.005, self._left()))

    def _call(self, purpose, where, peer):
        sock = self._reach(where)
        mine = os.urandom(16)
        hello = struct.pack("<8sII16s", purpose, self.rank, peer, mine)
        sock.sendall(self.tamper("hello", hello))
        word, theirs, said = struct.unpack("<8s16s32s", read(sock, 56))
        proof = self._proofs(purpose, self.rank, peer, mine + theirs)
        if word != purpose or said != proof(b"callee"):
            raise NotJoined("somebody else answers")
        sock.sendall(self.tamper("proof", proof(b"caller")))
        if read(sock, 32) != proof(b"settle"):
            raise NotJoined("somebody else answers")
        return Line(sock, proof, True, peer, self.tamper)

    def _answer(self, purpose, door):
        """The next caller that proves itself. Those who only look whether somebody
        listens here close their connection again."""
        while True:
            sock, _ = door.accept()
            sock.settimeout(self._left())
            try:
                return self._greet(purpose, sock)
            except (NotJoined, ConnectionError):
                sock.close()

    def _greet(self, purpose, sock):
        word, caller, callee, theirs = struct.unpack("<8sII16s", read(sock, 32))
        mine = os.urandom(16)
        proof = self._proofs(purpose, caller, callee, theirs + mine)
        answer = struct.pack("<8s16s32s", purpose, mine, proof(b"callee"))
        sock.sendall(self.tamper("answer", answer))
        if word != purpose or callee != self.rank or read(sock, 32) != proof(b"caller"):
            raise NotJoined("somebody else calls")
        sock.sendall(self.tamper("settle", proof(b"settle")))
        return Line(sock, proof, False, caller, self.tamper)

    # ---- the meeting -----------------------------------------------------------

    def _record(self, port):
        def short(text):
            return struct.pack("<B", len(text)) + text
        return (struct.pack("<II", self.rank, self.workers) + short(b"elsewhere") +
                short(b"") + struct.pack("<B", 1) + short(b"127.0.0.1") +
                struct.pack("<H", port))

    def _meet(self, record):
        """Everybody's record, in the order of ranks."""
        if self.rank == 0:
            return self._host(record)
        line = self._call(MEET, self.where, 0)
        with line.sock:
            line.say("record", RECORD, record)
            data = line.hear(EVERYBODY)
        records = []
        while data:
            length, = struct.unpack_from("<I", data)
            records.append(data[4:4 + length])
            data = data[4 + length:]
        return records

    def _host(self, record):
        records, guests = {0: record}, {}
        with self._listen(self.where) as door:
            while len(records) < self.workers:
                line = self._answer(MEET, door)
                if line.peer in guests:  # it had no patience and calls again
                    guests[line.peer].sock.close()
                guests[line.peer] = line
                try:
                    records[line.peer] = line.hear(RECORD)
                except (NotJoined, ConnectionError):
                    continue
        ordered = [records[r] for r in range(self.workers)]
        for line in guests.values():
            with line.sock:
                line.say("everybody", EVERYBODY,
                         b"".join(struct.pack("<I", len(r)) + r for r in ordered))
        return ordered

    # ---- the mesh --------------------------------------------------------------

    @staticmethod
    def _address(record):
        """The last of its addresses, which is that of the loopback device."""
        at = 8
        for _ in range(2):  # the host's name, the secret
            at += 1 + record[at]
        count, at = record[at], at + 1
        for _ in range(count):
            length = record[at]
            host = record[at + 1:at + 1 + length].decode()
            port, = struct.unpack_from("<H", record, at + 1 + length)
            at += 1 + length + 2
        return host, port

    def _connect(self, listener, everybody, lines):
        for peer in range(self.rank):
            lines[peer] = self._call(MESH, self._address(everybody[peer]), peer)
        while len(lines) < self.workers - 1:
            line = self._answer(MESH, listener)
            if line.peer in lines:
                lines[line.peer].sock.close()
            lines[line.peer] = line
        for line in lines.values():
            line.say("ready", READY)
        for line in lines.values():
            line.hear(READY)
