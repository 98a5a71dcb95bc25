/* SPDX-License-Identifier: Apache-2.0
 *
 * result_rows.c - prints results as tables for people or as lines of JSON. */
#include "bench.h"
#include "files/json.h"
#include "text_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

gwb_row gwb_row_new(const char *group, uint64_t n, const char *format, ...)
{
    const double none = (double)NAN;
    gwb_row row = {.group = group,
                   .n = n,
                   .density = none,
                   .seconds = none,
                   .rate = none,
                   .limit_seconds = none,
                   .ratio = none,
                   .median = none,
                   .target = none};
    va_list args;

    va_start(args, format);
    vsnprintf(row.name, sizeof row.name, format, args);
    va_end(args);
    return row;
}

void gwb_row_race(gwb_row *row, const gwb_race_result *result, double bytes)
{
    row->seconds = result->best_a;
    row->limit_seconds = result->best_b;
    row->ratio = result->ratio;
    row->median = result->median;
    if (bytes > 0.0) {
        row->rate = 1e-9 * bytes / result->best_a;
        row->unit = "GB/s";
    }
}

int gwb_row_met(const gwb_row *row)
{
    if (isnan(row->target))
        return 1;
    if (row->sense == GWB_WITHIN)
        return fabs(row->ratio - 1.0) <= row->target - 1.0;
    return row->ratio <= row->target;
}

int gwb_wanted(const gwb_sheet *sheet, const char *name)
{
    return sheet->set->filter == NULL || strstr(name, sheet->set->filter) != NULL;
}

/* ---- tables -------------------------------------------------------------------- */

enum { CELL_CAP = 32 };

/* "12.3 ms", the unit by the size. */
static void time_cell(char *cell, double seconds)
{
    static const struct {
        const char *name;
        double seconds;
    } unit[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}};
    size_t i = 0;

    cell[0] = '\0';
    if (isnan(seconds))
        return;
    while (i < 3 && seconds >= 1e3 * unit[i].seconds)
        i++;
    snprintf(cell, CELL_CAP, "%.4g %s", seconds / unit[i].seconds, unit[i].name);
}

/* "0.1 %", "4 bit" or both. */
static void detail_cell(char *cell, const gwb_row *row)
{
    int used = 0;

    cell[0] = '\0';
    if (!isnan(row->density))
        used = snprintf(cell, CELL_CAP, "%g %%", 100.0 * row->density);
    if (row->bits != 0)
        snprintf(cell + used, CELL_CAP - (size_t)used, "%s%u bit", used > 0 ? " " : "",
                 row->bits);
}

static void number_cell(char *cell, double x, const char *suffix)
{
    cell[0] = '\0';
    if (!isnan(x))
        snprintf(cell, CELL_CAP, "%.3f%s", x, suffix);
}

static void rate_cell(char *cell, const gwb_row *row)
{
    cell[0] = '\0';
    if (!isnan(row->rate))
        snprintf(cell, CELL_CAP, "%.4g %s", row->rate, row->unit);
}

static void target_cell(char *cell, const gwb_row *row)
{
    const char *verdict = gwb_row_met(row) ? "met" : "MISSED";

    cell[0] = '\0';
    if (isnan(row->target))
        return;
    if (row->sense == GWB_WITHIN)
        snprintf(cell, CELL_CAP, "within %.3g %% %s", 100.0 * (row->target - 1.0),
                 verdict);
    else
        snprintf(cell, CELL_CAP, "%.3gx %s", row->target, verdict);
}

static void print_cells(const char *const *cells)
{
    static const gwc_column columns[] = {
        {"", -47, 0}, {"", 11, 1}, {"", -11, 1}, {"", -6, 1},
        {"", 3, 1},   {"", 10, 1}, {"", 14, 1},  {"", -20, 2},
        {"", 8, 1},   {"", 8, 1},  {"", -16, 2},
    };

    gwc_print_cells(stdout, columns, sizeof columns / sizeof columns[0], cells);
}

static void print_heading(const char *group)
{
    putchar('\n');
    print_cells((const char *const[]){group, "n", "what", "isa", "thr", "best", "rate",
                                      "limit", "ratio", "median", "target"});
}

static void print_row(const gwb_row *row, int threads)
{
    char n[CELL_CAP], thr[CELL_CAP], time[CELL_CAP], rate[CELL_CAP], detail[CELL_CAP],
        ratio[CELL_CAP], median[CELL_CAP], target[CELL_CAP];

    snprintf(n, sizeof n, "%" PRIu64 "%s", row->n, row->bytes ? " B" : "");
    snprintf(thr, sizeof thr, "%d", threads);
    time_cell(time, row->seconds);
    rate_cell(rate, row);
    detail_cell(detail, row);
    number_cell(ratio, row->ratio, "x");
    number_cell(median, row->median, "x");
    target_cell(target, row);
    print_cells((const char *const[]){row->name, n, detail, row->isa, thr, time, rate,
                                      row->limit != NULL ? row->limit : "", ratio,
                                      median, target});
}

/* ---- JSON ---------------------------------------------------------------------- */

static void count_or_null(gwt_json *j, const char *key, uint64_t count)
{
    if (count != 0)
        gwt_json_count(j, key, count);
    else
        gwt_json_null(j, key);
}

static void print_json(const gwb_row *row, int threads)
{
    gwt_json j = {.to = stdout};

    gwt_json_open(&j, NULL, '{');
    gwt_json_text(&j, "group", row->group);
    gwt_json_text(&j, "name", row->name);
    gwt_json_count(&j, "n", row->n);
    gwt_json_text(&j, "of", row->bytes ? "bytes" : "floats");
    gwt_json_real(&j, "density", row->density);
    count_or_null(&j, "bits", row->bits);
    gwt_json_text(&j, "isa", row->isa);
    gwt_json_count(&j, "threads", (uint64_t)threads);
    gwt_json_real(&j, "ns", 1e9 * row->seconds);
    gwt_json_real(&j, "rate", row->rate);
    gwt_json_text(&j, "unit", row->unit);
    gwt_json_text(&j, "limit", row->limit);
    gwt_json_real(&j, "limit_ns", 1e9 * row->limit_seconds);
    gwt_json_real(&j, "ratio", row->ratio);
    gwt_json_real(&j, "ratio_median", row->median);
    gwt_json_real(&j, "target", row->target);
    if (isnan(row->target))
        gwt_json_null(&j, "met");
    else
        gwt_json_bool(&j, "met", gwb_row_met(row));
    gwt_json_close(&j, '}');
    putchar('\n');
}

void gwb_sheet_add(gwb_sheet *sheet, const gwb_row *row)
{
    gwb_row shown = *row;

    if (!gwb_wanted(sheet, row->name))
        return;
    if (shown.isa == NULL)
        shown.isa = gw_isa();
    /* Targets are for what was measured, and a quick look measures nothing. */
    if (sheet->set->quick)
        shown.target = (double)NAN;
    if (!isnan(shown.target)) {
        sheet->targets++;
        sheet->met += (unsigned)gwb_row_met(&shown);
    }
    if (sheet->set->json) {
        print_json(&shown, sheet->set->threads);
    } else {
        if (sheet->group != row->group)
            print_heading(row->group);
        print_row(&shown, sheet->set->threads);
    }
    sheet->group = row->group;
    fflush(stdout);
}
