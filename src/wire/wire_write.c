/* SPDX-License-Identifier: Apache-2.0
 *
 * wire_write.c - the header, and where the parts of a message go. */
#include "kernels/crc32c.h"
#include "wire/wire_bytes.h"
#include "wire/wire_form.h"

#include <assert.h>

static void put_header(const gwi_wire_form *f, uint8_t *msg)
{
    msg[0] = GWI_WIRE_MAGIC | GWI_WIRE_VERSION;
    msg[1] = (uint8_t)f->kind;
    msg[2] = (uint8_t)f->coding;
    msg[3] = (uint8_t)f->bits;
    gwi_write_u32le(msg + 4, f->step);
    gwi_write_u32le(msg + 8, f->n);
    gwi_write_u32le(msg + 12, f->k);
    if (gwi_wire_has_group(f->coding))
        gwi_write_u32le(msg + GWI_WIRE_HEADER_LEN, f->group);
}

gw_status gwi_wire_begin(gwi_wire_writer *writer, const gwi_wire_form *form,
                         uint8_t *msg, size_t cap)
{
    GWI_TRY(gwi_wire_form_check(form, GW_ERR_ARG));
    size_t bound = gwi_wire_bound(form);
    if (cap < bound)
        return gw_fail(GW_ERR_SPACE,
                       "message may need %zu bytes, but the buffer has %zu", bound,
                       cap);

    gwi_wire_parts parts = gwi_wire_form_parts(form);
    writer->form = *form;
    writer->form.entropy = false;
    writer->header = msg;
    writer->scales = msg + GWI_WIRE_HEADER_LEN + parts.group_len;
    writer->scale_count = (size_t)parts.scale_count;
    writer->values = writer->scales + 4 * writer->scale_count;
    writer->values_len = (size_t)parts.values_len;
    writer->positions = msg + parts.fixed_len;
    writer->len = (size_t)parts.fixed_len;
    put_header(form, msg);
    return GW_OK;
}

size_t gwi_wire_values_room(const gwi_wire_form *form)
{
    return form->bits > 0 ? gwi_entropy_room(form->k, form->bits) : 0;
}

void gwi_wire_shorten_values(gwi_wire_writer *writer, uint8_t *room)
{
    const gwi_wire_form *f = &writer->form;
    size_t len = gwi_entropy_encode(writer->values, f->k, f->bits, room);

    assert(f->bits > 0);
    if (len == 0)
        return;
    gwi_entropy_store(room, f->k, f->bits, writer->values);
    writer->form.entropy = true;
    writer->header[GWI_WIRE_BITS_AT] |= GWI_WIRE_ENTROPY;
    writer->len -= writer->values_len - len;
    writer->positions = writer->values + len;
    writer->values_len = len;
}

gw_status gwi_wire_put_positions(gwi_wire_writer *writer, const uint32_t *positions)
{
    const gwi_wire_form *f = &writer->form;
    size_t len = 0;

    assert(f->kind == GWI_WIRE_SPARSE);
    GWI_TRY(gwi_index_encode(positions, f->k, f->n, writer->positions, &len));
    writer->len += len;
    return GW_OK;
}

uint32_t gwi_wire_crc(const uint8_t *msg, size_t len)
{
    uint32_t head = gwi_crc32c(0, msg, GWI_WIRE_CHECK_AT);

    return gwi_crc32c(head, msg + GWI_WIRE_HEADER_LEN, len - GWI_WIRE_HEADER_LEN);
}

void gwi_wire_seal(uint8_t *msg, size_t len)
{
    assert(len >= GWI_WIRE_HEADER_LEN);
    gwi_write_u32le(msg + GWI_WIRE_CHECK_AT, gwi_wire_crc(msg, len));
}

void gwi_wire_put_note(uint8_t *msg, uint32_t n, uint32_t step, gwi_wire_trouble note)
{
    put_header(&(gwi_wire_form){.kind = GWI_WIRE_NOTE, .n = n, .step = step}, msg);
    gwi_write_u32le(msg + GWI_WIRE_HEADER_LEN, note.worker);
    gwi_write_u32le(msg + GWI_WIRE_HEADER_LEN + 4, note.tensor);
    gwi_wire_seal(msg, GWI_WIRE_NOTE_LEN);
}

void gwi_wire_put_f32(uint8_t *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        gwi_write_f32le(to + 4 * i, from[i]);
}
