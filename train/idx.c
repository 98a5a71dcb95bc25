/* SPDX-License-Identifier: Apache-2.0
 *
 * idx.c - reads IDX files. zlib reads both plain and gzipped files, so nothing
 * here depends on which it is. Nothing in the file is believed before it is
 * checked; the elements are read in pieces, so that a header which promises
 * terabytes costs no more memory than the file has data. */
#define _GNU_SOURCE
#include "idx.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { TYPE_UBYTE = 8, PIECE = 1 << 20 };

/* Says why a read came up short: damage noticed by zlib, or simply the end. */
static gw_status short_read(gzFile file, const char *path, const char *part)
{
    int code = Z_OK;
    const char *text = gzerror(file, &code);

    if (code == Z_ERRNO)
        return gw_fail(GW_ERR_SYSTEM, "cannot read %s: %s", path, strerror(errno));
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        return gw_fail(GW_ERR_DATA, "%s is damaged (%s); get it again", path, text);
    return gw_fail(GW_ERR_DATA, "%s is cut short in its %s; get it again", path, part);
}

static size_t big_endian(const uint8_t b[4])
{
    return (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | (size_t)b[3];
}

static gw_status read_header(gzFile file, const char *path, size_t dims, gwt_idx *out)
{
    uint8_t magic[4], word[4];

    if (gzread(file, magic, 4) != 4)
        return short_read(file, path, "header");
    if (magic[0] != 0 || magic[1] != 0 || magic[2] != TYPE_UBYTE || magic[3] != dims)
        return gw_fail(GW_ERR_DATA,
                       "%s begins with %02x%02x%02x%02x, not with 0000%02x%02zx: it is "
                       "not the IDX file expected here",
                       path, magic[0], magic[1], magic[2], magic[3], TYPE_UBYTE, dims);
    out->dims = dims;
    for (size_t i = 0; i < dims; i++) {
        if (gzread(file, word, 4) != 4)
            return short_read(file, path, "header");
        out->dim[i] = big_endian(word);
    }
    return GW_OK;
}

/* The number of elements, if it is not absurd. */
static gw_status count_elements(const gwt_idx *idx, const char *path, size_t *total)
{
    *total = 1;
    for (size_t i = 0; i < idx->dims; i++) {
        if (idx->dim[i] == 0 || idx->dim[i] > ((size_t)1 << 40) / *total)
            return gw_fail(GW_ERR_DATA,
                           "%s has an impossible size %zu in dimension %zu", path,
                           idx->dim[i], i);
        *total *= idx->dim[i];
    }
    return GW_OK;
}

/* Doubles the buffer when it is full, up to what the header promised. */
static gw_status grow(uint8_t **at, size_t used, size_t *cap, size_t total)
{
    size_t more = *cap == 0 ? PIECE : 2 * *cap;
    uint8_t *bigger;

    more = more < total ? more : total;
    bigger = gwt_calloc(more, 1, "a data file");
    if (bigger == NULL)
        return GW_ERR_NOMEM;
    if (used > 0)
        memcpy(bigger, *at, used);
    gwt_free(*at);
    *at = bigger;
    *cap = more;
    return GW_OK;
}

static gw_status read_elements(gzFile file, const char *path, size_t total,
                               uint8_t **at)
{
    size_t used = 0, cap = 0;

    while (used < total) {
        if (used == cap)
            GWT_TRY(grow(at, used, &cap, total));
        size_t want = cap - used < PIECE ? cap - used : PIECE;
        int got = gzread(file, *at + used, (unsigned)want);
        if (got <= 0 || (size_t)got < want)
            return short_read(file, path, "elements");
        used += (size_t)got;
    }
    /* Reading on makes zlib check the sum at the end of a gzipped file. */
    uint8_t extra;
    int got = gzread(file, &extra, 1);
    if (got < 0)
        return short_read(file, path, "end");
    if (got > 0)
        return gw_fail(GW_ERR_DATA, "%s goes on after the %zu elements it announces",
                       path, total);
    return GW_OK;
}

static gw_status read_all(gwt_idx *out, gzFile file, const char *path, size_t dims)
{
    size_t total;

    GWT_TRY(read_header(file, path, dims, out));
    GWT_TRY(count_elements(out, path, &total));
    return read_elements(file, path, total, &out->at);
}

static gw_status check_regular(const char *path)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return gw_fail(GW_ERR_SYSTEM, "cannot read %s: it is not a file", path);
    return GW_OK;
}

gw_status gwt_idx_read(gwt_idx *out, const char *path, size_t dims)
{
    gw_status st;

    memset(out, 0, sizeof *out);
    GWT_TRY(check_regular(path));
    gzFile file = gzopen(path, "rb");
    if (file == NULL)
        return gw_fail(GW_ERR_SYSTEM, "cannot read %s: %s", path,
                       errno != 0 ? strerror(errno) : "no memory");
    st = read_all(out, file, path, dims);
    /* Z_BUF_ERROR: the gzip stream ends before its own end mark. */
    if (gzclose(file) == Z_BUF_ERROR && st == GW_OK)
        st = gw_fail(GW_ERR_DATA, "%s is cut short in its end; get it again", path);
    if (st != GW_OK) {
        gwt_free(out->at);
        out->at = NULL;
    }
    return st;
}
