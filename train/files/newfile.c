/* SPDX-License-Identifier: Apache-2.0
 *
 * newfile.c - files that appear completely or not at all. */
#define _GNU_SOURCE
#include "files/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* At most this much may wait in the page cache. Otherwise flushing a large file at its
 * end could take longer than the other workers wait. */
enum { SYNC_BYTES = 32 << 20 };

/* As many links as the kernel follows, and names that are tried. */
enum { LINKS_MAX = 40, NAMES_MAX = 1000 };

static gw_status cannot_write(const gwt_newfile *file)
{
    return gw_fail(GW_ERR_SYSTEM, "cannot write %s: %s", file->path, strerror(errno));
}

/* ---- where it goes -------------------------------------------------------------- */

/* The descriptor in a name such as /dev/fd/3, or -1. Such a file is not opened again,
 * because that would start at its first byte. */
static int descriptor_of(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};

    if (strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < 2; i++) {
        size_t len = strlen(folders[i]);
        const char *digits = path + len;
        if (strncmp(path, folders[i], len) == 0 && digits[0] != '\0' &&
            strspn(digits, "0123456789") == strlen(digits) && strlen(digits) < 8)
            return atoi(digits);
    }
    return -1;
}

/* Replaces the name of a link by its target. */
static int replace_name(char target[GWT_FILE_CAP], const char *link)
{
    const char *slash = strrchr(target, '/');
    size_t keep = link[0] == '/' || slash == NULL ? 0 : (size_t)(slash - target) + 1;

    if (keep + strlen(link) >= GWT_FILE_CAP)
        return -1;
    memcpy(target + keep, link, strlen(link) + 1);
    return 0;
}

/* Follows the links in path and sets the target, which need not exist. */
static gw_status follow_links(gwt_newfile *file)
{
    char link[GWT_FILE_CAP];

    for (int i = 0; i < LINKS_MAX; i++) {
        ssize_t len = descriptor_of(file->target) >= 0
                          ? -1
                          : readlink(file->target, link, sizeof link - 1);
        if (len < 0)
            return GW_OK; /* it is no link, or it is not there */
        link[len] = '\0';
        if (replace_name(file->target, link) != 0) {
            errno = ENAMETOOLONG;
            return cannot_write(file);
        }
    }
    errno = ELOOP;
    return cannot_write(file);
}

static gw_status find_target(gwt_newfile *file, const char *path)
{
    struct stat info;
    int n = snprintf(file->path, sizeof file->path, "%s", path);

    *file->partial = '\0';
    file->fd = -1;
    file->error = 0;
    file->unsynced = 0;
    gwt_newfile_hold(file, NULL, 0);
    /* Room for the end of a partial file's name. */
    if (n < 0 || n + 48 > GWT_FILE_CAP)
        return gw_fail(GW_ERR_ARG, "the path %.64s... is too long", path);
    memcpy(file->target, file->path, sizeof file->target);
    GWT_TRY(follow_links(file));
    file->straight = descriptor_of(file->target) >= 0 ||
                     (stat(file->target, &info) == 0 && !S_ISREG(info.st_mode));
    return GW_OK;
}

/* ---- opening -------------------------------------------------------------------- */

static int open_straight(const char *target)
{
    int number = descriptor_of(target);

    if (number < 0)
        return open(target, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (number == STDOUT_FILENO)
        (void)fflush(stdout);
    return fcntl(number, F_DUPFD_CLOEXEC, 0);
}

/* Creates a new file next to the target. Another process that writes to the same name,
 * here or on another host, gets a file of its own. */
static int open_unique(gwt_newfile *file)
{
    int fd = -1;

    for (int i = 0; fd < 0 && i < NAMES_MAX; i++) {
        int n = snprintf(file->partial, sizeof file->partial, "%s.%ld-%d.partial",
                         file->target, (long)getpid(), i);
        if (n < 0 || n >= GWT_FILE_CAP) {
            errno = ENAMETOOLONG;
            return -1;
        }
        fd = open(file->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            return -1;
    }
    return fd;
}

gw_status gwt_newfile_open(gwt_newfile *file, const char *path, const char *partial)
{
    GWT_TRY(find_target(file, path));
    if (file->straight) {
        file->fd = open_straight(file->target);
    } else if (partial != NULL) {
        snprintf(file->partial, sizeof file->partial, "%s", partial);
        file->fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    } else {
        file->fd = open_unique(file);
    }
    return file->fd < 0 ? cannot_write(file) : GW_OK;
}

static int check_straight(const char *target)
{
    struct stat info;
    int number = descriptor_of(target);

    if (number >= 0)
        return fcntl(number, F_GETFD) < 0 ? -1 : 0;
    if (stat(target, &info) == 0 && S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        return -1;
    }
    return access(target, W_OK);
}

gw_status gwt_newfile_check(const char *path)
{
    gwt_newfile file;

    GWT_TRY(find_target(&file, path));
    if (file.straight)
        return check_straight(file.target) == 0 ? GW_OK : cannot_write(&file);
    file.fd = open_unique(&file);
    if (file.fd < 0)
        return cannot_write(&file);
    gwt_newfile_abandon(&file);
    return GW_OK;
}

/* ---- writing -------------------------------------------------------------------- */

static int add(gwt_newfile *file, const char *at, size_t len)
{
    file->unsynced += len;
    while (len > 0) {
        ssize_t done = write(file->fd, at, len);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        at += done;
        len -= (size_t)done;
    }
    if (file->unsynced < SYNC_BYTES || file->straight)
        return 0;
    file->unsynced = 0;
    return fdatasync(file->fd);
}

void gwt_newfile_hold(gwt_newfile *file, void *room, size_t cap)
{
    file->held = room;
    file->held_cap = cap;
    file->held_len = 0;
}

gw_status gwt_newfile_flush(gwt_newfile *file)
{
    size_t len = file->held_len;

    file->held_len = 0;
    return add(file, file->held, len) == 0 ? GW_OK : cannot_write(file);
}

gw_status gwt_newfile_add(gwt_newfile *file, const void *bytes, size_t len)
{
    if (len > file->held_cap - file->held_len) {
        GWT_TRY(gwt_newfile_flush(file));
        if (len > file->held_cap)
            return add(file, bytes, len) == 0 ? GW_OK : cannot_write(file);
    }
    if (len > 0)
        memcpy(file->held + file->held_len, bytes, len);
    file->held_len += len;
    return GW_OK;
}

/* A stream does not keep the reason of a failed write, so the file does. */
static ssize_t write_cookie(void *file, const char *bytes, size_t len)
{
    gwt_newfile *to = file;

    if (to->error == 0 && add(to, bytes, len) == 0)
        return (ssize_t)len;
    to->error = to->error != 0 ? to->error : errno;
    return 0;
}

gw_status gwt_newfile_stream(gwt_newfile *file, FILE **out)
{
    *out = fopencookie(file, "w", (cookie_io_functions_t){.write = write_cookie});
    return *out != NULL ? GW_OK : cannot_write(file);
}

gw_status gwt_newfile_stream_end(const gwt_newfile *file, FILE *stream)
{
    if (fclose(stream) == 0 && file->error == 0)
        return GW_OK;
    errno = file->error != 0 ? file->error : EIO;
    return cannot_write(file);
}

/* ---- the end -------------------------------------------------------------------- */

/* A new name is on the disk only after its directory was flushed. */
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
    /* Some file systems do not support this and do not need it. */
    return bad && errno != EINVAL ? -1 : 0;
}

gw_status gwt_newfile_commit(gwt_newfile *file)
{
    gw_status st = gwt_newfile_flush(file);

    if (st == GW_OK && !file->straight && fsync(file->fd) != 0)
        st = cannot_write(file);
    if (close(file->fd) != 0 && st == GW_OK)
        st = cannot_write(file);
    file->fd = -1;
    if (file->straight)
        return st;
    if (st == GW_OK && rename(file->partial, file->target) != 0)
        st = cannot_write(file);
    if (st != GW_OK) {
        unlink(file->partial);
        return st;
    }
    return sync_directory(file->target) == 0 ? GW_OK : cannot_write(file);
}

void gwt_newfile_abandon(gwt_newfile *file)
{
    if (file->fd < 0)
        return;
    close(file->fd);
    file->fd = -1;
    if (!file->straight)
        unlink(file->partial);
}

/* ---- all in one call ------------------------------------------------------------ */

static gw_status finish(gwt_newfile *file, gw_status st)
{
    if (st == GW_OK)
        return gwt_newfile_commit(file);
    gwt_newfile_abandon(file);
    return st;
}

gw_status gwt_newfile_write(const char *path, const char *partial, const void *bytes,
                            size_t len)
{
    gwt_newfile file;

    GWT_TRY(gwt_newfile_open(&file, path, partial));
    return finish(&file, gwt_newfile_add(&file, bytes, len));
}

gw_status gwt_newfile_print(const char *path, const char *partial,
                            void (*print)(FILE *stream, const void *arg),
                            const void *arg)
{
    gwt_newfile file;
    FILE *stream;
    gw_status st;

    GWT_TRY(gwt_newfile_open(&file, path, partial));
    st = gwt_newfile_stream(&file, &stream);
    if (st == GW_OK) {
        print(stream, arg);
        st = gwt_newfile_stream_end(&file, stream);
    }
    return finish(&file, st);
}
