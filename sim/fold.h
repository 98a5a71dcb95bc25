/* SPDX-License-Identifier: Apache-2.0
 *
 * fold.h - memory that all simulated ranks share, so that 32 workers with 66 M
 * parameters fit into one machine.
 *
 * Folded vectors hold what the last rank wrote. That changes values, never sizes: how
 * many entries are selected, how long messages of all entries are, depends on their
 * number. SimGrid does not copy a message from or to folded memory, so a sum does not
 * grow with every rank that adds to the same vector. */
#ifndef GWS_FOLD_H
#define GWS_FOLD_H

#include <stdbool.h>
#include <stddef.h>

/* From begin to end, memory that the library gets for this rank is folded if it has
 * exactly `exactly` bytes before rounding, or at least `least` (0: no such). */
void gws_fold_begin(size_t exactly, size_t least);
void gws_fold_end(void);

/* Whether it lies in folded memory of this rank. Messages from there do not arrive:
 * where one is due, there must be something sound already. */
bool gws_is_folded(const void *memory);

/* n zeroed floats, folded if `folded` as the vector number line = 1, 2, ... 7. NULL
 * (after gw_fail) if there is no memory. */
float *gws_vector_new(size_t n, bool folded, int line);
void gws_vector_free(float *v);

/* The library's aligned_alloc() in simulated builds. */
void *gws_aligned_alloc(size_t alignment, size_t total);

#endif
