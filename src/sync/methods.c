/* SPDX-License-Identifier: Apache-2.0
 *
 * methods.c - the two methods that need no messages of their own: averaging whole
 * gradients, and not talking at all. */
#include "sync/methods.h"

static bool dense_fits(const gwi_spec *spec)
{
    return gwi_spec_is_dense(spec);
}

static gw_status dense_gradient(gw_sync *sync, float *grad, gwi_note *note)
{
    gw_comm *c = sync->comm;

    gwi_sync_encoded(sync);
    return gwi_allreduce(c, grad, sync->layout->floats, (float)c->workers, note);
}

const gwi_method gwi_method_dense = {
    .name = "dense",
    .fits = dense_fits,
    .gradient = dense_gradient,
    .keeps_equal = true,
};

static bool none_fits(const gwi_spec *spec)
{
    return spec->when == GWI_WHEN_NEVER;
}

const gwi_method gwi_method_none = {
    .name = "none",
    .fits = none_fits,
};
