/* SPDX-License-Identifier: Apache-2.0
 *
 * late.h - results that are used one step late (delay=1).
 *
 * gw_sync_gradient() of step t hands back the result of step t - 1 and begins the
 * exchange of step t, which a thread of the sync's own carries out while the caller
 * computes its next gradient. What takes less time on the wire than a step's computing
 * costs nothing then. In the first step there is no result yet, and zeros are handed
 * back. The result under way is a memory like any other:
 *
 *     pending   as many floats as the model: the vector that is exchanged, then its
 *               average
 *     waiting   6 floats: 1 if a result is under way, 1 if there was one before, and
 *               the note in four parts of 16 bits, which are exact as floats
 *     before    with lead: the result before
 *
 * Changes of models are late in another way (stream.h); what is said of all that a sync
 * does beside its caller holds for them, too. */
#ifndef GWI_LATE_H
#define GWI_LATE_H

#include "sync/sync.h"

/* Whether results of a spec are used late. */
bool gwi_is_late(const gwi_spec *spec);

/* Parts of the next gradient that were fed (gw_sync_gradient_part()). */
typedef struct gwi_feed {
    float *grad;  /* NULL: none */
    size_t ready; /* tensors from here on */
} gwi_feed;

gwi_feed *gwi_late_feed(const gw_sync *sync);

/* Makes what late results need, if they are late; and releases it. */
gw_status gwi_late_init(gw_sync *sync);
void gwi_late_free(gw_sync *sync);

/* Waits until the sync does nothing beside its caller. */
void gwi_late_await(const gw_sync *sync);

/* The same, and the failure of what it did. */
gw_status gwi_late_outcome(const gw_sync *sync);

/* gw_sync_gradient() for a vector in pieces. */
gw_status gwi_late_gradient(gw_sync *sync, const gw_piece *pieces, size_t count);

/* Ends the training: waits, and drops a result that nobody has drained. Fails as the
 * exchange of that result did. */
gw_status gwi_late_finish(gw_sync *sync);

/* Remembers the rate for the next exchange; false if nothing is late, so that the rate
 * may be set at once. */
bool gwi_late_rate(gw_sync *sync, double rate);

/* What statistics and health show: that of the exchanges whose results were handed
 * back. Call gwi_late_show() when nothing is under way. */
void gwi_late_show(gw_sync *sync);
gw_stats gwi_late_stats(const gw_sync *sync);
const gw_health *gwi_late_health(const gw_sync *sync);

#endif
