/* SPDX-License-Identifier: Apache-2.0
 *
 * compare_table.c - the table of a comparison, made from what the runs wrote.
 *
 * Runs with the same link and number of workers are compared with each other.
 * Accuracies that differ by no more than chance are a tie. The best method is the one
 * that reached the target first; without a target, it is the one with the fastest step
 * among those that tie with the highest accuracy. */
#define _GNU_SOURCE
#include "common.h"
#include "compare/compare.h"
#include "files/json.h"
#include "progress.h"
#include "terminal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A twentieth of a perplexity, see quality(); and half a point of accuracy where a run
 * does not say how many samples it is of. */
static const double usual_scatter = 0.005;

/* One method under the same conditions, with all seeds. */
typedef struct row {
    const gwc_case *one; /* the first seed's */
    double accuracy, perplexity, bytes, dense_bytes, step_s, speedup, to_target;
    double lowest, highest; /* quality of its runs */
    double samples;         /* of the test set */
    double scatter;         /* of its group */
    char advised[256];      /* the spec that was used, "" if it is the one asked for */
    char why[GWC_NOTE_CAP]; /* a run failed */
    int there, best, ties;
    size_t group; /* of the same link and number of workers */
} row;

/* ---- reading ----------------------------------------------------------------------
 */

static int same_conditions(const gwc_case *a, const gwc_case *b)
{
    int same_link = (a->link == NULL) == (b->link == NULL) &&
                    (a->link == NULL || strcmp(a->link, b->link) == 0);

    return same_link && strcmp(a->workers, b->workers) == 0;
}

/* The first row of the same link and number of workers. */
static size_t group_of(const row *rows, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (same_conditions(rows[i].one, rows[j].one))
            return j;
    return i;
}

/* Higher is better; a lower perplexity gives a higher quality. */
static double quality(double accuracy, double perplexity)
{
    return isnan(perplexity) ? accuracy : -0.1 * log(perplexity);
}

static void note_use(const gwc_run *run, row *r)
{
    const char *advised = gwc_run_text(run, "sync_advised");

    snprintf(r->advised, sizeof r->advised, "%s", advised != NULL ? advised : "");
    r->samples = gwc_run_number(run, "test_samples");
    r->dense_bytes = gwt_dense_bytes((uint64_t)gwc_run_number(run, "params"),
                                     (int)gwc_run_number(run, "workers"));
}

/* Adds one of `seeds` runs to the means. */
static void add_run(const gwc_compare *c, const gwc_run *run, row *r)
{
    double part = 1.0 / (double)c->seeds;
    double accuracy = gwc_run_number(run, "test_accuracy");
    double perplexity = gwc_run_number(run, "perplexity");
    double q = quality(accuracy, perplexity);

    r->there++;
    r->accuracy += part * accuracy;
    r->perplexity += part * perplexity;
    r->bytes += part * gwc_run_later_bytes(run);
    r->step_s += part * gwc_run_later_seconds(run);
    r->to_target +=
        isnan(c->target) ? (double)NAN : part * gwc_run_time_to(run, c->target);
    r->lowest = fmin(r->lowest, q);
    r->highest = fmax(r->highest, q);
    note_use(run, r);
}

/* Reads the runs of row i. If one is missing, the row has no result. */
static void read_row(const gwc_compare *c, size_t i, row *r)
{
    const double none = (double)NAN;
    gwc_run run;

    r->one = &c->cases[i * (size_t)c->seeds];
    r->lowest = INFINITY;
    r->highest = -INFINITY;
    for (size_t k = 0; k < c->seeds; k++) {
        const gwc_case *one = r->one + k;
        if (one->why[0] != '\0')
            snprintf(r->why, sizeof r->why, "%s", one->why);
        if (gwc_run_read(&run, one->directory) == GW_OK && run.finished)
            add_run(c, &run, r);
        gwc_run_free(&run);
    }
    r->speedup = r->scatter = none;
    if (r->there < (int)c->seeds) {
        r->there = 0;
        r->accuracy = r->perplexity = r->bytes = r->dense_bytes = none;
        r->step_s = r->to_target = none;
    }
}

/* ---- judging ----------------------------------------------------------------------
 */

/* How much faster than dense under the same conditions. */
static void set_speedups(row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if (rows[j].group == rows[i].group && rows[j].there &&
                strcmp(rows[j].one->sync, "dense") == 0)
                rows[i].speedup = rows[j].step_s / rows[i].step_s;
}

static double quality_of(const row *r)
{
    return quality(r->accuracy, r->perplexity);
}

/* By how much figures like those of the row differ by chance: the standard error of
 * the difference of two accuracies on so many samples, and half the range over the
 * seeds, if that is more. */
static double scatter_of(const row *r)
{
    double p = r->accuracy, chance = usual_scatter;

    if (isnan(r->perplexity) && r->samples > 0)
        chance = sqrt(2 * p * (1 - p) / r->samples);
    return fmax(chance, (r->highest - r->lowest) / 2);
}

static const row *highest_of(const row *rows, size_t count, size_t group)
{
    const row *top = NULL;

    for (size_t i = 0; i < count; i++)
        if (rows[i].group == group && rows[i].there && !isnan(quality_of(&rows[i])) &&
            (top == NULL || quality_of(&rows[i]) > quality_of(top)))
            top = &rows[i];
    return top;
}

/* Marks those that tie with the highest, itself included, and notes their scatter. */
static void mark_ties(row *rows, size_t count, size_t group)
{
    const row *top = highest_of(rows, count, group);

    for (size_t i = 0; top != NULL && i < count; i++)
        if (rows[i].group == group && rows[i].there) {
            rows[i].scatter = scatter_of(top);
            rows[i].ties = quality_of(&rows[i]) >= quality_of(top) - rows[i].scatter;
        }
}

static void mark_best(row *rows, size_t count, size_t group, int by_target)
{
    row *best = NULL;

    for (size_t i = 0; i < count; i++) {
        row *r = &rows[i];
        double key = by_target ? r->to_target : r->step_s;
        double least = best == NULL ? INFINITY
                       : by_target  ? best->to_target
                                    : best->step_s;
        if (r->group == group && r->there && (by_target || r->ties) && key < least)
            best = r;
    }
    if (best != NULL)
        best->best = 1;
}

/* Sorts by group, then fastest first; rows without a result come last. */
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

typedef struct widths {
    int sync, settings; /* settings: 0 if no row has its own */
    int narrow;         /* figures go below the method, in narrower columns */
} widths;

/* The width of a row's figures, with and without the time to the target. */
enum { FIGURES = 64, FIGURES_WITH_TARGET = 76 };

static widths widths_of(const gwc_compare *c, const row *rows, size_t count, FILE *to)
{
    widths w = {.sync = 20};
    int columns = gwc_columns(to);

    for (size_t i = 0; i < count; i++) {
        int sync = (int)strlen(rows[i].one->sync);
        int settings = (int)strlen(rows[i].one->settings);
        w.sync = sync > w.sync ? sync : w.sync;
        w.settings = settings > w.settings ? settings : w.settings;
    }
    if (w.settings > 0 && w.settings < (int)strlen("settings"))
        w.settings = (int)strlen("settings");
    int total = 2 + w.sync + (w.settings > 0 ? 2 + w.settings : 0) +
                (isnan(c->target) ? FIGURES : FIGURES_WITH_TARGET);
    w.narrow = columns > 0 && columns < total;
    return w;
}

static void print_narrow_heading(const gwc_compare *c, const row *r, widths w, FILE *to)
{
    fprintf(to, "\n  sync%s\n", w.settings > 0 ? ", settings" : "");
    fprintf(to, "  %8s   %7s %8s %11s %7s%s\n",
            isnan(r->perplexity) ? "accuracy" : "perplex.", "sent", "of dense", "time",
            "faster", isnan(c->target) ? "" : "  target");
}

static void print_heading(const gwc_compare *c, const row *r, widths w, FILE *to)
{
    fprintf(to, "%s, %s worker%s", r->one->link != NULL ? r->one->link : "no link",
            r->one->workers, strcmp(r->one->workers, "1") == 0 ? "" : "s");
    if (c->seeds > 1)
        fprintf(to, ", mean of %" PRIu64 " seeds", c->seeds);
    if (w.narrow) {
        print_narrow_heading(c, r, w, to);
        return;
    }
    fprintf(to, "\n  %-*s", w.sync, "sync");
    if (w.settings > 0)
        fprintf(to, "  %-*s", w.settings, "settings");
    fprintf(to, " %10s   %12s %9s %12s %8s%s\n",
            isnan(r->perplexity) ? "accuracy" : "perplexity", "sent/step", "of dense",
            "time/step", "speed-up", isnan(c->target) ? "" : "   to target");
}

static void print_quality(const row *r, FILE *to)
{
    if (isnan(r->perplexity))
        fprintf(to, " %8.2f %%", 100.0 * r->accuracy);
    else
        fprintf(to, " %10.2f", r->perplexity);
    fputs(r->ties ? " =" : "  ", to);
}

static void print_result(const gwc_compare *c, const row *r, FILE *to)
{
    char bytes[16];

    print_quality(r, to);
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

/* The same figures in at most 60 columns, below the method. */
static void print_narrow_result(const gwc_compare *c, const row *r, FILE *to)
{
    char bytes[16];

    if (isnan(r->perplexity))
        fprintf(to, "  %6.2f %%%s", 100.0 * r->accuracy, r->ties ? " =" : "  ");
    else
        fprintf(to, "  %8.2f%s", r->perplexity, r->ties ? " =" : "  ");
    fprintf(to, " %7s", gwc_bytes(r->bytes, bytes));
    if (r->dense_bytes > 0.0)
        fprintf(to, " %6.2f %%", 100.0 * r->bytes / r->dense_bytes);
    else
        fprintf(to, " %8s", "-");
    fprintf(to, " %8.2f ms", 1e3 * r->step_s);
    if (isnan(r->speedup))
        fprintf(to, " %7s", "-");
    else
        fprintf(to, " %6.2fx", r->speedup);
    if (!isnan(c->target) && isnan(r->to_target))
        fprintf(to, " %7s", "never");
    else if (!isnan(c->target))
        fprintf(to, " %5.1f s", r->to_target);
    putc('\n', to);
}

static void print_narrow_row(const gwc_compare *c, const row *r, FILE *to)
{
    fprintf(to, "%c %s%s%s%s\n", r->best ? '*' : ' ', r->one->sync,
            r->one->settings[0] != '\0' ? ", " : "", r->one->settings,
            r->best ? "  best" : "");
    if (r->there)
        print_narrow_result(c, r, to);
    else
        fprintf(to, "    %s%s\n", r->why[0] != '\0' ? "failed: " : "not run", r->why);
}

static void print_row(const gwc_compare *c, const row *r, widths w, FILE *to)
{
    if (w.narrow) {
        print_narrow_row(c, r, to);
        return;
    }
    fprintf(to, "%c %-*s", r->best ? '*' : ' ', w.sync, r->one->sync);
    if (w.settings > 0)
        fprintf(to, "  %-*s", w.settings, r->one->settings);
    if (r->there)
        print_result(c, r, to);
    else
        fprintf(to, " %s%s\n", r->why[0] != '\0' ? "failed: " : "not run", r->why);
}

/* What '=' means, after the last row of a group. */
static void print_ties(const row *r, FILE *to)
{
    if (isnan(r->scatter))
        return;
    if (isnan(r->perplexity))
        fprintf(to, "  = a tie: within %.2f points of the highest\n",
                100.0 * r->scatter);
    else
        fprintf(to, "  = a tie: within %.1f %% of the lowest\n",
                100.0 * expm1(10.0 * r->scatter));
}

/* Prints, once for each method, which spec it ran as if that was changed. */
static void print_advised(const row *rows, size_t count, FILE *to)
{
    int any = 0;

    for (size_t i = 0; i < count; i++) {
        int said = rows[i].advised[0] == '\0';
        for (size_t j = 0; j < i; j++)
            said = said || (strcmp(rows[i].one->sync, rows[j].one->sync) == 0 &&
                            strcmp(rows[i].advised, rows[j].advised) == 0);
        if (!said)
            fprintf(to, "%s%s ran as %s\n", any++ == 0 ? "\n" : "", rows[i].one->sync,
                    rows[i].advised);
    }
}

static void print_json(const gwc_compare *c, const row *r, FILE *to)
{
    gwt_json j = {.to = to};

    gwt_json_open(&j, NULL, '{');
    gwt_json_text(&j, "sync", r->one->sync);
    gwt_json_text(&j, "settings",
                  r->one->settings[0] != '\0' ? r->one->settings : NULL);
    gwt_json_text(&j, "sync_advised", r->advised[0] != '\0' ? r->advised : NULL);
    gwt_json_text(&j, "link", r->one->link);
    gwt_json_real(&j, "workers", atof(r->one->workers));
    gwt_json_count(&j, "seeds", c->seeds);
    gwt_json_text(&j, "run", r->one->directory);
    gwt_json_real(&j, "test_accuracy", r->accuracy);
    gwt_json_real(&j, "perplexity", r->perplexity);
    gwt_json_real(&j, "scatter", r->scatter);
    gwt_json_bool(&j, "ties", r->ties);
    gwt_json_real(&j, "bytes_per_step", r->bytes);
    gwt_json_real(&j, "of_dense",
                  r->dense_bytes > 0.0 ? r->bytes / r->dense_bytes : (double)NAN);
    gwt_json_real(&j, "step_s", r->step_s);
    gwt_json_real(&j, "speedup", r->speedup);
    gwt_json_real(&j, "seconds_to_target", r->to_target);
    gwt_json_bool(&j, "best", r->best);
    gwt_json_text(&j, "failed", r->why[0] != '\0' ? r->why : NULL);
    gwt_json_close(&j, '}');
    putc('\n', to);
}

static void print_rows(const gwc_compare *c, const row *rows, size_t count, FILE *to)
{
    widths w = widths_of(c, rows, count, to);

    for (size_t i = 0; i < count; i++) {
        int first = i == 0 || rows[i].group != rows[i - 1].group;
        int last = i + 1 == count || rows[i].group != rows[i + 1].group;
        const row *top = highest_of(rows, count, rows[i].group);
        if (first && i > 0)
            putc('\n', to);
        if (first)
            print_heading(c, &rows[i], w, to);
        print_row(c, &rows[i], w, to);
        if (last && top != NULL)
            print_ties(top, to);
    }
    print_advised(rows, count, to);
}

static void judge(const gwc_compare *c, row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        rows[i].group = group_of(rows, i);
    set_speedups(rows, count);
    for (size_t i = 0; i < count; i++)
        if (rows[i].group == i) {
            mark_ties(rows, count, i);
            mark_best(rows, count, i, !isnan(c->target));
        }
    qsort(rows, count, sizeof *rows, compare_rows);
}

/* How many runs have no result. */
static size_t missing_runs(const gwc_compare *c)
{
    size_t missing = 0;

    for (size_t i = 0; i < c->count; i++)
        missing +=
            c->cases[i].state != GWC_CASE_THERE && c->cases[i].state != GWC_CASE_RUN;
    return missing;
}

size_t gwc_table_print(const gwc_compare *c, FILE *to, int json)
{
    size_t count = c->count / (size_t)c->seeds;
    row *rows = gwt_calloc(count, sizeof *rows, "a table");

    if (rows == NULL)
        return c->count;
    for (size_t i = 0; i < count; i++)
        read_row(c, i, &rows[i]);
    judge(c, rows, count);
    for (size_t i = 0; json && i < count; i++)
        print_json(c, &rows[i], to);
    if (!json)
        print_rows(c, rows, count, to);
    gwt_free(rows);
    return missing_runs(c);
}
