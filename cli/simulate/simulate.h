/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate.h - "gradwire simulate" in parts:
 *
 *     simulate_command.c   flags and lists
 *     simulate_run.c       the modelled cluster as files, and SimGrid run on it
 *     simulate_predict.c   what the formulas say
 *     simulate_table.c     rows, for people and for programs
 */
#ifndef GWC_SIMULATE_H
#define GWC_SIMULATE_H

#include "gradwire.h"

/* The modelled cluster and what its workers do. */
typedef struct gwc_sim {
    const char *link_text, *uplink_text; /* as given */
    double rate, latency;                /* of a host: bytes per second, seconds */
    double up_rate, up_latency;          /* of a switch to the others */
    int hosts_per_switch;                /* 0: one switch for all */
    uint64_t params, tensors, steps, warmup, rounds, seed;
    double compute; /* seconds per step */
    double batch;   /* samples per worker and step, 0: not known */
    double tick;    /* seconds; 0: as the number of workers needs */
    const char *gradients;
    int fold;    /* enum gwc_fold */
    int longest; /* characters of the longest spec, for the table */
} gwc_sim;

enum gwc_fold { GWC_FOLD_AUTO, GWC_FOLD_ON, GWC_FOLD_OFF };

/* What one method costs per step with a number of workers; counts are those of rank
 * 0. */
typedef struct gwc_point {
    char sync[256], spec[256]; /* as given; canonical */
    int workers, folded;
    double step, step_min, compute, encode, wire, decode; /* seconds */
    double bytes_sent, bytes_received, messages_sent, bytes_sent_all;
    double predicted; /* seconds per step by the formulas */
} gwc_point;

/* Whether simulations are possible here. GW_ERR_ABSENT names what is missing and the
 * package that has it. */
gw_status gwc_simulate_possible(void);

/* Simulates one point. GW_ERR_SYSTEM: SimGrid failed (the message quotes its error), or
 * was stopped.
 */
gw_status gwc_simulate_point(const gwc_sim *sim, const char *sync, int workers,
                             gwc_point *point);

/* The seconds that one exchange takes according to latency and rate alone. Uses the
 * spec and counts of the point. */
double gwc_predict_wire(const gwc_sim *sim, const gwc_point *point);

void gwc_simulate_header(const gwc_sim *sim);
void gwc_simulate_row(const gwc_sim *sim, const gwc_point *point);
void gwc_simulate_json(const gwc_sim *sim, const gwc_point *point);

#endif
