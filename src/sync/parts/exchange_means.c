/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange_means.c - A2SGD (Bhattacharya et al. 2020), exactly as published.
 *
 *     m+ = mean of the entries >= 0,  m- = mean of those < 0     (0 of nothing)
 *     M+, M- = their averages over the workers: 8 bytes, all that is sent
 *     v += M+ - m+ where v >= 0,  v += M- - m- where v < 0
 *
 * A worker keeps its own deviations and its own signs, so the workers apply
 * different updates and their models drift apart from the first step. */
#include "kernels/means.h"
#include "sync/measure.h"
#include "sync/notes.h"

typedef struct options {
    uint64_t resync; /* steps between averages of the models, 0: never */
} options;

static const gwi_key keys[] = {
    {.name = "resync",
     .meaning = "steps between averages of the models",
     .fallback = "0",
     .range = "a count of steps, 0 for never",
     .least = 0,
     .most = GWI_COUNT_MAX,
     .at = offsetof(options, resync),
     .value = GWI_COUNT},
    {.name = NULL},
};

static uint64_t means_resync(const gwi_spec *spec)
{
    return ((const options *)gwi_options_of(spec, GWI_EXCHANGE))->resync;
}

static gw_status means_run(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    float *v = at->v;
    size_t n = s->layout->floats;
    gwi_two_sums sums = gwi_two_sums_of(v, n);
    float own[2] = {gwi_mean_of(sums.plus, sums.plus_count),
                    gwi_mean_of(sums.minus, sums.minus_count)};
    float all[2] = {own[0], own[1]};

    gwi_decodes(s);
    GWI_TRY(gwi_average(s, all, 2, 0, note));
    gwi_two_shift(v, n, all[0] - own[0], all[1] - own[1]);
    return GW_OK;
}

/* A message in each round of doubling. */
static gwi_path means_path(const gwi_spec *spec, const gw_layout *layout, int workers,
                           const gw_traffic *t)
{
    (void)spec, (void)layout, (void)workers;
    return (gwi_path){(double)t->messages_sent, (double)t->bytes_sent};
}

const gwi_exchange gwi_exchange_means = {
    .part = {.name = "means", .keys = keys},
    .run = means_run,
    .path = means_path,
    .differs = true,
    .codes = true,
    .resync = means_resync,
};

const gwi_stage gwi_stage_a2sgd = {
    .name = "a2sgd",
    .summary = "two means of 8 bytes in all; models drift (Bhattacharya et al. 2020)",
    .example = "a2sgd",
    .cost = "16 bytes and a check, log2 P times",
    .expect = "models drift apart: in our checks no better than none without resync",
    .role = GWI_ROLE_ALL,
    .recipe = true,
    .parts = {[GWI_EXCHANGE] = &gwi_exchange_means.part},
    .keys = "resync",
};
