/* SPDX-License-Identifier: Apache-2.0
 *
 * agreement.h - whether the models that should be equal are.
 *
 * Checks find messages that were damaged. A worker whose memory, program or peer is
 * wrong can still go on with another model than the others, and nobody would know. So
 * now and then, after a step that leaves all models equal, the workers compare a check
 * of theirs. */
#ifndef GWI_AGREEMENT_H
#define GWI_AGREEMENT_H

#include "sync/sync.h"

/* Gets the memory for comparisons, if there will be any. */
gw_status gwi_agreement_init(gw_sync *s);

/* Whether this step ends with a comparison; the same on all workers. */
bool gwi_agreement_due(const gw_sync *s);

/* Whether the training ends with one: if it ends with an average of the models, or with
 * a step that leaves all equal. */
bool gwi_agreement_ends(const gw_sync *s, bool averaged);

/* Compares params; GW_ERR_DIFFER names the step and the workers whose models are not
 * those of most. A collective. */
gw_status gwi_agreement_check(gw_sync *s, const float *params);

#endif
