/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.h - what the groups of benchmarks share: settings, racing two pieces of
 * code, and rows.
 *
 * A number by itself says little on a machine that others use too. So nearly every
 * row is a race against a limit of this machine (reading memory once, copying it,
 * the modelled time of a link), run in turns with it, and its result is a ratio. */
#ifndef GWB_BENCH_H
#define GWB_BENCH_H

#include "base.h"

typedef struct gwb_settings {
    uint64_t n; /* floats in the vectors; 0 until gwb_run() has put the default */
    int quick;  /* small and few: shows that it works, measures little */
    int json;   /* one object per line instead of tables */
    int threads;
    const char *filter;         /* only rows whose name contains it; NULL: all */
    const char *model, *sample; /* of the group "model": its name, "3x32x32" */
    uint64_t batch, classes;
} gwb_settings;

/* ---- races ------------------------------------------------------------------- */

typedef struct gwb_contender {
    void (*prepare)(void *arg); /* before each run, not timed; may be NULL */
    void (*run)(void *arg);
    void *arg;
    int sleeps; /* whether run() may wait for others */
} gwb_contender;

typedef struct gwb_race_result {
    double best_a, best_b; /* seconds */
    double ratio;          /* best_a / best_b */
    double median;         /* of the ratios of each round */
} gwb_race_result;

/* Runs a and b once each without counting, then a b a b ..., at least seven times
 * each and for a second. Times are those that the thread had a CPU, unless there
 * are several or they sleep. What is too short for the clock is run several times in a
 * row, and the times are those of one run. */
gwb_race_result gwb_race(const gwb_settings *set, const gwb_contender *a,
                         const gwb_contender *b);

/* Whether another round is wanted after so many since that time. */
int gwb_more(const gwb_settings *set, unsigned rounds, double since);
enum { GWB_ROUNDS_MAX = 1000 };

/* The median of count numbers, which are sorted; the least is then x[0]. NaN for
 * none. */
double gwb_median(double *x, size_t count);

/* ---- rows -------------------------------------------------------------------- */

typedef enum gwb_sense {
    GWB_AT_MOST = 0, /* the ratio is at most the target */
    GWB_WITHIN = 1   /* the ratio is no further from 1 than that, either way */
} gwb_sense;

enum { GWB_TEXT_CAP = 64 };

/* One result. What does not apply is 0 in whole numbers, NaN in others, "" or NULL
 * in texts; begin with gwb_row_new(). */
typedef struct gwb_row {
    const char *group;
    char name[GWB_TEXT_CAP];
    uint64_t n;     /* floats */
    int bytes;      /* n is bytes instead */
    double density; /* part of n that is chosen */
    unsigned bits;  /* per value */
    double seconds; /* the best */
    double rate;    /* by that time, or a size, in `unit` */
    const char *unit;
    const char *limit; /* what it is compared with */
    double limit_seconds;
    double ratio, median; /* to the limit: best by best, and of each round */
    double target;
    gwb_sense sense;
    const char *isa; /* what ran; NULL: what this CPU has */
} gwb_row;

gwb_row gwb_row_new(const char *group, uint64_t n, const char *format, ...)
    GW_PRINTF(3, 4);

/* Copies the result of a race into the row; bytes are those that a run of a moves,
 * for GB/s; 0: no rate. */
void gwb_row_race(gwb_row *row, const gwb_race_result *result, double bytes);

/* Whether the row's target is met; 1 where there is none. */
int gwb_row_met(const gwb_row *row);

/* Where rows go, and how many targets were met. */
typedef struct gwb_sheet {
    const gwb_settings *set;
    const char *group; /* the last whose heading was printed */
    unsigned targets, met;
} gwb_sheet;

/* Whether a row of that name is asked for. */
int gwb_wanted(const gwb_sheet *sheet, const char *name);

/* Prints the row, at once, if it is asked for. */
void gwb_sheet_add(gwb_sheet *sheet, const gwb_row *row);

/* ---- groups ------------------------------------------------------------------ */

/* One group = one file whose only external symbol is its gwb_group. */
typedef struct gwb_group {
    const char *name, *summary;
    int by_default;
    gw_status (*run)(gwb_sheet *sheet);
} gwb_group;

extern const gwb_group gwb_group_kernels;
extern const gwb_group gwb_group_wire;
extern const gwb_group gwb_group_link;
extern const gwb_group gwb_group_exchange;
extern const gwb_group gwb_group_beside;
extern const gwb_group gwb_group_recipes;
extern const gwb_group gwb_group_train;
extern const gwb_group gwb_group_model;
extern const gwb_group gwb_group_tls; /* only with libgradwire-group */

/* The i-th group, NULL past the end. */
const gwb_group *gwb_group_at(size_t i);

/* Runs the groups of those names in that order; none: those by default.
 * GW_ERR_ARG for a name that is no group's. */
gw_status gwb_run(const gwb_settings *set, char *const *names, size_t count);

#endif
