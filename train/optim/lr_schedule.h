/* SPDX-License-Identifier: Apache-2.0
 *
 * lr_schedule.h - how the learning rate changes over a run.
 *
 * A schedule is written as on the command line, "step:30/60,factor=0.1"; the table of
 * lr_schedule.c has all of them. The warm-up is given apart from it: "500" steps or
 * "2epochs" of linear rise. The cosine and the power begin when the warm-up ends. */
#ifndef GWT_LR_SCHEDULE_H
#define GWT_LR_SCHEDULE_H

#include "common.h"

enum { GWT_MILESTONES_MAX = 16 };

typedef struct gwt_schedule gwt_schedule;

/* One kind of schedule. */
typedef struct gwt_schedule_type {
    const char *name, *summary;
    const char *usage; /* as it is written with its options; NULL: it has none */

    /* Reads what follows "name:", the empty text if nothing does. */
    gw_status (*parse)(gwt_schedule *s, char *rest);

    /* The factor t steps after the warm-up of w steps. */
    double (*factor)(const gwt_schedule *s, double t, double w);

    int needs_end; /* whether the factor depends on total_steps */
} gwt_schedule_type;

struct gwt_schedule {
    const gwt_schedule_type *type;
    double milestone[GWT_MILESTONES_MAX]; /* step: in epochs, ascending */
    size_t milestones;
    double factor, alpha;
    double end; /* of the cosine, as a share of the rate */
    gwt_length warmup;
    double epoch_steps; /* steps of an epoch and of the run: set by the caller */
    double total_steps;
};

/* Reads both texts; epoch_steps and total_steps are left 0. GW_ERR_ARG. */
gw_status gwt_schedule_parse(gwt_schedule *out, const char *text, const char *warmup);

/* Whether the factor depends on total_steps. If so, a run that has begun cannot be
 * prolonged. */
int gwt_schedule_needs_end(const gwt_schedule *schedule);

/* The i-th schedule, NULL past the end. */
const gwt_schedule_type *gwt_schedule_at(size_t i);

/* What the rate is multiplied with in step t = 0, 1, ... */
double gwt_schedule_factor(const gwt_schedule *schedule, uint64_t t);

#endif
