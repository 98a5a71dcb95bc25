/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_judge.c - tries methods, finds the rates at which they stop paying, and picks
 * the one to take. */
#define _GNU_SOURCE
#include "common.h"
#include "plan/plan.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* Rates of the sweep, in bytes per second. */
static const double sweep[] = {1.25e6, 2.5e6,  6.25e6, 1.25e7, 2.5e7,  6.25e7, 1.25e8,
                               2.5e8,  6.25e8, 1.25e9, 2.5e9,  6.25e9, 1.25e10};

gw_status gwc_plan_rates(gwc_plan *plan, const char *link)
{
    GWT_TRY(gwc_plan_link(&plan->rate[0], link));
    for (size_t i = 0; i < COUNT(sweep); i++)
        plan->rate[i + 1] = (gwc_link){sweep[i], plan->rate[0].delay};
    plan->link = link;
    plan->job.link = plan->rate;
    plan->job.links = 1 + COUNT(sweep);
    return GW_OK;
}

const gwc_plan_row *gwc_plan_dense(const gwc_plan *plan)
{
    return &plan->row[0];
}

const gwc_plan_row *gwc_plan_best(const gwc_plan *plan)
{
    const gwc_plan_row *best = plan->row;

    while (!best->best)
        best++;
    return best;
}

/* ---- rates at which a method stops paying ------------------------------------------
 */

/* The lowest rate of the sweep from which on the times of a method are never again so
 * much shorter than other times; between two rates by a straight line in logarithms. 0:
 * from the slowest rate on, infinity: at no rate. Entry 0 is the link asked for and not
 * part of the sweep. */
static double ends_at(const gwc_link *rate, size_t rates, const double *method,
                      const double *other, double worth)
{
    size_t k = rates - 1;
    double low, high;

    if (other[k] / method[k] > worth)
        return (double)INFINITY;
    while (k > 1 && other[k - 1] / method[k - 1] <= worth)
        k--;
    if (k == 1)
        return 0.0;
    low = log(other[k - 1] / method[k - 1] / worth);
    high = log(other[k] / method[k] / worth);
    return rate[k - 1].bytes_per_second *
           pow(rate[k].bytes_per_second / rate[k - 1].bytes_per_second,
               low / (low - high));
}

double gwc_plan_overlapped(const gwc_plan *plan, size_t link)
{
    double exchange = gwc_plan_dense(plan)->result.step[link] - plan->job.compute;

    return fmax(plan->job.compute, exchange);
}

static gw_status try_spec(const gwc_plan_job *job, const char *runs_as,
                          gwc_plan_result *out)
{
    char settled[GWC_SPEC_CAP];
    uint64_t first_steps;

    gwc_plan_settled(runs_as, settled, &first_steps);
    return gwc_plan_try(out, job, settled);
}

/* Searches between two rates of the sweep: tries dense and the method once more, on
 * links whose rates are between these. */
static gw_status search(const gwc_plan *plan, const gwc_plan_row *best, double about,
                        double *found)
{
    gwc_plan_job job = plan->job;
    gwc_link between[GWC_LINKS_MAX];
    gwc_plan_result dense, method;
    const double spread = 3.0; /* the rates of the sweep are a factor of 2.5 apart */
    double at;

    between[0] = plan->rate[0];
    for (size_t k = 1; k < GWC_LINKS_MAX; k++) {
        double part = (double)(k - 1) / (GWC_LINKS_MAX - 2);
        between[k] = (gwc_link){about / spread * pow(spread * spread, part),
                                plan->rate[0].delay};
    }
    job.link = between;
    job.links = GWC_LINKS_MAX;
    GWT_TRY(try_spec(&job, gwc_plan_dense(plan)->runs_as, &dense));
    GWT_TRY(try_spec(&job, best->runs_as, &method));
    at = ends_at(between, job.links, method.step, dense.step, 1.0);
    *found = at > 0.0 && isfinite(at) ? at : about;
    return GW_OK;
}

static gw_status find_crossing(gwc_plan *plan)
{
    const gwc_plan_row *best = gwc_plan_best(plan);
    double overlapped[GWC_LINKS_MAX], about;

    if (best == gwc_plan_dense(plan))
        return GW_OK;
    for (size_t k = 0; k < plan->job.links; k++)
        overlapped[k] = gwc_plan_overlapped(plan, k);
    plan->dense_from_overlapped =
        ends_at(plan->rate, plan->job.links, best->result.step, overlapped, 1.0);
    about = ends_at(plan->rate, plan->job.links, best->result.step,
                    gwc_plan_dense(plan)->result.step, 1.0);
    plan->dense_from = about;
    if (about > 0.0 && isfinite(about))
        return search(plan, best, about, &plan->dense_from);
    return GW_OK;
}

/* ---- which method to take ----------------------------------------------------------
 */

static double times_as_fast(const gwc_plan_row *row, const gwc_plan_row *other)
{
    return other->result.step[0] / row->result.step[0];
}

/* The fastest method of such trust. One that is almost as fast and lost less accuracy
 * is better: three seeds tell such a difference from chance. */
static const gwc_plan_row *fastest(const gwc_plan *plan, gwc_trust trust)
{
    const double almost = 0.75, less = 0.3; /* points */
    const gwc_plan_row *best = NULL, *fast;

    for (size_t i = 1; i < plan->rows; i++)
        if (plan->row[i].trust == trust && !plan->row[i].result.exchanges_nothing &&
            (best == NULL || times_as_fast(&plan->row[i], best) > 1.0))
            best = &plan->row[i];
    fast = best;
    for (size_t i = 1; best != NULL && i < plan->rows; i++)
        if (plan->row[i].trust == trust && fast->measured.found &&
            times_as_fast(&plan->row[i], fast) >= almost &&
            plan->row[i].measured.worst > fast->measured.worst + less &&
            plan->row[i].measured.worst >= best->measured.worst)
            best = &plan->row[i];
    return best;
}

const gwc_plan_row *gwc_plan_faster(const gwc_plan *plan, gwc_trust trust)
{
    const gwc_plan_row *row = fastest(plan, trust);

    return row != NULL && times_as_fast(row, gwc_plan_best(plan)) >= GWC_WORTH_RISKY
               ? row
               : NULL;
}

/* From the most trusted methods to the least: each kind has to gain more. */
static const gwc_plan_row *choose(const gwc_plan *plan)
{
    const gwc_plan_row *best = gwc_plan_dense(plan);

    for (gwc_trust trust = GWC_TRUST_SAFE; trust <= GWC_TRUST_DRIFTING; trust++) {
        const gwc_plan_row *row = fastest(plan, trust);
        double worth = trust == GWC_TRUST_SAFE ? GWC_WORTH_SAFE : GWC_WORTH_RISKY;
        if (row != NULL && times_as_fast(row, best) >= worth)
            best = row;
    }
    return best;
}

static void judge(gwc_plan *plan)
{
    const gwc_plan_row *dense = gwc_plan_dense(plan);
    const double workers = plan->job.workers;

    for (size_t i = 0; i < plan->rows; i++) {
        gwc_plan_row *row = &plan->row[i];
        row->speedup = times_as_fast(row, dense);
        if (!plan->here)
            row->of_one = workers * plan->job.compute / row->result.step[0];
        if (row != dense)
            row->pays_below = ends_at(plan->rate, plan->job.links, row->result.step,
                                      dense->result.step,
                                      row->drifts ? GWC_WORTH_RISKY : GWC_WORTH_SAFE);
    }
    plan->row[choose(plan) - plan->row].best = 1;
}

gw_status gwc_plan_try_all(gwc_plan *plan)
{
    int terminal = isatty(STDERR_FILENO);

    for (size_t i = 0; i < plan->rows; i++) {
        if (terminal)
            fprintf(stderr, "\r\033[Ktrying %s (%zu of %zu)", plan->row[i].sync, i + 1,
                    plan->rows);
        gw_status st = try_spec(&plan->job, plan->row[i].runs_as, &plan->row[i].result);
        if (terminal)
            fputs("\r\033[K", stderr);
        GWT_TRY(st);
    }
    judge(plan);
    return find_crossing(plan);
}
