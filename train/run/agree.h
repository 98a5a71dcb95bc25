/* SPDX-License-Identifier: Apache-2.0
 *
 * agree.h - lets workers that were started separately, by mpirun for example, find out
 * that one of them has failed or was started with other settings. */
#ifndef GWT_AGREE_H
#define GWT_AGREE_H

#include "run/job.h"

/* Every worker passes its status; its thread's last message goes with it. Returns GW_OK
 * on all workers if all passed GW_OK; otherwise all return the failure of the lowest
 * rank that has one. Collective. */
gw_status gwt_agree(gw_comm *comm, gw_status status);

/* Compares the settings and the data with those of worker 0. If they differ, all return
 * GW_ERR_MISMATCH, and the message names the setting. Collective. */
gw_status gwt_agree_settings(const gwt_job *job);

/* Compares the settings of workers of which some may have trained before, and says
 * whether any has. Those of the first that has count, or those of worker 0. A worker
 * whose settings differ returns GW_ERR_MISMATCH and must end; the others return
 * GW_ERR_PEER then, and go on without it. Collective. */
gw_status gwt_agree_entering(const gwt_job *job, gw_comm *comm, int trained,
                             int *any_trained);

/* Checks that all workers are on one machine if a link is emulated, since that needs a
 * common clock. */
gw_status gwt_agree_link(const gwt_job *job);

#endif
