/* SPDX-License-Identifier: Apache-2.0
 *
 * model_shapes.h - how many parameters well-known models have, and numbers of
 * parameters as users write them. For commands that plan without training. */
#ifndef GWC_MODEL_SHAPES_H
#define GWC_MODEL_SHAPES_H

#include "gradwire.h"

enum { GWC_SHAPES_MAX = 16 };

typedef struct gwc_shape {
    const char *name;
    uint64_t params;
} gwc_shape;

/* The i-th known model, or NULL past the end. */
const gwc_shape *gwc_shape_at(size_t i);

/* The known model of that name, or NULL. */
const gwc_shape *gwc_shape_find(const char *name);

/* Puts the names of all known models into names, which has room for GWC_SHAPES_MAX,
 * and returns their number. */
size_t gwc_shape_names(const char **names);

/* Reads a number of parameters between 1 and max: 66000000, 124m, 25.6M, 7b, 1e9. The
 * message of GW_ERR_ARG begins with `what`. */
gw_status gwc_parse_params(const char *what, const char *text, uint64_t max,
                           uint64_t *out);

#endif
