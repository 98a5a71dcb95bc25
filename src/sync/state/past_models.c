/* SPDX-License-Identifier: Apache-2.0
 *
 * past_models.c - the last common model, where changes of models are exchanged, and the
 * mean of all models of all steps (Polyak), which training may end with. */
#include "sync/state/past_models.h"

#include <string.h>

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

bool gwi_sees_models(const gwi_spec *spec)
{
    const options *opt = gwi_options_of(spec, GWI_MODELS);

    return opt->average == AVERAGE_POLYAK;
}

void gwi_see_model(gw_sync *s, const float *x)
{
    float *mean = s->kept[GWI_MEAN];

    for (size_t i = 0; mean != NULL && i < s->layout->floats; i++)
        mean[i] += (x[i] - mean[i]) / (float)s->step;
}

void gwi_end_models(gw_sync *s, float *x)
{
    if (s->kept[GWI_MEAN] != NULL)
        memcpy(x, s->kept[GWI_MEAN], s->layout->floats * sizeof *x);
}

static bool counts_changes(const gwi_spec *spec)
{
    return spec->subject == GWI_CHANGE || gwi_steps_outside(spec);
}

static const gwi_remembered memories[] = {
    {.name = "reference",
     .what = "last model",
     .tag = GWI_REFERENCE,
     .handing = GW_HANDING_COMMON,
     .wanted = counts_changes},
    {.name = "mean",
     .what = "mean model",
     .tag = GWI_MEAN,
     .handing = GW_HANDING_AVERAGED,
     .wanted = gwi_sees_models},
    {.name = NULL},
};

const gwi_part gwi_past_models = {.name = "models", .keys = keys, .memories = memories};
