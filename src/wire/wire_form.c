/* SPDX-License-Identifier: Apache-2.0
 *
 * wire_form.c - which forms a message can have, how long it then is. */
#include "wire/wire_form.h"

/* Of a bucket, as in kernels/levels.h. */
enum { BUCKET_UNIT = 8, BUCKET_MAX = 1 << 30 };

/* What the codings of values are like. */
static const struct coding {
    const char *name;
    unsigned least_bits, most_bits; /* of a value; 0: not in bits */
    unsigned bytes;                 /* of a value that is not */
} codings[] = {
    [GWI_WIRE_F32] = {.name = "f32", .bytes = 4},
    [GWI_WIRE_BF16] = {.name = "bf16", .bytes = 2},
    [GWI_WIRE_LEVELS] = {.name = "levels", .least_bits = 2, .most_bits = 8},
    [GWI_WIRE_CENTRES] = {.name = "centres", .least_bits = 1, .most_bits = 2},
    [GWI_WIRE_SIGNS] = {.name = "signs", .least_bits = 1, .most_bits = 1},
};

static bool is_known(gwi_wire_coding coding)
{
    return (size_t)coding < sizeof codings / sizeof *codings;
}

const char *gwi_wire_kind_name(gwi_wire_kind kind)
{
    switch (kind) {
    case GWI_WIRE_DENSE:
        return "dense";
    case GWI_WIRE_SPARSE:
        return "sparse";
    case GWI_WIRE_NOTE:
        return "note";
    }
    return "unknown";
}

const char *gwi_wire_coding_name(gwi_wire_coding coding)
{
    return is_known(coding) ? codings[coding].name : "unknown";
}

static gw_status check_count(const gwi_wire_form *f, gw_status status)
{
    switch (f->kind) {
    case GWI_WIRE_DENSE:
        return f->k == f->n
                   ? GW_OK
                   : gw_fail(status, "dense message of n=%u has %u values", f->n, f->k);
    case GWI_WIRE_SPARSE:
        return f->k <= f->n ? GW_OK
                            : gw_fail(status, "sparse message of n=%u has %u values",
                                      f->n, f->k);
    case GWI_WIRE_NOTE:
        return f->k == 0 && f->coding == GWI_WIRE_F32
                   ? GW_OK
                   : gw_fail(status, "a note has %u values of %s, not 0 of f32", f->k,
                             gwi_wire_coding_name(f->coding));
    }
    return gw_fail(status, "kind %u of message is not known", (unsigned)f->kind);
}

/* Two bits are a sign and choose between two centres, or choose one of four. One bit
 * has one for all values, or one for each matrix column that has a value: never more
 * than there are values. */
static gw_status check_centres(const gwi_wire_form *f, gw_status status)
{
    uint32_t most = f->k > 1 ? f->k : 1, least = f->k > 0;
    bool fits = f->bits == 2 ? f->group == 2 || f->group == 4
                             : f->group >= least && f->group <= most;

    if (!fits)
        return gw_fail(status, "%u centres for %u values of %u bits", f->group, f->k,
                       f->bits);
    return GW_OK;
}

static gw_status check_group(const gwi_wire_form *f, gw_status status)
{
    if (f->coding == GWI_WIRE_CENTRES)
        return check_centres(f, status);
    if (gwi_wire_has_buckets(f->coding) &&
        (f->group == 0 || f->group % BUCKET_UNIT != 0 || f->group > BUCKET_MAX))
        return gw_fail(status, "bucket of %u entries: not a multiple of %d up to 2^30",
                       f->group, BUCKET_UNIT);
    if (!gwi_wire_has_group(f->coding) && f->group != 0)
        return gw_fail(status, "group %u with values of %s", f->group,
                       gwi_wire_coding_name(f->coding));
    return GW_OK;
}

static gw_status check_coding(const gwi_wire_form *f, gw_status status)
{
    if (!is_known(f->coding))
        return gw_fail(status, "coding %u of values is not known", (unsigned)f->coding);
    unsigned low = codings[f->coding].least_bits, high = codings[f->coding].most_bits;
    if (f->bits < low || f->bits > high)
        return gw_fail(status, "%s of %u bits, not %u to %u",
                       gwi_wire_coding_name(f->coding), f->bits, low, high);
    return GW_OK;
}

gw_status gwi_wire_form_check(const gwi_wire_form *form, gw_status status)
{
    GWI_TRY(check_coding(form, status));
    GWI_TRY(check_count(form, status));
    return check_group(form, status);
}

gwi_wire_parts gwi_wire_form_parts(const gwi_wire_form *form)
{
    gwi_wire_parts parts = {0, 0, 0, 0};
    uint64_t k = form->k;

    parts.values_len = k * codings[form->coding].bytes + (k * form->bits + 7) / 8;
    if (gwi_wire_has_buckets(form->coding))
        parts.scale_count = (k + form->group - 1) / form->group;
    else if (form->coding == GWI_WIRE_CENTRES)
        parts.scale_count = form->group;
    parts.group_len = gwi_wire_has_group(form->coding) ? GWI_WIRE_GROUP_LEN : 0;
    if (form->kind == GWI_WIRE_NOTE)
        parts.values_len = GWI_WIRE_NOTE_LEN - GWI_WIRE_HEADER_LEN;
    parts.fixed_len = GWI_WIRE_HEADER_LEN + parts.group_len + 4 * parts.scale_count +
                      parts.values_len;
    return parts;
}

size_t gwi_wire_bound(const gwi_wire_form *form)
{
    uint64_t len;

    if (gwi_wire_form_check(form, GW_ERR_ARG) != GW_OK)
        return 0;
    len = gwi_wire_form_parts(form).fixed_len;
    if (form->kind == GWI_WIRE_SPARSE)
        len += gwi_index_bound(form->n, form->k);
    /* On a machine of 32 bits: more than any buffer has. */
    return len < SIZE_MAX ? (size_t)len : SIZE_MAX;
}
