/* SPDX-License-Identifier: Apache-2.0
 *
 * notes.h - how all workers learn that a number is NaN or infinite, and where.
 *
 * A note is 64 bits: the worker + 1 in its upper half and the tensor in its lower half.
 * So the least note is the one of the first such worker. A worker number one past the
 * last worker stands for the sum: all numbers were finite, but their sum is not.
 * Reductions carry notes along; other exchanges send them in place of messages. */
#ifndef GWI_NOTES_H
#define GWI_NOTES_H

#include "sync/sync.h"

/* Whether anybody looks for bad numbers. */
static inline bool gwi_looks(const gw_sync *s)
{
    return s->nonfinite != GW_NONFINITE_IGNORE;
}

/* Tensors in notes are those of the whole, also of a segment's; places are its own. */

/* The note of this worker about v[begin, end) of the layout's vector, 0 if all is good
 * or nobody looks. */
gwi_note gwi_look_at(const gw_sync *s, const float *v, size_t begin, size_t end);

/* The same about a number at `index`, of any worker's, of this one's or of the sum. */
gwi_note gwi_note_about(const gw_sync *s, int worker, size_t index);
gwi_note gwi_note_at(const gw_sync *s, size_t index);
gwi_note gwi_note_of_sum(const gw_sync *s, size_t index);

/* Whether a note is of the sum. */
static inline bool gwi_is_of_sum(const gw_sync *s, gwi_note note)
{
    return note >> 32 == (uint64_t)s->comm->workers + 1;
}

/* Sums x[0, n), which begins at `base` of the layout's vector, and divides by the
 * number of workers. *note is this worker's before and the least of all afterwards. */
gw_status gwi_average(gw_sync *s, float *x, size_t n, size_t base, gwi_note *note);

/* The same for vectors that were not looked at: this worker's note also says what is
 * bad in x. */
gw_status gwi_average_looking(gw_sync *s, float *x, size_t n, size_t base,
                              gwi_note *note);

/* Makes one vector of all workers' whole ones by something else than a sum; notes are
 * as with sums. */
gw_status gwi_combine(gw_sync *s, float *x, gwi_combine_run *combine, void *arg,
                      gwi_note *note);

/* Writes a note in place of a message, and returns its length. */
size_t gwi_put_note(const gw_sync *s, uint8_t *msg, gwi_note note);

/* *note is what the message of worker `from` is if it is a note, otherwise 0. */
gw_status gwi_get_note(gw_sync *s, int from, const uint8_t *msg, size_t len,
                       gwi_note *note);

/* The least note among the messages of all workers, which begin cap bytes apart. Those
 * of length 0 were not sent. */
gw_status gwi_least_note(gw_sync *s, const uint8_t *slots, size_t cap,
                         const size_t *lens, gwi_note *note);

/* Passes on what came of reading a message of worker `from`; if that was no good, names
 * the worker and breaks the comm, so that the others are told. */
gw_status gwi_blame(gw_sync *s, int from, gw_status st);

/* A note as floats, which are exact: four parts of 16 bits. What is read may have been
 * anything. */
enum { GWI_NOTE_PARTS = 4 };
void gwi_note_keep(float *parts, gwi_note note);
gwi_note gwi_note_kept(const float *parts);

/* What a call returns in which an exchange of gradients, or of models, came to st and
 * note. Models cannot skip a step. */
gw_status gwi_sync_outcome(gw_sync *s, gw_status st, gwi_note note);
gw_status gwi_model_outcome(gw_sync *s, gw_status st, gwi_note note);

#endif
