# SPDX-License-Identifier: Apache-2.0
"""A worker written from the description of the handshake alone: it uses nothing of the
package's, and can do wrong what a test wants it to."""
import hashlib
import hmac
import os
import socket
import struct
import time

SECRET = b"a secret of this test"


def keyed(key, *parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def exactly(s, length):
    data = b""
    while len(data) < length:
        part = s.recv(length - len(data))
        assert part, f"the connection ended after {len(data)} of {length} bytes"
        data += part
    return data


class Caller:
    """The caller's side of a connection; `wrong` names what it does not do right."""

    def __init__(self, s, purpose, rank, peer, secret=SECRET, wrong=""):
        self.s, self.purpose, self.secret = s, purpose, secret
        ranks, nonce = struct.pack("<II", rank, peer), os.urandom(16)
        s.sendall(purpose + ranks + nonce)
        answer = exactly(s, 56)
        assert answer[:8] == purpose
        self.bound = ranks + nonce + answer[8:24]
        assert answer[24:] == self.proof(b"callee"), "worker 0 has not proved itself"
        s.sendall(self.proof(b"callee" if wrong == "reflects" else b"caller"))
        if wrong == "does not wait":
            return
        assert exactly(s, 32) == self.proof(b"settle")
        self.key = self.proof(b"session")

    def proof(self, role):
        return keyed(self.secret, self.purpose, role.ljust(8, b"\0"), self.bound)

    def say(self, kind, body=b"", length=None):
        data = struct.pack("<II", kind, len(body) if length is None else length) + body
        self.s.sendall(data + keyed(self.key, b"caller\0\0", data))

    def hear(self):
        head = exactly(self.s, 8)
        kind, length = struct.unpack("<II", head)
        body = exactly(self.s, length)
        assert exactly(self.s, 32) == keyed(self.key, b"callee\0\0", head, body)
        return kind, body


def record(rank, workers, port, host=b"here"):
    return (struct.pack("<II", rank, workers) + bytes([len(host)]) + host + b"\0" + b"\1" +
            bytes([9]) + b"127.0.0.1" + struct.pack("<H", port))


def dial(port):
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=20)
        except ConnectionRefusedError:
            time.sleep(0.01)
