/* SPDX-License-Identifier: Apache-2.0
 *
 * newfile.h - a file that appears whole or not at all: it is written under another
 * name in the same directory, brought to the disk, and then takes its name in one
 * move. Whoever is killed in between leaves the old file as it was.
 *
 * A link stays a link: what it leads to is written anew. What is there and is no
 * regular file (a device, a FIFO, /dev/stdout) is written to straight, as it is. */
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

/* Begins the file `path`. partial is its name until it is complete, for directories
 * that belong to the caller alone: it is written over if it is there. NULL makes a
 * name that nobody else has. GW_ERR_SYSTEM. */
gw_status gwt_newfile_open(gwt_newfile *file, const char *path, const char *partial);

/* Adds bytes. GW_ERR_SYSTEM, for instance when the disk is full. */
gw_status gwt_newfile_add(gwt_newfile *file, const void *bytes, size_t len);

/* From now on bytes are kept in `room`, cap bytes that belong to the caller, as long as
 * they fit: only gwt_newfile_flush() and gwt_newfile_commit() touch the disk. */
void gwt_newfile_hold(gwt_newfile *file, void *room, size_t cap);
gw_status gwt_newfile_flush(gwt_newfile *file);

/* Ends it: after GW_OK the file is there under its name, and on the disk. Otherwise
 * nothing is left of it. */
gw_status gwt_newfile_commit(gwt_newfile *file);

/* Gives it up and leaves nothing. Also after a failure of gwt_newfile_add(). */
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

/* Whether `path` can be written, as far as that can be known before it is. It leaves
 * nothing, and opens nothing that is no regular file. GW_ERR_SYSTEM. */
gw_status gwt_newfile_check(const char *path);

#endif
