/* SPDX-License-Identifier: Apache-2.0
 *
 * agree.h - how workers that were started one by one, by mpirun and its kin, find
 * out that one of them cannot take part, or was started otherwise than the rest. */
#ifndef GWT_AGREE_H
#define GWT_AGREE_H

#include "run/job.h"

/* Every worker brings how it fared so far, with its thread's last message. GW_OK on
 * all if all are well; otherwise the same failure on all, that of the lowest rank
 * which has one. Collective. */
gw_status gwt_agree(gw_comm *comm, gw_status status);

/* Compares the settings and the data with worker 0's. A difference is
 * GW_ERR_MISMATCH on all, with its name. Collective. */
gw_status gwt_agree_settings(const gwt_job *job);

/* A link is emulated by clocks, and those of two machines differ. */
gw_status gwt_agree_link(const gwt_job *job);

#endif
