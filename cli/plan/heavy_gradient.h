/* SPDX-License-Identifier: Apache-2.0
 *
 * heavy_gradient.h - made-up gradients, for `plan` and for benchmarks. */
#ifndef GWC_HEAVY_GRADIENT_H
#define GWC_HEAVY_GRADIENT_H

#include "common.h"

/* Fills g with made-up values: heavy-tailed, and with a scale of its own for every
 * block of coordinates, as the layers of a network have it. The scales come again
 * after GWC_HEAVY_PERIOD floats. */
enum { GWC_HEAVY_PERIOD = 1 << 18 };
void gwc_heavy_gradient(float *g, size_t n);

#endif
