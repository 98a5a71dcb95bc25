/* SPDX-License-Identifier: Apache-2.0
 *
 * lr_schedule.h - how the learning rate changes over a run.
 *
 * In text, as on the command line:
 *
 *     constant               the rate that was given, throughout
 *     step:30/60,factor=0.1  times factor at the beginning of these epochs
 *     cosine                 half a wave, down to 0 at the end of the run
 *     power:0.5              t^-0.5 in step t = 1, 2, ...
 *
 * and the warm-up apart from it: "500" steps or "2epochs" of linear rise. The
 * cosine and the power begin when the warm-up ends. */
#ifndef GWT_LR_SCHEDULE_H
#define GWT_LR_SCHEDULE_H

#include "common.h"

enum { GWT_MILESTONES_MAX = 16 };

typedef struct gwt_schedule {
    const struct gwt_schedule_type *type;
    double milestone[GWT_MILESTONES_MAX]; /* step: in epochs, ascending */
    size_t milestones;
    double factor, alpha;
    double warmup;      /* in steps, or in epochs if... */
    int warmup_epochs;  /* ...this is set */
    double epoch_steps; /* steps of an epoch and of the run: set by the caller */
    double total_steps;
} gwt_schedule;

/* Reads both texts; epoch_steps and total_steps are left 0. GW_ERR_ARG. */
gw_status gwt_schedule_parse(gwt_schedule *out, const char *text, const char *warmup);

/* Whether the factor depends on total_steps. If so, a run that has begun cannot be
 * prolonged. */
int gwt_schedule_needs_end(const gwt_schedule *schedule);

/* The name of the i-th schedule, NULL after the last one. */
const char *gwt_schedule_name(size_t i);

/* What the rate is multiplied with in step t = 0, 1, ... */
double gwt_schedule_factor(const gwt_schedule *schedule, uint64_t t);

#endif
