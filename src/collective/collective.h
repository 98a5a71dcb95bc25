/* SPDX-License-Identifier: Apache-2.0
 *
 * collective.h - what several workers do together, built on point-to-point
 * messages so that every transport gives the same bits. */
#ifndef GWI_COLLECTIVE_H
#define GWI_COLLECTIVE_H

#include "comm.h"

/* A note: a number that a reduction carries along. 0 means that there is none.
 * Otherwise all workers learn the least note of any worker. Used to say that a gradient
 * is no good without a round of messages for it. */
typedef uint64_t gwi_note;

/* What a reduction says by itself, in the upper half of a note, where all numbers were
 * good and their sum is not: the lower half is the index of the first that is NaN or
 * infinite. No worker brings such a note. */
#define GWI_NOTE_SUM (UINT64_C(0xffffffff) << 32)

/* The one of two notes that counts. */
static inline gwi_note gwi_lesser_note(gwi_note a, gwi_note b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The sum (divide = 1) or the average (divide = number of workers) of x over the
 * workers, on all of them. note may be NULL: then none travels, and nobody looks
 * whether the sum is finite. */
gw_status gwi_allreduce(gw_comm *c, float *x, size_t n, float divide, gwi_note *note);

/* Makes the note about x[index] of a worker; whichever worker makes it, it is the
 * same. */
typedef struct gwi_looker {
    gwi_note (*note)(void *arg, int worker, size_t index);
    void *arg;
} gwi_looker;

/* The same for vectors that nobody has looked at: numbers that are not finite make a
 * note. Where memory is shared, this costs no pass over x. */
gw_status gwi_allreduce_looking(gw_comm *c, float *x, size_t n, float divide,
                                gwi_note *note, const gwi_looker *look);

/* The ways it is done. The first three give the same bits. Shared memory is for workers
 * of which gwi_shares_sums() is true, and the direct way for those that are threads of
 * one process besides. look is NULL where somebody has looked. */
gw_status gwi_allreduce_ring(gw_comm *c, float *x, size_t n, float divide,
                             gwi_note *note);
gw_status gwi_allreduce_shared(gw_comm *c, float *x, size_t n, float divide,
                               gwi_note *note, const gwi_looker *look);
gw_status gwi_allreduce_direct(gw_comm *c, float *x, size_t n, float divide,
                               gwi_note *note, const gwi_looker *look);
gw_status gwi_allreduce_doubling(gw_comm *c, float *x, size_t n, float divide,
                                 gwi_note *note);

bool gwi_shares_sums(const gw_comm *c);

/* In every turn each of them tells all others that it is there, so that many workers
 * would spend more time on this than on sums. */
enum { GWI_SHARING_WORKERS = 16 };

/* Counts the traffic of a ring. */
void gwi_count_ring(gw_comm *c, size_t n, bool notes);

/* Makes one vector of all workers' by something else than a sum: x becomes what
 * combine() makes of it and of another. combine() must give the same bits if the two
 * are exchanged. Workers go by recursive doubling, whatever n is. */
typedef void gwi_combine_run(void *arg, float *x, const float *other);
gw_status gwi_combine_doubling(gw_comm *c, float *x, size_t n, gwi_combine_run *combine,
                               void *arg, gwi_note *note);

/* Hands worker 0's message, *len bytes at buf, to all; the others learn its length,
 * at most cap. It checks itself. */
gw_status gwi_broadcast_message(gw_comm *c, void *buf, size_t cap, size_t *len);

/* A message for every other worker, and room for one of each. */
typedef struct gwi_parcels {
    const uint8_t *out;     /* that for worker r begins at out + r * out_step */
    const size_t *out_lens; /* and has out_lens[r * out_lens_step] bytes */
    size_t out_step, out_lens_step;
    uint8_t *in; /* that of worker r comes to in + r * cap */
    size_t cap;
    size_t *in_lens; /* of worker r; not the memory of out_lens, if that has a step */
    uint8_t *checks; /* NULL: the messages check themselves. Otherwise a check follows
                      * each: GWI_CHECK_LEN bytes for what comes from each worker, then
                      * for what goes to each */
} gwi_parcels;

/* Sends and receives them all. This worker's own slots are left alone. */
gw_status gwi_all_to_all(gw_comm *c, const gwi_parcels *parcels);

/* gw_allgather() for messages that check themselves. */
gw_status gwi_allgather(gw_comm *c, const void *mine, size_t len, void *all, size_t cap,
                        size_t *lens);

/* Whether all workers bring the same word, its lowest bit apart. */
gw_status gwi_all_same(gw_comm *c, uint64_t word, bool *same);

/* So many messages each way are under way at the same time: enough to hide the time
 * one takes to arrive, and few enough for networks and engines to keep up. */
enum { GWI_TURNS = 64 };

/* Vectors up to this many floats go by recursive doubling: at 32 KiB the bytes it
 * sends more than the ring take less time on a gigabit link (0.26 ms a round)
 * than the rounds it saves for eight workers or more. */
enum { GWI_DOUBLING_FLOATS = 8192 };

/* What the collectives of one kind of ring step share: chunks of at most this many
 * floats are in flight, so that one is added while the next one travels. They are
 * short of 64 KiB, up to which Open MPI sends a message over TCP without asking the
 * receiver first: asking takes both sides' attention, and where ranks share cores
 * that made a ring of 10 M floats at 1 Gbit/s take 0.77 s instead of 0.52 s. */
enum { GWI_CHUNK_FLOATS = 14336 };

#endif
