# SPDX-License-Identifier: Apache-2.0
"""exchange_any.py - the exchange that a spec asks for, small tensors apart."""
import numpy as np

import cosines_read as cosines
from collectives_read import allreduce
from exchange_common_read import common_coordinates
from exchange_lowrank_read import thin_matrices
from exchange_owner_read import lists_by_owners
from exchange_pairs_read import lists_in_pairs
from exchange_tree_read import lists_along_a_tree
from exchanges import adaptive_sum, by_buckets, lists_gathered, means, whole_vectors

WAYS = {"sum": by_buckets, "lists": lists_gathered, "tree": lists_along_a_tree, "swaps": lists_in_pairs,
        "common": common_coordinates, "coded": whole_vectors, "means": means, "thin": thin_matrices,
        "owners": lists_by_owners, "pairs": adaptive_sum}


CLOSED_UP = ("common", "coded")


def closed_up(crew, vectors, notes):
    """Vectors and residuals without the small tensors."""
    rest, whole = crew.rest, crew.layout.n

    def apart(v):
        v, together = np.zeros(whole, np.float32), v
        v[rest] = together
        return v

    crew.n, crew.places = len(rest), rest
    if crew.residual:
        crew.residual = [r[rest] for r in crew.residual]
    results, note = WAYS[crew.spec.exchange](crew, [v[rest] for v in vectors], notes)
    if crew.residual:
        crew.residual = [apart(r) for r in crew.residual]
    crew.n, crew.places = whole, np.arange(whole)
    return [apart(v) for v in results] if results else None, note


def exchange(crew, vectors, notes):
    """The result of each worker, and the note of all."""
    way = closed_up if crew.spec.exchange in CLOSED_UP else WAYS[crew.spec.exchange]
    small = [v[crew.small] for v in vectors]
    vectors = [v.copy() for v in vectors]
    for v in vectors:
        v[crew.small] = 0
    results, note = (cosines.around(crew, way, vectors, notes) if crew.spec.in_cosines
                     else way(crew, vectors, notes))
    if note or not len(crew.small):
        return results, note
    result, found = allreduce(crew.mail, small, [0] * crew.workers if crew.looks else None,
                              crew.workers)
    bad = np.flatnonzero(~np.isfinite(result)) if crew.looks else ()
    if found or len(bad):
        return None, crew.note(crew.workers, crew.small[bad[0]])
    whole = results[0].copy()
    whole[crew.small] = result
    return [whole] * crew.workers, 0
