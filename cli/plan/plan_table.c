/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_table.c - prints the advice and the table, or both as JSON. */
#include "common.h"
#include "files/json.h"
#include "plan/plan.h"
#include "progress.h"
#include "terminal.h"
#include "text_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_WIDTH = 78, LEGEND_WIDTH = 88 };

static double wire_of(const gwc_plan *plan, const gwc_plan_row *row)
{
    double rest = row->result.step[0] - plan->job.compute - row->result.encode -
                  row->result.decode;

    return rest > 0.0 ? rest : 0.0;
}

/* ---- text --------------------------------------------------------------------------
 */

static void print_heading(const gwc_plan *plan, FILE *to)
{
    char momentum[32] = "";

    if (plan->momentum > 0.0)
        snprintf(momentum, sizeof momentum, " with momentum %g", plan->momentum);
    gwc_printf(to, 2, "%s%s%zu parameters, %d worker%s on %s%s%s%s, %s, %s%s\n",
               plan->model != NULL ? plan->model : "", plan->model != NULL ? ", " : "",
               plan->job.params, plan->job.workers, plan->job.workers == 1 ? "" : "s",
               plan->link, plan->measured_with != NULL ? " (measured with " : "",
               plan->measured_with != NULL ? plan->measured_with : "",
               plan->measured_with != NULL ? ")" : "",
               plan->here ? "sharing this machine's processors"
                          : "each on a host of its own",
               plan->optimizer, momentum);
    gwc_printf(to, 2, "computation %.3f ms per step (%s)\n\n", 1e3 * plan->job.compute,
               plan->compute_measured ? "measured here" : "as given");
}

static void print_lines(const gwc_plan *plan, FILE *to)
{
    char line[GWC_LINE_CAP];

    gwc_plan_train_line(plan, line);
    gwc_printf(to, 10, "\nTrainer:  %s\n", line);
    if (!plan->trainer_has_it)
        gwc_printf(
            to, 10,
            "          (%s%s is not the trainer's; add --model to train one that is)\n",
            plan->model != NULL ? "" : "your model",
            plan->model != NULL ? plan->model : "");
    gwc_plan_torch_line(plan, line);
    gwc_printf(to, 10, "PyTorch:  %s\n", line);
}

enum { COLUMNS = 10 };

static const gwc_column usual[COLUMNS] = {
    {"  sync", -21, 0}, {"step", 12, 1},        {"encode", 9, 1},   {"wire", 9, 1},
    {"decode", 9, 1},   {"sent", 8, 1},         {"of dense", 8, 1}, {"of one", 7, 1},
    {"points", 7, 1},   {"pays below", -11, 2},
};

static void print_row(const gwc_plan *plan, const gwc_plan_row *row,
                      const gwc_column table[COLUMNS], FILE *to)
{
    char bytes[16], rate[32], one[16] = "-", points[16] = "-", name[300];
    char step[32], encode[32], wire[32], decode[32], speedup[32];

    if (row->of_one > 0.0)
        snprintf(one, sizeof one, "%.2fx", row->of_one);
    if (row->measured.found)
        snprintf(points, sizeof points, "%+.2f", row->measured.worst);
    snprintf(name, sizeof name, "%c %s", row->best ? '*' : ' ', row->sync);
    snprintf(step, sizeof step, "%.3f ms", 1e3 * row->result.step[0]);
    snprintf(encode, sizeof encode, "%.3f", 1e3 * row->result.encode);
    snprintf(wire, sizeof wire, "%.3f", 1e3 * wire_of(plan, row));
    snprintf(decode, sizeof decode, "%.3f", 1e3 * row->result.decode);
    snprintf(speedup, sizeof speedup, "%.2fx", row->speedup);
    gwc_print_cells(to, table, COLUMNS,
                    (const char *const[]){name, step, encode, wire, decode,
                                          gwc_bytes(row->result.bytes, bytes), speedup,
                                          one, points,
                                          gwc_rate_text(row->pays_below, rate)});
}

static void print_table(const gwc_plan *plan, FILE *to)
{
    gwc_column table[COLUMNS];

    memcpy(table, usual, sizeof table);
    for (size_t i = 0; i < plan->rows; i++)
        gwc_widen(&table[0], 2 + (int)strlen(plan->row[i].sync));
    putc('\n', to);
    gwc_print_cells(to, table, COLUMNS, NULL);
    for (size_t i = 0; i < plan->rows; i++)
        print_row(plan, &plan->row[i], table, to);
    putc('\n', to);
    gwc_print_paragraph(
        to,
        "of dense, of one: times the speed of dense, and of one machine. points: "
        "accuracy against dense, the worst of our own runs nearest to this job; -: not "
        "measured. pays below: the rate of the link. 'gradwire compare' trains and "
        "compares; docs/plan.md has more.",
        LEGEND_WIDTH);
}

gw_status gwc_plan_print(const gwc_plan *plan, FILE *to)
{
    char *words = gwc_plan_words(plan);

    if (words == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for a paragraph");
    print_heading(plan, to);
    gwc_print_paragraph(to, words, TEXT_WIDTH);
    free(words);
    print_lines(plan, to);
    print_table(plan, to);
    return GW_OK;
}

/* ---- JSON --------------------------------------------------------------------------
 */

static const char *trust_text(gwc_trust trust)
{
    static const char *const text[] = {
        [GWC_TRUST_SAFE] = "safe",         [GWC_TRUST_COSTLY] = "costly",
        [GWC_TRUST_DRIFTING] = "drifting", [GWC_TRUST_UNKNOWN] = "not measured",
        [GWC_TRUST_LOSSY] = "lossy",       [GWC_TRUST_NEVER] = "never",
    };

    return text[trust];
}

static void json_accuracy(gwt_json *j, const gwc_plan_row *row)
{
    const gwc_results *r = &row->measured;

    if (!r->found) {
        gwt_json_null(j, "accuracy");
        return;
    }
    gwt_json_open(j, "accuracy", '{');
    gwt_json_real(j, "points_worst", r->worst);
    gwt_json_real(j, "points_best", r->best);
    gwt_json_text(j, "trained", r->trainings);
    gwt_json_text(j, "optimizer", r->optimizer);
    gwt_json_count(j, "workers", (uint64_t)r->workers);
    gwt_json_text(j, "page", r->page);
    gwt_json_close(j, '}');
}

/* What is not known is null. */
static void json_positive(gwt_json *j, const char *key, double value)
{
    gwt_json_real(j, key, value > 0.0 ? value : (double)NAN);
}

static void json_row(gwt_json *j, const gwc_plan *plan, const gwc_plan_row *row)
{
    gwt_json_open(j, NULL, '{');
    gwt_json_text(j, "sync", row->sync);
    gwt_json_text(j, "runs_as", row->runs_as);
    gwt_json_real(j, "step_s", row->result.step[0]);
    gwt_json_real(j, "compute_s", plan->job.compute);
    gwt_json_real(j, "encode_s", row->result.encode);
    gwt_json_real(j, "wire_s", wire_of(plan, row));
    gwt_json_real(j, "decode_s", row->result.decode);
    gwt_json_real(j, "bytes_per_step", row->result.bytes);
    gwt_json_real(j, "speedup", row->speedup);
    json_positive(j, "of_one", row->of_one);
    gwt_json_real(j, "pays_below_bit_s", 8.0 * row->pays_below);
    gwt_json_count(j, "first_steps", row->first_steps);
    gwt_json_count(j, "ladder_steps", row->ladder_steps);
    gwt_json_real(j, "ladder_bytes", row->ladder_times * row->result.bytes);
    gwt_json_bool(j, "drifts", row->drifts);
    gwt_json_text(j, "trust", trust_text(row->trust));
    json_accuracy(j, row);
    gwt_json_text(j, "warning", row->warning);
    gwt_json_bool(j, "best", row->best);
    gwt_json_close(j, '}');
}

static void json_outer(gwt_json *j, const gwc_plan *plan)
{
    gwc_plan_outer_advice outer;

    if (!gwc_plan_outer(plan, &outer)) {
        gwt_json_null(j, "outer");
        return;
    }
    gwt_json_open(j, "outer", '{');
    gwt_json_text(j, "sync", outer.sync);
    gwt_json_text(j, "in_full", outer.in_full);
    gwt_json_count(j, "period", outer.period);
    gwt_json_real(j, "exchange_s", outer.exchange);
    gwt_json_real(j, "part_of_time", outer.part);
    gwt_json_close(j, '}');
}

static void json_advice(gwt_json *j, const gwc_plan *plan, const char *words)
{
    const gwc_plan_row *best = gwc_plan_best(plan);
    char line[GWC_LINE_CAP];

    gwt_json_open(j, "advice", '{');
    gwt_json_text(j, "sync", best->sync);
    gwt_json_text(j, "text", words);
    if (plan->here)
        gwt_json_null(j, "beats_one_machine");
    else
        gwt_json_bool(j, "beats_one_machine", best->of_one >= 1.0);
    gwt_json_real(j, "dense_faster_from_bit_s", 8.0 * plan->dense_from);
    gwt_json_real(j, "dense_faster_from_overlapped_bit_s",
                  8.0 * plan->dense_from_overlapped);
    gwt_json_real(j, "dense_overlapped_s", gwc_plan_overlapped(plan, 0));
    gwc_plan_train_line(plan, line);
    gwt_json_text(j, "train", line);
    gwc_plan_torch_line(plan, line);
    gwt_json_text(j, "pytorch", line);
    json_outer(j, plan);
    gwt_json_close(j, '}');
}

gw_status gwc_plan_print_json(const gwc_plan *plan, FILE *to)
{
    gwt_json j = {.to = to};
    char *words = gwc_plan_words(plan);

    if (words == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for a paragraph");
    gwt_json_open(&j, NULL, '{');
    gwt_json_text(&j, "model", plan->model);
    gwt_json_count(&j, "params", plan->job.params);
    gwt_json_count(&j, "workers", (uint64_t)plan->job.workers);
    gwt_json_text(&j, "link", plan->link);
    gwt_json_text(&j, "link_measured_with", plan->measured_with);
    gwt_json_bool(&j, "here", plan->here);
    gwt_json_real(&j, "compute_s", plan->job.compute);
    gwt_json_bool(&j, "compute_measured", plan->compute_measured);
    gwt_json_text(&j, "optimizer", plan->optimizer);
    gwt_json_real(&j, "momentum", plan->momentum);
    json_advice(&j, plan, words);
    gwt_json_open(&j, "rows", '[');
    for (size_t i = 0; i < plan->rows; i++)
        json_row(&j, plan, &plan->row[i]);
    gwt_json_close(&j, ']');
    gwt_json_close(&j, '}');
    putc('\n', to);
    free(words);
    return GW_OK;
}
