/* SPDX-License-Identifier: Apache-2.0
 *
 * pieces.h - gradients that do not lie in one piece. */
#ifndef GWI_PIECES_H
#define GWI_PIECES_H

#include "sync/sync.h"

/* The place in the layout of the first NaN or infinity; the number of floats if
 * there is none. */
size_t gwi_pieces_first_nonfinite(const gwi_pieces *pieces);

/* Adds the pieces to the vector and clears them. */
void gwi_pieces_move(const gwi_pieces *pieces, float *to);

/* What an exchange does with its result, in place of clearing v and adding lists
 * whose entries ascend to it: v is NULL where the gradient is in pieces, which are
 * clear already. */
void gwi_result_clear(const gw_sync *sync, float *v);
void gwi_result_add(const gw_sync *sync, float *v, const gwi_list *list);

#endif
