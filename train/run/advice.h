/* SPDX-License-Identifier: Apache-2.0
 *
 * advice.h - the spec that a run uses, which may differ from --sync; see
 * gw_spec_advise(). */
#ifndef GWT_ADVICE_H
#define GWT_ADVICE_H

#include "run/job.h"

/* Fills in job->used by --advice, and says in job->notes what was changed and why.
 * GW_ERR_SPEC, GW_ERR_ARG. */
gw_status gwt_advise(gwt_job *job);

/* Adds to job->warnings what the method is known to cost in a run of
 * job->total_steps. */
gw_status gwt_warn(gwt_job *job);

/* Goes on as the checkpoint of that name does: with this spec, and this momentum of the
 * optimizer. GW_ERR_DATA if they are none. */
gw_status gwt_advise_as_before(gwt_job *job, const char *name, const char *sync,
                               double momentum);

/* Whether the spec has the momentum of the optimizer. Weight decay is then a part of
 * the gradient that is synchronised, since momentum is to act on both; and each worker
 * clips its own gradient, since what comes out is a velocity. */
int gwt_momentum_moved(const gwt_job *job);

/* What the optimizer steps with: what was asked for, without what has moved. */
gwt_hyper gwt_hyper_used(const gwt_job *job);

#endif
