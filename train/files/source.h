/* SPDX-License-Identifier: Apache-2.0
 *
 * source.h - random access to the bytes of a file, or of memory that stands for one. */
#ifndef GWT_SOURCE_H
#define GWT_SOURCE_H

#include "common.h"

typedef struct gwt_source {
    const char *name;     /* for messages */
    int fd;               /* or -1, and then... */
    const uint8_t *bytes; /* ...they are here */
    uint64_t len;
} gwt_source;

/* Opens a regular file; path must stay valid. GW_ERR_SYSTEM if it cannot be read. Close
 * any source with gwt_source_close(). */
gw_status gwt_source_open(gwt_source *out, const char *path);
gwt_source gwt_source_over(const char *name, const void *bytes, uint64_t len);
void gwt_source_close(gwt_source *source);

/* Reads len bytes at `at`, which are within source->len. GW_ERR_SYSTEM, GW_ERR_DATA if
 * the file has become shorter. */
gw_status gwt_source_read(const gwt_source *source, uint64_t at, void *to, size_t len);

#endif
