/* SPDX-License-Identifier: Apache-2.0
 *
 * compute.h - the heavy arithmetic of the trainer. One file implements it, and
 * that file alone knows which engine does the work. */
#ifndef GWT_COMPUTE_H
#define GWT_COMPUTE_H

#include "gradwire.h"

/* Sets how many threads this worker computes with (at least 1). It is called by
 * each worker for itself, never before a fork: a parent that has computed with
 * threads leaves its children an engine that waits for threads they lack. */
void gwt_compute_threads(int threads);

/* "oneDNN 2.6.3", for lists. Static. */
const char *gwt_compute_name(void);

/* One matrix of a product: row by row in memory, ld floats from one row to the
 * next. With `turned` the product uses its transpose. */
typedef struct gwt_operand {
    const float *at;
    size_t ld;
    int turned;
} gwt_operand;

/* c (m x n, ldc floats from row to row) = a (m x k) * b (k x n), where m, k and
 * n are the sizes after turning. Fails if the engine does (GW_ERR_SYSTEM). */
gw_status gwt_matmul(size_t m, size_t n, size_t k, gwt_operand a, gwt_operand b,
                     float *c, size_t ldc);

#endif
