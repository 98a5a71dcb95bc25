/* SPDX-License-Identifier: Apache-2.0
 *
 * support_conform.h - what every sync promises, as bodies for gw_local_run() or any
 * other way to run workers. */
#ifndef SUPPORT_CONFORM_H
#define SUPPORT_CONFORM_H

#include "support_ranks.h"

#include <stdbool.h>

/* A list of settings and compositions. */
extern const char *const conform_specs[];
extern const size_t conform_spec_count;

/* Spec i of that list, and then the examples of those recipes of the library that are
 * not in it, so that a recipe which is added needs no line there; NULL past the end. */
const char *conform_spec(size_t i);

/* What a worker is to do. */
typedef struct conform_job {
    const char *spec;
    int steps;
    gw_nonfinite nonfinite;
    int bad_step;      /* worker `workers - 1` has a NaN in this step, 0: never */
    int break_at;      /* save and load after this step, 0: never */
    bool by_parts;     /* feed tensor by tensor */
    bool by_pieces;    /* the gradient lies in three pieces */
    uint64_t *digests; /* of each worker's model in the end, in shared memory or NULL */
} conform_job;

/* Trains and checks conservation and agreement in each step; arg is a conform_job. */
gw_status conform_body(gw_comm *c, void *arg);

/* What is counted is what crossed; arg is a spec. */
gw_status conform_bytes(gw_comm *c, void *arg);

/* Nothing allocates after the first steps; arg is a spec. */
gw_status conform_steady(gw_comm *c, void *arg);

/* Worker 1 of two sends nonsense; arg is a spec. */
gw_status conform_nonsense(gw_comm *c, void *arg);

#endif
