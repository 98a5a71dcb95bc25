/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.h - which method pays for a job: the question, the results, the advice.
 *
 *     plan_command.c   flags, and the order of things
 *     plan_job.c       what the job is: model, parameters, time of computing
 *     plan_spec.c      what the optimizer makes of a spec
 *     plan_trial.c     one method, tried in virtual time
 *     plan_judge.c     what pays, and which method to advise
 *     plan_outer.c     which period, for methods with local steps
 *     plan_results.c   what methods cost in accuracy in our own runs
 *     plan_advice.c    the advice in words
 *     plan_table.c     the table and JSON
 *     link_probe.c     measures a real link
 */
#ifndef GWC_PLAN_H
#define GWC_PLAN_H

#include "plan/plan_results.h"
#include "plan/plan_trial.h"

#include <stdio.h>

enum { GWC_PLAN_ROWS_MAX = 64, GWC_SPEC_CAP = 256, GWC_LINE_CAP = 1024 };

/* A method is advised only if it gains at least this much over dense. One that costs
 * accuracy, or lets the workers' models drift apart, has to gain the second factor over
 * what would be advised without it. */
#define GWC_WORTH_SAFE  1.05
#define GWC_WORTH_RISKY 1.3

/* How far a method can be trusted, by our own results, with this optimizer and about
 * this number of workers. The first three may be advised. */
typedef enum gwc_trust {
    GWC_TRUST_SAFE,   /* keeps models equal and lost half a point at most */
    GWC_TRUST_COSTLY, /* keeps models equal and lost a point at most, or is warned of */
    GWC_TRUST_DRIFTING, /* models drift apart in between; it lost a point at most */
    GWC_TRUST_UNKNOWN,  /* not measured with such an optimizer */
    GWC_TRUST_LOSSY,    /* lost more than a point, or is warned of and not measured */
    GWC_TRUST_NEVER     /* models never meet before the end */
} gwc_trust;

typedef struct gwc_plan_row {
    const char *sync;           /* as users write it */
    char runs_as[GWC_SPEC_CAP]; /* what the optimizer makes of it */
    char warning[GWC_SPEC_CAP]; /* what gw_spec_advise() warns of, or "" */
    uint64_t first_steps;       /* steps at the beginning that are dense */
    uint64_t ladder_steps;      /* steps after these with higher densities */
    double ladder_times;        /* what these send, in steps at the density asked for */
    gw_spec_info info;          /* of sync */
    int drifts;                 /* models differ between exchanges */
    gwc_trust trust;            /* see above */
    gwc_results measured;       /* the cost in accuracy */
    gwc_plan_result result;     /* link 0 is the one asked for, the others a sweep */
    double speedup;             /* against dense */
    double of_one;              /* times the work of one machine; 0: not known */
    double pays_below;          /* bytes/s; 0: nowhere, infinity: everywhere */
    int best;
} gwc_plan_row;

typedef struct gwc_plan {
    const char *model; /* NULL if only the number of parameters was given */
    const char *data, *data_dir;
    uint64_t batch;
    int trainer_has_it;               /* whether the model is one of the trainer's */
    const char *link, *measured_with; /* the host, if the link was measured */
    gwc_plan_job job;
    int compute_measured, here;
    const char *optimizer;
    double momentum; /* 0 unless the optimizer takes it */
    int adaptive;
    double beta1; /* of adaptive optimizers; 0: none */
    gwc_link rate[GWC_LINKS_MAX];
    char syncs[4096]; /* the names of the rows */
    gwc_plan_row row[GWC_PLAN_ROWS_MAX];
    size_t rows;

    /* For the method to take: the rates, in bytes per second, from which on dense is
     * faster, if nothing overlaps, and if dense's exchange overlaps perfectly. 0: at
     * every rate, infinity: at none that was looked at. */
    double dense_from, dense_from_overlapped;
} gwc_plan;

/* The model, its parameters and the time of computing. GW_ERR_ARG says what is missing.
 * `data` may be NULL. */
gw_status gwc_plan_find_job(gwc_plan *plan, const char *model, const char *params,
                            const char *compute, const char *data);

/* Adds a method, which the optimizer of the plan is going to be used with. */
gw_status gwc_plan_add(gwc_plan *plan, const char *sync);

/* The spec with which a trial measures the steps after the first ones. Sets
 * *first_steps to the number of the dense ones. */
void gwc_plan_settled(const char *spec, char out[GWC_SPEC_CAP], uint64_t *first_steps);

/* The link asked for, then rates from slow to fast with the same delay. */
gw_status gwc_plan_rates(gwc_plan *plan, const char *link);

/* Tries all methods, computes the speed-ups and the rates at which they end, and marks
 * the method to take. */
gw_status gwc_plan_try_all(gwc_plan *plan);

const gwc_plan_row *gwc_plan_dense(const gwc_plan *plan);
const gwc_plan_row *gwc_plan_best(const gwc_plan *plan);

/* The fastest method among those of such trust which is faster than the one advised by
 * the second factor, or NULL. */
const gwc_plan_row *gwc_plan_faster(const gwc_plan *plan, gwc_trust trust);

/* The step of a dense exchange that is hidden behind computing as far as possible. */
double gwc_plan_overlapped(const gwc_plan *plan, size_t link);

/* A method with local steps and an outer step, and the period that suits the link. */
typedef struct gwc_plan_outer_advice {
    const gwc_plan_row *row; /* the method, with the period that was tried */
    char sync[GWC_SPEC_CAP], in_full[GWC_SPEC_CAP];
    char started[GWC_SPEC_CAP]; /* with start=N; empty if it has no such key, or if the
                                 * user has chosen settings */
    uint64_t period;
    double exchange; /* seconds of one */
    double part;     /* of the time that exchanges take with that period */
} gwc_plan_outer_advice;

/* Returns 0 if the plan has no such method. */
int gwc_plan_outer(const gwc_plan *plan, gwc_plan_outer_advice *out);

/* The advice: a paragraph of a few sentences, which the caller frees with free(), or
 * NULL; the command that trains with it, and the line for PyTorch. */
char *gwc_plan_words(const gwc_plan *plan);
void gwc_plan_train_line(const gwc_plan *plan, char line[GWC_LINE_CAP]);
void gwc_plan_torch_line(const gwc_plan *plan, char line[GWC_LINE_CAP]);

/* "1.5 Gbit/s". */
const char *gwc_rate_text(double bytes_per_second, char text[32]);

/* The advice and the table, or one JSON object in a line. */
gw_status gwc_plan_print(const gwc_plan *plan, FILE *to);
gw_status gwc_plan_print_json(const gwc_plan *plan, FILE *to);

#endif
