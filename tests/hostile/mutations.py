# SPDX-License-Identifier: Apache-2.0
"""mutations.py - what a hostile peer does, one thing per case.

A mutation sees the messages on their way to a victim and says, for one of them, what is
sent in its place: a list of acts (relay.py), or None for "not with this one; ask again
with the next". Everything is drawn from the seed of the case.

What is right afterwards depends on what was done:

    EXACT   a victim fails, or has the model of the undisturbed run
    AGREE   the peer lies, and its lie is well formed: nobody can tell it from another
            gradient. Victims fail, or those that do not have the same model
"""
import random
import struct

import messages
from messages import ABORT, ALIVE, BUSY, GOODBYE, MESSAGE, frame, u32

EXACT, AGREE = "exact", "agree"

NUMBERS = [0x7FC00000, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x00000001,
           0x80000000, 0x7F800001, 0x7E967699]  # NaN, infinities, the largest, ...
COUNTS = [0, 1, 2, 7, 127, 128, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]


class Scene:
    """What a mutation knows: the message, what went before it, the case."""

    def __init__(self, job, rng, link, body):
        self.job, self.rng, self.link, self.body = job, rng, link, body

    @property
    def step(self):
        """That of the message if it has one."""
        if messages.is_headed(self.body):
            return struct.unpack_from("<I", self.body, 4)[0]
        return self.rng.randint(1, self.job["steps"])

    @property
    def n(self):
        if messages.is_headed(self.body):
            return struct.unpack_from("<I", self.body, 8)[0]
        return self.job["floats"]


def send(data):
    return ("send", data)


def stay():
    return ("stay",)


# ---- changing bytes ------------------------------------------------------------


def _number(rng, old):
    way = rng.randrange(4)
    if way == 0:
        return rng.choice(NUMBERS)
    if way == 1:
        return rng.choice(COUNTS)
    if way == 2:
        return (old + rng.choice([-1, 1])) & 0xFFFFFFFF
    return rng.getrandbits(32)


def _change_once(rng, body, begin, end):
    if end - begin >= 4 and rng.random() < 0.5:
        at = begin + 4 * rng.randrange((end - begin) // 4)
        old, = struct.unpack_from("<I", body, at)
        return body[:at] + u32(_number(rng, old)) + body[at + 4:]
    at = rng.randrange(begin, end)
    if rng.random() < 0.7:
        new = bytes([body[at] ^ 1 << rng.randrange(8)])
    else:
        new = rng.randbytes(min(rng.randint(1, 40), end - at))
    return body[:at] + new + body[at + len(new):]


def change(rng, body, begin, end):
    """Other bytes between begin and end, at least one of them."""
    while True:
        changed = _change_once(rng, body, begin, end)
        if changed != body:
            return changed


def _note_word(rng, job):
    """64 bits that claim to be a note that rides along with a reduction."""
    worker = rng.choice([0, 1, job["workers"], job["workers"] + 1, 0x7FFFFFFF, 0xFFFFFFFF])
    return struct.pack("<II", rng.choice([0, 1, 3, 4, 1000, 0xFFFFFFFF]), worker)


def _change_field(scene):
    """Some field of the message, each as often as the others."""
    rng, body = scene.rng, scene.body
    kind = messages.kind_of(body)
    if kind == "headed":
        _, begin, end = rng.choice(messages.parts_of_headed(body))
        return change(rng, body, begin, end)
    if kind in ("packed", "check") and len(body) >= 12 and rng.random() < 0.5:
        word = _note_word(rng, scene.job)
        changed = body[:-12] + word + body[-4:]
        return changed if changed != body else change(rng, body, len(body) - 12,
                                                       len(body) - 4)
    return change(rng, body, 0, len(body) - (4 if kind in ("packed", "check") else 0))


def _change_values(scene):
    """Numbers that the model is made of, and nothing else."""
    rng, body = scene.rng, scene.body
    kind = messages.kind_of(body)
    if kind == "headed":
        parts = [p for p in messages.parts_of_headed(body) if p[0] in ("scales", "values")]
        if not parts:
            return None
        _, begin, end = rng.choice(parts)
    elif kind == "packed" and len(body) > 12:
        begin, end = 0, len(body) - 12
    elif kind == "bytes":
        begin, end = 0, len(body)
    else:
        return None
    at = begin + rng.randrange(end - begin)
    return body[:at] + bytes([body[at] ^ 1 << rng.randrange(6)]) + body[at + 1:]


def _sealed(scene, body):
    """The bytes with the check that they need; that of bytes without one follows
    later."""
    kind = messages.kind_of(scene.body)
    if kind == "headed":
        return messages.seal_headed(body) if len(body) >= 20 else body
    if kind == "packed":
        return messages.seal_packed(body) if len(body) >= 4 else body
    if kind == "check":
        return scene.link.seal(body[:-4])
    scene.link.reseals = True
    return body


# ---- messages ------------------------------------------------------------------


def damage(scene):
    """Other bytes, and the check is that of before."""
    if not scene.body:
        return None
    if scene.rng.random() < 0.5:
        return [send(frame(change(scene.rng, scene.body, 0, len(scene.body))))]
    changed = _change_field(scene) if len(scene.body) > 4 else None
    return [send(frame(changed))] if changed else None


def sealed(scene):
    """Other bytes, and a check that fits them."""
    if len(scene.body) <= 4:
        return None
    return [send(frame(_sealed(scene, _change_field(scene))))]


def two_faced(scene):
    """Other numbers for one victim, with a check that fits."""
    changed = _change_values(scene) if len(scene.body) > 4 else None
    if changed is None:
        return None
    return [send(frame(_sealed(scene, changed)))]


def _resize(scene):
    rng, body = scene.rng, scene.body
    if rng.random() < 0.5 and body:
        return body[:rng.choice([0, len(body) - 1, max(len(body) - 4, 0),
                                 rng.randrange(len(body))])]
    more = rng.choice([1, 4, 8, 64, 100000])
    return body + (bytes(more) if rng.random() < 0.5 else rng.randbytes(more))


def resized(scene):
    """Shorter or longer; the frame's length is that of before, or fits."""
    body = _resize(scene)
    length = len(body) if scene.rng.random() < 0.6 else len(scene.body)
    return [send(frame(body, length=length))]


def resized_sealed(scene):
    body = _resize(scene)
    return [send(frame(_sealed(scene, body)))] if len(scene.body) > 4 else None


def note(scene):
    """A note in place of a message."""
    rng, workers = scene.rng, scene.job["workers"]
    step, n = scene.step, scene.n
    if rng.random() < 0.3:
        step += rng.choice([-1, 1])
    if rng.random() < 0.1:
        n += 1
    worker = rng.choice([0, 1, workers - 1, workers, workers + 1, *COUNTS])
    return [send(frame(messages.make_note(step, n, worker, rng.choice([0, 3, *COUNTS]))))]


def message(scene):
    """A message in place of a note, or of another message: well formed, and empty or
    full of nonsense."""
    rng, n, step = scene.rng, scene.n, scene.step
    way = rng.randrange(4)
    if way == 0:
        new = messages.make_headed(messages.SPARSE, 0, 0, step, n, 0, b"")
    elif way == 1:
        new = messages.make_headed(messages.DENSE, 0, 0, step, n, n,
                                   u32(rng.choice(NUMBERS)) * n)
    elif way == 2:
        norms = u32(0x3F800000) * -(-n // 512)
        new = messages.make_headed(messages.DENSE, 2, 4, step, n, n,
                                   u32(512) + norms + bytes((4 * n + 7) // 8))
    else:
        headed = [b for b in scene.link.history if messages.is_headed(b)]
        if not headed:
            return None
        old = rng.choice(headed)
        new = messages.seal_headed(old[:4] + u32(step) + old[8:])
    return [send(frame(new))] if new != scene.body else None


# ---- the order of frames -------------------------------------------------------


def drop(scene):
    return []


def twice(scene):
    return [send(frame(scene.body))] * 2


def swap(scene):
    """After the one that follows it."""
    scene.link.held = scene.body
    return []


def _one_of(scene, bodies):
    """One of them, preferably of the same length, that is not the message itself."""
    others = [b for b in bodies if b != scene.body]
    alike = [b for b in others if len(b) == len(scene.body)]
    if not others:
        return None
    chosen = alike if alike and scene.rng.random() < 0.8 else others
    return [send(frame(scene.rng.choice(chosen)))]


def replay(scene):
    """What this victim got before, or what it sent itself."""
    link = scene.link
    return _one_of(scene, link.history if scene.rng.random() < 0.7 else link.heard)


def cross(scene):
    """What another victim got, or sent."""
    links = [other for other in scene.link.relay.links if other is not scene.link]
    if not links:
        return replay(scene)
    link = scene.rng.choice(links)
    return _one_of(scene, link.history if scene.rng.random() < 0.6 else link.heard)


def made_up(scene):
    """A frame that nobody has asked for, before the right one."""
    rng = scene.rng
    length = rng.choice([0, 0, 1, 4, 12, len(scene.body), rng.randrange(2000)])
    return [send(frame(rng.randbytes(length))), send(frame(scene.body))]


# ---- heads of frames -----------------------------------------------------------


def head(scene):
    """Another length or kind."""
    rng, whole = scene.rng, frame(scene.body)
    way = rng.randrange(3)
    if way == 0:
        changed = change(rng, whole, 0, 8)
    elif way == 1:
        kind = rng.choice([GOODBYE, ABORT, ALIVE, BUSY, 5, 127, 128, 255])
        changed = whole[:7] + bytes([kind]) + whole[8:]
    else:
        length = rng.choice([0, len(scene.body) + 1, max(len(scene.body) - 1, 0),
                             2 * len(scene.body), 1 << 31, 1 << 32, 1 << 47, (1 << 56) - 1])
        changed = frame(scene.body, length=length)
    return [send(changed)] if changed != whole else None


def huge(scene):
    """A length without end, and as many bytes as the victim takes, or none."""
    length = scene.rng.choice([1 << 20, 1 << 30, 1 << 33, (1 << 56) - 1])
    kind = scene.rng.choice([MESSAGE, MESSAGE, ABORT, ALIVE, GOODBYE])
    acts = [send(frame(b"", kind, length))]
    way = scene.rng.randrange(3)
    if way == 0:
        return acts + [("flood", bytes(65536))]
    return acts + ([stay()] if way == 1 else [send(scene.body)])


# ---- control frames, and the connection ----------------------------------------


def flood(scene):
    """Many frames that mean little, and then the message; or no end of them."""
    rng = scene.rng
    one = rng.choice([frame(b"", ALIVE), frame(b"", GOODBYE), frame(b"", MESSAGE),
                      frame(struct.pack("<d", rng.choice([0, 1e9, 1e300])), BUSY),
                      frame(b"why", ABORT)])
    if rng.random() < 0.5:
        return [send(one * rng.choice([2, 40, 5000])), send(frame(scene.body))]
    return [("flood", one * 500)]


def signs(scene):
    """Signs of life for ever, and never the message."""
    return [("every", frame(b"", ALIVE), 0.04)]


def drip(scene):
    """The message, a byte now and then."""
    return [("drip", frame(scene.body), scene.rng.choice([0.02, 0.1]))]


def goodbye(scene):
    way = scene.rng.randrange(3)
    rest = [[stay()], [("close",)], [send(frame(scene.body))]][way]
    return [send(frame(b"", GOODBYE))] + rest


def abort(scene):
    """A reason to give up, of a kind that one would not show on a terminal."""
    reason = scene.rng.choice([
        b"", b"no reason", b"\x1b[2J\x1b]0;gone\x07", b"\xff\xfe\x00\x01", b"%s%n%d" * 20,
        "worker 0 \u202e\u0007".encode(), b"two\nlines\r", b"x" * 511, b"\xc3" * 511,
        b"y" * 512, bytes(600)])
    return [send(frame(reason, ABORT)), stay()]


def leave(scene):
    """The connection ends, in one way or another, or stays and is silent."""
    part = frame(scene.body)[:scene.rng.choice([0, 3, 8, 8 + len(scene.body) // 2])]
    way = scene.rng.choice([("shut",), ("close",), ("reset",), stay()])
    return [send(part), way, stay()] if part else [way, stay()]


def deaf(scene):
    """Nothing is read any more."""
    scene.link.deaf = True
    return [send(frame(scene.body))]


def nothing(scene):
    return [send(frame(scene.body))]


# name: (how often, what is right, what is done)
FAMILIES = {
    "nothing": (1, EXACT, nothing),
    "head": (10, EXACT, head),
    "damage": (16, EXACT, damage),
    "sealed": (20, AGREE, sealed),
    "two_faced": (5, AGREE, two_faced),
    "resized": (5, EXACT, resized),
    "resized_sealed": (4, AGREE, resized_sealed),
    "note": (4, AGREE, note),
    "message": (4, AGREE, message),
    "drop": (2, AGREE, drop),
    "twice": (3, AGREE, twice),
    "swap": (3, AGREE, swap),
    "replay": (4, AGREE, replay),
    "cross": (4, AGREE, cross),
    "made_up": (4, EXACT, made_up),
    "huge": (2, EXACT, huge),
    "flood": (4, EXACT, flood),
    "signs": (1, EXACT, signs),
    "drip": (1, EXACT, drip),
    "goodbye": (3, EXACT, goodbye),
    "abort": (2, EXACT, abort),
    "leave": (4, EXACT, leave),
    "deaf": (1, EXACT, deaf),
    "joining": (5, EXACT, None),  # odd_joining.py
}


def draw(rng):
    names = list(FAMILIES)
    return rng.choices(names, [FAMILIES[name][0] for name in names])[0]


class Mutation:
    """That of one case, at one message; for one victim, or for all alike."""

    def __init__(self, job):
        self.job = job
        self.done = False
        self._act = FAMILIES[job["family"]][2]
        self._over = set()  # links on which it was done

    def acts(self, link, index, body):
        """What to send in place of a message, or None if it is that message."""
        mine = self.job["victim"] in (None, link.victim)
        if self._act is None or not mine or link in self._over or index < self.job["at"]:
            return None
        rng = random.Random(self.job["seed"])  # the same for all victims
        acts = self._act(Scene(self.job, rng, link, body))
        if acts is not None:
            self._over.add(link)
            self.done = True
        return acts
