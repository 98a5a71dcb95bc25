# SPDX-License-Identifier: Apache-2.0
"""relay.py - a hostile peer: an honest worker, and somebody who changes what it sends.

    victim  <---- TCP ---->  link  <---- socket pair ---->  the worker within
                               ^
                           mutation

The peer joins by code of its own (joining.py). Behind it runs an ordinary worker of the
same job, so that everything is as it should be but for the one mutation of the case.

What is sent to a victim is a queue of acts:

    ("send", data)          the bytes
    ("drip", data, gap)     the bytes one by one, a gap of seconds after each
    ("every", data, gap)    the bytes again and again, for ever
    ("flood", data)         the same as fast as the victim takes them
    ("echo", i, word, by)   the victim's own i-th word about its model, and its check; the
                            other word if it has not come at that time
    ("shut",) ("close",) ("reset",)   ends the connection
    ("stay",)               nothing more, for ever
"""
import collections
import selectors
import socket
import struct
import threading
import time

import gradwire
import messages
import training
from joining import Joining, NotJoined, untouched
from messages import ABORT, GOODBYE, MESSAGE, frame
from mutations import Mutation
from odd_joining import Tamper

_RUSH = 1 << 18   # bytes that are read or written at a time
_ECHO_SECONDS = 0.1


class Words:
    """Finds the words about models in a stream: messages of 4 bytes that are no checks of
    those before them."""

    def __init__(self):
        self.found = []
        self._last, self._checked = b"", True  # the message before, and whether it is

    def take(self, body):
        """Whether it is one."""
        word = len(body) == 4 and (self._checked or messages.checks_itself(self._last))
        if word:
            self.found.append(body)
        self._last, self._checked = body, messages.ends_bytes(body) and not word
        return word


class Link:
    """The connection to one victim, and the worker's to it."""

    def __init__(self, relay, victim, outer):
        self.relay, self.victim, self.outer = relay, victim, outer
        self.inner, self.worker = socket.socketpair()
        outer.setblocking(False)
        self.inner.setblocking(False)
        self.acts = collections.deque()
        self.index = 0          # messages that the worker has sent
        self.history, self.heard = [], []   # messages to and from the victim
        self.held = None        # one that goes after the next
        self.reseals = False    # the next check must fit what was changed
        self.deaf = False
        self.listens = True     # the victim
        self.open, self.within = True, True  # the victim, and the worker, are there
        self._since = []        # messages to the victim since the last check
        self._words, self._words_heard = Words(), Words()
        self._skips = False     # the next message goes with one that was echoed
        self._to_worker = bytearray()
        self._down, self._up = messages.Frames(), messages.Frames()
        self._next = 0.0        # when the next byte drips

    # ---- from the worker to the victim -----------------------------------------

    def take_from_worker(self):
        data = _receive(self.inner)
        if data is None:
            return
        if not data:
            self.within = False
            if not self.relay.hushed:
                self.acts.append(("shut",))
            return
        self._down.feed(data)
        for kind, body in self._down:
            if kind == MESSAGE:
                self._forward(body)
            elif not (self.relay.hushed and kind in (ABORT, GOODBYE)):
                self.acts.append(("send", frame(body, kind)))

    def _forward(self, body):
        word = self._words.take(body)
        if self._skips:
            self._skips = False
            return
        if messages.ends_bytes(body) and self.reseals:
            body = self.seal(body[:-4])
            self.reseals = False
        acts = self.relay.mutation.acts(self, self.index, body)
        if acts is None and word and self.relay.echoes:
            acts = [self._echo(body)]
        elif acts is None:
            acts = [("send", frame(body))]
        if self.held is not None and acts != []:
            acts.append(("send", frame(self.held)))
            self.held = None
        self.acts += acts
        self._note(body, acts)

    def _note(self, body, acts):
        """Remembers a message, and what was sent in its place."""
        self.index += 1
        self.history.append(body)
        sent = [a[1][messages.HEAD_LEN:] for a in acts if a[0] == "send"] or [body]
        self._since = [] if messages.ends_bytes(body) else self._since + sent[-1:]

    def _echo(self, word):
        """When models are compared each sends the other a word, and then its check."""
        self._skips = True
        return ("echo", len(self._words.found), word, time.monotonic() + _ECHO_SECONDS)

    def seal(self, note):
        """The check of the bytes before and of a note."""
        bare = b"".join(b for b in self._since if not messages.checks_itself(b))
        return note + messages.u32(messages.crc32c(bare + note))

    # ---- from the victim to the worker -----------------------------------------

    def take_from_victim(self):
        data = _receive(self.outer)
        if data is None:
            return
        if not data:
            self.leave()
            return
        self._to_worker += data
        self._up.feed(data)
        for kind, body in self._up:
            if kind == MESSAGE:
                self.heard.append(body)
                self._words_heard.take(body)

    def give_to_worker(self):
        try:
            sent = self.inner.send(self._to_worker[:_RUSH])
            del self._to_worker[:sent]
            if not self.open and not self._to_worker:
                self.inner.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self._to_worker.clear()  # what the worker said last is still to be read

    # ---- acts ------------------------------------------------------------------

    def act(self, now):
        """Does what can be done without waiting."""
        while self.open and self.listens and self.acts and self._first(now):
            self.acts.popleft()

    def _first(self, now):
        """The first act; True if it is over."""
        name, *rest = self.acts[0]
        if name == "stay":
            return False
        if name in ("shut", "close", "reset"):
            self._end(name)
            return True
        if name == "echo":
            return self._answer(*rest, now)
        if name in ("drip", "every"):
            return self._slowly(name, *rest, now)
        left = self._send(rest[0])
        if name == "flood":
            return False
        self.acts[0] = ("send", left)
        return not left

    def _answer(self, i, word, until, now):
        if len(self._words_heard.found) >= i:
            word = self._words_heard.found[i - 1]
        elif now < until:
            return False
        self.acts[0] = ("send", frame(word) + frame(messages.u32(messages.crc32c(word))))
        return self._first(now)

    def _slowly(self, name, data, gap, now):
        if now < self._next:
            return False
        self._next = now + gap
        if name == "every":
            self._send(data)
            return False
        self._send(data[:1])
        self.acts[0] = (name, data[1:], gap)
        return len(data) == 1

    def _send(self, data):
        """What was not sent."""
        try:
            return data[self.outer.send(data[:_RUSH]):]
        except BlockingIOError:
            return data
        except OSError:
            self.listens = False  # what it said last is still to be read
            return data

    def _end(self, how):
        if how == "shut":
            try:
                self.outer.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            return
        if how == "reset":
            self.outer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                  struct.pack("ii", 1, 0))
        self.leave()

    def leave(self):
        """The victim is gone, or this side goes; the worker within sees it."""
        self.open = False
        self.outer.close()
        self.give_to_worker()

    # ---- what to wait for ------------------------------------------------------

    def interests(self):
        found = []
        if self.open:
            writes = self.listens and self.acts and self.acts[0][0] in ("send", "flood")
            events = (0 if self.deaf else selectors.EVENT_READ) | (
                selectors.EVENT_WRITE if writes else 0)
            if events:
                found.append((self.outer, events, self.take_from_victim))
        if self.within:
            events = selectors.EVENT_READ | (
                selectors.EVENT_WRITE if self._to_worker else 0)
            found.append((self.inner, events, self.take_from_worker))
        return found

    @property
    def waits(self):
        """Whether the first act waits for the clock."""
        return (self.open and self.listens and self.acts and
                self.acts[0][0] in ("drip", "every", "echo"))

    def close(self):
        self.outer.close()
        self.inner.close()


def _receive(sock):
    """Bytes; none of them at the end; None if there are none yet."""
    try:
        return sock.recv(_RUSH)
    except BlockingIOError:
        return None
    except OSError:
        return b""


class Relay:
    def __init__(self, job):
        self.job = job
        self.mutation = Mutation(job)
        self.links = []
        self._wake, self._woken = socket.socketpair()
        self._ended = False
        self._came = None

    @property
    def echoes(self):
        """Whether each victim hears its own word when models are compared."""
        return self.job["echoes"] and self.mutation.done

    @property
    def hushed(self):
        """Whether the peer hides from the victims that its worker has failed."""
        return self.job["hushes"] and self.mutation.done

    def end(self):
        """The victims are through; from any thread."""
        try:
            self._wake.send(b"x")
        except OSError:
            pass

    def run(self):
        """What happened: whether the peer has joined, and misbehaved; how many messages
        each victim was sent; what came of the worker within."""
        tamper = Tamper(self.job) if self.job["family"] == "joining" else untouched
        host, port = self.job["where"].split(":")
        try:
            sockets = Joining(self.job["rank"], self.job["workers"], (host, int(port)),
                              self.job["secret"].encode(), self.job["limit"], tamper).run()
        except (NotJoined, OSError, struct.error) as error:
            self._close()
            return {"joined": False, "done": getattr(tamper, "done", False),
                    "why": repr(error), "frames": {}, "within": None}
        self.links = [Link(self, victim, sock) for victim, sock in sockets.items()]
        within = threading.Thread(target=self._work, daemon=True)
        within.start()
        try:
            self._relay()
        finally:
            self._close()
            within.join(60)
        done = self.mutation.done or getattr(tamper, "done", False)
        return {"joined": True, "done": done,
                "frames": {link.victim: link.index for link in self.links},
                "within": self._came}

    def _work(self):
        ends = {link.victim: link.worker for link in self.links}
        sockets = [ends.get(r) for r in range(self.job["workers"])]
        self._came = training.run(
            self.job, self.job["rank"],
            lambda: gradwire.Comm.from_sockets(sockets, self.job["rank"],
                                               timeout=self.job["limit"]))

    def _relay(self):
        while not self._ended and any(link.open or link.within for link in self.links):
            with selectors.DefaultSelector() as selector:
                selector.register(self._woken, selectors.EVENT_READ, None)
                for link in self.links:
                    for sock, events, take in link.interests():
                        selector.register(sock, events, (link, take))
                nap = 0.01 if any(link.waits for link in self.links) else 0.2
                ready = selector.select(nap)
            for key, events in ready:
                if key.data is None:
                    self._ended = True
                    continue
                link, take = key.data
                if events & selectors.EVENT_READ:
                    take()
                if events & selectors.EVENT_WRITE and key.fileobj is link.inner:
                    link.give_to_worker()
            now = time.monotonic()
            for link in self.links:
                link.act(now)

    def _close(self):
        for link in self.links:
            link.close()
        self._wake.close()
        self._woken.close()
