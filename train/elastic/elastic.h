/* SPDX-License-Identifier: Apache-2.0
 *
 * elastic.h - a worker of a job whose workers come and go.
 *
 *     lots.c           which batches a worker gets
 *     uneven.c         fewer steps for slower workers
 *     elastic_enter.c  how it comes to the state that all have
 *     elastic_run.c    its training loop
 *     writer.c         which worker writes the run directory
 *
 * Steps of such a job are counted as if the most workers that there may be had made
 * them: gwt_summary.steps is the number of batches that were used, by that number. */
#ifndef GWT_ELASTIC_H
#define GWT_ELASTIC_H

#include "elastic/lots.h"
#include "elastic/uneven.h"
#include "gradwire_elastic.h"
#include "run/worker.h"

/* What is next in a step. */
typedef enum gwt_stage { GWT_COMPUTES, GWT_EXCHANGES, GWT_ENDS } gwt_stage;

typedef struct gwt_elastic {
    gwt_job *job;
    gwt_worker w;
    gwt_lots lots;
    gwt_uneven uneven;
    gwt_stage stage;
    int idle; /* this worker leaves the step to faster ones */
    gwt_score score;
    uint64_t steps;   /* of its sync */
    uint64_t rate_at; /* the step of the schedule that the present one belongs to */
    uint64_t base;    /* the last exchange before the last entry */
    uint64_t told_at; /* the step after which workers last met for the log */
    gw_entry entry;
    int trained; /* it has taken part in an entry */
    int torn;    /* it has half a state */
    int leaves, left;
    int alone;     /* others that may be there are too few to go on with */
    double waited; /* seconds in entries */
} gwt_elastic;

/* Enters the next view, however often that takes. */
gw_status gwt_elastic_enter(gwt_elastic *e);

/* Whether this worker is between two exchanges, and so may leave in order. */
int gwt_elastic_may_leave(const gwt_elastic *e);

/* Whether a status means that other workers are gone. */
int gwt_elastic_lost(gw_status status);

/* Counts an exchange that was made in the lots, once. */
void gwt_elastic_count(gwt_elastic *e);

#endif
