/* SPDX-License-Identifier: Apache-2.0
 *
 * segments.h - vectors that are too long for one message.
 *
 * A message has counts and positions of 32 bits. So a sync for more floats is cut into
 * segments. Each is a gw_sync with its own layout, parts and messages. The caller's
 * sync, the whole, keeps what exists once: the step, the statistics and the memories.
 * Exchanges and all other parts see only segments. A sync that is not cut is both the
 * whole and its only segment.
 *
 *     tensors      |  a  |         b (rows)          | c |  d  |
 *     pieces       |  a  |  rows of b  | rows of b   | c |  d  |
 *     segments     | 0   | 1           | 2               |  3  |
 *
 * Models that are exchanged in fragments (stream.h) are cut between these first, so
 * that each has segments of its own.
 *
 * A tensor that is too long for a segment, or that a fragment ends in, is cut between
 * rows, as late as possible. A row that is too long, or that a fragment ends in, is cut
 * inside. Segments then take as many pieces as fit, from
 * the first on. They are exchanged from the last to the first, which is the order in
 * which backward computes gradients. */
#ifndef GWI_SEGMENTS_H
#define GWI_SEGMENTS_H

#include "sync/sync.h"

/* A walk over the segments of a layout; begin with zeros, or with a spec that may have
 * fragments. */
typedef struct gwi_cut {
    const gwi_spec
        *spec;         /* whose fragments the layout is cut into; NULL: it has none */
    size_t fragment;   /* of the segment */
    size_t bound;      /* float that the fragment ends before */
    size_t begin, end; /* floats of the segment */
    size_t pieces;     /* of tensors in it */
    size_t tensor, inside; /* where the next one begins: so many floats into a tensor */
} gwi_cut;

/* Moves on to the next segment; false if there is none. */
bool gwi_cut_next(const gw_layout *layout, gwi_cut *cut);

/* Makes the segments of s, whose layout and options are there, without their parts. A
 * failure leaves what gwi_segments_free() can release. GW_ERR_NOMEM. */
gw_status gwi_segments_new(gw_sync *s);
void gwi_segments_free(gw_sync *s);

/* Gives the segments their parts of what s remembers, and what is known of all. */
void gwi_segments_share(gw_sync *s);

/* Tells the segments which step it is, and what is done in it. */
void gwi_segments_follow(gw_sync *s);

/* What is done with one segment, and its part of a vector. */
typedef gw_status gwi_segment_run(gw_sync *segment, float *v, gwi_note *note);

/* Some neighbouring segments, or all. */
typedef struct gwi_run_of {
    size_t begin, end;
} gwi_run_of;

static inline gwi_run_of gwi_all_segments(const gw_sync *s)
{
    return (gwi_run_of){0, s->segment_count};
}

/* Those of a fragment. */
gwi_run_of gwi_segments_of(const gw_sync *s, size_t fragment);

/* Runs it for some, each with this worker's note, which then is the least of all. The
 * segments whose note came back as 0 are marked: they gave a result. */
gw_status gwi_segments_run(gw_sync *s, gwi_run_of of, float *v, gwi_note *note,
                           gwi_segment_run *run);

/* Hands some segments of v to the exchange (sync.c). A note of one is about all of
 * them: what the others gave goes back to the residual. */
gw_status gwi_sync_segments(gw_sync *s, gwi_run_of of, float *v, gwi_note *note);

#endif
