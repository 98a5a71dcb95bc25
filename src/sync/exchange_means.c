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
#include "sync/notes.h"

#include "kernels/means.h"

static bool means_fits(const gwi_spec *spec)
{
    return spec->how == GWI_HOW_MEANS;
}

static gw_status means_run(gw_sync *s, float *v, gwi_note *note)
{
    size_t n = s->layout->floats;
    gwi_two_sums sums = gwi_two_sums_of(v, n);
    float own[2] = {gwi_mean_of(sums.plus, sums.plus_count),
                    gwi_mean_of(sums.minus, sums.minus_count)};
    float all[2] = {own[0], own[1]};

    gwi_sync_encoded(s);
    GWI_TRY(gwi_average(s, all, 2, 0, note));
    gwi_two_shift(v, n, all[0] - own[0], all[1] - own[1]);
    return GW_OK;
}

const gwi_exchange gwi_exchange_means = {
    .name = "means",
    .fits = means_fits,
    .run = means_run,
    .differs = true,
};
