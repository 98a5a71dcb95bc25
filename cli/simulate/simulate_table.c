/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate_table.c - prints simulated points. */
#include "simulate/simulate.h"

#include "files/json.h"
#include "progress.h"
#include "text_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Samples or steps of all workers together per second. */
static double throughput(const gwc_sim *sim, const gwc_point *p)
{
    double each = sim->batch > 0 ? sim->batch : 1;

    return p->step > 0 ? p->workers * each / p->step : (double)NAN;
}

/* The share of computation in a step. */
static double efficiency(const gwc_point *p)
{
    return p->compute > 0 ? p->compute / p->step : (double)NAN;
}

enum { COLUMNS = 12, SPEED = 8 };

static const gwc_column usual[COLUMNS] = {
    {"sync", -24, 0},  {"workers", 7, 1}, {"step", 9, 1},      {"compute", 9, 1},
    {"encode", 9, 1},  {"wire", 9, 1},    {"decode", 9, 1},    {"bytes/step", 10, 1},
    {"steps/s", 9, 1}, {"eff.", 6, 1},    {"predicted", 9, 1}, {"", -6, 2},
};

static void print_cells(const gwc_sim *sim, const char *const *cells)
{
    gwc_column table[COLUMNS];

    memcpy(table, usual, sizeof table);
    gwc_widen(&table[0], sim->longest);
    gwc_print_cells(stdout, table, COLUMNS, cells);
}

void gwc_simulate_header(const gwc_sim *sim)
{
    const char *titles[COLUMNS];

    for (size_t i = 0; i < COLUMNS; i++)
        titles[i] = usual[i].title;
    if (sim->batch > 0)
        titles[SPEED] = "samples/s";
    print_cells(sim, titles);
}

/* "12.3 ms" in nine characters. */
static const char *time_text(double seconds, char text[16])
{
    if (seconds < 0.99995e-3)
        snprintf(text, 16, "%.1f us", 1e6 * seconds);
    else if (seconds < 0.99995)
        snprintf(text, 16, "%.*f ms", seconds < 0.0995 ? 2 : 1, 1e3 * seconds);
    else
        snprintf(text, 16, "%.3f s", seconds);
    return text;
}

void gwc_simulate_row(const gwc_sim *sim, const gwc_point *p)
{
    char t[6][16], workers[16], bytes[16], share[16] = "-", speed[16] = "-";

    if (p->compute > 0)
        snprintf(share, sizeof share, "%.1f%%", 100 * efficiency(p));
    if (p->step > 0)
        snprintf(speed, sizeof speed, "%.4g", throughput(sim, p));
    snprintf(workers, sizeof workers, "%d", p->workers);
    const char *const cells[] = {
        p->sync,
        workers,
        time_text(p->step, t[0]),
        time_text(p->compute, t[1]),
        time_text(p->encode, t[2]),
        time_text(p->wire, t[3]),
        time_text(p->decode, t[4]),
        gwc_bytes(p->bytes_sent, bytes),
        speed,
        share,
        time_text(p->predicted, t[5]),
        p->folded ? "folded" : "",
    };
    print_cells(sim, cells);
    fflush(stdout);
}

void gwc_simulate_json(const gwc_sim *sim, const gwc_point *p)
{
    gwt_json j = {.to = stdout};

    gwt_json_open(&j, NULL, '{');
    gwt_json_text(&j, "sync", p->sync);
    gwt_json_text(&j, "spec", p->spec);
    gwt_json_count(&j, "workers", (uint64_t)p->workers);
    gwt_json_count(&j, "params", sim->params);
    gwt_json_text(&j, "link", sim->link_text);
    gwt_json_count(&j, "hosts_per_switch", (uint64_t)sim->hosts_per_switch);
    gwt_json_count(&j, "steps", sim->steps);
    gwt_json_real(&j, "step_s", p->step);
    gwt_json_real(&j, "step_min_s", p->step_min);
    gwt_json_real(&j, "compute_s", p->compute);
    gwt_json_real(&j, "encode_s", p->encode);
    gwt_json_real(&j, "wire_s", p->wire);
    gwt_json_real(&j, "decode_s", p->decode);
    gwt_json_real(&j, "bytes_sent", p->bytes_sent);
    gwt_json_real(&j, "bytes_received", p->bytes_received);
    gwt_json_real(&j, "messages_sent", p->messages_sent);
    gwt_json_real(&j, "bytes_sent_all", p->bytes_sent_all);
    gwt_json_real(&j, sim->batch > 0 ? "samples_per_s" : "steps_per_s",
                  throughput(sim, p));
    gwt_json_real(&j, "efficiency", efficiency(p));
    gwt_json_real(&j, "predicted_s", p->predicted);
    gwt_json_bool(&j, "folded", p->folded);
    gwt_json_text(&j, "isa", gw_isa());
    gwt_json_text(&j, "version", gw_version());
    gwt_json_close(&j, '}');
    putchar('\n');
    fflush(stdout);
}
