/* SPDX-License-Identifier: Apache-2.0
 *
 * sync.h - the inside of a gw_sync, and what a method is.
 *
 * A method turns the answers of a spec into the two calls of a training step. It
 * is one file whose only external symbol is its gwi_method; sync.c checks, counts
 * and measures around it. */
#ifndef GWI_SYNC_H
#define GWI_SYNC_H

#include "collective/collective.h"
#include "comm.h"
#include "layout.h"
#include "sync/spec.h"

typedef struct gwi_method {
    const char *name;

    /* Whether it can do what spec asks for. The first method in the table that
     * says so is taken. Pure. */
    bool (*fits)(const gwi_spec *spec);

    /* Bytes of zeroed private state that sync->state points to. */
    size_t state_size;

    /* Prepares the state. On failure it must be left so that fini() is safe.
     * Optional. */
    gw_status (*init)(gw_sync *sync);

    /* Releases what init() acquired. Optional. */
    void (*fini)(gw_sync *sync);

    /* The exchange of a gradient, in place. *note is this worker's and must be the
     * least of all workers' afterwards. May block. NULL if gradients are left
     * alone. */
    gw_status (*gradient)(gw_sync *sync, float *grad, gwi_note *note);

    /* The exchange of models, in place. May block. NULL if models are left alone. */
    gw_status (*model)(gw_sync *sync, float *params);

    /* Whether all workers' models stay equal. */
    bool keeps_equal;
} gwi_method;

struct gw_sync {
    gw_comm *comm;
    gw_layout *layout;
    const gwi_method *method;
    void *state;
    gwi_spec spec;
    gw_nonfinite nonfinite;
    uint64_t seed;
    uint64_t step; /* 1 in the first */
    gw_stats stats;
    double encoded; /* seconds of the current call so far that were encoding */
    double entered; /* when the current call began */
    double waited;  /* comm's waiting when the current call began */
    char text[256];
};

/* A method calls this when its own data is encoded and the exchange begins. */
void gwi_sync_encoded(gw_sync *sync);

#endif
