/* SPDX-License-Identifier: Apache-2.0
 *
 * shape.h - the shape of one sample, which data sets and layers agree on. */
#ifndef GWT_SHAPE_H
#define GWT_SHAPE_H

#include "common.h"

/* Channels, height and width of one sample; a plain vector of n is {n, 1, 1}. */
typedef struct gwt_shape {
    size_t channels, height, width;
} gwt_shape;

static inline size_t gwt_shape_floats(gwt_shape s)
{
    return s.channels * s.height * s.width;
}

#endif
