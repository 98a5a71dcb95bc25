/* SPDX-License-Identifier: Apache-2.0
 *
 * convex.c - convex problems with a known optimum. */
#include "convex/convex.h"

#include <math.h>

/* Every sample has its own counters: pairs of features from 0 on, then the target. */
enum { TARGET = GWT_CONVEX_DIM_MAX };

static double sigmoid(double z)
{
    return 1.0 / (1.0 + exp(-z));
}

static double softplus(double z)
{
    return fmax(z, 0.0) + log1p(exp(-fabs(z)));
}

/* The mean of f(z) for Gaussian z of that standard deviation. The trapezoidal rule
 * is exact to rounding here, since f is smooth and the ends carry no weight. */
static double gaussian_mean(double (*f)(double), double deviation)
{
    const double h = 0.02, end = 12.0;
    double sum = 0.0;

    for (double z = -end; z <= end; z += h)
        sum += exp(-0.5 * z * z) * f(deviation * z);
    return sum * h / sqrt(2.0 * acos(-1.0));
}

static double sigmoid_slope(double z)
{
    return sigmoid(z) * sigmoid(-z);
}

static double inner(const gwt_convex *c, const double *a, const double *b)
{
    double sum = 0.0;

    for (size_t k = 0; k < c->dim; k++)
        sum += c->variance[k] * a[k] * b[k];
    return sum;
}

void gwt_convex_init(gwt_convex *out, gwt_convex_kind kind, size_t dim, double signal,
                     uint64_t seed)
{
    double total = 0.0;

    *out = (gwt_convex){.kind = kind, .dim = dim, .seed = seed};
    for (size_t k = 0; k < dim; k++)
        total += out->variance[k] = 1.0 / (double)(k + 1);
    for (size_t k = 0; k < dim; k++)
        out->optimum[k] = signal / sqrt(total);
    out->slope = gaussian_mean(sigmoid_slope, signal);
    out->least = gaussian_mean(softplus, signal) - signal * signal * out->slope;
}

/* In (0, 1), never at its ends. */
static double uniform(uint64_t bits)
{
    return ((double)(bits >> 32) + 0.5) * 0x1p-32;
}

/* Two independent normal numbers out of 64 bits, by Box and Muller; in float, which
 * the samples are anyway. */
static void normal_pair(uint64_t bits, float *a, float *b)
{
    float radius = sqrtf(-2.0f * logf((float)uniform(bits)));
    float angle = 6.28318531f * (float)uniform(bits << 32);

    *a = radius * cosf(angle);
    *b = radius * sinf(angle);
}

static double target(const gwt_convex *c, uint64_t i, double signal)
{
    uint64_t bits = gwt_random(c->seed, GWT_STREAM_CONVEX, i, TARGET);
    float noise, unused;

    if (c->kind == GWT_LOGISTIC)
        return uniform(bits) < sigmoid(signal) ? 1.0 : 0.0;
    normal_pair(bits, &noise, &unused);
    return (c->kind == GWT_QUADRATIC ? 0.0 : signal) + (double)noise;
}

void gwt_convex_sample(const gwt_convex *c, uint64_t i, float *row)
{
    double signal = 0.0;
    float x[2];

    for (size_t k = 0; k < c->dim; k++) {
        if (k % 2 == 0)
            normal_pair(gwt_random(c->seed, GWT_STREAM_CONVEX, i, k / 2), &x[0], &x[1]);
        row[k] = x[k % 2] * sqrtf((float)c->variance[k]);
        signal += (double)row[k] * c->optimum[k];
    }
    row[c->dim] = (float)target(c, i, signal);
}

/* Four sums, so that additions need not wait for one another. */
static double dot(const float *x, const double *w, size_t n)
{
    double s[4] = {0};
    size_t k = 0;

    for (; k + 4 <= n; k += 4)
        for (size_t j = 0; j < 4; j++)
            s[j] += (double)x[k + j] * w[k + j];
    for (; k < n; k++)
        s[k % 4] += (double)x[k] * w[k];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

void gwt_convex_gradient(const gwt_convex *c, const float *row, const double *w,
                         double *grad)
{
    double y = (double)row[c->dim];

    if (c->kind == GWT_QUADRATIC) {
        for (size_t k = 0; k < c->dim; k++)
            grad[k] = c->variance[k] * (w[k] - c->optimum[k]) - y * (double)row[k];
        return;
    }
    double z = dot(row, w, c->dim);
    double error = (c->kind == GWT_LOGISTIC ? sigmoid(z) : z) - y;
    for (size_t k = 0; k < c->dim; k++)
        grad[k] = error * (double)row[k];
}

/* The labels' part of the logistic risk, the mean of sigmoid(x . optimum) (x . w), is
 * slope * covariance: integration by parts against the Gaussian density. */
static double logistic_excess(const gwt_convex *c, const double *w)
{
    double deviation = sqrt(inner(c, w, w));
    double labels = c->slope * inner(c, w, c->optimum);

    return gaussian_mean(softplus, deviation) - labels - c->least;
}

double gwt_convex_excess(const gwt_convex *c, const double *w)
{
    double away[GWT_CONVEX_DIM_MAX];

    if (c->kind == GWT_LOGISTIC)
        return logistic_excess(c, w);
    for (size_t k = 0; k < c->dim; k++)
        away[k] = w[k] - c->optimum[k];
    return 0.5 * inner(c, away, away);
}
