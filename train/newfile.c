/* SPDX-License-Identifier: Apache-2.0
 *
 * newfile.c - files that appear whole or not at all. */
#define _GNU_SOURCE
#include "newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* So much may wait in memory for the disk. Otherwise the end of a large file would
 * be one long silence, in which the other workers lose patience. */
enum { SYNC_BYTES = 32 << 20 };

static gw_status cannot_write(const gwt_newfile *file)
{
    return gw_fail(GW_ERR_SYSTEM, "cannot write %s: %s", file->path, strerror(errno));
}

gw_status gwt_newfile_open(gwt_newfile *file, const char *path, const char *partial)
{
    int n = snprintf(file->path, sizeof file->path, "%s", path);

    file->fd = -1;
    file->unsynced = 0;
    if (n < 0 || n + 16 > GWT_FILE_CAP)
        return gw_fail(GW_ERR_ARG, "the name %.64s... is too long", path);
    if (partial != NULL)
        snprintf(file->partial, sizeof file->partial, "%s", partial);
    else
        snprintf(file->partial, sizeof file->partial, "%.*s.partial", n, file->path);
    file->fd = open(file->partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return file->fd < 0 ? cannot_write(file) : GW_OK;
}

gw_status gwt_newfile_add(gwt_newfile *file, const void *bytes, size_t len)
{
    const char *at = bytes;

    file->unsynced += len;
    while (len > 0) {
        ssize_t done = write(file->fd, at, len);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return cannot_write(file);
        at += done;
        len -= (size_t)done;
    }
    if (file->unsynced < SYNC_BYTES)
        return GW_OK;
    file->unsynced = 0;
    return fdatasync(file->fd) == 0 ? GW_OK : cannot_write(file);
}

/* A new name is on the disk when its directory is. */
static int sync_directory(const char *path)
{
    char directory[GWT_FILE_CAP];
    const char *slash = strrchr(path, '/');
    int fd, bad;

    if (slash == NULL)
        snprintf(directory, sizeof directory, ".");
    else
        snprintf(directory, sizeof directory, "%.*s", (int)(slash - path) + 1, path);
    fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    bad = fsync(fd);
    close(fd);
    /* Some file systems cannot, and need not. */
    return bad && errno != EINVAL ? -1 : 0;
}

gw_status gwt_newfile_commit(gwt_newfile *file)
{
    gw_status st = GW_OK;

    if (fsync(file->fd) != 0)
        st = cannot_write(file);
    if (close(file->fd) != 0 && st == GW_OK)
        st = cannot_write(file);
    file->fd = -1;
    if (st == GW_OK && rename(file->partial, file->path) != 0)
        st = cannot_write(file);
    if (st != GW_OK) {
        unlink(file->partial);
        return st;
    }
    return sync_directory(file->path) == 0 ? GW_OK : cannot_write(file);
}

void gwt_newfile_abandon(gwt_newfile *file)
{
    if (file->fd < 0)
        return;
    close(file->fd);
    file->fd = -1;
    unlink(file->partial);
}
