/* SPDX-License-Identifier: Apache-2.0
 *
 * compare_table.c - the table of a comparison, made from what the runs wrote.
 *
 * Runs with the same link and number of workers are compared with each other. The
 * best of them is the one that reached the target first; without a target, the one
 * with the fastest step among those whose accuracy is within half a point of the
 * highest. */
#define _GNU_SOURCE
#include "common.h"
#include "compare.h"
#include "json.h"
#include "progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Accuracies closer than this are taken for the same. */
static const double same_accuracy = 0.005;

typedef struct row {
    const gwc_case *one;
    double accuracy, perplexity, bytes, dense_bytes, step_s, speedup, to_target;
    int there, best;
    size_t group; /* of the same link and number of workers */
} row;

/* ---- reading ----------------------------------------------------------------------
 */

static size_t group_of(const gwc_compare *c, size_t i)
{
    const gwc_case *a = &c->cases[i];

    for (size_t j = 0; j < i; j++) {
        const gwc_case *b = &c->cases[j];
        int same_link = (a->link == NULL) == (b->link == NULL) &&
                        (a->link == NULL || strcmp(a->link, b->link) == 0);
        if (same_link && strcmp(a->workers, b->workers) == 0)
            return group_of(c, j);
    }
    return i;
}

static void read_row(const gwc_compare *c, size_t i, row *r)
{
    const double none = (double)NAN;
    gwc_run run;

    *r = (row){&c->cases[i], none, none, none, none,          none,
               none,         none, 0,    0,    group_of(c, i)};
    if (gwc_run_read(&run, c->cases[i].directory) == GW_OK && run.finished) {
        r->there = 1;
        r->accuracy = gwc_run_number(&run, "test_accuracy");
        r->perplexity = gwc_run_number(&run, "perplexity");
        r->bytes = gwc_run_per_step(&run, "bytes_sent");
        r->step_s = gwc_run_step_seconds(&run);
        r->dense_bytes = gwt_dense_bytes((uint64_t)gwc_run_number(&run, "params"),
                                         (int)gwc_run_number(&run, "workers"));
        if (!isnan(c->target))
            r->to_target = gwc_run_time_to(&run, c->target);
    }
    gwc_run_free(&run);
}

/* How much faster than dense under the same conditions. */
static void set_speedups(row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if (rows[j].group == rows[i].group && rows[j].there &&
                strcmp(rows[j].one->sync, "dense") == 0)
                rows[i].speedup = rows[j].step_s / rows[i].step_s;
}

/* Better is more: of perplexities, the lower. */
static double quality(const row *r)
{
    return isnan(r->perplexity) ? r->accuracy : -0.1 * log(r->perplexity);
}

static void mark_best(row *rows, size_t count, size_t group, int by_target)
{
    double highest = -INFINITY;
    row *best = NULL;

    for (size_t i = 0; i < count; i++)
        if (rows[i].group == group && quality(&rows[i]) > highest)
            highest = quality(&rows[i]);
    for (size_t i = 0; i < count; i++) {
        row *r = &rows[i];
        double key = by_target ? r->to_target : r->step_s;
        double least = best == NULL ? INFINITY
                       : by_target  ? best->to_target
                                    : best->step_s;
        int good = by_target || quality(r) >= highest - same_accuracy;
        if (r->group == group && r->there && good && key < least)
            best = r;
    }
    if (best != NULL)
        best->best = 1;
}

/* By group, then the fastest first; what has no result comes last. */
static int compare_rows(const void *left, const void *right)
{
    const row *a = left, *b = right;
    double x = isnan(a->to_target) ? a->step_s : a->to_target;
    double y = isnan(b->to_target) ? b->step_s : b->to_target;

    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->there != b->there)
        return a->there ? -1 : 1;
    if (isnan(a->to_target) != isnan(b->to_target))
        return isnan(a->to_target) ? 1 : -1;
    return x < y ? -1 : x > y;
}

/* ---- printing ---------------------------------------------------------------------
 */

static void print_heading(const gwc_compare *c, const row *r, FILE *to)
{
    fprintf(to, "%s, %s worker%s\n", r->one->link != NULL ? r->one->link : "no link",
            r->one->workers, strcmp(r->one->workers, "1") == 0 ? "" : "s");
    fprintf(to, "  %-28s %10s %12s %9s %12s %8s%s\n", "sync",
            isnan(r->perplexity) ? "accuracy" : "perplexity", "sent/step", "of dense",
            "time/step", "speed-up", isnan(c->target) ? "" : "   to target");
}

static void print_result(const gwc_compare *c, const row *r, FILE *to)
{
    char bytes[16];

    if (isnan(r->perplexity))
        fprintf(to, " %8.2f %%", 100.0 * r->accuracy);
    else
        fprintf(to, " %10.2f", r->perplexity);
    fprintf(to, " %12s", gwc_bytes(r->bytes, bytes));
    if (r->dense_bytes > 0.0)
        fprintf(to, " %7.2f %%", 100.0 * r->bytes / r->dense_bytes);
    else
        fprintf(to, " %9s", "-");
    fprintf(to, " %9.3f ms", 1e3 * r->step_s);
    if (isnan(r->speedup))
        fprintf(to, " %8s", "-");
    else
        fprintf(to, " %7.2fx", r->speedup);
    if (!isnan(c->target) && isnan(r->to_target))
        fprintf(to, "   %9s", "never");
    else if (!isnan(c->target))
        fprintf(to, "   %7.2f s", r->to_target);
    fputs(r->best ? "  best\n" : "\n", to);
}

static void print_row(const gwc_compare *c, const row *r, FILE *to)
{
    fprintf(to, "%c %-28s", r->best ? '*' : ' ', r->one->sync);
    if (r->there)
        print_result(c, r, to);
    else
        fprintf(to, " %s%s\n", r->one->why[0] != '\0' ? "failed: " : "not run",
                r->one->why);
}

static void print_json(const row *r, FILE *to)
{
    gwt_json j = {.to = to};

    gwt_json_open(&j, NULL, '{');
    gwt_json_text(&j, "sync", r->one->sync);
    gwt_json_text(&j, "link", r->one->link);
    gwt_json_real(&j, "workers", atof(r->one->workers));
    gwt_json_text(&j, "run", r->one->directory);
    gwt_json_real(&j, "test_accuracy", r->accuracy);
    gwt_json_real(&j, "perplexity", r->perplexity);
    gwt_json_real(&j, "bytes_per_step", r->bytes);
    gwt_json_real(&j, "of_dense",
                  r->dense_bytes > 0.0 ? r->bytes / r->dense_bytes : (double)NAN);
    gwt_json_real(&j, "step_s", r->step_s);
    gwt_json_real(&j, "speedup", r->speedup);
    gwt_json_real(&j, "seconds_to_target", r->to_target);
    gwt_json_bool(&j, "best", r->best);
    gwt_json_text(&j, "failed", r->one->why[0] != '\0' ? r->one->why : NULL);
    gwt_json_close(&j, '}');
    putc('\n', to);
}

static void print_rows(const gwc_compare *c, const row *rows, FILE *to, int json)
{
    for (size_t i = 0; i < c->count; i++) {
        int first = i == 0 || rows[i].group != rows[i - 1].group;
        if (json) {
            print_json(&rows[i], to);
            continue;
        }
        if (first && i > 0)
            putc('\n', to);
        if (first)
            print_heading(c, &rows[i], to);
        print_row(c, &rows[i], to);
    }
}

size_t gwc_table_print(const gwc_compare *c, FILE *to, int json)
{
    row *rows = gwt_calloc(c->count, sizeof *rows, "a table");
    size_t missing = 0;

    if (rows == NULL)
        return c->count;
    for (size_t i = 0; i < c->count; i++) {
        read_row(c, i, &rows[i]);
        missing += !rows[i].there;
    }
    set_speedups(rows, c->count);
    for (size_t i = 0; i < c->count; i++)
        if (rows[i].group == i)
            mark_best(rows, c->count, i, !isnan(c->target));
    qsort(rows, c->count, sizeof *rows, compare_rows);
    print_rows(c, rows, to, json);
    gwt_free(rows);
    return missing;
}
