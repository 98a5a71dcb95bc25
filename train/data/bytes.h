/* SPDX-License-Identifier: Apache-2.0
 *
 * bytes.h - the contents of a data file: mapped if it is plain, unpacked into memory if
 * it is gzipped. */
#ifndef GWT_BYTES_H
#define GWT_BYTES_H

#include "common.h"

typedef struct gwt_bytes {
    const uint8_t *at; /* NULL if len is 0 */
    size_t len;
    void *owned; /* what gwt_bytes_free() releases: a mapping or memory */
    int mapped;
} gwt_bytes;

/* Gives the contents of the file at path, whatever its name; gzip is recognised by
 * its first two bytes. Mapped contents are those of the file, so it must not be
 * changed while they are in use. On failure *out is empty: GW_ERR_SYSTEM if it
 * cannot be read, GW_ERR_DATA if it is gzipped and damaged or cut short,
 * GW_ERR_NOMEM. The message names the file. */
gw_status gwt_bytes_load(gwt_bytes *out, const char *path);
void gwt_bytes_free(gwt_bytes *bytes);

#endif
