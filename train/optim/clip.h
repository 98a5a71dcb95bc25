/* SPDX-License-Identifier: Apache-2.0
 *
 * clip.h - gradients that are no longer than asked for. */
#ifndef GWT_CLIP_H
#define GWT_CLIP_H

#include "common.h"

/* Scales g (n floats) down to Euclidean length `limit` if it is longer. The same g
 * gives the same bits everywhere. A g with NaN or infinity in it is left alone. */
void gwt_clip(float *g, size_t n, double limit);

#endif
