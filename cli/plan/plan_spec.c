/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_spec.c - what the optimizer makes of a spec, and how it runs once its first
 * steps are over. */
#include "common.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

/* Options that say for how many steps a spec begins densely, and for how many it stays
 * on each rung of a ladder then. */
static const char *const beginnings[] = {"warmup=", "start="};
static const char *const ladder = "ladder=";

/* Replaces the number behind `key` by 0 wherever it is in spec, and returns the largest
 * such number. */
static uint64_t set_to_0(char *spec, const char *key)
{
    uint64_t most = 0;

    for (char *at = spec; (at = strstr(at, key)) != NULL;) {
        char *number = at + strlen(key), *end;
        uint64_t x = strtoull(number, &end, 10);
        at = number;
        if (end == number)
            continue;
        most = x > most ? x : most;
        *number = '0';
        memmove(number + 1, end, strlen(end) + 1);
    }
    return most;
}

/* A scale that is measured costs 16 KiB in each of the first steps, and in one of 16
 * later: too little to count. */
static void leave_out_measuring(char *spec)
{
    const char *key = "scale=auto", *instead = "scale=1";
    char *at = strstr(spec, key);

    if (at == NULL)
        return;
    memmove(at + strlen(instead), at + strlen(key), strlen(at + strlen(key)) + 1);
    memcpy(at, instead, strlen(instead));
}

void gwc_plan_settled(const char *spec, char out[GWC_SPEC_CAP], uint64_t *first_steps)
{
    *first_steps = 0;
    /* With all defaults written out, every such option is there to be found. */
    if (gw_spec_check(spec, out, GWC_SPEC_CAP) == GW_OK)
        for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
            uint64_t steps = set_to_0(out, beginnings[i]);
            *first_steps = steps > *first_steps ? steps : *first_steps;
        }
    uint64_t rung = set_to_0(out, ladder);
    leave_out_measuring(out);
    if ((*first_steps == 0 && rung == 0) || gw_spec_check(out, NULL, 0) != GW_OK) {
        *first_steps = 0;
        snprintf(out, GWC_SPEC_CAP, "%s", spec);
    }
}

/* The number behind a key of a spec with all defaults written out; 0 if it has none. */
static double number_of(const char *canonical, const char *key)
{
    const char *at = strstr(canonical, key);

    return at != NULL ? strtod(at + strlen(key), NULL) : 0.0;
}

/* Lists grow as the density does. */
static void count_ladder(gwc_plan_row *row)
{
    static const double rungs[] = {0.25, 0.0625, 0.015625, 0.004}; /* docs/methods.md */
    char canonical[GWC_SPEC_CAP];

    if (gw_spec_check(row->runs_as, canonical, sizeof canonical) != GW_OK)
        return;
    double steps = number_of(canonical, ladder);
    double density = number_of(canonical, ":density=");
    if (density <= 0.0)
        density = 1.0 - number_of(canonical, ":rate=");
    for (size_t i = 0; i < sizeof rungs / sizeof *rungs; i++)
        if (steps > 0.0 && density > 0.0 && rungs[i] > density) {
            row->ladder_steps += (uint64_t)steps;
            row->ladder_times += steps * rungs[i] / density;
        }
}

/* Changes of models that are exchanged in every step leave models equal. */
static gw_status describe(gwc_plan_row *row)
{
    gw_spec_info *info = &row->info;

    info->struct_size = sizeof *info;
    GWT_TRY(gw_spec_describe(row->sync, info));
    row->drifts = !(info->traits & GW_TRAIT_KEEPS_EQUAL) &&
                  !(info->traits & GW_TRAIT_SENDS_CHANGES && info->period == 1);
    row->trust = info->traits & GW_TRAIT_DRIFTS ? GWC_TRUST_NEVER : GWC_TRUST_UNKNOWN;
    return GW_OK;
}

static gw_status advise(const gwc_plan *plan, gwc_plan_row *row)
{
    gw_optimizer_info optimizer = {.struct_size = sizeof optimizer,
                                   .adaptive = plan->adaptive,
                                   .momentum = plan->momentum,
                                   .workers = plan->job.workers,
                                   .beta1 = plan->beta1};
    gw_advice advice = {.struct_size = sizeof advice};
    char settled[GWC_SPEC_CAP];

    GWT_TRY(gw_spec_advise(row->sync, &optimizer, &advice));
    snprintf(row->runs_as, sizeof row->runs_as, "%s", advice.spec);
    snprintf(row->warning, sizeof row->warning, "%s", advice.warning);
    gwc_plan_settled(row->runs_as, settled, &row->first_steps);
    count_ladder(row);
    return GW_OK;
}

/* Whether more than so many points were lost in any of the runs. */
static int lost(const gwc_plan_row *row, double points)
{
    return row->measured.worst < -points;
}

static gwc_trust trust_of(const gwc_plan_row *row)
{
    const double little = 0.5, much = 1.0; /* points of accuracy */
    int warned = row->warning[0] != '\0';

    if (row->trust == GWC_TRUST_NEVER)
        return GWC_TRUST_NEVER;
    if (!row->measured.found)
        return warned ? GWC_TRUST_LOSSY : GWC_TRUST_UNKNOWN;
    if (lost(row, much))
        return GWC_TRUST_LOSSY;
    if (row->drifts)
        return GWC_TRUST_DRIFTING;
    return warned || lost(row, little) ? GWC_TRUST_COSTLY : GWC_TRUST_SAFE;
}

gw_status gwc_plan_add(gwc_plan *plan, const char *sync)
{
    gwc_family family = plan->adaptive         ? GWC_ADAPTIVE
                        : plan->momentum > 0.0 ? GWC_MOMENTUM_SGD
                                               : GWC_PLAIN_SGD;
    gwc_plan_row *row = &plan->row[plan->rows];

    for (size_t i = 0; i < plan->rows; i++)
        if (strcmp(plan->row[i].sync, sync) == 0)
            return GW_OK;
    if (plan->rows == GWC_PLAN_ROWS_MAX)
        return gw_fail(GW_ERR_ARG, "--sync: the list has more than %d methods",
                       GWC_PLAN_ROWS_MAX);
    GWT_TRY(gw_spec_check(sync, NULL, 0));
    *row = (gwc_plan_row){.sync = sync};
    GWT_TRY(describe(row));
    GWT_TRY(advise(plan, row));
    row->measured = gwc_results_find(family, plan->job.workers, sync);
    row->trust = trust_of(row);
    plan->rows++;
    return GW_OK;
}
