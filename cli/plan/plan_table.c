/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_table.c - picks the best method and prints the table. */
#include "plan/plan.h"
#include "common.h"
#include "files/json.h"
#include "progress.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* Rates of the sweep, in bytes per second. */
static const double sweep[] = {1.25e6, 2.5e6,  6.25e6, 1.25e7, 2.5e7,  6.25e7, 1.25e8,
                               2.5e8,  6.25e8, 1.25e9, 2.5e9,  6.25e9, 1.25e10};

/* A method is recommended only if it gains at least this much. Methods that let the
 * workers' models drift apart cost accuracy, or steps to make up for it
 * (docs/results.md), so they have to gain more. */
static const double worth_equal = 1.05, worth_drifting = 1.5;

static double worth_of(const gwc_plan_row *row)
{
    return row->result.keeps_equal ? worth_equal : worth_drifting;
}

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

/* ---- judging ----------------------------------------------------------------------
 */

static const gwc_plan_row *dense_of(const gwc_plan *plan)
{
    for (size_t i = 0; i < plan->rows; i++)
        if (strcmp(plan->row[i].sync, "dense") == 0)
            return &plan->row[i];
    return NULL;
}

/* A method that lets models drift apart for good, or exchanges nothing, is not
 * recommended, however fast it is. */
static int is_advice(const gwc_plan_row *row)
{
    gw_spec_info info = {.struct_size = sizeof info};

    return gw_spec_describe(row->sync, &info) == GW_OK &&
           !(info.traits & GW_TRAIT_DRIFTS) && !row->result.exchanges_nothing;
}

/* How much faster than dense at rate k of the sweep. */
static double gain(const gwc_plan_row *row, const gwc_plan_row *dense, size_t k)
{
    return dense->result.step[k] / row->result.step[k];
}

/* The highest rate at which the method is worth it, between two rates of the sweep by
 * a straight line in the logarithm. */
static double pays_below(const gwc_plan *plan, const gwc_plan_row *row,
                         const gwc_plan_row *dense)
{
    size_t last = plan->job.links - 1;
    double worth = worth_of(row);

    if (gain(row, dense, last) >= worth)
        return (double)INFINITY;
    for (size_t k = last; k > 1; k--) {
        double high = gain(row, dense, k), low = gain(row, dense, k - 1);
        if (low < worth)
            continue;
        double part = (low - worth) / (low - high);
        return plan->rate[k - 1].bytes_per_second *
               pow(plan->rate[k].bytes_per_second / plan->rate[k - 1].bytes_per_second,
                   part);
    }
    return 0.0;
}

void gwc_plan_judge(gwc_plan *plan)
{
    const gwc_plan_row *dense = dense_of(plan);
    gwc_plan_row *best = NULL;

    for (size_t i = 0; i < plan->rows; i++) {
        gwc_plan_row *row = &plan->row[i];
        row->speedup = gain(row, dense, 0);
        row->pays_below = row == dense ? 0.0 : pays_below(plan, row, dense);
        if (is_advice(row) && row != dense && row->speedup >= worth_of(row) &&
            (best == NULL || row->speedup > best->speedup))
            best = row;
    }
    if (best != NULL)
        best->best = 1;
    else
        plan->row[dense - plan->row].best = 1;
}

/* ---- showing ----------------------------------------------------------------------
 */

/* "1.5 Gbit/s". */
static const char *rate_text(double bytes_per_second, char text[32])
{
    double bits = 8.0 * bytes_per_second;

    if (bytes_per_second == 0.0)
        snprintf(text, 32, "-");
    else if (isinf(bytes_per_second))
        snprintf(text, 32, "always");
    else if (bits >= 1e9)
        snprintf(text, 32, "%.2g Gbit/s", bits / 1e9);
    else
        snprintf(text, 32, "%.0f Mbit/s", bits / 1e6);
    return text;
}

static double wire_of(const gwc_plan *plan, const gwc_plan_row *row)
{
    double rest = row->result.step[0] - plan->job.compute - row->result.encode -
                  row->result.decode;

    return rest > 0.0 ? rest : 0.0;
}

static void print_heading(const gwc_plan *plan, FILE *to)
{
    fprintf(to, "%s%s%zu parameters, %d workers on %s, %s\n",
            plan->model != NULL ? plan->model : "", plan->model != NULL ? ", " : "",
            plan->job.params, plan->job.workers, plan->link,
            plan->here ? "sharing this machine's processors"
                       : "each on a host of its own");
    fprintf(to,
            "computation %.3f ms per step (%s)\n"
            "\n",
            1e3 * plan->job.compute,
            plan->compute_measured ? "measured here" : "as given");
    fprintf(to, "  %-22s %12s %10s %10s %10s %10s %10s %9s  %s\n", "sync", "step",
            "compute", "encode", "wire", "decode", "sent/step", "speed-up",
            "pays below");
}

static void print_row(const gwc_plan *plan, const gwc_plan_row *row, FILE *to)
{
    char bytes[16], rate[32];

    fprintf(to, "%c %-22s %9.3f ms %10.3f %10.3f %10.3f %10.3f %10s %8.2fx  %s\n",
            row->best ? '*' : ' ', row->sync, 1e3 * row->result.step[0],
            1e3 * plan->job.compute, 1e3 * row->result.encode, 1e3 * wire_of(plan, row),
            1e3 * row->result.decode, gwc_bytes(row->result.bytes, bytes), row->speedup,
            rate_text(row->pays_below, rate));
}

static void print_advice(const gwc_plan *plan, FILE *to)
{
    const gwc_plan_row *best = plan->row;
    char rate[32];

    while (!best->best)
        best++;
    if (strcmp(best->sync, "dense") == 0) {
        fprintf(to,
                "\n"
                "dense is best here: no method is %.0f %% faster, and none that lets "
                "models drift apart is %.0f %% faster. Do not compress.\n",
                100.0 * (worth_equal - 1.0), 100.0 * (worth_drifting - 1.0));
        return;
    }
    fprintf(to, "\n%s pays here: %.3g times as fast as dense", best->sync,
            best->speedup);
    if (isinf(best->pays_below))
        fputs(", on any network.\n", to);
    else
        fprintf(to, "; it pays below about %s.\n", rate_text(best->pays_below, rate));
    fputs(
        "This is the time per step; 'gradwire compare' shows the effect on accuracy.\n",
        to);
}

void gwc_plan_print(const gwc_plan *plan, FILE *to)
{
    print_heading(plan, to);
    for (size_t i = 0; i < plan->rows; i++)
        print_row(plan, &plan->row[i], to);
    print_advice(plan, to);
}

void gwc_plan_print_json(const gwc_plan *plan, FILE *to)
{
    for (size_t i = 0; i < plan->rows; i++) {
        const gwc_plan_row *row = &plan->row[i];
        gwt_json j = {.to = to};
        gwt_json_open(&j, NULL, '{');
        gwt_json_text(&j, "sync", row->sync);
        gwt_json_text(&j, "model", plan->model);
        gwt_json_count(&j, "params", plan->job.params);
        gwt_json_count(&j, "workers", (uint64_t)plan->job.workers);
        gwt_json_text(&j, "link", plan->link);
        gwt_json_bool(&j, "here", plan->here);
        gwt_json_real(&j, "step_s", row->result.step[0]);
        gwt_json_real(&j, "compute_s", plan->job.compute);
        gwt_json_real(&j, "encode_s", row->result.encode);
        gwt_json_real(&j, "wire_s", wire_of(plan, row));
        gwt_json_real(&j, "decode_s", row->result.decode);
        gwt_json_real(&j, "bytes_per_step", row->result.bytes);
        gwt_json_real(&j, "speedup", row->speedup);
        gwt_json_real(&j, "pays_below_bit_s", 8.0 * row->pays_below);
        gwt_json_bool(&j, "best", row->best);
        gwt_json_close(&j, '}');
        putc('\n', to);
    }
}
