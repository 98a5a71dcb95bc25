# SPDX-License-Identifier: Apache-2.0
#
# test_hostile_peer.py - one worker of a job is hostile. It joins as the handshake is
# documented, runs an honest worker behind a relay of its own, and does one thing wrong:
# it changes a frame or a message, with or without a check that fits, lets it fall, tells
# one victim what it does not tell the other, floods, drips, leaves. Every honest worker
# fails with an error of gradwire's in bounded time, or ends with the right model; never
# with another one and no error (tests/hostile/mutations.py says what is right when).
#
# GW_HOSTILE=100000 says how many cases (default: 300, and 100 where the library was not
# built with the address sanitizer, under which everything runs otherwise), GW_TEST_SEED
# repeats a run, and GW_HOSTILE_CASE=17 runs case 17 of it alone.
import collections
import json
import os
import queue
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import unicodedata

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(HERE, "hostile"))
import mutations  # noqa: E402
from mutations import AGREE  # noqa: E402

SEED = int(os.environ.get("GW_TEST_SEED") or os.environ.get("GW_DEFAULT_SEED") or time.time_ns() % 1000000)
# They turn the direction of writing.
TURNS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
ONLY = os.environ.get("GW_HOSTILE_CASE")
BUILD = os.environ["GRADWIRE_BUILD"]
with open(os.path.join(BUILD, "libgradwire.so"), "rb") as library:
    SANITIZER = re.search(rb"libasan\.so\.\d+", library.read())
CASES = int(os.environ.get("GW_HOSTILE", "300" if SANITIZER else "100"))

# Every recipe is here, and compositions that send other messages.
SPECS = [
    "dense", "none", "topk:0.05", "gtopk:0.05", "drop:0.9", "qsgd:4", "a2sgd", "local:2",
    "oneshot", "spa:3", "pqasgd:2,8", "dense+bf16", "topk:0.05+q:4", "topk:0.05+1bit",
    "topk:0.05+2bit", "topk:0.05+bf16", "topk:0.05,dense_below=100",
    "topk:0.05,warmup=1+momentum:0.9", "gtopk:0.05,putback=paper+q:4", "gtopk:0.05+2bit",
    "drop:0.9+1bit:centre=column", "drop:0.9,threshold=tensor", "qsgd:4,via=gather",
    "qsgd:8,norm=l2,residual=on", "qsgd:4,dense_below=100", "a2sgd:resync=2",
    "randk:0.1", "sign", "update:1+topk:0.05", "randk:0.1,dense_below=100", "sign:64,via=gather",
    "gtopk:0.05,putback=keep", "topk:0.05+momentum:0.9,nesterov=on",
    "local:2+topk:0.05", "local:2+gtopk:0.05+q:4", "local:2,start=2",
    "local:1,average=polyak", "pqasgd:2,4,via=gather", "dense+check:2", "oktopk:0.05", "oktopk:0.05+q:4", "lowrank:2",
    "lowrank:2,error=own", "sparta:0.1", "topk:0.05+ef21", "diloco:2", "sparseloco:2",
    "demo:0.05", "distro:0.05", "adasum", "qsgd:2,norm=l2,code=entropy", "gtopk:0.3+q:3,code=entropy"]
FLOATS = {"doubling": 708, "ring": 9400, "chunks": 45750}

# Cases that have gone wrong once, and are always run: worker 0 of 3 lies to one victim.
ONCE_WRONG = [
    # The average in finish(), after which nobody compared the models.
    {"spec": "oneshot", "steps": 3, "family": "two_faced", "victim": 1, "at": 4},
    {"spec": "spa:3", "steps": 3, "family": "two_faced", "victim": 2, "at": 7},
    {"spec": "local:2", "steps": 3, "family": "two_faced", "victim": 1, "at": 5},
    {"spec": "local:1,average=polyak", "steps": 3, "family": "two_faced", "victim": 2,
     "at": 7},
    {"spec": "a2sgd:resync=2", "steps": 2, "family": "two_faced", "victim": 1, "at": 6},
    # Victims that heard of each other's models from the peer alone.
    {"spec": "dense", "steps": 3, "family": "two_faced", "victim": 2, "at": 4},
    {"spec": "topk:0.05", "steps": 3, "family": "two_faced", "victim": 1, "at": 4},
    {"spec": "gtopk:0.05+2bit", "steps": 3, "family": "two_faced", "victim": 2, "at": 4},
]

BATCH = 10        # cases of one job, which share an undisturbed run
CREWS = 2         # pairs of processes
SLOTS = 8         # cases that a crew runs at a time
LIMIT = 2.0       # seconds: the time limit of the workers in a case
PATIENT = 60.0    # seconds: in an undisturbed run
GRACE = 120.0     # seconds by which a victim may be late on a busy machine
PEAK_MB = 1024    # memory of a crew of victims
HITS = 0.5        # the share of cases in which the peer must come to its misdeed

failures = []
counts = collections.Counter()
slowest = collections.Counter()  # seconds, by what the peer did


def fail(what):
    failures.append(what)
    print("FAILED:", what, flush=True)


# ---- crews -----------------------------------------------------------------------


def environment():
    """With the run-time library of the sanitizer, if gradwire was built with it."""
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    if SANITIZER:
        env["LD_PRELOAD"] = SANITIZER.group().decode()
        env["ASAN_OPTIONS"] = ("detect_leaks=0:quarantine_size_mb=32:"
                               "max_allocation_size_mb=512:" + env.get("ASAN_OPTIONS", ""))
        env["PYTHONMALLOC"] = "malloc"  # so that Python's memory is guarded, too
        env["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
    return env


class Crew:
    """A process of crew.py: cases go in, what has come of them comes out."""

    def __init__(self, side, env):
        self.errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "hostile", "crew.py"), side], env=env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.hello = json.loads(self._process.stdout.readline() or "{}")
        self._waiting = {}
        self._lock = threading.Lock()
        self.dead = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            came = json.loads(line)
            if came["id"] in self._waiting:
                self._waiting[came["id"]].put(came)
        self.dead.set()
        for waiting in list(self._waiting.values()):
            waiting.put(None)

    def begin(self, what):
        """A queue of what comes of it; None says that the process has ended."""
        answers = self._waiting.setdefault(what["id"], queue.Queue())
        self.tell(what)
        return answers

    def tell(self, what):
        with self._lock:
            try:
                self._process.stdin.write(json.dumps(what) + "\n")
                self._process.stdin.flush()
            except OSError:
                self.dead.set()

    def forget(self, identity):
        self._waiting.pop(identity, None)

    def status(self):
        came = self.begin({"id": "status", "status": 1}).get(timeout=60)
        return came["status"] if came else None

    def last_words(self):
        self.errors.seek(0)
        return self.errors.read()[-6000:]

    def end(self):
        self._process.kill()
        self._process.wait()


# ---- cases -----------------------------------------------------------------------


def draw_job(batch):
    """What all cases of a batch have in common: the job, and who is hostile in it."""
    rng = random.Random(f"{SEED}/job/{batch}")
    spec = SPECS[batch % len(SPECS)]
    workers = rng.choice([2, 3, 3, 3, 4])
    steps = rng.choice([3, 4, 5])
    layout = rng.choices(list(FLOATS), [6, 2, 1])[0]
    return {"spec": spec, "workers": workers, "rank": rng.randrange(workers),
            "steps": steps, "layout": layout, "floats": FLOATS[layout],
            "nonfinite": rng.choice(["stop", "stop", "stop", "skip", "skip", "ignore"]),
            "bad": [], "parts": rng.random() < 0.3, "gathers": rng.random() < 0.2,
            "reloads": rng.random() < 0.2}


def apart(job):
    """Whether the workers' models differ in the end when all is well."""
    if job["spec"] == "a2sgd:resync=2":
        return job["steps"] % 2 == 1
    return job["spec"] in ("none", "a2sgd")


def draw_bad(job, batch):
    """Some jobs have a gradient with NaN, which all leave out."""
    rng = random.Random(f"{SEED}/bad/{batch}")
    if job["nonfinite"] == "skip" and rng.random() < 0.5:
        job["bad"] = [rng.randrange(job["workers"]), rng.randint(1, job["steps"])]


def draw_case(number, job, frames):
    """What the peer does, to whom and when; frames is how many messages each gets."""
    rng = random.Random(f"{SEED}/case/{number}")
    victim = rng.choice(sorted(frames))
    family = mutations.draw(rng)
    alone = family == "two_faced" or rng.random() < 0.6
    at = rng.randrange(max(1, frames[victim]))
    return dict(job, id=number, seed=f"{SEED}/{number}", family=family, at=at,
                victim=victim if alone else None, hushes=rng.random() < 0.5,
                echoes=family == "two_faced" or rng.random() < 0.5, limit=LIMIT,
                secret=f"secret {SEED} {number}")


def recall(number):
    """A job and a case of ONCE_WRONG."""
    known = ONCE_WRONG[number]
    job = {"spec": known["spec"], "workers": 3, "rank": 0, "steps": known["steps"],
           "layout": "doubling", "floats": FLOATS["doubling"], "nonfinite": "stop",
           "bad": [], "parts": False, "gathers": False, "reloads": False}
    return job, dict(job, id=f"once wrong {number}", seed=f"{SEED}/{number}", hushes=True,
                     echoes=True, limit=LIMIT, secret=f"secret {SEED}", **known)


def rehearsal(job, identity):
    return dict(job, id=identity, seed="", family="nothing", at=0, victim=None,
                hushes=False, echoes=False, limit=PATIENT, secret=f"secret {identity}")


class Broken(Exception):
    """A crew has ended or does not answer: nothing more can be tested."""


class Slot:
    """Runs one case after the other, on a crew of each side."""

    def __init__(self, number, victims, hostile):
        self._victims, self._hostile = victims, hostile
        pid = os.getpid()
        # An own address for each, so that tests do not get in each other's way.
        self._where = f"127.{1 + (pid >> 8) % 250}.{pid % 256}.{1 + number}:29400"

    def run(self, case):
        """Outcomes of the victims by rank, and what the peer says about itself."""
        case["where"] = self._where
        theirs, its = self._victims.begin(case), self._hostile.begin(case)
        until = time.monotonic() + case["limit"] + GRACE
        came = {}
        try:
            for _ in range(case["workers"] - 1):
                answer = self._next(theirs, until, case)
                came[answer["rank"]] = answer["came"]
                slowest[case["family"]] = max(slowest[case["family"]], answer["seconds"])
            if case["family"] != "nothing":  # its worker ends by itself
                self._hostile.tell({"end": case["id"]})
            return came, self._next(its, time.monotonic() + GRACE, case)["did"]
        finally:
            self._victims.forget(case["id"])
            self._hostile.forget(case["id"])

    def _next(self, answers, until, case):
        try:
            answer = answers.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            raise Broken(f"{describe(case)}: a worker has not ended in time") from None
        if answer is None:
            raise Broken(f"{describe(case)}: a process ended while this ran")
        return answer


def describe(case):
    one = isinstance(case["id"], int)
    again = f"GW_HOSTILE_CASE={case['id']}" if one else "GW_HOSTILE=0"
    return (f"case {case['id']} (GW_TEST_SEED={SEED} {again}): {case['family']} by worker "
            f"{case['rank']} of {case['workers']} to "
            f"{'all' if case['victim'] is None else case['victim']} at message "
            f"{case['at']}, {case['spec']}, {case['layout']}, {case['nonfinite']}, "
            f"{case['steps']} steps")


# ---- verdicts --------------------------------------------------------------------


def judge_text(case, rank, text):
    """One line that a terminal shows and does not obey; characters for private use, which it
    may not know, are none of our business."""
    ok = len(text) < 1000 and not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")
                                      or c in TURNS for c in text)
    if not ok:
        fail(f"{describe(case)}: worker {rank} says {text!r}, which is not a line")


def judge(case, came, right):
    """came and right: [status, text, finite] by rank."""
    models = set()
    for rank, (status, text, finite) in sorted(came.items()):
        counts[status] += 1
        if status == "raised":
            fail(f"{describe(case)}: worker {rank} raised\n{text}")
        elif status == "failed":
            judge_text(case, rank, text)
        elif not finite and case["nonfinite"] != "ignore":
            fail(f"{describe(case)}: worker {rank} has a model that is not finite")
        elif mutations.FAMILIES[case["family"]][1] == AGREE:
            models.add(text)
        elif [status, text] != right[rank][:2]:
            fail(f"{describe(case)}: worker {rank} ended with another model and no error")
    if len(models) > 1 and not apart(case):
        fail(f"{describe(case)}: the models differ and nobody says so: {came}")


def judge_rehearsal(case, came, did):
    """The undisturbed run must be good, or nothing is tested."""
    texts = {text for status, text, _ in came.values() if status == "ok"}
    good = did["joined"] and all(c[0] == "ok" for c in [*came.values(), did["within"]])
    if not good or (len(texts) > 1 and not apart(case)):
        fail(f"{describe(case)}: the undisturbed run gave {came} and {did}")
        return False
    return True


# ---- all of it -------------------------------------------------------------------


class Work:
    """Hands out batches, until there are none or a crew is broken."""

    def __init__(self, wanted):
        self._batches = iter(sorted({number // BATCH for number in wanted}))
        self.wanted = wanted
        self._lock = threading.Lock()
        self._begun = time.monotonic()
        self.broken = None

    def next(self):
        with self._lock:
            return None if self.broken else next(self._batches, None)

    def give_up(self, why):
        with self._lock:
            self.broken = self.broken or why

    def done(self, case):
        counts["cases"] += 1
        if counts["cases"] % 1000 == 0:
            print(f"{counts['cases']} cases, {len(failures)} failures, "
                  f"{time.monotonic() - self._begun:.0f} s: {dict(counts)}", flush=True)


def run_undisturbed(slot, job, name):
    """What is right, and how many messages each victim gets; None if it went wrong."""
    case = rehearsal(job, f"undisturbed {name}")
    right, did = slot.run(case)
    if not judge_rehearsal(case, right, did):
        return None
    return right, {int(rank): count for rank, count in did["frames"].items()}


def run_case(work, slot, case, right):
    came, did = slot.run(case)
    if not did["done"] and any(c[0] == "failed" for c in came.values()):
        # The machine is so busy that workers ran out of time before the misdeed.
        counts["again"] += 1
        came, did = slot.run(dict(case, limit=10 * LIMIT))
    judge(case, came, right)
    counts["hit"] += did["done"]
    counts[case["family"]] += did["done"]
    if ONLY:
        print(describe(case), came, did, sep="\n")
    work.done(case)


def run_batch(work, slot, batch):
    job = draw_job(batch)
    draw_bad(job, batch)
    known = run_undisturbed(slot, job, batch)
    for number in range(BATCH * batch, BATCH * (batch + 1)):
        if known and number in work.wanted and not work.broken:
            right, frames = known
            run_case(work, slot, draw_case(number, job, frames), right)


def run_once_wrong(work, slot):
    for number in range(len(ONCE_WRONG)):
        job, case = recall(number)
        known = run_undisturbed(slot, job, case["id"])
        if known and not work.broken:
            run_case(work, slot, case, known[0])


def serve(work, slot, first):
    try:
        if first and not ONLY:
            run_once_wrong(work, slot)
        while (batch := work.next()) is not None:
            run_batch(work, slot, batch)
    except Broken as broken:
        work.give_up(str(broken))
    except Exception as error:
        work.give_up(f"the driver failed: {error!r}")
        raise


def look_after(crews, before):
    """Memory, descriptors and threads of the victims, once all cases are over."""
    for crew, was in zip(crews, before):
        deadline = time.monotonic() + 30
        while True:
            now = crew.status()
            idle = (now["descriptors"] <= was["descriptors"] + 4 and
                    now["threads"] <= was["threads"] + 4)
            if idle or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        print("victims:", now)
        if not idle:
            fail(f"victims keep what they should have let go: {now}, {was} before")
        if now["peak_mb"] > PEAK_MB:
            fail(f"victims took {now['peak_mb']} MB")


def main():
    print(f"seed {SEED}, {CASES} cases,", "under the address sanitizer" if SANITIZER
          else "not sanitized", flush=True)
    env = environment()
    wanted = {int(ONLY)} if ONLY else range(CASES)
    crews = [(Crew("victims", env), Crew("hostile", env)) for _ in range(CREWS)]
    everybody = [crew for pair in crews for crew in pair]
    try:
        missing = [c for c in everybody if not c.hello]
        if missing:
            fail("a crew did not start: " + missing[0].last_words())
            return
        before = [victims.hello["status"] for victims, _ in crews]
        untried = set(everybody[0].hello["recipes"]) - {
            re.split("[:+]", spec)[0] for spec in SPECS}
        if untried or everybody[0].hello["torch"]:
            fail(f"not tried: {untried}; torch: {everybody[0].hello['torch']}")
        work = Work(wanted)
        slots = [Slot(CREWS * i + j, *pair) for i in range(SLOTS)
                 for j, pair in enumerate(crews)]
        threads = [threading.Thread(target=serve, args=(work, slot, slot is slots[0]))
                   for slot in slots]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if work.broken:
            fail(work.broken)
        else:
            look_after([victims for victims, _ in crews], before)
        if not ONLY and counts["hit"] < HITS * counts["cases"]:
            fail(f"the peer came to its misdeed in {counts['hit']} cases only")
    finally:
        for crew in everybody:
            words = crew.last_words()
            if words.strip():
                fail("a crew wrote to its standard error:\n" + words)
            crew.end()
        print("seconds, at most:", {f: round(s, 1) for f, s in slowest.most_common(8)})
        print(f"{dict(counts)}; {len(failures)} failures; seed {SEED}")


main()
sys.exit(1 if failures else 0)
