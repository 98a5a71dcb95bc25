/* SPDX-License-Identifier: Apache-2.0
 *
 * wire_form.h - which forms a message can have, and how long its parts then are.
 * Between the files of wire/ alone. */
#ifndef GWI_WIRE_FORM_H
#define GWI_WIRE_FORM_H

#include "wire/wire.h"

enum {
    /* The first byte of a message: the upper half says gradwire, the lower the
     * version. */
    GWI_WIRE_MAGIC = 0xd0,
    GWI_WIRE_GROUP_LEN = 4,
    /* Where the header has the bits of a value: they are coded once more. */
    GWI_WIRE_ENTROPY = 0x80
};

typedef struct gwi_wire_parts {
    uint64_t group_len, scale_count, values_len;
    uint64_t fixed_len; /* everything but the positions */
} gwi_wire_parts;

/* GW_OK if a message can have this form, otherwise `status` with a message. */
gw_status gwi_wire_form_check(const gwi_wire_form *form, gw_status status);

/* The lengths of the parts of a message of a form that was checked. */
gwi_wire_parts gwi_wire_form_parts(const gwi_wire_form *form);

/* The check that belongs into a message: of all its bytes but its own four. */
uint32_t gwi_wire_crc(const uint8_t *msg, size_t len);

/* Whether values of this coding come in buckets, each with a scale that is finite and
 * not negative; or with a group and scales at all. */
static inline bool gwi_wire_has_buckets(gwi_wire_coding coding)
{
    return coding == GWI_WIRE_LEVELS || coding == GWI_WIRE_SIGNS;
}

static inline bool gwi_wire_has_group(gwi_wire_coding coding)
{
    return gwi_wire_has_buckets(coding) || coding == GWI_WIRE_CENTRES;
}

/* "sparse", "levels"; "unknown" for a number that is none. */
const char *gwi_wire_kind_name(gwi_wire_kind kind);
const char *gwi_wire_coding_name(gwi_wire_coding coding);

#endif
