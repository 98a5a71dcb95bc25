/* SPDX-License-Identifier: Apache-2.0
 *
 * merge.h - sparse lists put together and cut down again.
 *
 * A sparse list is a gwi_list whose indices ascend, without repeats. Everything
 * here is EXACT and in the order of select.h; nothing allocates. */
#ifndef GWI_MERGE_H
#define GWI_MERGE_H

#include "kernels/select.h"

/* out = a + b: every index of either once, ascending, with the values of equal
 * indices added (a's first). An entry whose sum is 0 stays. out has room for
 * a->n + b->n entries and shares no memory with a or b. */
void gwi_merge_add(const gwi_list *a, const gwi_list *b, gwi_list *out);

/* Splits list into its k largest entries (or all that are not 0, if those are fewer)
 * and the others, both with ascending indices. largest has room for min(k, list->n)
 * entries, others for list->n; one of the two may be list itself. */
void gwi_keep_largest(const gwi_list *list, size_t k, gwi_list *largest,
                      gwi_list *others);

/* gwi_merge_add() and gwi_keep_largest() in one: what a worker in the gTop-k tree
 * does with two lists. Nothing is lost: a + b = largest + others, with the values
 * of equal indices added. others has room for a->n + b->n entries, largest for
 * min(k, a->n + b->n); they share no memory with each other, nor with a or b,
 * except that largest may be a or b. */
void gwi_merge_largest(const gwi_list *a, const gwi_list *b, size_t k,
                       gwi_list *largest, gwi_list *others);

#endif
