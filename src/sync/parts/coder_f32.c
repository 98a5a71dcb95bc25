/* SPDX-License-Identifier: Apache-2.0
 *
 * coder_f32.c - values as they are: what is sent where nothing else is asked for. */
#include "sync/coder.h"

#include <string.h>

static void f32_form(const gwi_spec *spec, gwi_wire_form *form)
{
    (void)spec;
    form->coding = GWI_WIRE_F32;
}

static void f32_put(gwi_coding *c, gwi_wire_writer *w, float *v, size_t k,
                    const gwi_message_context *at)
{
    (void)c, (void)at;
    gwi_wire_put_f32(w->values, v, k);
    memset(v, 0, k * sizeof *v);
}

static void f32_get(gwi_coding *c, const gwi_wire_view *view, float *out)
{
    (void)c;
    gwi_wire_get_f32(out, view->values, view->form.k);
}

const gwi_coder gwi_coder_f32 = {
    .part = {.name = "f32"},
    .whole = &gwi_exchange_dense,
    .exact = true,
    .form = f32_form,
    .put = f32_put,
    .get = f32_get,
};
