/* SPDX-License-Identifier: Apache-2.0
 *
 * heavy_gradient.h - made-up gradients, for `plan` and for benchmarks. */
#ifndef GWC_HEAVY_GRADIENT_H
#define GWC_HEAVY_GRADIENT_H

#include "common.h"

/* Fills g with made-up, heavy-tailed values. Every block has a scale of its own, like
 * the layers of a network. The scales repeat after GWC_HEAVY_PERIOD floats. */
enum { GWC_HEAVY_PERIOD = 1 << 18 };
void gwc_heavy_gradient(float *g, size_t n);

#endif
