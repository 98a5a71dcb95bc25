/* SPDX-License-Identifier: Apache-2.0
 *
 * idx.h - reads IDX files, the format of MNIST and its relatives, gzipped or not.
 *
 *     bytes 0-1   0
 *     byte  2     type of the elements: 8 = unsigned byte, the only one read here
 *     byte  3     number of dimensions, d
 *     then        d sizes, 4 bytes each, most significant first
 *     then        the elements, last dimension fastest, and nothing after them
 */
#ifndef GWT_IDX_H
#define GWT_IDX_H

#include "common.h"

enum { GWT_IDX_DIMS_MAX = 3 };

typedef struct gwt_idx {
    size_t dims, dim[GWT_IDX_DIMS_MAX];
    uint8_t *at; /* product of dim bytes; released with gwt_free() */
} gwt_idx;

/* Reads the file at path, which must have that many dimensions. Whatever bytes it
 * holds, the answer is GW_OK or a failure that names the file: GW_ERR_DATA if it
 * is no such file, is cut short or goes on too long, GW_ERR_SYSTEM if it cannot
 * be read, GW_ERR_NOMEM. */
gw_status gwt_idx_read(gwt_idx *out, const char *path, size_t dims);

#endif
