/* SPDX-License-Identifier: Apache-2.0
 *
 * coder_bf16.c - values in 16 bits: the upper half of a float, rounded. */
#include "kernels/bf16.h"
#include "sync/coder.h"

static void bf16_form(const gwi_spec *spec, gwi_wire_form *form)
{
    (void)spec;
    form->coding = GWI_WIRE_BF16;
}

static void bf16_put(gwi_coding *c, gwi_wire_writer *w, float *v, size_t k,
                     const gwi_message_context *at)
{
    (void)c, (void)at;
    gwi_bf16_encode_subtract(v, k, w->values);
}

static void bf16_get(gwi_coding *c, const gwi_wire_view *view, float *out)
{
    (void)c;
    gwi_bf16_decode(view->values, out, view->form.k);
}

static void bf16_add(gwi_coding *c, const gwi_wire_view *view, float *acc)
{
    (void)c;
    gwi_bf16_decode_add(view->values, acc, view->form.k);
}

const gwi_coder gwi_coder_bf16 = {
    .part = {.name = "bf16"},
    .whole = &gwi_exchange_coded,
    .form = bf16_form,
    .put = bf16_put,
    .get = bf16_get,
    .add = bf16_add,
};

const gwi_stage gwi_stage_bf16 = {
    .name = "bf16",
    .summary = "values in 16 bits",
    .example = "bf16",
    .cost = "16 bits of each value",
    .role = GWI_ROLE_HOW,
    .parts = {[GWI_CODER] = &gwi_coder_bf16.part},
};
