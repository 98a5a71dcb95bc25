/* SPDX-License-Identifier: Apache-2.0
 *
 * newfile.h - a file that appears completely or not at all. It is written under another
 * name in the same directory, flushed to the disk, and then renamed. A process that is
 * killed in between leaves the old file unchanged.
 *
 * A symbolic link stays a link: its target is replaced. If path exists and is not a
 * regular file (a device, a FIFO, /dev/stdout), it is written to directly. */
#ifndef GWT_NEWFILE_H
#define GWT_NEWFILE_H

#include "common.h"

#include <stdio.h>

enum { GWT_FILE_CAP = GWT_PATH_CAP + 64 };

typedef struct gwt_newfile {
    int fd;
    int straight;      /* whether there is no partial file */
    int error;         /* why a stream could not be written; 0: it could */
    uint64_t unsynced; /* bytes since the last fdatasync() */
    char *held;        /* bytes that wait for gwt_newfile_flush(), if not NULL */
    size_t held_len, held_cap;
    char path[GWT_FILE_CAP];    /* what the user calls it */
    char target[GWT_FILE_CAP];  /* what it will be called: links are followed */
    char partial[GWT_FILE_CAP]; /* what it is called now */
} gwt_newfile;

/* Creates the file `path`. partial is its name until it is complete, for directories
 * that only the caller uses: an existing file of that name is overwritten. NULL chooses
 * a unique name. GW_ERR_SYSTEM. */
gw_status gwt_newfile_open(gwt_newfile *file, const char *path, const char *partial);

/* Adds bytes. GW_ERR_SYSTEM, for instance when the disk is full. */
gw_status gwt_newfile_add(gwt_newfile *file, const void *bytes, size_t len);

/* From now on, bytes are kept in `room`, a buffer of the caller with cap bytes, while
 * they fit. Only gwt_newfile_flush() and gwt_newfile_commit() touch the disk. */
void gwt_newfile_hold(gwt_newfile *file, void *room, size_t cap);
gw_status gwt_newfile_flush(gwt_newfile *file);

/* Completes the file: after GW_OK it has its name and is on the disk. Otherwise it is
 * removed. */
gw_status gwt_newfile_commit(gwt_newfile *file);

/* Removes the unfinished file. Call it also after a failure of gwt_newfile_add(). */
void gwt_newfile_abandon(gwt_newfile *file);

/* A stream that adds to the file, and its end, which reports what went wrong. */
gw_status gwt_newfile_stream(gwt_newfile *file, FILE **out);
gw_status gwt_newfile_stream_end(const gwt_newfile *file, FILE *stream);

/* All of that in one call, for bytes and for what is printed. */
gw_status gwt_newfile_write(const char *path, const char *partial, const void *bytes,
                            size_t len);
gw_status gwt_newfile_print(const char *path, const char *partial,
                            void (*print)(FILE *stream, const void *arg),
                            const void *arg);

/* Checks whether `path` can be written, as far as that is possible in advance. It
 * leaves no file behind and opens regular files only. GW_ERR_SYSTEM. */
gw_status gwt_newfile_check(const char *path);

#endif
