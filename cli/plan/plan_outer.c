/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_outer.c - methods with local steps: which one, and with which period.
 *
 * Workers are alone between exchanges, so a step costs what the link does divided
 * by the period. A longer period costs loss. So the shortest one is named with which
 * exchanges take at most a tenth of the time. If whole changes of models need too long
 * a period for that, fewer entries are sent instead. */
#include "common.h"
#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Exchanges take at most this part of the time. */
static const double part_of_time = 0.1;

/* The shortest period that others use, and the longest; and the one up to which
 * sending whole changes is preferred to sending some entries. The last is about the
 * middle of what SparseLoCo's authors tried (15 to 250). */
static const double period_least = 5, period_most = 500, period_whole = 100;

/* Two digits at most, the second one 0 or 5: nobody measures periods more finely. */
static double rounded_up(double period)
{
    double unit = period <= 10 ? 1 : period <= 100 ? 5 : 50;

    return unit * ceil(period / unit);
}

/* Seconds of one exchange. */
static double exchange_of(const gwc_plan *plan, const gwc_plan_row *row)
{
    double beyond = row->result.step[0] - plan->job.compute;

    return fmax(0.0, beyond) * (double)row->info.period;
}

static double period_of(const gwc_plan *plan, const gwc_plan_row *row)
{
    double needed =
        exchange_of(plan, row) / plan->job.compute * (1 - part_of_time) / part_of_time;

    return fmin(period_most, rounded_up(fmax(period_least, needed)));
}

/* The shortest spec with another period: behind the first stage's name if it stands
 * there, or else behind the key. */
static void with_period(const gwc_plan_row *row, uint64_t period,
                        char out[GWC_SPEC_CAP])
{
    const char *key = "every=", *at = strchr(row->sync, ':');
    char *end = NULL;

    if (at != NULL && strtoull(at + 1, &end, 10) != row->info.period) {
        at = strstr(row->sync, key);
        if (at != NULL && strtoull(at + strlen(key), &end, 10) == row->info.period)
            at += strlen(key) - 1;
        else
            at = NULL;
    }
    if (at == NULL)
        snprintf(out, GWC_SPEC_CAP, "%s", row->sync);
    else
        snprintf(out, GWC_SPEC_CAP, "%.*s%llu%s", (int)(at + 1 - row->sync), row->sync,
                 (unsigned long long)period, end);
}

static int has(const gwc_plan_row *row, unsigned traits)
{
    return (row->info.traits & traits) != 0;
}

/* Local steps pay if an outer step makes up for long periods, or if little is sent. */
static int is_outer(const gwc_plan_row *row)
{
    return has(row, GW_TRAIT_MEETS) &&
           has(row, GW_TRAIT_OUTER_STEP | GW_TRAIT_SPARSE) && row->info.growth == 0.0 &&
           row->info.period > 0 && row->info.resync == 0 &&
           !row->result.exchanges_nothing &&
           !has(row, GW_TRAIT_LATE); /* costs nothing, however short its period */
}

/* Whole changes if their period is not too long, or else whatever exchanges fastest. */
static const gwc_plan_row *choose(const gwc_plan *plan)
{
    const gwc_plan_row *whole = NULL, *fast = NULL;

    for (size_t i = 0; i < plan->rows; i++) {
        const gwc_plan_row *row = &plan->row[i];
        if (!is_outer(row))
            continue;
        if (!has(row, GW_TRAIT_SPARSE) && period_of(plan, row) <= period_whole &&
            (whole == NULL || exchange_of(plan, row) < exchange_of(plan, whole)))
            whole = row;
        if (fast == NULL || exchange_of(plan, row) < exchange_of(plan, fast))
            fast = row;
    }
    return whole != NULL ? whole : fast;
}

/* ---- a common start ---------------------------------------------------------------
 */

/* Outer momentum after a common start, which lost less in our runs than the published
 * one (results-outer.md). */
static const char lower_momentum[] = "0.6";

/* The default of a stage's key, "" if a value must be given, NULL if there is none. */
static const char *default_of(const char *stage, const char *name)
{
    gw_key_info key = {.struct_size = sizeof key};

    for (size_t i = 0; gw_key_describe(stage, i, &key) == GW_OK; i++)
        if (strcmp(key.name, name) == 0)
            return key.fallback != NULL ? key.fallback : "";
    return NULL;
}

/* Whether the outer step has more momentum than it should after a common start. */
static int has_much_momentum(const gwc_plan_row *row)
{
    const char *momentum = default_of(row->info.stages[0], "momentum");

    return has(row, GW_TRAIT_OUTER_STEP) && momentum != NULL &&
           atof(momentum) > atof(lower_momentum);
}

/* Whoever has chosen settings of the first stage has read about them. */
static void with_start(const gwc_plan_row *row, const char *sync,
                       char out[GWC_SPEC_CAP])
{
    size_t first = strcspn(sync, "+");

    out[0] = '\0';
    if (memchr(sync, ',', first) == NULL &&
        default_of(row->info.stages[0], "start") != NULL)
        snprintf(out, GWC_SPEC_CAP, "%.*s%s%s,start=N%s", (int)first, sync,
                 has_much_momentum(row) ? ",momentum=" : "",
                 has_much_momentum(row) ? lower_momentum : "", sync + first);
}

int gwc_plan_outer(const gwc_plan *plan, gwc_plan_outer_advice *out)
{
    const gwc_plan_row *row = plan->job.compute > 0.0 ? choose(plan) : NULL;
    char spec[GWC_SPEC_CAP];

    if (row == NULL)
        return 0;
    memset(out, 0, sizeof *out);
    out->exchange = exchange_of(plan, row);
    out->period = (uint64_t)period_of(plan, row);
    with_period(row, out->period, out->sync);
    with_start(row, out->sync, out->started);
    if (gw_spec_check(out->sync, spec, sizeof spec) != GW_OK)
        return 0;
    snprintf(out->in_full, sizeof out->in_full, "%s", spec);
    out->part =
        out->exchange / (out->exchange + (double)out->period * plan->job.compute);
    out->row = row;
    return 1;
}
