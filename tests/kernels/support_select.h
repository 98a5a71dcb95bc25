/* SPDX-License-Identifier: Apache-2.0
 *
 * support_select.h - selection the slow and obvious way. */
#ifndef GW_SUPPORT_SELECT_H
#define GW_SUPPORT_SELECT_H

#include "kernels/select.h"

/* The order of magnitudes, written without the library's own gwi_magnitude_key(). */
uint32_t select_key(float x);

/* Room for n numbers of 4 bytes, which the caller frees. */
void *select_array(size_t n);

/* The indices of x, the largest first; of the k largest, ascending. The caller frees
 * them. */
uint32_t *select_ranked(const float *x, size_t n);
uint32_t *select_sorted(const float *x, size_t n, size_t k);

/* Checks that taking `index` out of `before` gives the list and r. */
void select_check_taken(const float *before, const float *r, size_t n,
                        const uint32_t *index, size_t k, const gwi_list *got);

#endif
