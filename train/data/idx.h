/* SPDX-License-Identifier: Apache-2.0
 *
 * idx.h - parses IDX files, the format of MNIST and similar data sets.
 *
 *     bytes 0-1   0
 *     byte  2     type of the elements: 8 = unsigned byte, the only one read here
 *     byte  3     number of dimensions, d
 *     then        d sizes, 4 bytes each, most significant first
 *     then        the elements, last dimension fastest, and nothing after them
 */
#ifndef GWT_IDX_H
#define GWT_IDX_H

#include "data/bytes.h"

enum { GWT_IDX_DIMS_MAX = 3 };

typedef struct gwt_idx {
    size_t dims, dim[GWT_IDX_DIMS_MAX];
    const uint8_t *at; /* product of dim bytes, inside the file's contents */
} gwt_idx;

/* Finds the elements in the len bytes of a file, which must have that many dimensions.
 * It is safe on any bytes. GW_ERR_DATA: this is not an IDX file, or it is shorter or
 * longer than its header says. path is for the message. */
gw_status gwt_idx_parse(gwt_idx *out, const uint8_t *at, size_t len, size_t dims,
                        const char *path);

#endif
