/* SPDX-License-Identifier: Apache-2.0
 *
 * attend.h - one head of causal attention on one sample. */
#ifndef GWT_ATTEND_H
#define GWT_ATTEND_H

#include "common.h"

/* All are T x D; q, k, v and their derivatives have ld floats from row to row, mixed
 * and its derivative ld_mixed; p and dp are T x T. */
typedef struct gwt_head {
    size_t T, D, ld, ld_mixed;
    const float *q, *k, *v, *dmixed;
    float *mixed, *p, *dp, *dq, *dk, *dv;
} gwt_head;

/* p = softmax over s <= t of q_t . k_s / sqrt(D), 0 for later s; mixed = p * v. */
gw_status gwt_attend(const gwt_head *head);

/* Sets dq, dk and dv from dmixed and what gwt_attend() left; dp is overwritten. */
gw_status gwt_attend_back(const gwt_head *head);

#endif
