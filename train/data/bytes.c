/* SPDX-License-Identifier: Apache-2.0
 *
 * bytes.c - reads a data file. The file is not trusted: a gzipped file is unpacked in
 * pieces, so that it needs no more memory than it has data. */
#define _GNU_SOURCE
#include "data/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { PIECE = 1 << 20 };

static gw_status cannot_read(const char *path)
{
    return gw_fail(GW_ERR_SYSTEM, "cannot read %s: %s", path,
                   errno != 0 ? strerror(errno) : "no memory");
}

/* ---- plain files ------------------------------------------------------------- */

static gw_status map_file(gwt_bytes *out, int fd, size_t len, const char *path)
{
    if (len == 0)
        return GW_OK;
    void *at = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        return cannot_read(path);
    *out = (gwt_bytes){.at = at, .len = len, .owned = at, .mapped = 1};
    return GW_OK;
}

/* ---- gzipped files ----------------------------------------------------------- */

/* Reports why zlib stopped: the file is damaged or cut short. */
static gw_status zlib_failed(gzFile file, const char *path)
{
    int code = Z_OK;
    const char *text = gzerror(file, &code);

    if (code == Z_ERRNO)
        return cannot_read(path);
    if (code == Z_BUF_ERROR)
        return gw_fail(GW_ERR_DATA, "%s is cut short; download it again", path);
    return gw_fail(GW_ERR_DATA, "%s is damaged (%s); download it again", path, text);
}

static gw_status grow(gwt_bytes *out, size_t *cap)
{
    size_t more = *cap == 0 ? PIECE : 2 * *cap;
    uint8_t *bigger = gwt_calloc(more, 1, "a data file");

    if (bigger == NULL)
        return GW_ERR_NOMEM;
    if (out->len > 0)
        memcpy(bigger, out->owned, out->len);
    gwt_free(out->owned);
    out->at = out->owned = bigger;
    *cap = more;
    return GW_OK;
}

static gw_status unpack(gwt_bytes *out, gzFile file, const char *path)
{
    size_t cap = 0;

    for (;;) {
        if (out->len == cap)
            GWT_TRY(grow(out, &cap));
        size_t want = cap - out->len < PIECE ? cap - out->len : PIECE;
        int got = gzread(file, (uint8_t *)out->owned + out->len, (unsigned)want);
        if (got < 0)
            return zlib_failed(file, path);
        if (got == 0)
            return GW_OK;
        out->len += (size_t)got;
    }
}

/* Takes fd over. */
static gw_status unpack_file(gwt_bytes *out, int fd, const char *path)
{
    gw_status st;

    errno = 0;
    gzFile file = gzdopen(fd, "rb");
    if (file == NULL) {
        close(fd);
        return cannot_read(path);
    }
    st = unpack(out, file, path);
    /* Z_BUF_ERROR: the stream ends before its own end mark. */
    if (gzclose(file) == Z_BUF_ERROR && st == GW_OK)
        st = gw_fail(GW_ERR_DATA, "%s is cut short; download it again", path);
    return st;
}

/* ---- either -------------------------------------------------------------------- */

static gw_status open_regular(const char *path, int *fd, size_t *len)
{
    struct stat info;

    /* Does not wait for the other end of a pipe. */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return cannot_read(path);
    if (fstat(*fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(*fd);
        return gw_fail(GW_ERR_SYSTEM, "cannot read %s: it is not a regular file", path);
    }
    *len = (size_t)info.st_size;
    return GW_OK;
}

gw_status gwt_bytes_load(gwt_bytes *out, const char *path)
{
    uint8_t magic[2] = {0, 0};
    size_t len = 0;
    gw_status st;
    int fd;

    memset(out, 0, sizeof *out);
    GWT_TRY(open_regular(path, &fd, &len));
    if (pread(fd, magic, 2, 0) < 0) {
        st = cannot_read(path);
        close(fd);
        return st;
    }
    if (magic[0] == 0x1f && magic[1] == 0x8b) {
        st = unpack_file(out, fd, path);
    } else {
        st = map_file(out, fd, len, path);
        close(fd);
    }
    if (st != GW_OK)
        gwt_bytes_free(out);
    return st;
}

void gwt_bytes_free(gwt_bytes *bytes)
{
    if (bytes->mapped)
        munmap(bytes->owned, bytes->len);
    else
        gwt_free(bytes->owned);
    memset(bytes, 0, sizeof *bytes);
}
