/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_wire.c - any bytes as a message: opened, described, its positions read; and
 * what was understood, written again, is understood the same. */
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void demand(int truth)
{
    if (!truth)
        abort();
}

/* As many values as the shortest block of coded ones has, for each of its bytes. */
enum { MOST_PER_BYTE = 8 * GWI_ENTROPY_BLOCK / 38 + 1 };

/* What came coded is written as it was before. */
static void write_again(gwi_wire_view *v, const uint32_t *positions)
{
    uint8_t *room = malloc(gwi_wire_values_room(&v->form) + 1);
    demand(room != NULL);
    demand(gwi_wire_restore_values(v, room) == GW_OK);
    v->form.entropy = false;
    size_t bound = gwi_wire_bound(&v->form);
    uint8_t *msg = malloc(bound);
    uint32_t *back = malloc(4 * ((size_t)v->form.k + 1));
    gwi_wire_writer w;
    gwi_wire_view again;

    demand(msg != NULL && back != NULL);
    demand(gwi_wire_begin(&w, &v->form, msg, bound) == GW_OK);
    memcpy(w.scales, v->scales, 4 * v->scale_count);
    memcpy(w.values, v->values, v->values_len);
    if (v->form.kind == GWI_WIRE_SPARSE)
        demand(gwi_wire_put_positions(&w, positions) == GW_OK);
    gwi_wire_seal(msg, w.len);
    demand(w.len <= bound && gwi_wire_open(&again, msg, w.len) == GW_OK);
    demand(gwi_wire_expect(&again, &v->form) == GW_OK && again.form.k == v->form.k &&
           again.form.group == v->form.group);
    demand(memcmp(again.scales, v->scales, 4 * v->scale_count) == 0);
    demand(memcmp(again.values, v->values, v->values_len) == 0);
    if (v->form.kind == GWI_WIRE_SPARSE) {
        demand(gwi_wire_get_positions(&again, back, v->form.k) == GW_OK);
        demand(memcmp(back, positions, 4 * (size_t)v->form.k) == 0);
    }
    free(back);
    free(msg);
    free(room);
}

static void try_bytes(const uint8_t *data, size_t len)
{
    char text[256];
    gwi_wire_view v;
    gw_status st;

    gwi_wire_describe(data, len, text, sizeof text);
    if (gwi_wire_open(&v, data, len) != GW_OK) {
        demand(gwi_wire_check(data, len) == GW_ERR_DATA);
        return;
    }
    /* An opened message has no more values than its length allows. */
    demand(v.form.k <= (v.form.entropy ? MOST_PER_BYTE : 8) * len);
    uint32_t *positions = malloc(4 * ((size_t)v.form.k + 1));
    demand(positions != NULL);
    st = GW_OK;
    if (v.form.kind == GWI_WIRE_SPARSE)
        st = gwi_wire_get_positions(&v, positions, v.form.k);
    if (!v.form.entropy)
        demand(st == gwi_wire_check(data, len));
    if (gwi_wire_check(data, len) == GW_OK)
        write_again(&v, positions);
    free(positions);
}

/* As they are, which the check hardly ever lets pass, and sealed. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint8_t *sealed = malloc(len + 1);

    demand(sealed != NULL);
    try_bytes(data, len);
    if (len >= GWI_WIRE_HEADER_LEN) {
        memcpy(sealed, data, len);
        gwi_wire_seal(sealed, len);
        try_bytes(sealed, len);
    }
    free(sealed);
    return 0;
}
