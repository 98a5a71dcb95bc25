/* SPDX-License-Identifier: Apache-2.0
 *
 * past_models.h - what a sync keeps of past models: the last common one, from which
 * changes are counted, and the mean of all of this worker's. */
#ifndef GWI_PAST_MODELS_H
#define GWI_PAST_MODELS_H

#include "sync/sync.h"

/* Whether every model must be seen, for the mean of all. */
bool gwi_sees_models(const gwi_spec *spec);

/* Takes this worker's model after a step into the mean, if there is one. */
void gwi_see_model(gw_sync *sync, const float *model);

/* Replaces the model with the mean of all, if training ends with that. */
void gwi_end_models(gw_sync *sync, float *model);

#endif
