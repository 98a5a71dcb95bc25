# SPDX-License-Identifier: Apache-2.0
"""steps.py - follows a run that was written down: reads every message in its order, computes
from them what the workers have, and compares that with what they had, and their states."""
import numpy as np

import cosines_read as cosines
import ef21_read as ef21
import momentum_read as momentum
import scale_read as scale
from bytes_and_checks import crc32c, fnv1a, require
from collectives_read import Mail, allreduce, compare, spread, to_all
from exchange_any import exchange
from exchange_common_read import look, shared_positions
from exchanges import Crew, average, by_buckets
from fragments_read import Stream, note_in
from saved_state import VECTORS, read_state
from specs import Layout, Schedule, Spec, part

IGNORE, SKIP = 2, 1
PARTLY = ("chunks", "shares")  # of models are averaged


class Ended(Exception):
    """The run ends here, on all workers, as it should."""


class Replay:
    def __init__(self, run):
        self.run = run
        self.workers, self.spec = run.number("workers"), Spec(run.word("canonical"), run.number("workers"))
        self.nonfinite = run.number("nonfinite")
        self.layout = Layout(run.tensors())
        self.mail = Mail(self.workers, run.messages, 8 if run.streams else 0)
        self.crew = Crew(self.spec, self.layout, self.workers, self.mail, run.number("seed"),
                         self.nonfinite != IGNORE)
        self.schedule = Schedule(self.spec, self.workers)
        self.stream = Stream(self.crew) if self.spec.streams else None
        self.now, self.step, self.phase_begin = None, 0, 0
        self.skipped = [0] * self.workers
        self.counted = np.zeros((self.workers, 4), np.int64)

    # ---- what was written down

    def vectors(self, name):
        found = self.run.vectors[name, self.step]
        return [found[w] for w in range(self.workers)]

    def expect_status(self, name, want):
        found = self.run.statuses[name, self.step]
        require([found.get(w) for w in range(self.workers)] == want,
                f"{name} of step {self.step} came to {found}, not to {want}")

    def expect_vectors(self, name, want):
        for w, (found, due) in enumerate(zip(self.vectors(name), want)):
            if found.tobytes() != np.asarray(due, "<f4").tobytes():
                bad = np.flatnonzero(found.view(np.uint32) != due.view(np.uint32))
                require(False, f"{name} of worker {w} in step {self.step}: {len(bad)} numbers "
                        f"differ, the first at {bad[0]}: {found[bad[0]]!r}, not {due[bad[0]]!r}")

    def count(self, before):
        self.counted += self.mail.counts - before

    # ---- making and starting

    def settings(self, worker):
        text, n = self.spec.text.encode(), self.layout.n
        layout = fnv1a(b"".join(
            name.encode() + b"\0" + np.array([rows, cols], "<u8").tobytes()
            for name, rows, cols in self.layout.tensors))
        odd = self.run.statuses["made", 0][0] == "GW_ERR_MISMATCH" and worker == self.workers - 1
        words = [n, layout, self.run.number("seed") + odd, self.nonfinite]
        return np.array(words, "<u8").tobytes() + text.ljust(256, b"\0")

    def make(self):
        settings = [self.settings(w) for w in range(self.workers)]
        if compare(self.mail, [fnv1a(s) for s in settings]):
            self.expect_status("made", [""] * self.workers)
            return
        to_all(self.mail, settings)
        self.expect_status("made", ["GW_ERR_MISMATCH"] * self.workers)
        raise Ended

    def start(self):
        first = self.vectors("begin")[0]
        spread(self.mail, first.tobytes())
        self.expect_vectors("start", [first] * self.workers)
        if self.spec.what == "changes" or self.spec.what == "shares" and self.spec.steps_outside:
            self.crew.reference = first

    # ---- a step

    def gradient(self):
        if self.crew.pending and not self.spec.streams:
            self.late_gradient()
            return
        results, notes = self.exchanged()
        self.tell(results, notes)

    def exchanged(self):
        """What comes of this step's gradients, and the notes about it."""
        crew, vectors = self.crew, self.vectors("gradient")
        notes = [crew.look(w, v) for w, v in enumerate(vectors)]
        before, results = self.mail.counts.copy(), vectors
        if self.now.gradient:
            results, note = self.exchange(vectors, notes, self.run.number("parts"))
            notes = [note] * self.workers
        self.count(before)
        return results, notes

    def late_gradient(self):
        """Hands back what came of the step before, unless that has ended the run."""
        crew = self.crew
        notes = [note_in(waiting) for waiting in crew.waiting]
        if crew.before and not any(notes) and crew.waiting[0][0]:
            self.lead()
        if not any(notes):
            crew.pending = cosines.signs(crew, crew.pending)
        has_before = crew.waiting[0][1]
        self.tell(crew.pending, notes)
        results, notes = self.exchanged()
        for w, note in enumerate(notes):
            crew.pending[w] = np.zeros(self.layout.n, np.float32) if note else results[w]
            crew.waiting[w] = np.array([1, has_before, *(note >> 16 * i & 0xffff for i in range(4))],
                                       np.float32)

    def lead(self):
        """The last result, and what follows from it and the one before it."""
        crew, by = self.crew, np.float32(self.spec.lead)
        for w, r in enumerate(crew.pending):
            if crew.waiting[w][1]:
                crew.pending[w] = r + by * (r - crew.before[w])
            crew.before[w], crew.waiting[w][1] = r, 1

    def tell(self, results, notes):
        bad = "GW_SKIPPED" if self.nonfinite == SKIP else "GW_ERR_NUMBER"
        self.expect_status("update", [bad if note else "" for note in notes])
        if any(notes) and bad != "GW_SKIPPED":
            raise Ended
        for w, note in enumerate(notes):
            self.skipped[w] += note != 0
        if not any(notes):
            self.expect_vectors("update", results)

    def exchange(self, vectors, notes, parts=False):
        """Of gradients, or of changes of models; these know nothing of gradients before."""
        if self.stream and self.now.gradient:
            return self.stream.whole(vectors, notes, by_buckets)
        crew, remembered = self.crew, self.now.gradient == (self.spec.what == "gradients")
        if not self.now.dense and self.spec.exchange != "sum":
            vectors = [v if notes[w] else momentum.enter(crew, w, v)
                       for w, v in enumerate(vectors)]
            results, note = ef21.around(crew, exchange, vectors, notes)
            if note:
                return momentum.skip(crew), note
            results = momentum.leave(crew, results)
            return cosines.signs(crew, results) if self.now.gradient and not crew.pending else results, 0
        if crew.estimate and remembered:
            return ef21.whole(crew, vectors, notes)
        results, note = by_buckets(crew, vectors, notes, parts)
        return momentum.whole(crew, results) if remembered and not note else results, note

    def model(self):
        crew, models = self.crew, self.vectors("before")
        before = self.mail.counts.copy()
        if crew.reference is not None and self.step == self.spec.start:
            crew.reference = models[0]
        if crew.mean:
            for w, x in enumerate(models):
                crew.mean[w] = crew.mean[w] + (x - crew.mean[w]) / np.float32(self.step)
        results, note = self.exchange_model(models)
        if note:
            self.expect_status("after", ["GW_ERR_NUMBER"] * self.workers)
            raise Ended
        if self.compares():
            common = [crew.reference] * self.workers
            self.compare_models("after", common if self.stream and self.now.model else results)
        self.count(before)
        self.expect_status("after", [""] * self.workers)
        self.expect_vectors("after", results)

    def exchange_model(self, models):
        if self.resyncs(self.step):
            return self.step_outside(*self.average(models, 0, self.layout.n))
        if self.stream:
            return self.stream.step(self.step, self.now, models, self.outer_step)
        if not self.now.model:
            return models, 0
        if self.spec.what == "chunks":
            chunks = self.spec.chunks
            return self.average(models, *part(self.layout.n, chunks, (self.step - 1) % chunks))
        if self.spec.what == "shares":
            return self.average_share(models)
        if self.spec.what == "models":
            return self.average(models, 0, self.layout.n)
        return self.exchange_change(models)

    def average(self, models, begin, end):
        notes = [self.crew.look(w, x[begin:end], begin) for w, x in enumerate(models)]
        result, note = average(self.crew, [x[begin:end] for x in models], notes, begin)
        results = [x.copy() for x in models]
        for x in results:
            x[begin:end] = result
        return results, note

    def step_outside(self, models, note):
        """From the last common model, if there is an outer step."""
        if note or not self.spec.steps_outside:
            return models, note
        results = [self.outer_step(w, x - self.crew.reference) for w, x in enumerate(models)]
        self.crew.reference = results[0]
        return results, 0

    def average_share(self, models):
        positions = shared_positions(self.crew)
        values = [x[positions] for x in models]
        notes = [look(self.crew, w, v, positions) for w, v in enumerate(values)]
        result, note = allreduce(self.mail, values, notes if self.crew.looks else None, self.workers)
        note = note or look(self.crew, self.workers, result, positions)
        results = [x.copy() for x in models]
        for x in results:
            x[positions] = result
        return results, note

    def exchange_change(self, models):
        crew = self.crew
        notes = [crew.look(w, x) for w, x in enumerate(models)]
        changes, factor = [x - crew.reference for x in models], scale.factor(crew)
        notes = scale.follow(crew, changes, notes)
        results, note = self.exchange([factor * d for d in changes], notes)
        if note:
            return None, note
        results = [self.outer_step(w, v) for w, v in enumerate(results)]
        crew.reference = results[0]
        return results, 0

    def outer_step(self, w, change, span=slice(None)):
        """The model, or a part of it, that an optimizer makes of the last common one and its
        change."""
        crew, rule = self.crew, self.spec.outer
        lr, m = np.float32(rule["lr"]), np.float32(rule["momentum"])
        if m > 0:
            velocity = m * crew.velocity[w][span] + change
            crew.velocity[w][span] = velocity
            change = change + m * velocity if rule["nesterov"] == "on" else velocity
        return crew.reference[span] + lr * change

    # ---- comparing

    def resyncs(self, step):
        return self.spec.resync > 0 and step % self.spec.resync == 0

    def equal_after(self, step):
        if self.resyncs(step):
            return True
        if self.now.gradient:
            return self.spec.exchange != "means"
        return self.now.model and self.spec.what not in PARTLY

    def compares(self):
        every = self.spec.check
        before = self.schedule.begin if self.now.model else self.step - 1
        before = self.step - self.spec.resync if self.resyncs(self.step) else before
        return (self.workers > 1 and every > 0 and self.equal_after(self.step) and
                self.step // every > before // every)

    def compare_models(self, name, models):
        checks = [crc32c(np.asarray(x, "<f4").tobytes()) for x in models]
        to_all(self.mail, [np.uint32(c).tobytes() for c in checks])
        if len(set(checks)) == 1:
            return
        self.expect_status(name, ["GW_ERR_DIFFER"] * self.workers)
        raise Ended

    # ---- the end, and states

    def ended_equal(self):
        """Whether the last step has made the models equal, so that they are left alone."""
        last = self.step - 1
        if self.spec.what in PARTLY:
            return last > 0 and self.resyncs(last)
        if self.stream and last > self.spec.start and not self.stream.meets():
            return False
        return last <= self.spec.start or (not self.crew.mean and last == self.schedule.end)

    def finish(self):
        crew, before = self.crew, self.mail.counts.copy()
        models = self.run.vectors["after", self.step - 1]
        models = [models[w] for w in range(self.workers)]
        note = 0
        if crew.pending:
            require(not any(map(note_in, crew.waiting)), "a bad number in the end")
            crew.pending = crew.pending if self.stream else crew.zeros(True)
            for waiting in crew.waiting:
                waiting[0] = 0
        if crew.mean:
            models = crew.mean
        averages = self.spec.what not in ("gradients", "nothing") and not self.ended_equal()
        if averages and self.stream:
            models, note = self.stream.average(models, average)
        elif averages:
            models, note = self.average(models, 0, self.layout.n)
        self.count(before)
        require(note == 0, "a bad number in the end")
        if self.workers > 1 and self.spec.check > 0 and (
                averages or self.equal_after(self.step - 1)):
            self.compare_models("finish", models)
        self.expect_status("finish", [""] * self.workers)
        self.expect_vectors("finish", models)

    def state(self):
        for w in range(self.workers):
            steps = min(self.step, self.run.number("steps"))
            saved = read_state(self.run.states[self.step][w], self.step not in (1, steps),
                               len(self.crew.factor[w]) if self.crew.factor else 0)
            due = {"n": self.layout.n, "step": steps, "steps": steps, "started": 1,
                   "phase": [self.schedule.begin, self.schedule.end], "spec": self.spec.text,
                   "skipped": self.skipped[w], "lost": self.crew.lost[w],
                   "applied": self.crew.applied[w],
                   **dict(zip(("bytes_sent", "bytes_received", "messages_sent",
                               "messages_received"), self.counted[w].tolist()))}
            for name, value in due.items():
                require(saved[name] == value, f"{name} in the state of worker {w} after step "
                        f"{self.step} is {saved[name]}, not {value}")
            self.state_vectors(w, saved)

    def state_vectors(self, w, saved):
        reference = [self.crew.reference] * self.workers if self.crew.reference is not None else None
        for name in VECTORS.values():
            due = reference if name == "reference" else getattr(self.crew, name)
            require((due is None) == (saved[name] is None), f"{name} is or is not in a state")
            if due is None:
                continue
            if name == "residual" and not self.crew.certain[w]:
                self.crew.certain[w] = True
                self.crew.residual[w] = saved[name].copy()
                continue
            bad = np.flatnonzero(due[w].view(np.uint32) != saved[name].view(np.uint32))
            require(not len(bad), f"the {name} of worker {w} after step {self.step} differs in "
                    f"{len(bad)} places, the first {bad[:1]}: {saved[name][bad[:1]]}, "
                    f"not {due[w][bad[:1]]}")

    # ---- all of it

    def one_step(self):
        self.crew.step = self.step
        self.now = self.schedule.at(self.step)
        self.gradient()
        self.model()
        self.state()

    def follow(self, until=None):
        """To the end, or to the end of a step after which the run was broken off."""
        try:
            with np.errstate(all="ignore"):
                self.make()
                self.start()
                for self.step in range(1, (until or self.run.number("steps")) + 1):
                    self.one_step()
                if until:
                    return
                self.step += 1
                self.finish()
                self.state()
        except Ended:
            pass
        self.mail.end()
