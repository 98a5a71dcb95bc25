/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.h - how comm.c reports to a tracer that it waits or sends. */
#ifndef GWI_TRACE_H
#define GWI_TRACE_H

#include "comm.h"

/* A wait begins now, and has ended; without a tracer, nothing. */
void gwi_trace_pause(gw_comm *c, double now);
void gwi_trace_resume(gw_comm *c, double began, double now);

/* A wait for a thread that used the comm, outside of other activities. */
void gwi_trace_wait(gw_comm *c, double began, double now);

void gwi_trace_send(gw_comm *c, int to, size_t len);

#endif
