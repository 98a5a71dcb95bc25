/* SPDX-License-Identifier: Apache-2.0
 *
 * rank.h - the program that every rank of an exchange runs: given syncs on made-up or
 * recorded gradients over MPI, and how long each takes. It is built twice: for a real
 * MPI (gradwire-exchange) and for SimGrid's, where time is simulated and all ranks
 * live in one process (GRADWIRE_SMPI is defined then).
 *
 * Under SimGrid all ranks share the globals of this program, of mpi/ and of the
 * library, so none of them may hold what belongs to one rank. */
#ifndef GWS_RANK_H
#define GWS_RANK_H

#include "gradwire.h"

#include <stdbool.h>

enum { GWS_SYNCS_MAX = 64 };

/* What the flags say; the same on every rank. */
typedef struct gws_settings {
    const char
        *syncs[GWS_SYNCS_MAX]; /* each one spec, or several separated by spaces */
    size_t sync_count;
    uint64_t params;       /* floats of the model */
    uint64_t tensors;      /* it is cut into so many, as even as possible */
    uint64_t steps;        /* that are timed */
    uint64_t warmup;       /* steps before them */
    uint64_t rounds;       /* in which the cost of coding is measured; simulated only */
    double compute;        /* seconds per step before the exchange */
    double timeout;        /* seconds without progress; real ranks only */
    const char *gradients; /* file of recorded float32 values, or NULL: made up */
    uint64_t seed;         /* of made-up ones */
    bool folded;           /* the ranks share the memory of vectors; simulated only */
    bool native;           /* MPI's own all-reduce */
} gws_settings;

gw_status gws_settings_read(gws_settings *set, int argc, char **argv);
void gws_settings_help(void);

/* ---- vectors (trial_gradients.c) ----------------------------------------------------
 */

/* The vectors of one rank. `stock` is what gradients are cut from; ranks and steps
 * begin at different places in it. */
typedef struct gws_source {
    float *stock, *grad, *params;
    size_t n;
    int rank;
    uint64_t seed;
} gws_source;

gw_status gws_source_init(gws_source *source, const gws_settings *set, int rank);
void gws_source_fini(gws_source *source);

/* Fills v, one of the two vectors, with what it holds in that step. */
void gws_source_fill(const gws_source *source, float *v, uint64_t step);

/* The first entry of v that is not a number or not finite, n if there is none. */
size_t gws_first_nonfinite(const float *v, size_t n);

/* ---- one sync (trial.c) ---------------------------------------------------- */

/* What one sync costs per step. Counts are rank 0's; seconds too, except those of
 * the step, which are those of the rank that took longest. */
typedef struct gws_result {
    char spec[256]; /* canonical */
    double step, step_min, encode, wait, decode;
    double bytes_sent, bytes_received, messages_sent;
    double bytes_sent_all; /* of all ranks together */
} gws_result;

/* Runs spec for warm-up and timed steps. Every rank calls it; the result is for rank
 * 0. */
gw_status gws_trial(gws_result *result, const char *spec, const gws_settings *set,
                    gw_comm *comm, gws_source *source);

#endif
