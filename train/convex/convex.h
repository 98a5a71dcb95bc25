/* SPDX-License-Identifier: Apache-2.0
 *
 * convex.h - convex problems whose optimum and excess risk are known exactly, and
 * stochastic gradient descent on them by several workers, for what theory says about
 * averaging: Patel and Dieuleveut, "Communication trade-offs for Local-SGD with large
 * step size" (2019).
 *
 * Features are Gaussian, coordinate k = 1, 2, ... with variance 1/k. A sample is a
 * row of dim features and one more float, the target:
 *
 *     logistic       0 or 1, by the logistic model of the optimum
 *     least-squares  x . optimum plus noise of variance 1
 *     quadratic      the noise alone: the gradient is that of the true risk plus
 *                    noise that does not depend on where it is taken
 */
#ifndef GWT_CONVEX_H
#define GWT_CONVEX_H

#include "common.h"

enum { GWT_CONVEX_DIM_MAX = 128 };

typedef enum gwt_convex_kind {
    GWT_LOGISTIC = 0,
    GWT_LEAST_SQUARES = 1,
    GWT_QUADRATIC = 2
} gwt_convex_kind;

typedef struct gwt_convex {
    gwt_convex_kind kind;
    size_t dim;
    uint64_t seed;
    double optimum[GWT_CONVEX_DIM_MAX], variance[GWT_CONVEX_DIM_MAX];
    double slope; /* logistic: the mean derivative of the model at the optimum */
    double least; /* logistic: the risk at the optimum */
} gwt_convex;

/* Makes a problem of dim 1..GWT_CONVEX_DIM_MAX. The coordinates of the optimum are
 * equal; x . optimum has standard deviation `signal`. */
void gwt_convex_init(gwt_convex *out, gwt_convex_kind kind, size_t dim, double signal,
                     uint64_t seed);

/* Writes sample i, dim + 1 floats; it depends on seed and i alone. */
void gwt_convex_sample(const gwt_convex *problem, uint64_t i, float *row);

/* The gradient of the loss of one sample at w. */
void gwt_convex_gradient(const gwt_convex *problem, const float *row, const double *w,
                         double *grad);

/* The risk at w less that at the optimum, both over the distribution itself and not
 * over samples: a closed form, or an integral over one dimension, to about 1e-14. */
double gwt_convex_excess(const gwt_convex *problem, const double *w);

/* ---- workers (study.c) -------------------------------------------------------- */

/* The settings that all compared methods share. */
typedef struct gwt_study_config {
    gwt_convex problem;
    uint64_t gradients; /* of all workers together; what fills no step is left out */
    int workers;
    double rate, alpha; /* the step size is rate * s^-alpha in step s = 1, 2, ... */
} gwt_study_config;

/* Its samples and step sizes. Worker p takes the samples from p * steps on, so all
 * methods, and any number of workers, see the same ones. */
typedef struct gwt_study {
    gwt_study_config config;
    uint64_t steps; /* of each worker */
    float *rows;    /* gradients x (dim + 1) */
    double *rates;  /* steps */
} gwt_study;

typedef struct gwt_study_result {
    double w[GWT_CONVEX_DIM_MAX]; /* where the method ended */
    uint64_t rounds; /* averages of models; 0 if the method has no rounds */
    double seconds;
} gwt_study_result;

/* Released with gwt_study_free(), also after a failure. GW_ERR_ARG: fewer gradients
 * than workers. GW_ERR_NOMEM. */
gw_status gwt_study_init(gwt_study *out, const gwt_study_config *config);
void gwt_study_free(gwt_study *study);

/* Runs a method on threads that really exchange what sync, a spec, says. */
gw_status gwt_study_threads(const gwt_study *study, const char *sync,
                            gwt_study_result *out);

/* The same in one thread, in double and without exchanges, which is hundreds of times
 * faster if there are many rounds. It supports methods that average whole models, or
 * whole gradients in every step. GW_ERR_ARG for others. */
gw_status gwt_study_simulate(const gwt_study *study, const char *sync,
                             gwt_study_result *out);

#endif
