/* SPDX-License-Identifier: Apache-2.0
 *
 * uneven.h - rounds of local steps in which slower workers make fewer steps.
 *
 *     after an exchange   all tell how long a step takes them, and agree how many steps
 *                         each makes in the next round: the fastest all of them, others
 *                         as many as they can in the same time
 *     before an exchange  each worker's change of the model is weighed by its steps
 *
 * So models are averaged by samples. The numbers depend on measured times; worker 0
 * writes them to rounds.jsonl in the run directory. */
#ifndef GWT_UNEVEN_H
#define GWT_UNEVEN_H

#include "elastic/lots.h"
#include "gradwire_elastic.h"
#include "run/worker.h"

typedef struct gwt_uneven {
    float *from; /* the model with which the round began; NULL: all are even */
    float *own;  /* this worker's model before it was weighed */
    int weighed; /* own is in use: a call that failed is made again */
    double step_s;
    double spent; /* in `made` steps of this round */
    uint64_t made;
} gwt_uneven;

/* Checks that the job can, and gets memory. GW_ERR_ARG, GW_ERR_NOMEM. */
gw_status gwt_uneven_new(gwt_uneven *u, const gwt_worker *w);
void gwt_uneven_free(gwt_uneven *u);

/* A round begins with this model. */
void gwt_uneven_begin(gwt_uneven *u, const float *params, size_t n);

/* A step took so many seconds. */
void gwt_uneven_count(gwt_uneven *u, double seconds);

/* Weighs this worker's change of the model before it is exchanged. */
void gwt_uneven_weigh(gwt_uneven *u, const gwt_lots *lots, int rank, float *params,
                      size_t n);

/* After an exchange: agrees on the steps of the next round. Collective. */
gw_status gwt_uneven_agree(gwt_uneven *u, gwt_worker *w, gwt_lots *lots);

/* How many steps of `period` a worker makes whose steps take `own` seconds, when the
 * fastest takes `least`. */
uint64_t gwt_uneven_share(uint64_t period, double own, double least);

#endif
