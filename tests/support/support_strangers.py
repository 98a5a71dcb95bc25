# SPDX-License-Identifier: Apache-2.0
"""Those who call where workers meet and are none: one function for each kind. Each takes
a connected socket, and leaves it open unless leaving is what it does."""
import os
import pickle
import socket
import struct
import threading
import time

HELLO = struct.pack("<8sII16s", b"GWMEET01", 1, 0, b"n" * 16)


def leaves(s):
    s.close()


def resets(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def is_silent(s):
    pass


def asks_for_a_page(s):
    s.sendall(b"GET / HTTP/1.0\r\n\r\n")


def speaks_tls(s):
    s.sendall(bytes([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]) + os.urandom(200))


def drips(s):
    """A byte of a good greeting now and then, for ever."""
    def drip():
        try:
            for byte in HELLO * 1000:
                s.sendall(bytes([byte]))
                time.sleep(0.5)
        except OSError:
            pass

    threading.Thread(target=drip, daemon=True).start()


def says_half(s):
    s.sendall(HELLO[:20])


def guesses(s):
    """All of the greeting, and a proof out of the air."""
    s.sendall(HELLO + b"p" * 32)


class Bomb:
    """What a pickle of it does to whoever reads it."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def sends_a_pickle(path):
    data = pickle.dumps((1, Bomb(path)))

    def sends(s):
        s.sendall(struct.pack("<Q", len(data)) + data)

    return sends


KINDS = [leaves, resets, is_silent, asks_for_a_page, speaks_tls, drips, says_half, guesses]


def call(address, kind):
    """Connects as soon as somebody listens there; the socket, to be kept."""
    while True:
        try:
            s = socket.create_connection(address, timeout=20)
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    try:
        kind(s)
    except OSError:
        pass  # turned away already
    return s
