/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.h - a prediction of which method pays for a job: the question, the results, and
 * how they are shown. */
#ifndef GWC_PLAN_H
#define GWC_PLAN_H

#include "plan/plan_trial.h"

#include <stdio.h>

enum { GWC_PLAN_ROWS_MAX = 64 };

typedef struct gwc_plan_row {
    const char *sync;
    gwc_plan_result result; /* link 0 is the one asked for, the others a sweep */
    double speedup;         /* against dense */
    double pays_below;      /* bytes per second; 0: nowhere, infinity: everywhere */
    int best;
} gwc_plan_row;

typedef struct gwc_plan {
    const char *model; /* NULL if only the number of parameters was given */
    const char *link;
    gwc_plan_job job;
    int compute_measured, here;
    gwc_link rate[GWC_LINKS_MAX];
    char syncs[4096]; /* the names of the rows */
    gwc_plan_row row[GWC_PLAN_ROWS_MAX];
    size_t rows;
} gwc_plan;

/* The link asked for, then rates from slow to fast with the same delay. */
gw_status gwc_plan_rates(gwc_plan *plan, const char *link);

/* Computes the speed-ups and the rate below which each method pays, and marks the
 * best. */
void gwc_plan_judge(gwc_plan *plan);

/* The table with a sentence that says what to do, or one JSON object per row. */
void gwc_plan_print(const gwc_plan *plan, FILE *to);
void gwc_plan_print_json(const gwc_plan *plan, FILE *to);

#endif
