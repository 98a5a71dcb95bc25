/* SPDX-License-Identifier: Apache-2.0
 *
 * attend.c - one head of causal attention on one sample.
 *
 *     s = q * k^T / sqrt(D),  p = softmax of the lower triangle,  mixed = p * v
 *
 *     dv = p^T * dmixed,  dp = dmixed * v^T,
 *     ds = p (dp - sum over the row of p dp) / sqrt(D),  dq = ds * k,  dk = ds^T * q
 */
#include "layers/attend.h"
#include "layers/compute.h"
#include "layers/smooth.h"

#include <math.h>

enum { LANES = 16 };

static float total(const float lane[LANES])
{
    float sum = 0.0f;

    for (size_t l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

/* The first `used` of the n scores in x become their softmax, the others 0. */
GWT_VECTOR static void softmax(float *x, float scale, size_t used, size_t n)
{
    float max = -INFINITY, lane[LANES] = {0}, factor;
    size_t j = 0;

    for (size_t i = 0; i < used; i++)
        max = x[i] > max ? x[i] : max;
    for (; j + LANES <= used; j += LANES)
        for (size_t l = 0; l < LANES; l++) {
            float e = gwt_exp((x[j + l] - max) * scale);
            x[j + l] = e;
            lane[l] += e;
        }
    for (size_t l = 0; j < used; j++, l++)
        lane[l] += x[j] = gwt_exp((x[j] - max) * scale);
    factor = 1.0f / total(lane);
    for (size_t i = 0; i < used; i++)
        x[i] *= factor;
    for (size_t i = used; i < n; i++)
        x[i] = 0.0f;
}

/* d, the derivative by the softmax p, becomes that by the scores. */
GWT_VECTOR static void softmax_back(float *restrict d, const float *restrict p,
                                    float scale, size_t used, size_t n)
{
    float lane[LANES] = {0}, sum;
    size_t j = 0;

    for (; j + LANES <= used; j += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += d[j + l] * p[j + l];
    for (size_t l = 0; j < used; j++, l++)
        lane[l] += d[j] * p[j];
    sum = total(lane);
    for (size_t i = 0; i < used; i++)
        d[i] = p[i] * (d[i] - sum) * scale;
    for (size_t i = used; i < n; i++)
        d[i] = 0.0f;
}

gw_status gwt_attend(const gwt_head *h)
{
    size_t T = h->T, D = h->D;
    float scale = 1.0f / sqrtf((float)D);

    GWT_TRY(gwt_matmul(T, T, D, (gwt_operand){h->q, h->ld, 0},
                       (gwt_operand){h->k, h->ld, 1}, h->p, T));
    for (size_t t = 0; t < T; t++)
        softmax(h->p + t * T, scale, t + 1, T);
    return gwt_matmul(T, D, T, (gwt_operand){h->p, T, 0}, (gwt_operand){h->v, h->ld, 0},
                      h->mixed, h->ld_mixed);
}

gw_status gwt_attend_back(const gwt_head *h)
{
    size_t T = h->T, D = h->D;
    float scale = 1.0f / sqrtf((float)D);
    gwt_operand dmixed = {h->dmixed, h->ld_mixed, 0};

    GWT_TRY(gwt_matmul(T, D, T, (gwt_operand){h->p, T, 1}, dmixed, h->dv, h->ld));
    GWT_TRY(gwt_matmul(T, T, D, dmixed, (gwt_operand){h->v, h->ld, 1}, h->dp, T));
    for (size_t t = 0; t < T; t++)
        softmax_back(h->dp + t * T, h->p + t * T, scale, t + 1, T);
    GWT_TRY(gwt_matmul(T, D, T, (gwt_operand){h->dp, T, 0},
                       (gwt_operand){h->k, h->ld, 0}, h->dq, h->ld));
    return gwt_matmul(T, D, T, (gwt_operand){h->dp, T, 1},
                      (gwt_operand){h->q, h->ld, 0}, h->dk, h->ld);
}
