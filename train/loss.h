/* SPDX-License-Identifier: Apache-2.0
 *
 * loss.h - softmax and cross-entropy, the end of every classifier. */
#ifndef GWT_LOSS_H
#define GWT_LOSS_H

#include <stddef.h>
#include <stdint.h>

/* What a batch did: sums over its samples. */
typedef struct gwt_score {
    double loss;    /* natural logarithm; NaN once a sample's is NaN */
    size_t correct; /* samples whose largest logit is that of their label */
    size_t count;
} gwt_score;

/* Scores logits (batch x classes) against labels, each below classes. Unless
 * delta is NULL it receives the derivative of the batch's MEAN loss by the logits
 * (batch x classes; may be logits itself). */
gwt_score gwt_softmax_loss(const float *logits, const uint32_t *labels, size_t batch,
                           size_t classes, float *delta);

#endif
