/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.h - runs the same job with several methods, links and numbers of workers.
 *
 *     gwc_cases_make()    lists the runs, their directories and arguments
 *     gwc_case_run()      runs one of them, as a process of its own
 *     gwc_table_print()   shows the results, from the files of the runs alone
 */
#ifndef GWC_COMPARE_H
#define GWC_COMPARE_H

#include "report/runs.h"

#include <stdio.h>

enum { GWC_CASES_MAX = 1000, GWC_CASE_ARGS_MAX = 160, GWC_PATH_CAP = 4096 };

typedef enum gwc_case_state {
    GWC_CASE_WAITS,
    GWC_CASE_THERE,  /* finished before */
    GWC_CASE_RUN,    /* finished now */
    GWC_CASE_FAILED, /* see why */
} gwc_case_state;

/* One run of the comparison. */
typedef struct gwc_case {
    const char *sync, *link; /* link: NULL for none */
    const char *workers;
    const char *settings; /* of its own: "lr=0.4"; "" for none */
    uint64_t seed;        /* 0: that of all */
    char directory[GWC_PATH_CAP];
    char *arg[GWC_CASE_ARGS_MAX]; /* of 'gradwire train', without --out */
    int args;
    gwc_case_state state;
    char why[GWC_NOTE_CAP]; /* it failed */
} gwc_case;

/* The arguments of the command. Lists are separated by spaces. */
typedef struct gwc_compare {
    const char *sync, *link, *workers;
    const char *out;
    uint64_t seeds; /* runs of each, which differ in nothing else; one after another */
    double target;  /* accuracy in 0..1; NaN for none */
    char **rest;    /* flags for every run */
    int rest_count;

    gwc_case *cases;
    size_t count;
    char *text; /* the words of the cases */
} gwc_compare;

/* Fills in cases and checks the arguments of each. A method may have settings of its
 * own: "gtopk:0.01@lr=0.4,momentum=0". GW_ERR_ARG, GW_ERR_SPEC, GW_ERR_NOMEM; released
 * with gwc_cases_free() in any case. */
gw_status gwc_cases_make(gwc_compare *c);
void gwc_cases_free(gwc_compare *c);

/* Whether the directory of the case holds a finished run. GW_ERR_ARG if it does, but
 * with other settings. */
gw_status gwc_case_there(gwc_case *one, int *there);

/* Runs the case and, on a terminal, shows `headline` and its progress. GW_OK even if
 * the run failed (see state and why), GW_ERR_STOPPED after Ctrl-C. */
gw_status gwc_case_run(gwc_case *one, const char *headline);

/* Reads the runs and prints the table, or one JSON object per line. Returns the number
 * of cases without a result. */
size_t gwc_table_print(const gwc_compare *c, FILE *to, int json);

#endif
