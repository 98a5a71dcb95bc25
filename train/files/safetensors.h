/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors.h - weights in the format that other tools read:
 *
 *     length of the header (8, little-endian) | header, JSON | values, one tensor
 *                                                              after the other
 *
 * The header names each tensor with its type, its shape and where its values are. */
#ifndef GWT_SAFETENSORS_H
#define GWT_SAFETENSORS_H

#include "files/newfile.h"
#include "files/source.h"

enum { GWT_DIMS_MAX = 8, GWT_TYPE_CAP = 8 };

typedef struct gwt_stored {
    const char *name; /* in the header */
    char type[GWT_TYPE_CAP];
    size_t dims;
    uint64_t dim[GWT_DIMS_MAX];
    uint64_t begin, end; /* bytes, after the header */
} gwt_stored;

typedef struct gwt_safetensors {
    gwt_source from;
    uint64_t data; /* where the values begin */
    char *header;
    gwt_stored *list;
    size_t count;
} gwt_safetensors;

/* Opens a file (path must stay valid), or one in memory, and checks its header. On
 * success every tensor of type F32 is within the file and as long as its shape says,
 * names are unique, and every byte after the header belongs to one tensor. The list is
 * in the order of the values. It is safe on any bytes. GW_ERR_DATA, GW_ERR_SYSTEM,
 * GW_ERR_NOMEM. */
gw_status gwt_safetensors_open(gwt_safetensors *out, const char *path);
gw_status gwt_safetensors_over(gwt_safetensors *out, const char *name,
                               const void *bytes, size_t len);
void gwt_safetensors_close(gwt_safetensors *in);

/* The tensor of that name, NULL if there is none. */
const gwt_stored *gwt_safetensors_find(const gwt_safetensors *in, const char *name);

/* Checks whether a tensor has n values of type F32, and reads them. GW_ERR_DATA if it
 * does not. */
gw_status gwt_safetensors_check(const gwt_safetensors *in, const gwt_stored *tensor,
                                size_t n);
gw_status gwt_safetensors_read(const gwt_safetensors *in, const gwt_stored *tensor,
                               float *to, size_t n);

/* Reads the header's JSON, len bytes that may be changed and a 0 after them, into
 * in->list. */
gw_status gwt_safetensors_parse(gwt_safetensors *in, char *json, size_t len);

/* Writes tensors to the file `path`, completely or not at all. Each tensor's values
 * start at its offset in `values`. One with a single row has one dimension; one with a
 * window has four, rows x channels x window x window, as PyTorch's convolutions have.
 * windows has count numbers, 0 for most tensors; NULL: all are 0. */
gw_status gwt_safetensors_write(const char *path, const gw_tensor *tensors,
                                const size_t *windows, size_t count,
                                const float *values);

#endif
