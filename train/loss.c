/* SPDX-License-Identifier: Apache-2.0
 *
 * loss.c - softmax and cross-entropy.
 *
 *     p_j = exp(x_j - max) / sum,   loss = -log p_label,   dx_j = (p_j - [j = label]) /
 * batch
 */
#include "loss.h"

#include <math.h>

static size_t argmax(const float *x, size_t n)
{
    size_t best = 0;

    for (size_t j = 1; j < n; j++)
        if (x[j] > x[best])
            best = j;
    return best;
}

static double softmax_row(const float *x, size_t n, size_t label, float scale,
                          float *delta)
{
    float max = x[argmax(x, n)], at_label = x[label] - max, sum = 0.0f;

    for (size_t j = 0; j < n; j++)
        sum += expf(x[j] - max);
    if (delta != NULL) {
        for (size_t j = 0; j < n; j++)
            delta[j] = scale * (expf(x[j] - max) / sum);
        delta[label] -= scale;
    }
    return log((double)sum) - (double)at_label;
}

gwt_score gwt_softmax_loss(const float *logits, const uint32_t *labels, size_t batch,
                           size_t classes, float *delta)
{
    gwt_score score = {.count = batch};
    float scale = 1.0f / (float)batch;

    for (size_t i = 0; i < batch; i++) {
        const float *x = logits + i * classes;
        size_t guess = argmax(x, classes);
        double loss = softmax_row(x, classes, labels[i], scale,
                                  delta == NULL ? NULL : delta + i * classes);
        /* A row with NaN in it has no largest logit, so it is never right. */
        score.correct += guess == labels[i] && isfinite(loss);
        score.loss += loss;
    }
    return score;
}
