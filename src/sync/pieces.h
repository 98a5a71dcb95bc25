/* SPDX-License-Identifier: Apache-2.0
 *
 * pieces.h - gradients in several pieces of memory. */
#ifndef GWI_PIECES_H
#define GWI_PIECES_H

#include "sync/sync.h"

/* The place in the layout of the first NaN or infinity; the number of floats if
 * there is none. */
size_t gwi_pieces_first_nonfinite(const gwi_result *at);

/* Adds the pieces to the vector and clears them. */
void gwi_pieces_move(const gwi_result *at, float *to);

#endif
