/* SPDX-License-Identifier: Apache-2.0
 *
 * zip.c - finds a file in a zip archive, as numpy.savez() writes it: members that are
 * stored, or deflated by zlib. All numbers are little-endian.
 *
 *     member    "PK\3\4" ... its name, an extra field, its bytes      (any number)
 *     list      "PK\1\2" ... method, checksum, sizes, where the member begins
 *     end       "PK\5\6" ... how many are in the list, where the list begins
 *
 * Sizes are those of the list. Nothing is believed: everything must lie in the file,
 * and no member may unpack to more than deflate can pack. */
#include "data/npy.h"

#include <string.h>
#include <zlib.h>

enum { END_LEN = 22, ENTRY_LEN = 46, LOCAL_LEN = 30, COMMENT_MAX = 65535 };

/* Deflate codes at best 258 bytes with 2 bits. */
enum { RATIO_MAX = 1032, RATIO_MORE = 64 };

typedef struct member {
    unsigned method, flags;
    uint32_t checksum;
    size_t packed, len, begin;
} member;

static size_t number(const uint8_t *at, size_t bytes)
{
    size_t x = 0;

    for (size_t i = 0; i < bytes; i++)
        x |= (size_t)at[i] << 8 * i;
    return x;
}

static gw_status damaged(const char *path)
{
    return gw_fail(GW_ERR_DATA,
                   "%s is not a good .npz file: it is cut short or damaged", path);
}

/* The end of the archive; a comment may follow it. NULL if there is none. */
static const uint8_t *find_end(const uint8_t *at, size_t len)
{
    for (size_t back = END_LEN; back <= len && back <= END_LEN + COMMENT_MAX; back++)
        if (memcmp(at + len - back, "PK\5\6", 4) == 0)
            return at + len - back;
    return NULL;
}

static member member_of(const uint8_t *entry)
{
    return (member){.flags = (unsigned)number(entry + 8, 2),
                    .method = (unsigned)number(entry + 10, 2),
                    .checksum = (uint32_t)number(entry + 16, 4),
                    .packed = number(entry + 20, 4),
                    .len = number(entry + 24, 4),
                    .begin = number(entry + 42, 4)};
}

/* Looks for the name in the list. */
static gw_status find_member(const uint8_t *at, size_t len, const char *name,
                             const char *path, member *out)
{
    const uint8_t *end = find_end(at, len);

    if (end == NULL)
        return damaged(path);
    size_t count = number(end + 10, 2), list = number(end + 16, 4);
    for (size_t i = 0; i < count; i++) {
        if (list > len || len - list < ENTRY_LEN || memcmp(at + list, "PK\1\2", 4) != 0)
            return damaged(path);
        const uint8_t *entry = at + list;
        size_t name_len = number(entry + 28, 2);
        size_t rest = name_len + number(entry + 30, 2) + number(entry + 32, 2);
        if (len - list - ENTRY_LEN < rest)
            return damaged(path);
        *out = member_of(entry);
        if (name_len == strlen(name) && memcmp(entry + ENTRY_LEN, name, name_len) == 0)
            return GW_OK;
        list += ENTRY_LEN + rest;
    }
    return gw_fail(GW_ERR_DATA, "%s has no array %s", path, name);
}

/* Unpacks it into memory of its length. */
static gw_status inflate_member(gwt_bytes *out, const uint8_t *from, const member *m,
                                const char *path)
{
    z_stream z = {.next_in = (uint8_t *)(uintptr_t)from, .avail_in = (uInt)m->packed};
    uint8_t *to = gwt_calloc(m->len, 1, "an array");

    if (to == NULL)
        return GW_ERR_NOMEM;
    *out = (gwt_bytes){.at = to, .len = m->len, .owned = to};
    z.next_out = to;
    z.avail_out = (uInt)m->len;
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
        return gw_fail(GW_ERR_NOMEM, "no memory to unpack %s", path);
    int code = inflate(&z, Z_FINISH);
    int whole = code == Z_STREAM_END && z.total_out == m->len && z.avail_in == 0;
    inflateEnd(&z);
    return whole ? GW_OK : damaged(path);
}

/* Where the bytes of the member begin; its own header has a length of its own. */
static gw_status find_bytes(const uint8_t *at, size_t len, const member *m,
                            const char *path, const uint8_t **out)
{
    if (m->len == UINT32_MAX || m->packed == UINT32_MAX || m->begin == UINT32_MAX)
        return gw_fail(GW_ERR_DATA,
                       "%s has an array of 4 GB or more; save each one with "
                       "numpy.save() and use npy:DIR",
                       path);
    if (m->begin > len || len - m->begin < LOCAL_LEN ||
        memcmp(at + m->begin, "PK\3\4", 4) != 0)
        return damaged(path);
    const uint8_t *local = at + m->begin;
    size_t skip = LOCAL_LEN + number(local + 26, 2) + number(local + 28, 2);
    if (len - m->begin < skip || len - m->begin - skip < m->packed)
        return damaged(path);
    *out = local + skip;
    return GW_OK;
}

/* crc32() takes pieces of less than 4 GB, which members are. */
static gw_status unpack(gwt_bytes *out, const uint8_t *at, size_t len, const member *m,
                        const char *path)
{
    const uint8_t *from = NULL;

    GWT_TRY(find_bytes(at, len, m, path, &from));
    if ((m->flags & 1) != 0 || (m->method != 0 && m->method != Z_DEFLATED))
        return gw_fail(GW_ERR_DATA,
                       "%s is encrypted or packed by another method than "
                       "numpy.savez_compressed()",
                       path);
    if (m->len == 0 || (m->method == 0 && m->len != m->packed) ||
        m->len > RATIO_MAX * m->packed + RATIO_MORE)
        return damaged(path);
    if (m->method == 0)
        *out = (gwt_bytes){.at = from, .len = m->len};
    else
        GWT_TRY(inflate_member(out, from, m, path));
    if (crc32(0, out->at, (uInt)out->len) != m->checksum)
        return damaged(path);
    return GW_OK;
}

gw_status gwt_zip_find(gwt_bytes *out, const uint8_t *at, size_t len, const char *name,
                       const char *path)
{
    member m = {0};
    gw_status st;

    memset(out, 0, sizeof *out);
    GWT_TRY(find_member(at, len, name, path, &m));
    st = unpack(out, at, len, &m, path);
    if (st != GW_OK)
        gwt_bytes_free(out);
    return st;
}
