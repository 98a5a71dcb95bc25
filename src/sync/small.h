/* SPDX-License-Identifier: Apache-2.0
 *
 * small.h - tensors that are sent whole because they are small (dense_below). */
#ifndef GWI_SMALL_H
#define GWI_SMALL_H

#include "sync/sync.h"

/* Counts them and gets memory for their values. GW_ERR_NOMEM. */
gw_status gwi_small_init(gw_sync *sync);
void gwi_small_fini(gw_sync *sync);

/* Whether a tensor is sent whole because it is small. */
bool gwi_is_small(const gw_sync *sync, const gw_tensor *tensor);

/* Floats of tensors that are not small. */
size_t gwi_rest(const gw_sync *sync);

/* Moves the small tensors out of v, leaving zeros, and back in, averaged. */
void gwi_small_take(gw_sync *sync, float *v);
gw_status gwi_small_give(gw_sync *sync, float *v, gwi_note *note);

/* Moves the tensors of v that are not small together, to its front, and apart again,
 * with zeros in place of the small ones. v may be NULL. */
void gwi_small_close_up(const gw_sync *sync, float *v);
void gwi_small_open_up(const gw_sync *sync, float *v);

/* Where in the layout's vector the i-th float of tensors that are not small lies. */
size_t gwi_rest_place(const gw_sync *sync, size_t i);

#endif
