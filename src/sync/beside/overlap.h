/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap.h - exchanges while backward still runs. Gradients come tensor by tensor, the
 * last one first, and a thread of the sync exchanges what is complete. */
#ifndef GWI_OVERLAP_H
#define GWI_OVERLAP_H

#include "sync/buckets.h"

/* Whether parts of this step's gradient were fed. */
bool gwi_overlap_pending(const gw_sync *sync);

/* Feeds what is missing, waits for the thread, and gives what it found. */
gw_status gwi_overlap_finish(gw_sync *sync, float *grad, gwi_note *note);

/* gw_sync_gradient() where results are late: parts that were fed are only checked. */
gw_status gwi_overlap_late(gw_sync *sync, float *grad);

/* Ends the thread. Safe if there is none. */
void gwi_overlap_free(gw_sync *sync);

/* ---- from sync.c: the pieces of gw_sync_gradient() ---------------------- */

void gwi_sync_begin_step(gw_sync *sync);
gw_status gwi_sync_whole(gw_sync *sync, float *grad, gwi_note *note);

/* What is made of the average gradient (sync.c). */
void gwi_sync_step_outside(gw_sync *sync, float *grad);
gw_status gwi_sync_pieces(gw_sync *sync, const gwi_result *at, gwi_note *note);
gw_status gwi_sync_bucket(gw_sync *sync, const gwi_bucket *bucket, float *grad,
                          gwi_note *note);

#endif
