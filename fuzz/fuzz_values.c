/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_values.c - any bytes as a message, all the way to floats: what opens can be
 * decoded by the kernels of its coding. */
#include "kernels/bf16.h"
#include "kernels/centres.h"
#include "kernels/levels.h"
#include "kernels/signs.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void decode_buckets(const gwi_wire_view *v, float *out)
{
    gwi_levels_format format = {v->form.bits, v->form.group, GWI_NORM_L2};
    float *norms = malloc(4 * (v->scale_count + 1));

    if (norms == NULL)
        abort();
    gwi_wire_get_f32(norms, v->scales, v->scale_count);
    if (v->form.coding == GWI_WIRE_SIGNS)
        gwi_signs_decode(v->values, norms, out, v->form.k, v->form.group);
    else
        gwi_levels_decode(&format, v->values, norms, out, v->form.k);
    free(norms);
}

static void decode_centres(const gwi_wire_view *v, float *out)
{
    gwi_centres centres = {.bits = v->form.bits, .four = v->form.group == 4};

    /* Centres of columns need a layout. */
    if (v->form.bits == 1 && v->scale_count > 1)
        return;
    gwi_wire_get_f32(centres.centre, v->scales, v->scale_count);
    gwi_centres_decode(&centres, v->values, v->form.k, out);
}

static void decode_values(const gwi_wire_view *v, float *out)
{
    switch (v->form.coding) {
    case GWI_WIRE_F32:
        gwi_wire_get_f32(out, v->values, v->form.k);
        break;
    case GWI_WIRE_BF16:
        gwi_bf16_decode(v->values, out, v->form.k);
        break;
    case GWI_WIRE_LEVELS:
    case GWI_WIRE_SIGNS:
        decode_buckets(v, out);
        break;
    case GWI_WIRE_CENTRES:
        decode_centres(v, out);
        break;
    }
}

static void decode(const uint8_t *data, size_t len)
{
    gwi_wire_view v;

    if (gwi_wire_open(&v, data, len) != GW_OK)
        return;
    uint8_t *room = malloc(gwi_wire_values_room(&v.form) + 1);
    float *out = malloc(4 * ((size_t)v.form.k + 1));
    if (out == NULL || room == NULL)
        abort();
    if (gwi_wire_restore_values(&v, room) == GW_OK)
        decode_values(&v, out);
    free(out);
    free(room);
}

/* Sealed, so that the check lets it pass. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint8_t *sealed = malloc(len + 1);

    if (sealed == NULL)
        abort();
    memcpy(sealed, data, len);
    if (len >= GWI_WIRE_HEADER_LEN)
        gwi_wire_seal(sealed, len);
    decode(sealed, len);
    free(sealed);
    return 0;
}
