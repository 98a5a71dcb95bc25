/* SPDX-License-Identifier: Apache-2.0
 *
 * runs_name.c - short names for runs that stand side by side. */
#define _GNU_SOURCE
#include "report/runs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What a name is made of, in this order; each only if it is needed. */
typedef void part(const gwc_run *run, char *text, size_t cap);

static void sync_part(const gwc_run *run, char *text, size_t cap)
{
    const char *sync = gwc_run_text(run, "sync_asked");

    if (sync == NULL)
        sync = gwc_run_text(run, "sync");
    snprintf(text, cap, "%s", sync != NULL ? sync : run->directory);
}

static void link_part(const gwc_run *run, char *text, size_t cap)
{
    const char *link = gwc_run_text(run, "link");

    snprintf(text, cap, ", %s", link != NULL ? link : "no link");
}

static void number_part(const gwc_run *run, const char *key, const char *before,
                        const char *after, char *text, size_t cap)
{
    double number = gwc_run_number(run, key);

    snprintf(text, cap, ", %s%.6g%s", before, isnan(number) ? 0.0 : number, after);
}

static void workers_part(const gwc_run *run, char *text, size_t cap)
{
    number_part(run, "workers", "", " workers", text, cap);
}

static void model_part(const gwc_run *run, char *text, size_t cap)
{
    const char *model = gwc_run_text(run, "model");

    snprintf(text, cap, ", %s", model != NULL ? model : "unknown model");
}

static void rate_part(const gwc_run *run, char *text, size_t cap)
{
    number_part(run, "lr", "lr ", "", text, cap);
}

static void momentum_part(const gwc_run *run, char *text, size_t cap)
{
    number_part(run, "momentum", "momentum ", "", text, cap);
}

static void seed_part(const gwc_run *run, char *text, size_t cap)
{
    number_part(run, "seed", "seed ", "", text, cap);
}

static void directory_part(const gwc_run *run, char *text, size_t cap)
{
    snprintf(text, cap, ", %s", run->directory);
}

static part *const parts[] = {link_part,     workers_part, model_part,    rate_part,
                              momentum_part, seed_part,    directory_part};

static int all_differ(const gwc_run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count; j++)
            if (strcmp(runs[i].name, runs[j].name) == 0)
                return 0;
    return 1;
}

/* Whether the part says something else of one run than of another. */
static int parts_differ(part *of, const gwc_run *runs, size_t count)
{
    char first[GWC_RUN_NAME_CAP], text[GWC_RUN_NAME_CAP];

    of(&runs[0], first, sizeof first);
    for (size_t i = 1; i < count; i++) {
        of(&runs[i], text, sizeof text);
        if (strcmp(text, first) != 0)
            return 1;
    }
    return 0;
}

void gwc_runs_name(gwc_run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sync_part(&runs[i], runs[i].name, GWC_RUN_NAME_CAP);
    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
        if (all_differ(runs, count))
            return;
        if (!parts_differ(parts[p], runs, count))
            continue;
        for (size_t i = 0; i < count; i++) {
            size_t len = strlen(runs[i].name);
            parts[p](&runs[i], runs[i].name + len, GWC_RUN_NAME_CAP - len);
        }
    }
}
