/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_results.h - what methods cost in accuracy in our own runs. */
#ifndef GWC_PLAN_RESULTS_H
#define GWC_PLAN_RESULTS_H

#include "gradwire.h"

typedef enum gwc_family { GWC_PLAIN_SGD, GWC_MOMENTUM_SGD, GWC_ADAPTIVE } gwc_family;

/* The runs with a method that are nearest to a job. Differences are means over seeds,
 * in points of test accuracy against dense. */
typedef struct gwc_results {
    int found;
    double worst, best;    /* over the models that were trained */
    int workers;           /* of those runs */
    const char *trainings; /* which models and data */
    const char *optimizer; /* and which optimizer */
    const char *page;      /* where they are described */
} gwc_results;

/* Results of a method with such an optimizer and the number of workers that is nearest
 * to the one given. */
gwc_results gwc_results_find(gwc_family family, int workers, const char *sync);

/* The largest number of workers in any of our runs, and of parameters of a model. */
int gwc_results_workers_most(void);
double gwc_results_params_most(void);

#endif
