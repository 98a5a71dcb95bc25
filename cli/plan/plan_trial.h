/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_trial.h - predicts the time of a step on several links: the real method runs on
 * made-up gradients over a network in virtual time. */
#ifndef GWC_PLAN_TRIAL_H
#define GWC_PLAN_TRIAL_H

#include "plan/virtual_net.h"

/* The largest number of workers, which are threads here. */
enum { GWC_PLAN_WORKERS_MAX = 256 };

typedef struct gwc_plan_job {
    size_t params;
    int workers;
    double compute; /* seconds of a step, between exchanges */
    double share;   /* how many workers share a processor; 1: each has its own */
    const gwc_link *link;
    size_t links;
} gwc_plan_job;

/* Per step, of the slowest worker. */
typedef struct gwc_plan_result {
    double step[GWC_LINKS_MAX]; /* seconds, per link, with compute */
    double encode, decode;      /* processor time */
    double bytes;               /* sent by worker 0 */
    int keeps_equal;            /* whether the workers' models stay the same */
    int exchanges_nothing;      /* the method sends nothing */
} gwc_plan_result;

/* Tries a method. Vectors that would need too much memory or time are shortened, and
 * times and bytes are multiplied by the same factor. GW_ERR_ARG, GW_ERR_SPEC,
 * GW_ERR_NOMEM, GW_ERR_SYSTEM. */
gw_status gwc_plan_try(gwc_plan_result *out, const gwc_plan_job *job, const char *spec);

/* Reads "1gbit,50us". GW_ERR_ARG. */
gw_status gwc_plan_link(gwc_link *out, const char *text);

#endif
