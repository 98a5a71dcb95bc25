/* SPDX-License-Identifier: Apache-2.0
 *
 * source.c - reads files, and memory that stands for one. */
#define _GNU_SOURCE
#include "files/source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

gw_status gwt_source_open(gwt_source *out, const char *path)
{
    struct stat info;

    *out = (gwt_source){.name = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (out->fd < 0 || fstat(out->fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        gw_status st =
            gw_fail(GW_ERR_SYSTEM, "cannot read %s: %s", path,
                    out->fd < 0 ? strerror(errno) : "it is not a regular file");
        gwt_source_close(out);
        return st;
    }
    out->len = (uint64_t)info.st_size;
    return GW_OK;
}

gwt_source gwt_source_over(const char *name, const void *bytes, uint64_t len)
{
    return (gwt_source){.name = name, .fd = -1, .bytes = bytes, .len = len};
}

void gwt_source_close(gwt_source *source)
{
    if (source->fd >= 0)
        close(source->fd);
    *source = (gwt_source){.fd = -1};
}

gw_status gwt_source_read(const gwt_source *source, uint64_t at, void *to, size_t len)
{
    char *end = to;

    if (source->fd < 0) {
        memcpy(to, source->bytes + at, len);
        return GW_OK;
    }
    while (len > 0) {
        ssize_t got = pread(source->fd, end, len, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return gw_fail(GW_ERR_SYSTEM, "cannot read %s: %s", source->name,
                           strerror(errno));
        if (got == 0)
            return gw_fail(GW_ERR_DATA, "%s became shorter while it was read",
                           source->name);
        end += got;
        at += (uint64_t)got;
        len -= (size_t)got;
    }
    return GW_OK;
}
