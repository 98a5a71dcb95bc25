/* SPDX-License-Identifier: Apache-2.0
 *
 * loss.c - softmax and cross-entropy.
 *
 *     p_j = exp(x_j - max) / sum,   loss = -log p_label,   dx_j = (p_j - [j = label]) /
 * batch
 *
 * Language models have ten thousand classes and more, so rows are processed by vector
 * code: LANES sums side by side, added at the end in a fixed order. */
#include "models/loss.h"
#include "common.h"
#include "layers/smooth.h"

#include <math.h>

enum { LANES = 16 };

/* The largest value in x; NaN is ignored. */
GWT_VECTOR static float largest(const float *x, size_t n)
{
    float lane[LANES], max;
    size_t j = 0;

    for (size_t l = 0; l < LANES; l++)
        lane[l] = -INFINITY;
    for (; j + LANES <= n; j += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] = x[j + l] > lane[l] ? x[j + l] : lane[l];
    for (size_t l = 0; j < n; j++, l++)
        lane[l] = x[j] > lane[l] ? x[j] : lane[l];
    max = lane[0];
    for (size_t l = 1; l < LANES; l++)
        max = lane[l] > max ? lane[l] : max;
    return max;
}

/* e[j] = exp(x[j] - max), which may lie where x does; returns their sum. */
GWT_VECTOR static float exponentials(const float *x, float max, float *e, size_t n)
{
    float lane[LANES] = {0}, sum = 0.0f;
    size_t j = 0;

    for (; j + LANES <= n; j += LANES) {
        float part[LANES];
        for (size_t l = 0; l < LANES; l++)
            part[l] = gwt_exp(x[j + l] - max);
        for (size_t l = 0; l < LANES; l++)
            e[j + l] = part[l];
        for (size_t l = 0; l < LANES; l++)
            lane[l] += part[l];
    }
    for (size_t l = 0; j < n; j++, l++)
        lane[l] += e[j] = gwt_exp(x[j] - max);
    for (size_t l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

/* The same sum without keeping what it is made of. */
GWT_VECTOR static float sum_exponentials(const float *x, float max, size_t n)
{
    float lane[LANES] = {0}, sum = 0.0f;
    size_t j = 0;

    for (; j + LANES <= n; j += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += gwt_exp(x[j + l] - max);
    for (size_t l = 0; j < n; j++, l++)
        lane[l] += gwt_exp(x[j] - max);
    for (size_t l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

GWT_VECTOR static void multiply(float *x, float factor, size_t n)
{
    for (size_t j = 0; j < n; j++)
        x[j] *= factor;
}

/* Whether the label's logit is the first among the largest. */
static int is_guess(const float *x, float max, size_t label)
{
    if (x[label] != max)
        return 0;
    for (size_t j = 0; j < label; j++)
        if (x[j] == max)
            return 0;
    return 1;
}

static double softmax_row(const float *x, float max, size_t n, size_t label,
                          float scale, float *delta)
{
    float at_label = x[label] - max, sum;

    if (delta != NULL) {
        sum = exponentials(x, max, delta, n);
        multiply(delta, scale / sum, n);
        delta[label] -= scale;
    } else {
        sum = sum_exponentials(x, max, n);
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
        float max = largest(x, classes);
        int right = is_guess(x, max, labels[i]);
        double loss = softmax_row(x, max, classes, labels[i], scale,
                                  delta == NULL ? NULL : delta + i * classes);
        /* A row with NaN in it has no largest logit, so it is never right. */
        score.correct += right && isfinite(loss);
        score.loss += loss;
    }
    return score;
}
