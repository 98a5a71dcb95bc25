/* SPDX-License-Identifier: Apache-2.0
 *
 * idx.c - parses IDX files. Nothing in them is trusted before it is checked. */
#include "data/idx.h"

#include <string.h>

enum { TYPE_UBYTE = 8, WORD = 4 };

static size_t big_endian(const uint8_t b[WORD])
{
    return (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | (size_t)b[3];
}

static gw_status cut_short(const char *path, const char *part)
{
    return gw_fail(GW_ERR_DATA, "%s is cut short in its %s; download it again", path,
                   part);
}

static gw_status read_header(gwt_idx *out, const uint8_t *at, size_t len, size_t dims,
                             const char *path)
{
    if (len == 0)
        return gw_fail(GW_ERR_DATA, "%s is empty; download it again", path);
    if (len < WORD)
        return cut_short(path, "header");
    if (at[0] != 0 || at[1] != 0 || at[2] != TYPE_UBYTE || at[3] != dims)
        return gw_fail(GW_ERR_DATA,
                       "%s begins with %02x%02x%02x%02x instead of 0000%02x%02zx; it "
                       "is not the IDX file expected here",
                       path, at[0], at[1], at[2], at[3], TYPE_UBYTE, dims);
    if (len < WORD * (1 + dims))
        return cut_short(path, "header");
    out->dims = dims;
    for (size_t i = 0; i < dims; i++)
        out->dim[i] = big_endian(at + WORD * (1 + i));
    return GW_OK;
}

/* The number of elements, if it is not absurd. */
static gw_status count_elements(const gwt_idx *idx, const char *path, size_t *total)
{
    *total = 1;
    for (size_t i = 0; i < idx->dims; i++) {
        if (idx->dim[i] == 0 || idx->dim[i] > ((size_t)1 << 40) / *total)
            return gw_fail(GW_ERR_DATA, "%s has an invalid size %zu in dimension %zu",
                           path, idx->dim[i], i);
        *total *= idx->dim[i];
    }
    return GW_OK;
}

gw_status gwt_idx_parse(gwt_idx *out, const uint8_t *at, size_t len, size_t dims,
                        const char *path)
{
    size_t total, header = WORD * (1 + dims);

    memset(out, 0, sizeof *out);
    GWT_TRY(read_header(out, at, len, dims, path));
    GWT_TRY(count_elements(out, path, &total));
    if (len - header < total)
        return cut_short(path, "elements");
    if (len - header > total)
        return gw_fail(
            GW_ERR_DATA,
            "%s is longer than its header says, which announces %zu elements", path,
            total);
    out->at = at + header;
    return GW_OK;
}
