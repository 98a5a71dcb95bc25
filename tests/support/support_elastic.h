/* SPDX-License-Identifier: Apache-2.0
 *
 * support_elastic.h - workers as threads that die, join and leave on purpose.
 *
 * Workers have numbers that never change. All that live meet in a room, which makes a
 * comm of them; ranks follow the numbers. A worker may be told to die when it posts its
 * n-th message, wherever that is: it falls silent in the middle of what it does. */
#ifndef SUPPORT_ELASTIC_H
#define SUPPORT_ELASTIC_H

#include <stdbool.h>

#include "gradwire_elastic.h"
#include "support_ranks.h"

enum { ELASTIC_MOST = 8, ELASTIC_FLOATS = 203, ELASTIC_DEEDS = 16 };

/* Methods that differ in what they remember. */
extern const char *const elastic_specs[];
extern const int elastic_spec_count;

/* When a worker dies; 0: it does not. */
typedef struct elastic_death {
    uint64_t post;      /* at its post of this number, counted from 1 */
    uint64_t step;      /* before it computes this step, counted from 1 */
    uint64_t leaves_at; /* it leaves before this step, and hands over what it has */
} elastic_death;

typedef struct elastic_plan {
    const char *spec;
    int workers;    /* that begin */
    int spares;     /* that join when somebody is gone */
    uint64_t steps; /* of the whole training */
    elastic_death death[ELASTIC_MOST];
} elastic_plan;

/* An exchange that a worker has made, by the name that it has in undo.h, of a method
 * with a residual. If all of them are summed, what was fed is what was applied and what
 * waits. With ef21, each worker feeds what it stands for, and the result is the
 * estimate. The last one of a worker that died may not count. */
typedef struct elastic_deed {
    uint64_t entry, count;
    int workers;
    float fed[ELASTIC_FLOATS];    /* what this worker brought, its momentum included */
    float result[ELASTIC_FLOATS]; /* the mean that all of them got */
    float residual[ELASTIC_FLOATS]; /* what this worker had not sent after it */
} elastic_deed;

/* What became of a worker. */
typedef struct elastic_result {
    bool died, left;
    gw_status status;
    char message[512];
    uint64_t posts;      /* it has made */
    uint64_t views;      /* it has entered */
    uint64_t first_step; /* steps that were made when it joined */
    bool late;           /* none of the first workers was left when it came */
    bool conserves;      /* nothing that is fed gets lost */
    bool undecided;      /* it died before it knew whether its last deed counts */
    int deed_count;      /* in the order in which they were made */
    elastic_deed deeds[ELASTIC_DEEDS]; /* the first ones */
    float params[ELASTIC_FLOATS], slot[ELASTIC_FLOATS];
    double fed[ELASTIC_FLOATS];        /* the sum of the gradients it brought */
    double applied[ELASTIC_FLOATS];    /* the sum of workers times results */
    float residual[ELASTIC_FLOATS];    /* what it has not sent */
    float estimate[ELASTIC_FLOATS];    /* of ef21 */
    double lost;                       /* what it was told about others */
    uint64_t changed_at[ELASTIC_MOST]; /* steps that were made at its views after the
                                        * first */
} elastic_result;

/* Runs the plan. results[number] is that of each worker and spare. */
void elastic_run(const elastic_plan *plan, elastic_result *results);

#endif
