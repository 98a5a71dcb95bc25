/* SPDX-License-Identifier: Apache-2.0
 *
 * wire_describe.c - a message in one line, for people. */
#include "wire/wire_form.h"

#include <stdio.h>

static void describe_view(const gwi_wire_view *v, size_t len, char *text, size_t cap)
{
    const gwi_wire_form *f = &v->form;
    char group[48] = "";

    if (gwi_wire_has_buckets(f->coding))
        snprintf(group, sizeof group, " bits=%u bucket=%u", f->bits, f->group);
    if (f->coding == GWI_WIRE_CENTRES)
        snprintf(group, sizeof group, " bits=%u centres=%u", f->bits, f->group);
    snprintf(text, cap,
             "%s %s%s%s n=%u k=%u step=%u: %zu bytes (scales %zu, values %zu, "
             "positions %zu)",
             gwi_wire_kind_name(f->kind), gwi_wire_coding_name(f->coding), group,
             f->entropy ? " entropy" : "", f->n, f->k, f->step, len, 4 * v->scale_count,
             v->values_len, v->positions_len);
}

char *gwi_wire_describe(const uint8_t *msg, size_t len, char *text, size_t cap)
{
    gw_status st = gwi_wire_check(msg, len);
    gwi_wire_view view;

    if (st == GW_OK)
        st = gwi_wire_open(&view, msg, len);
    if (st == GW_OK)
        describe_view(&view, len, text, cap);
    else
        snprintf(text, cap, "malformed, %zu bytes: %s", len, gw_error_message());
    return text;
}
