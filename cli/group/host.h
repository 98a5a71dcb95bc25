/* SPDX-License-Identifier: Apache-2.0
 *
 * host.h - a worker that runs the meeting of its job itself. */
#ifndef GWC_HOST_H
#define GWC_HOST_H

#include "gradwire.h"

typedef struct gwc_host gwc_host;

/* Opens a meeting at `listen`, [HOST]:PORT, and says how others join it. The caller
 * releases *out with gwc_host_close(). On failure *out is NULL. */
gw_status gwc_host_open(gwc_host **out, const char *listen, const char *job,
                        const char *key, double timeout, int quiet);

/* What this worker joins. */
const char *gwc_host_where(const gwc_host *host);

/* What has become of the job. */
typedef enum gwc_host_end {
    GWC_HOST_FAILED,      /* it ends at once */
    GWC_HOST_JOB_IS_OVER, /* for all, who have some seconds to leave */
    GWC_HOST_JOB_GOES_ON, /* without this worker: it ends when all have left */
} gwc_host_end;

/* Ends the meeting. The worker has left the job. host may be NULL. */
void gwc_host_close(gwc_host *host, gwc_host_end end, int quiet);

#endif
