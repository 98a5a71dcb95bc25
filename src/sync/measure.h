/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.h - what a call of a sync cost: seconds of encoding, of waiting, of all the
 * rest, and what crossed the network. */
#ifndef GWI_MEASURE_H
#define GWI_MEASURE_H

#include "sync/sync.h"

/* A call begins, encoding, and ends: the statistics then contain it. */
void gwi_measure_begin(gw_sync *sync);
void gwi_measure_end(gw_sync *sync);

/* From here on the call encodes own data for others, or does anything else. Exchanges
 * say so whenever they go over from one to the other. Waiting counts as neither. */
void gwi_encodes(gw_sync *sync);
void gwi_decodes(gw_sync *sync);

#endif
