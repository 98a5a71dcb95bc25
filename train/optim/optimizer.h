/* SPDX-License-Identifier: Apache-2.0
 *
 * optimizer.h - what is done to the parameters with a gradient. */
#ifndef GWT_OPTIMIZER_H
#define GWT_OPTIMIZER_H

#include "common.h"

enum { GWT_SLOTS_MAX = 2 };

/* The usual weight of what is already in Adam's mean of gradients. */
#define GWT_ADAM_BETA1 0.9

/* Settings of a run that optimizers take. To add one: add its field here, its row to
 * the table of optimizer.c and its flag to train_command.c. Checkpoints and
 * summary.json follow the table. */
typedef struct gwt_hyper {
    double momentum;
    double weight_decay;
    int nesterov; /* 1: the momentum is Nesterov's */
    double lent;  /* what of Adam's beta1 the sync applies: gw_sync_momentum(); no
                   * setting of a run */
} gwt_hyper;

/* One such setting. */
typedef struct gwt_hyper_row {
    const char *name;   /* of its flag, without the dashes */
    size_t offset;      /* of its field in gwt_hyper, */
    int is_switch;      /* which is an int, off or on; otherwise it is a double */
    const char *before; /* what runs did whose checkpoints have no such line; NULL: all
                           checkpoints have it */
} gwt_hyper_row;

/* One optimizer. step() changes n parameters x by gradient g at rate lr, t being
 * the number of steps taken before; slot[i] are n floats of its own, 0 at first.
 * One pass over memory; must treat each element by itself. */
typedef struct gwt_optimizer {
    const char *name, *summary;
    const char *takes; /* which settings, by their names, with a blank between them */
    int adaptive;      /* steps depend on the size of gradients so far */
    double beta1;      /* of its running mean of gradients; 0: it has none */
    int decays_itself; /* weight decay is taken off x and is no part of the gradient */
    size_t slots;
    void (*step)(float *x, const float *g, float *const *slot, size_t n, double lr,
                 uint64_t t, const gwt_hyper *hyper);
} gwt_optimizer;

/* The i-th optimizer, NULL past the end; the one of that name (GW_ERR_ARG). */
const gwt_optimizer *gwt_optimizer_at(size_t i);
gw_status gwt_optimizer_find(const char *name, const gwt_optimizer **out);

/* Whether the optimizer takes the setting of that name. */
int gwt_optimizer_takes(const gwt_optimizer *optimizer, const char *name);

/* The i-th setting, NULL past the end; its value, as 0 or 1 if it is a switch. */
const gwt_hyper_row *gwt_hyper_at(size_t i);
double gwt_hyper_value(const gwt_hyper *hyper, const gwt_hyper_row *row);

/* Whether the settings go together, and with the optimizer. GW_ERR_ARG. */
gw_status gwt_hyper_check(const gwt_hyper *hyper, const gwt_optimizer *optimizer);

#endif
