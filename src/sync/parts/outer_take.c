/* SPDX-License-Identifier: Apache-2.0
 *
 * outer_take.c - the average is taken as it is: every worker goes on from the last
 * common model plus the average change. Training may end with the average of all models
 * of all steps (Polyak) instead of the last ones. */
#include "sync/sync.h"

#include <string.h>

#include "kernels/vector.h"

enum { AVERAGE_NONE, AVERAGE_POLYAK };

typedef struct options {
    int average;
} options;

static const gwi_key keys[] = {
    {.name = "average",
     .meaning =
         "the result: the last models, or the average of all models of all steps",
     .fallback = "none",
     .words = "none|polyak",
     .at = offsetof(options, average),
     .value = GWI_WORD},
    {.name = NULL},
};

static bool take_sees(const gwi_spec *spec)
{
    const options *opt = gwi_options_of(spec, GWI_OUTER);

    return opt->average == AVERAGE_POLYAK;
}

static bool is_of_changes(const gwi_spec *spec)
{
    return spec->subject == GWI_CHANGE;
}

static void take_step(gw_sync *s, float *x)
{
    float *reference = s->kept[GWI_REFERENCE];
    size_t n = s->layout->floats;

    gwi_add(x, reference, n);
    memcpy(reference, x, n * sizeof *x);
}

/* The running mean of all models of this worker. */
static void take_see(gw_sync *s, const float *x)
{
    float *mean = s->kept[GWI_MEAN];

    for (size_t i = 0; mean != NULL && i < s->layout->floats; i++)
        mean[i] += (x[i] - mean[i]) / (float)s->step;
}

static void take_end(gw_sync *s, float *x)
{
    if (s->kept[GWI_MEAN] != NULL)
        memcpy(x, s->kept[GWI_MEAN], s->layout->floats * sizeof *x);
}

static const gwi_remembered memories[] = {
    {.name = "reference",
     .what = "last model",
     .tag = GWI_REFERENCE,
     .handing = GW_HANDING_COMMON,
     .wanted = is_of_changes},
    {.name = "mean",
     .what = "mean model",
     .tag = GWI_MEAN,
     .handing = GW_HANDING_AVERAGED,
     .wanted = take_sees},
    {.name = NULL},
};

const gwi_outer gwi_outer_take = {
    .part = {.name = "take", .keys = keys, .memories = memories},
    .step = take_step,
    .see = take_see,
    .end = take_end,
    .sees = take_sees,
};
