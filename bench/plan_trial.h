/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_trial.h - what a step with a method would take on several links: the real
 * method runs on made-up gradients over a network in virtual time. */
#ifndef GWB_PLAN_TRIAL_H
#define GWB_PLAN_TRIAL_H

#include "virtual_net.h"

/* The largest number of workers, which are threads here. */
enum { GWB_PLAN_WORKERS_MAX = 256 };

typedef struct gwb_plan_job {
    size_t params;
    int workers;
    double compute; /* seconds of a step, between exchanges */
    double share;   /* how many workers share a processor; 1: each has its own */
    const gwb_link *link;
    size_t links;
} gwb_plan_job;

/* Per step, of the slowest worker. */
typedef struct gwb_plan_result {
    double step[GWB_LINKS_MAX]; /* seconds, per link, with compute */
    double encode, decode;      /* processor time */
    double bytes;               /* sent by worker 0 */
    int keeps_equal;            /* whether the workers' models stay the same */
    int exchanges_nothing;      /* the method never talks */
} gwb_plan_result;

/* Tries a method. Vectors longer than memory and a few seconds allow are cut, and
 * times and bytes taken as often as they were cut. GW_ERR_ARG, GW_ERR_SPEC,
 * GW_ERR_NOMEM, GW_ERR_SYSTEM. */
gw_status gwb_plan_try(gwb_plan_result *out, const gwb_plan_job *job, const char *spec);

/* Reads "1gbit,50us". GW_ERR_ARG. */
gw_status gwb_plan_link(gwb_link *out, const char *text);

#endif
