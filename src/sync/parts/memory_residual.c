/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_residual.c - what is not sent, or not exactly, waits in a residual and is
 * added to the next vector, perhaps after it has lost a part of its weight. */
#include "kernels/vector.h"
#include "sync/sync.h"

typedef struct options {
    int residual;
    double decay;
} options;

static const gwi_key keys[] = {
    {.name = "residual",
     .meaning = "whether to keep for later what was not sent, or not exactly",
     .fallback = "on",
     .words = "off|on",
     .at = offsetof(options, residual),
     .value = GWI_WORD},
    {.name = "decay",
     .meaning = "factor of the residual before a vector is added to it; 1: none",
     .fallback = "1",
     .range = "above 0, at most 1",
     .least = 1e-6,
     .most = 1,
     .unsaid = true,
     .at = offsetof(options, decay),
     .value = GWI_NUMBER},
    {.name = NULL},
};

static bool is_on(const gwi_spec *spec)
{
    return ((const options *)gwi_options_of(spec, GWI_MEMORY))->residual == GWI_ON;
}

static bool residual_off(const gwi_spec *spec)
{
    return !is_on(spec) || !gwi_loses(spec);
}

static void residual_keep(gw_sync *s, const gwi_list *list)
{
    gwi_vector()->scatter_add(s->kept[GWI_RESIDUAL], list->index, list->value, list->n);
}

static double residual_decay(const gwi_spec *spec)
{
    return ((const options *)gwi_options_of(spec, GWI_MEMORY))->decay;
}

static const options defaults = {.decay = 1};

static const gwi_remembered memories[] = {
    {.name = "residual",
     .what = "residual",
     .tag = GWI_RESIDUAL,
     .handing = GW_HANDING_ADDED},
    {.name = NULL},
};

const gwi_memory gwi_memory_residual = {
    .part = {.name = "residual",
             .keys = keys,
             .defaults = &defaults,
             .options_size = sizeof defaults,
             .off = residual_off,
             .memories = memories},
    .keeps = is_on,
    .keep = residual_keep,
    .decay = residual_decay,
};
