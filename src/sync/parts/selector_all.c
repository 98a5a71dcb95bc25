/* SPDX-License-Identifier: Apache-2.0
 *
 * selector_all.c - every coordinate is sent: what is done where nothing else is asked
 * for. */
#include "sync/sync.h"

static double all_density(const gwi_spec *spec)
{
    (void)spec;
    return 1;
}

static void all_agree(gw_sync *s, gwi_common *out)
{
    *out = (gwi_common){.begin = 0, .end = s->layout->floats};
}

const gwi_selector gwi_selector_all = {
    .part = {.name = "all"},
    .density = all_density,
    .agree = all_agree,
};
