# SPDX-License-Identifier: Apache-2.0
"""fragments_read.py - changes of models that are exchanged in fragments, and late, from
"Fragments" in docs/format-exchange.md."""
import numpy as np

from collectives_read import lesser
from encoding import draw
from exchange_any import exchange
from exchanges import Crew, by_buckets


def note_in(waiting):
    """The note about a result under way, from its four parts."""
    return sum(int(part) << 16 * i for i, part in enumerate(waiting[2:]))


def waiting_for(note):
    return np.array([1, 0, *(note >> 16 * i & 0xffff for i in range(4))], np.float32)


class Stream:
    """The fragments of a run, each with a crew of its own."""

    def __init__(self, crew):
        self.whole_crew, self.crews, self.spans = crew, [], []
        layout = crew.layout
        for i, (begin, end) in enumerate(layout.fragments(crew.spec.fragments, crew.spec.cut)):
            own = Crew(crew.spec, layout.part(begin, end), crew.workers, crew.mail, 0, crew.looks)
            bits = crew.spec.exchange not in ("common", "thin")  # whose key is not of random bits
            own.seed = draw(crew.seed, i) if i and bits else crew.seed
            self.crews.append(own)
            self.spans.append(slice(begin, end))
        self.join_factors()

    def join_factors(self):
        """Those of the fragments are saved one after the other."""
        if self.whole_crew.factor:
            self.whole_crew.factor = [np.concatenate(own) for own in zip(*(c.factor for c in self.crews))]

    def meets(self):
        spec = self.whole_crew.spec
        return spec.fragments == 1 and spec.mix == 0

    def each(self, vectors, notes, run):
        """Something with each fragment, from the last to the first."""
        out, least = [v.copy() for v in vectors], 0
        for own, span in reversed(list(zip(self.crews, self.spans))):
            results, note = run(own, [v[span] for v in vectors], notes)
            least = lesser(least, note)
            for v, result in zip(out, results):
                v[span] = result
        return out, least

    def whole(self, vectors, notes, by):
        """The average of gradients before the first local step."""
        return self.each(vectors, notes, by)

    def average(self, models, average):
        def run(own, parts, _):
            notes = [own.look(w, x) for w, x in enumerate(parts)]
            result, note = average(own, parts, notes)
            return [result] * own.workers, note
        return self.each(models, None, run)

    def begin(self, step, now, models):
        """What becomes of the changes of the fragment whose turn it is."""
        crew, own, span = self.whole_crew, self.crews[now.fragment], self.spans[now.fragment]
        own.step = step
        changes = [x[span] - crew.reference[span] for x in models]
        notes = [own.look(w, d) for w, d in enumerate(changes)]
        by = by_buckets if now.dense or crew.spec.exchange == "sum" else exchange
        results, note = by(own, changes, notes)
        for w in range(crew.workers):
            crew.pending[w][span] = 0 if note else results[w]
            crew.waiting[w] = waiting_for(note)
            if crew.residual:
                crew.residual[w][span] = own.residual[w]
        self.join_factors()
        crew.lost = [sum(c.lost[w] for c in self.crews) for w in range(crew.workers)]
        crew.applied = [sum(c.applied[w] for c in self.crews) for w in range(crew.workers)]

    def step(self, step, now, models, outer_step):
        crew, span = self.whole_crew, self.spans[now.fragment]
        if now.begins:
            self.begin(step, now, models)
        if not now.model:
            return models, 0
        note = note_in(crew.waiting[0])
        if note:
            return None, note
        mix, results = np.float32(crew.spec.mix), [x.copy() for x in models]
        for w, x in enumerate(results):
            z = outer_step(w, crew.pending[w][span], span)
            crew.pending[w][span] = z
            x[span] = (1 - mix) * z + mix * x[span] if mix > 0 else z
            crew.waiting[w] = np.zeros(6, np.float32)
        crew.reference = crew.reference.copy()
        crew.reference[span] = crew.pending[0][span]
        return results, 0
