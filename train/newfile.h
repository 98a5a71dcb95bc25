/* SPDX-License-Identifier: Apache-2.0
 *
 * newfile.h - a file that appears whole or not at all: it is written under another
 * name in the same directory, brought to the disk, and then takes its name in one
 * move. Whoever is killed in between leaves the old file as it was. */
#ifndef GWT_NEWFILE_H
#define GWT_NEWFILE_H

#include "data.h"

enum { GWT_FILE_CAP = GWT_PATH_CAP + 64 };

typedef struct gwt_newfile {
    int fd;
    uint64_t unsynced;          /* bytes since the last fdatasync() */
    char path[GWT_FILE_CAP];    /* what it will be called */
    char partial[GWT_FILE_CAP]; /* what it is called now */
} gwt_newfile;

/* Begins the file `path` as `partial`, which is written over if it is there; NULL:
 * the path with ".partial" after it. GW_ERR_SYSTEM. */
gw_status gwt_newfile_open(gwt_newfile *file, const char *path, const char *partial);

/* Adds bytes. GW_ERR_SYSTEM, for instance when the disk is full. */
gw_status gwt_newfile_add(gwt_newfile *file, const void *bytes, size_t len);

/* Ends it: after GW_OK the file is there under its name, and on the disk. Otherwise
 * nothing is left of it. */
gw_status gwt_newfile_commit(gwt_newfile *file);

/* Gives it up and leaves nothing. Also after a failure of gwt_newfile_add(). */
void gwt_newfile_abandon(gwt_newfile *file);

#endif
