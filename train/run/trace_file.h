/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_file.h - a timeline of all workers, in the JSON that Chrome's tracing and
 * Perfetto read. Each worker keeps what it did in memory; when the steps that were
 * asked for are over, worker 0 gathers and writes it. */
#ifndef GWT_TRACE_FILE_H
#define GWT_TRACE_FILE_H

#include "run/train.h"

typedef struct gwt_trace gwt_trace;

/* Starts a timeline if config asks for one. Otherwise *out is NULL, which all functions
 * below accept. Time 0 is now on every worker, so call it after a barrier.
 * GW_ERR_NOMEM. */
gw_status gwt_trace_open(gwt_trace **out, const gwt_config *config, gw_comm *comm);
void gwt_trace_free(gwt_trace *trace);

/* The worker computed from begin to end (gwt_now()). */
void gwt_trace_compute(gwt_trace *trace, double begin, double end);

/* Call these at the end of each step and of the training. The timeline is written once,
 * after its last step. Collective. GW_ERR_SYSTEM if the file cannot be written. */
gw_status gwt_trace_step(gwt_trace *trace, gw_comm *comm);
gw_status gwt_trace_end(gwt_trace *trace, gw_comm *comm);

#endif
