/* SPDX-License-Identifier: Apache-2.0
 *
 * optimizer.h - what is done to the parameters with a gradient. */
#ifndef GWT_OPTIMIZER_H
#define GWT_OPTIMIZER_H

#include "common.h"

enum { GWT_SLOTS_MAX = 2 };

/* Settings of a run; an optimizer takes those it knows. */
typedef struct gwt_hyper {
    double momentum;     /* sgd */
    double weight_decay; /* all: times the parameter, added to its gradient */
} gwt_hyper;

/* One optimizer. step() changes n parameters x by gradient g at rate lr, t being
 * the number of steps taken before; slot[i] are n floats of its own, 0 at first.
 * One pass over memory; must treat each element by itself. */
typedef struct gwt_optimizer {
    const char *name, *summary;
    int adaptive; /* steps depend on the size of gradients so far */
    size_t slots;
    void (*step)(float *x, const float *g, float *const *slot, size_t n, double lr,
                 uint64_t t, const gwt_hyper *hyper);
} gwt_optimizer;

/* The i-th optimizer, NULL past the end; the one of that name (GW_ERR_ARG). */
const gwt_optimizer *gwt_optimizer_at(size_t i);
gw_status gwt_optimizer_find(const char *name, const gwt_optimizer **out);

#endif
