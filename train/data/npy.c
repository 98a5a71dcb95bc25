/* SPDX-License-Identifier: Apache-2.0
 *
 * npy.c - understands arrays of numpy. Nothing in them is believed before it is
 * checked. */
#include "data/npy.h"

#include <stdio.h>
#include <string.h>

enum { MAGIC = 6, HEADER_MAX = 65536 };

/* The text of the header, while it is read. */
typedef struct header {
    const char *at, *end;
    const char *path;
} header;

static gw_status fail_header(const header *h, const char *what)
{
    return gw_fail(GW_ERR_DATA, "%s: cannot read the header of this array: %s", h->path,
                   what);
}

static void skip_blanks(header *h)
{
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\n'))
        h->at++;
}

/* Whether this character comes next; skips it if so. */
static int take(header *h, char c)
{
    skip_blanks(h);
    if (h->at == h->end || *h->at != c)
        return 0;
    h->at++;
    return 1;
}

/* A text in quotes, without them; NULL if there is none. */
static const char *take_text(header *h, size_t *len)
{
    skip_blanks(h);
    *len = 0;
    if (h->at == h->end || (*h->at != '\'' && *h->at != '"'))
        return NULL;
    const char *from = h->at + 1;
    const char *to = memchr(from, *h->at, (size_t)(h->end - from));
    if (to == NULL)
        return NULL;
    *len = (size_t)(to - from);
    h->at = to + 1;
    return from;
}

static int is_text(const char *text, size_t len, const char *want)
{
    return text != NULL && len == strlen(want) && memcmp(text, want, len) == 0;
}

static gw_status read_type(header *h, gwt_npy *out)
{
    static const char *const known[] = {"|u1", "|i1", "<u2", "<i2", "<u4", "<i4",
                                        "<u8", "<i8", "<f4", "<f8", "|b1"};
    size_t len;
    const char *text = take_text(h, &len);

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (is_text(text, len, known[i])) {
            out->kind = text[1] == 'b' ? 'u' : text[1];
            out->bytes = (size_t)(text[2] - '0');
            return GW_OK;
        }
    if (text == NULL)
        return fail_header(h, "'descr' is not one type");
    return gw_fail(
        GW_ERR_DATA,
        "%s has elements of type '%.*s'; save it as uint8, float32 or int64: "
        "x.astype(numpy.float32)",
        h->path, len < 20 ? (int)len : 20, text);
}

static gw_status read_order(header *h)
{
    skip_blanks(h);
    if ((size_t)(h->end - h->at) >= 5 && memcmp(h->at, "False", 5) == 0) {
        h->at += 5;
        return GW_OK;
    }
    if ((size_t)(h->end - h->at) >= 4 && memcmp(h->at, "True", 4) == 0)
        return gw_fail(GW_ERR_DATA,
                       "%s is in Fortran order; save numpy.ascontiguousarray(x)",
                       h->path);
    return fail_header(h, "'fortran_order' is neither True nor False");
}

/* Digits; at most about 10^18. */
static gw_status read_size(header *h, size_t *out)
{
    const char *from;

    skip_blanks(h);
    from = h->at;
    for (*out = 0; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++)
        if (h->at - from < 18)
            *out = 10 * *out + (size_t)(*h->at - '0');
    if (h->at == from || h->at - from > 17)
        return fail_header(h, "'shape' is not a list of sizes");
    return GW_OK;
}

/* (), (60000,) or (60000, 28, 28). */
static gw_status read_shape(header *h, gwt_npy *out)
{
    if (!take(h, '('))
        return fail_header(h, "'shape' is not a list of sizes");
    for (out->dims = 0; !take(h, ')'); out->dims++) {
        if (out->dims == GWT_NPY_DIMS_MAX)
            return gw_fail(GW_ERR_DATA, "%s has more than %d dimensions", h->path,
                           GWT_NPY_DIMS_MAX);
        GWT_TRY(read_size(h, &out->dim[out->dims]));
        if (!take(h, ',') && (h->at == h->end || *h->at != ')'))
            return fail_header(h, "'shape' is not a list of sizes");
    }
    return GW_OK;
}

/* {'descr': ..., 'fortran_order': ..., 'shape': ..., } in any order. */
static gw_status read_header(header *h, gwt_npy *out)
{
    unsigned seen = 0;
    size_t len;

    if (!take(h, '{'))
        return fail_header(h, "it does not begin with '{'");
    while (!take(h, '}')) {
        const char *key = take_text(h, &len);
        if (key == NULL || !take(h, ':'))
            return fail_header(h, "a name and ':' are expected");
        unsigned bit = is_text(key, len, "descr")           ? 1
                       : is_text(key, len, "fortran_order") ? 2
                       : is_text(key, len, "shape")         ? 4
                                                            : 0;
        if (bit == 0 || (seen & bit) != 0)
            return fail_header(h, "it has an unknown name, or a name twice");
        seen |= bit;
        GWT_TRY(bit == 1   ? read_type(h, out)
                : bit == 2 ? read_order(h)
                           : read_shape(h, out));
        (void)take(h, ',');
    }
    return seen == 7 ? GW_OK : fail_header(h, "a name is missing");
}

/* The number of elements, if it is not absurd. */
static gw_status count_elements(gwt_npy *out, const char *path)
{
    out->count = 1;
    for (size_t i = 0; i < out->dims; i++) {
        if (out->dim[i] == 0 || out->dim[i] > ((size_t)1 << 40) / out->count)
            return gw_fail(GW_ERR_DATA, "%s has an invalid size %zu in dimension %zu",
                           path, out->dim[i], i);
        out->count *= out->dim[i];
    }
    if (out->dims == 0)
        return gw_fail(GW_ERR_DATA, "%s is one number, not an array", path);
    return GW_OK;
}

/* Where the header begins, and its length. */
static gw_status find_header(const uint8_t *at, size_t len, const char *path,
                             size_t *begin, size_t *header_len)
{
    static const uint8_t magic[MAGIC] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

    if (len < MAGIC + 4 || memcmp(at, magic, MAGIC) != 0)
        return gw_fail(GW_ERR_DATA, "%s is not an array of numpy (.npy)", path);
    if (at[6] < 1 || at[6] > 3)
        return gw_fail(GW_ERR_DATA, "%s has version %d of .npy; expected 1, 2 or 3",
                       path, at[6]);
    *begin = at[6] == 1 ? MAGIC + 4 : MAGIC + 6;
    if (len < *begin)
        return gw_fail(GW_ERR_DATA, "%s is cut short in its header", path);
    *header_len = at[8] | (size_t)at[9] << 8;
    if (at[6] > 1)
        *header_len |= (size_t)at[10] << 16 | (size_t)at[11] << 24;
    if (*header_len > HEADER_MAX || *header_len > len - *begin)
        return gw_fail(GW_ERR_DATA, "%s is cut short in its header", path);
    return GW_OK;
}

gw_status gwt_npy_parse(gwt_npy *out, const uint8_t *at, size_t len, const char *path)
{
    size_t begin = 0, header_len = 0;

    memset(out, 0, sizeof *out);
    GWT_TRY(find_header(at, len, path, &begin, &header_len));
    const char *text = (const char *)at + begin;
    header h = {.at = text, .end = text + header_len, .path = path};
    GWT_TRY(read_header(&h, out));
    GWT_TRY(count_elements(out, path));
    size_t have = len - begin - header_len, want = out->count * out->bytes;
    if (have != want)
        return gw_fail(GW_ERR_DATA,
                       "%s has %zu bytes of elements, but its shape needs %zu", path,
                       have, want);
    out->at = at + begin + header_len;
    return GW_OK;
}

/* ---- elements ----------------------------------------------------------------------
 */

static uint64_t word(const uint8_t *at, size_t bytes)
{
    uint64_t x = 0;

    for (size_t i = 0; i < bytes; i++)
        x |= (uint64_t)at[i] << 8 * i;
    return x;
}

double gwt_npy_number(const gwt_npy *array, size_t i)
{
    uint64_t bits = word(array->at + i * array->bytes, array->bytes);
    uint64_t sign = UINT64_C(1) << (8 * array->bytes - 1);
    uint32_t half = (uint32_t)bits;
    float small;
    double large;

    if (array->kind == 'f' && array->bytes == 4) {
        memcpy(&small, &half, sizeof small);
        return (double)small;
    }
    if (array->kind == 'f') {
        memcpy(&large, &bits, sizeof large);
        return large;
    }
    /* A number below 0 has its sign bit set: what is missing to 2^bits. */
    if (array->kind == 'i' && (bits & sign) != 0)
        return -(double)((~bits & (sign | (sign - 1))) + 1);
    return (double)bits;
}
