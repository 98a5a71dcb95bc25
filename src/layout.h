/* SPDX-License-Identifier: Apache-2.0
 *
 * layout.h - the inside of a gw_layout. */
#ifndef GWI_LAYOUT_H
#define GWI_LAYOUT_H

#include "base.h"

struct gw_layout {
    size_t floats, count;
    gw_tensor tensors[]; /* count of them, then their names */
};

/* A copy of its own, or NULL without a message. */
gw_layout *gwi_layout_copy(const gw_layout *layout);

/* The tensor that holds float i, i < floats. */
const gw_tensor *gwi_layout_find(const gw_layout *layout, size_t i);

#endif
