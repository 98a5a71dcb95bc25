/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.c - the flags of the rank program. It cannot share the command's table of
 * flags, since the command is not linked into it. */
#define _GNU_SOURCE
#include "rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

typedef enum kind { SYNC, TEXT, COUNT, REAL, SWITCH } kind;

typedef struct flag {
    const char *name, *arg, *help;
    kind kind;
    size_t at;
    double least, most;
} flag;

#define AT(field) offsetof(gws_settings, field)

static const flag flags[] = {
    {"sync", "SPECS", "methods, separated by spaces; may be repeated [dense]", SYNC,
     AT(syncs), 0, 0},
    {"params", "N", "number of parameters of the model [1000000]", COUNT, AT(params), 1,
     4e9},
    {"tensors", "N", "number of tensors in the model [1]", COUNT, AT(tensors), 1, 1e6},
    {"steps", "N", "number of measured steps [10]", COUNT, AT(steps), 1, 1e6},
    {"warmup", "N", "number of steps before those [2]", COUNT, AT(warmup), 0, 1e6},
    {"compute", "S", "seconds of computation per step [0]", REAL, AT(compute), 0, 1e6},
    {"gradients", "FILE", "use this gradient (raw float32); without it, made up", TEXT,
     AT(gradients), 0, 0},
    {"seed", "N", "seed of made-up gradients [1]", COUNT, AT(seed), 0, 1e15},
    {"timeout", "S", "give up after S seconds without progress [60]", REAL, AT(timeout),
     0.001, 1e6},
    {"native", NULL, "use MPI's own all-reduce", SWITCH, AT(native), 0, 0},
#ifdef GRADWIRE_SMPI
    {"rounds", "N", "times to measure coding; 0: coding takes no time [3]", COUNT,
     AT(rounds), 0, 1000},
    {"folded", NULL, "let ranks share the memory of vectors", SWITCH, AT(folded), 0, 0},
#endif
};

enum { FLAGS = sizeof flags / sizeof flags[0] };

void gws_settings_help(void)
{
    puts("Usage: mpirun -n P gradwire-exchange [FLAGS]\n"
         "\n"
         "Exchanges gradients between the ranks of an MPI job, method by method, and\n"
         "prints a line of JSON for each: seconds per step of the slowest rank, and\n"
         "rank 0's seconds, bytes and messages.\n");
    for (size_t i = 0; i < FLAGS; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", flags[i].name,
                 flags[i].arg != NULL ? flags[i].arg : "");
        printf("  %-20s%s\n", left, flags[i].help);
    }
}

static gw_status store(const flag *f, const char *text, gws_settings *set)
{
    char *at = (char *)set + f->at, *end;
    double x = strtod(text, &end);
    uint64_t count = (uint64_t)x;

    if (f->kind == SYNC) {
        if (set->sync_count == GWS_SYNCS_MAX)
            return gw_fail(GW_ERR_ARG, "--sync is given more than %d times",
                           GWS_SYNCS_MAX);
        set->syncs[set->sync_count++] = text;
        return GW_OK;
    }
    if (f->kind == TEXT) {
        memcpy(at, &text, sizeof text);
        return GW_OK;
    }
    if (end == text || *end != '\0' || !(x >= f->least && x <= f->most) ||
        (f->kind == COUNT && floor(x) != x))
        return gw_fail(GW_ERR_ARG, "--%s: '%s' is not a %s between %g and %g", f->name,
                       text, f->kind == COUNT ? "whole number" : "number", f->least,
                       f->most);
    if (f->kind == COUNT)
        memcpy(at, &count, sizeof count);
    else
        memcpy(at, &x, sizeof x);
    return GW_OK;
}

static const flag *find(const char *arg)
{
    for (size_t i = 0; strncmp(arg, "--", 2) == 0 && i < FLAGS; i++)
        if (strcmp(arg + 2, flags[i].name) == 0)
            return &flags[i];
    return NULL;
}

gw_status gws_settings_read(gws_settings *set, int argc, char **argv)
{
    bool on = true;

    *set = (gws_settings){.params = 1000000,
                          .tensors = 1,
                          .steps = 10,
                          .warmup = 2,
                          .rounds = 3,
                          .timeout = 60,
                          .seed = 1};
    for (int i = 1; i < argc; i++) {
        const flag *f = find(argv[i]);
        if (f == NULL)
            return gw_fail(GW_ERR_ARG, "unknown argument '%s'; --help lists the flags",
                           argv[i]);
        if (f->kind == SWITCH) {
            memcpy((char *)set + f->at, &on, sizeof on);
            continue;
        }
        if (++i == argc)
            return gw_fail(GW_ERR_ARG, "--%s needs a value", f->name);
        GWI_TRY(store(f, argv[i], set));
    }
    if (set->sync_count == 0)
        set->syncs[set->sync_count++] = "dense";
    if (set->tensors > set->params)
        return gw_fail(GW_ERR_ARG, "--tensors must not be larger than --params");
    return GW_OK;
}
