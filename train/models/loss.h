/* SPDX-License-Identifier: Apache-2.0
 *
 * loss.h - the end of every model: softmax and cross-entropy of classifiers, and
 * the losses of models with one output (loss_regression.c). */
#ifndef GWT_LOSS_H
#define GWT_LOSS_H

#include "common.h"

/* The result of a batch, summed over its samples. */
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

/* Which of them a model ends with. */
typedef enum gwt_loss {
    GWT_LOSS_SOFTMAX = 0,
    GWT_LOSS_LOGISTIC,
    GWT_LOSS_SQUARES,
} gwt_loss;

/* How many outputs belong to one label. */
size_t gwt_loss_outputs(gwt_loss loss, size_t classes);

/* Checks that a model with that loss can learn that many classes; 0 stands for
 * numbers. GW_ERR_ARG. */
gw_status gwt_loss_check(gwt_loss loss, const char *model, size_t classes);

/* Like gwt_softmax_loss() for one output z per sample. Labels are 0 and 1; targets
 * are the bits of floats, and none of them is right or wrong. */
gwt_score gwt_logistic_loss(const float *z, const uint32_t *labels, size_t batch,
                            float *delta);
gwt_score gwt_squares_loss(const float *z, const uint32_t *targets, size_t batch,
                           float *delta);

#endif
