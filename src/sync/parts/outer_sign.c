/* SPDX-License-Identifier: Apache-2.0
 *
 * outer_sign.c - of the average gradient, only the sign of each entry is the result: 1,
 * -1, or 0. An optimizer that subtracts rate times that moves every parameter by the
 * rate, as in DeMo and in signSGD. */
#include "sync/sync.h"

enum { UPDATE_SIGN, UPDATE_MEAN };

typedef struct options {
    int update;
} options;

static const gwi_key keys[] = {
    {.name = "update",
     .meaning = "what the optimizer gets: signs of the mean, or the mean itself",
     .fallback = "sign",
     .words = "sign|mean",
     .at = offsetof(options, update),
     .value = GWI_WORD},
    {.name = NULL},
};

static bool sign_off(const gwi_spec *spec)
{
    const options *opt = gwi_options_of(spec, GWI_OUTER);

    return opt->update == UPDATE_MEAN || !gwi_leaves_out(spec);
}

static void sign_gradient(gw_sync *s, float *v)
{
    for (size_t i = 0; i < s->layout->floats; i++)
        v[i] = (float)((v[i] > 0) - (v[i] < 0));
}

const gwi_outer gwi_outer_sign = {
    .part = {.name = "sign",
             .keys = keys,
             .options_size = sizeof(options),
             .off = sign_off},
    .gradient = sign_gradient,
};
