/* SPDX-License-Identifier: Apache-2.0
 *
 * wire_open.c - from bytes that may be anything to the parts of a message. */
#include "wire/wire_bytes.h"
#include "wire/wire_form.h"

#include <assert.h>

/* Whether the bytes are those that were sealed. */
static gw_status check_seal(const uint8_t *msg, size_t len)
{
    uint32_t said = gwi_read_u32le(msg + GWI_WIRE_CHECK_AT);
    uint32_t found = gwi_wire_crc(msg, len);

    if (said == found)
        return GW_OK;
    return gw_fail(
        GW_ERR_DATA,
        "message of %zu bytes was damaged: its checksum is 0x%08x, not 0x%08x", len,
        found, said);
}

static gw_status get_header(gwi_wire_form *f, const uint8_t *msg, size_t len)
{
    if (len < GWI_WIRE_HEADER_LEN)
        return gw_fail(GW_ERR_DATA,
                       "message of %zu bytes is shorter than its header of %d", len,
                       GWI_WIRE_HEADER_LEN);
    if ((msg[0] & 0xf0) != GWI_WIRE_MAGIC)
        return gw_fail(GW_ERR_DATA, "not a gradwire message: it begins with 0x%02x",
                       msg[0]);
    if ((msg[0] & 0x0f) != GWI_WIRE_VERSION)
        return gw_fail(GW_ERR_DATA,
                       "message has version %d, but this library reads version %d",
                       msg[0] & 0x0f, GWI_WIRE_VERSION);
    GWI_TRY(check_seal(msg, len));
    f->kind = (gwi_wire_kind)msg[1];
    f->coding = (gwi_wire_coding)msg[2];
    f->bits = msg[GWI_WIRE_BITS_AT] & (GWI_WIRE_ENTROPY - 1);
    f->entropy = (msg[GWI_WIRE_BITS_AT] & GWI_WIRE_ENTROPY) != 0;
    f->step = gwi_read_u32le(msg + 4);
    f->n = gwi_read_u32le(msg + 8);
    f->k = gwi_read_u32le(msg + 12);
    f->group = 0;
    return GW_OK;
}

static gw_status get_group(gwi_wire_form *f, const uint8_t *msg, size_t len)
{
    if (!gwi_wire_has_group(f->coding))
        return GW_OK;
    if (len < GWI_WIRE_HEADER_LEN + GWI_WIRE_GROUP_LEN)
        return gw_fail(GW_ERR_DATA, "message of %zu bytes ends before its group", len);
    f->group = gwi_read_u32le(msg + GWI_WIRE_HEADER_LEN);
    return GW_OK;
}

/* Every position takes at least a bit, and every block its head: so k is
 * within reach of the length even where values take next to nothing. */
static gw_status check_len(const gwi_wire_form *f, uint64_t fixed_len, size_t len)
{
    uint64_t blocks = ((uint64_t)f->k + GWI_INDEX_BLOCK - 1) / GWI_INDEX_BLOCK;
    uint64_t bits = f->k + blocks * GWI_INDEX_HEAD_BITS;
    uint64_t need = fixed_len + (f->kind == GWI_WIRE_SPARSE ? (bits + 7) / 8 : 0);

    if (len < need)
        return gw_fail(GW_ERR_DATA, "message has %zu bytes, expected at least %llu",
                       len, (unsigned long long)need);
    if (len > need && (f->kind != GWI_WIRE_SPARSE || f->k == 0))
        return gw_fail(GW_ERR_DATA, "message has %zu bytes, expected %llu", len,
                       (unsigned long long)need);
    return GW_OK;
}

static gw_status check_values(const gwi_wire_view *v)
{
    unsigned used = (unsigned)((uint64_t)v->form.k * v->form.bits % 8);

    if (used != 0 && !v->form.entropy && v->values[v->values_len - 1] >> used != 0)
        return gw_fail(GW_ERR_DATA, "the bits after the last value are not 0");
    if (!gwi_wire_has_buckets(v->form.coding))
        return GW_OK;
    for (size_t i = 0; i < v->scale_count; i++) {
        uint32_t norm = gwi_read_u32le(v->scales + 4 * i);
        if (norm >= 0x7f800000u)
            return gw_fail(GW_ERR_DATA,
                           "scale of bucket %zu is 0x%08x: not finite, or "
                           "negative",
                           i, norm);
    }
    return GW_OK;
}

/* Values that are coded say how long they are. */
static gw_status get_values_len(const gwi_wire_form *f, const uint8_t *msg, size_t len,
                                gwi_wire_parts *parts)
{
    uint64_t begin = parts->fixed_len - parts->values_len;
    size_t coded;

    if (!f->entropy)
        return GW_OK;
    if (f->bits == 0 || f->k == 0)
        return gw_fail(GW_ERR_DATA,
                       "%u values of %s cannot have been coded any further", f->k,
                       gwi_wire_coding_name(f->coding));
    if (len < begin)
        return gw_fail(GW_ERR_DATA, "message of %zu bytes ends before its values", len);
    GWI_TRY(
        gwi_entropy_length(msg + begin, len - (size_t)begin, f->k, f->bits, &coded));
    parts->values_len = coded;
    parts->fixed_len = begin + coded;
    return GW_OK;
}

gw_status gwi_wire_open(gwi_wire_view *view, const uint8_t *msg, size_t len)
{
    GWI_TRY(get_header(&view->form, msg, len));
    GWI_TRY(get_group(&view->form, msg, len));
    GWI_TRY(gwi_wire_form_check(&view->form, GW_ERR_DATA));

    gwi_wire_parts parts = gwi_wire_form_parts(&view->form);
    GWI_TRY(get_values_len(&view->form, msg, len, &parts));
    GWI_TRY(check_len(&view->form, parts.fixed_len, len));
    view->scales = msg + GWI_WIRE_HEADER_LEN + parts.group_len;
    view->scale_count = (size_t)parts.scale_count;
    view->values = view->scales + 4 * view->scale_count;
    view->values_len = (size_t)parts.values_len;
    view->positions = msg + parts.fixed_len;
    view->positions_len = len - (size_t)parts.fixed_len;
    return check_values(view);
}

gw_status gwi_wire_expect(const gwi_wire_view *view, const gwi_wire_form *want)
{
    const gwi_wire_form *f = &view->form;

    if (f->kind != want->kind)
        return gw_fail(GW_ERR_DATA, "message is %s, expected %s",
                       gwi_wire_kind_name(f->kind), gwi_wire_kind_name(want->kind));
    if (f->n != want->n)
        return gw_fail(GW_ERR_DATA, "message is for n=%u floats, expected %u", f->n,
                       want->n);
    if (f->step != want->step)
        return gw_fail(GW_ERR_DATA, "message is from step %u, expected step %u",
                       f->step, want->step);
    if (f->coding != want->coding || f->bits != want->bits)
        return gw_fail(GW_ERR_DATA, "values are %s of %u bits, expected %s of %u",
                       gwi_wire_coding_name(f->coding), f->bits,
                       gwi_wire_coding_name(want->coding), want->bits);
    if (f->entropy && !want->entropy)
        return gw_fail(GW_ERR_DATA, "values are entropy-coded, expected as they are");
    if (gwi_wire_has_buckets(f->coding) && f->group != want->group)
        return gw_fail(GW_ERR_DATA, "buckets have %u entries, expected %u", f->group,
                       want->group);
    if (f->k > want->k)
        return gw_fail(GW_ERR_DATA, "message has %u values, expected at most %u", f->k,
                       want->k);
    return GW_OK;
}

gw_status gwi_wire_restore_values(gwi_wire_view *view, uint8_t *room)
{
    const gwi_wire_form *f = &view->form;

    if (!f->entropy)
        return GW_OK;
    GWI_TRY(gwi_entropy_decode(view->values, f->k, f->bits, room));
    view->values = room;
    view->values_len = gwi_entropy_cut_of(f->k, f->bits).len;
    return GW_OK;
}

bool gwi_wire_looks_like_note(const uint8_t *msg, size_t len)
{
    return len >= 2 && msg[1] == GWI_WIRE_NOTE;
}

gwi_wire_trouble gwi_wire_get_note(const gwi_wire_view *view)
{
    return (gwi_wire_trouble){gwi_read_u32le(view->values),
                              gwi_read_u32le(view->values + 4)};
}

void gwi_wire_start_positions(const gwi_wire_view *view, gwi_index_reader *reader)
{
    assert(view->form.kind == GWI_WIRE_SPARSE);
    gwi_index_start(reader, view->positions, view->positions_len, view->form.n,
                    view->form.k);
}

gw_status gwi_wire_get_positions(const gwi_wire_view *view, uint32_t *positions,
                                 size_t cap)
{
    gwi_index_reader reader;
    size_t count;

    if (view->form.k > cap)
        return gw_fail(GW_ERR_DATA,
                       "message has %u values, but there is room for only %zu",
                       view->form.k, cap);
    gwi_wire_start_positions(view, &reader);
    for (;;) {
        GWI_TRY(gwi_index_next(&reader, positions, &count));
        if (count == 0)
            return GW_OK;
        positions += count;
    }
}

gw_status gwi_wire_check(const uint8_t *msg, size_t len)
{
    uint32_t block[GWI_INDEX_BLOCK];
    gwi_index_reader reader;
    gwi_wire_view view;
    size_t count;

    GWI_TRY(gwi_wire_open(&view, msg, len));
    if (view.form.entropy)
        GWI_TRY(gwi_entropy_check(view.values, view.form.k, view.form.bits));
    if (view.form.kind != GWI_WIRE_SPARSE)
        return GW_OK;
    gwi_wire_start_positions(&view, &reader);
    do {
        GWI_TRY(gwi_index_next(&reader, block, &count));
    } while (count > 0);
    return GW_OK;
}

void gwi_wire_get_f32(float *to, const uint8_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = gwi_read_f32le(from + 4 * i);
}
