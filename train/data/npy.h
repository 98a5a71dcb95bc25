/* SPDX-License-Identifier: Apache-2.0
 *
 * npy.h - parses arrays of numpy, the format .npy, and archives of them, .npz.
 *
 *     bytes 0-5   93 'N' 'U' 'M' 'P' 'Y'
 *     bytes 6-7   version: 1, 2 or 3, then 0
 *     then        length of the header: 2 bytes in version 1, otherwise 4
 *     then        the header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3),
 * } then        the elements, last dimension fastest, and nothing after them
 *
 * An .npz is a zip archive of such files. */
#ifndef GWT_NPY_H
#define GWT_NPY_H

#include "data/bytes.h"

enum { GWT_NPY_DIMS_MAX = 4 };

typedef struct gwt_npy {
    char kind;    /* 'u', 'i' or 'f', as numpy calls it */
    size_t bytes; /* of an element */
    size_t dims, dim[GWT_NPY_DIMS_MAX];
    size_t count;      /* product of dim */
    const uint8_t *at; /* count elements */
} gwt_npy;

/* Finds the elements in the len bytes of a file: integers of 1, 2, 4 or 8 bytes or
 * floats of 4 or 8, little-endian, in C order, of 1 to 4 dimensions. It is safe on any
 * bytes. GW_ERR_DATA; path is for the message, which says what to do. */
gw_status gwt_npy_parse(gwt_npy *out, const uint8_t *at, size_t len, const char *path);

/* Element i as a double, or as a float where that is what it is. */
double gwt_npy_number(const gwt_npy *array, size_t i);

/* Finds a member of the zip archive of len bytes: its bytes are part of the archive or,
 * if it is compressed, unpacked into memory of out's own. Sizes and checksums are
 * checked. GW_ERR_DATA, also if there is no such member; GW_ERR_NOMEM. */
gw_status gwt_zip_find(gwt_bytes *out, const uint8_t *at, size_t len, const char *name,
                       const char *path);

#endif
