/* SPDX-License-Identifier: Apache-2.0
 *
 * stream.h - changes of the model that are exchanged in fragments, beside further local
 * steps (fragments, delay, mix): Streaming DiLoCo (Douillard et al. 2025).
 *
 * A period of H local steps has F turns, one for each fragment of the model. Turn f
 * ends with step floor((f + 1) H / F) of the period, and begins so many steps before
 * that as `delay` says:
 *
 *     step of a turn    1  2  3  4  5  6  7  8
 *                                   |        |     delay=3
 *                              change taken  the average is there: outer step, mix
 *                              and sent
 *
 * The change of the fragment since its last common state is taken, and a thread of the
 * sync's own averages it while the caller computes. With the last step of the turn the
 * outer step makes the next common state z of the average, and the worker goes on with
 * (1 - mix) z + mix x, x being its own. With fragments=1, delay=0 and mix=0 nothing of
 * this is there.
 *
 * A fragment is a row of neighbouring tensors, of which the first and the last may be
 * cut (cut=even). It has segments of its own (segments.h), so that parts see no more
 * than a model of its size. What is under way is a memory:
 *
 *     pending   as many floats as the model; of the fragment under way the change, then
 *               its average; of the others what their last outer step has made
 *     waiting   6 floats: 1 if something is under way, 0, and its note in four parts of
 *               16 bits */
#ifndef GWI_STREAM_H
#define GWI_STREAM_H

#include "sync/sync.h"

/* Whether a spec streams, and beside how many steps of the caller each exchange runs.
 */
bool gwi_streams(const gwi_spec *spec);
uint64_t gwi_stream_delay(const gwi_spec *spec);

static inline bool gwi_streams_late(const gwi_spec *spec)
{
    return gwi_stream_delay(spec) > 0;
}

/* Whether the models of all workers are the same at the end of a period. */
bool gwi_stream_meets(const gwi_spec *spec);

/* How many fragments the model has; 1: it is not cut. */
size_t gwi_fragments(const gwi_spec *spec);

/* The float that fragment f, which begins in or with a tensor, ends before. With
 * cut=tensors it is the beginning of the one, among those that leave a tensor for each
 * fragment, that begins nearest to (f + 1) / count of the floats; of two, the first.
 * With cut=even it is (f + 1) / count of the floats, rounded down, or the nearest end
 * of a row if rows have at most a sixteenth of a fragment; of two, the first. */
size_t gwi_fragment_end(const gwi_spec *spec, const gw_layout *layout, size_t f,
                        size_t begin);

/* Whether the layout can be cut so; GW_ERR_ARG says why not. */
gw_status gwi_fragments_check(const gwi_spec *spec, const gw_layout *layout);

/* The turn of a spec that streams in which a local step is, counted from 1. */
typedef struct gwi_turn {
    uint64_t begin, end; /* local steps before it, and with it */
    size_t fragment;
} gwi_turn;

gwi_turn gwi_turn_at(const gwi_spec *spec, uint64_t local_step);

/* Whether the step is the one of its turn in which an exchange begins. */
bool gwi_turn_begins(const gwi_spec *spec, const gwi_turn *turn, uint64_t local_step);

/* Makes what streaming needs, if the spec streams; and releases it. */
gw_status gwi_stream_init(gw_sync *sync);
void gwi_stream_free(gw_sync *sync);

/* Whether an exchange has begun whose result the caller has not collected: the comm and
 * the segments of the fragment belong to it. */
bool gwi_stream_is_away(const gw_sync *sync);

/* Waits until the sync does nothing beside its caller, and returns its failure. */
void gwi_stream_await(const gw_sync *sync);
gw_status gwi_stream_outcome(const gw_sync *sync);

/* What a step does with the model: begins an exchange, or ends one. */
gw_status gwi_stream_model(gw_sync *sync, float *params);

/* Ends the training: waits, and drops what is under way. The changes are in the models,
 * which are averaged then. Fails as the exchange did. */
gw_status gwi_stream_finish(gw_sync *sync);

/* The statistics, without the exchange that is under way. */
gw_stats gwi_stream_stats(const gw_sync *sync);

#endif
