/* SPDX-License-Identifier: Apache-2.0
 *
 * join.h - the command as one worker of a job that meets somewhere.
 *
 *     join.c            joining and leaving; a build with OpenSSL
 *     join_fit.c        checks settings before that
 *     host.c            a worker that runs the meeting, too
 *     join_absent.c     a build without
 *     meet_command.c    "gradwire meet"
 *     status_command.c  "gradwire status"
 */
#ifndef GWC_JOIN_H
#define GWC_JOIN_H

#include "flags.h"
#include "group/host.h"
#include "run/train.h"

/* What --join and its kin say. */
typedef struct gwc_join_options {
    const char *meeting;  /* NULL: do not join */
    const char *meet;     /* where to open a meeting instead, and join that; or NULL */
    const char *job;      /* its name */
    const char *key_file; /* NULL: the key is in GRADWIRE_KEY */
    const char *address;  /* NULL: where this worker calls from */
    int port;             /* 0: any */
    int plain;
    int out_only; /* others cannot call this worker */
    int streams;  /* connections to each other worker */
    int learn_timeout;
} gwc_join_options;

typedef struct gwc_joined gwc_joined;

/* Checks the settings of a worker that joins and fills in what follows from that; -1 in
 * workers or spawn means that they are not given. GW_ERR_ARG. */
gw_status gwc_join_fit(gwt_config *run);

/* For a worker that does not join: GW_ERR_ARG if a flag is given that needs --join. */
gw_status gwc_join_unused(const gwc_flag *flags, size_t count, int argc, char **argv);

/* Joins a job of so many workers, waits for the others, and makes a comm. On success
 * the caller releases *out with gwc_join_leave() after the comm. On failure both are
 * NULL. GW_ERR_ABSENT: this build has no OpenSSL. */
gw_status gwc_join(gwc_joined **out, gw_comm **comm, const gwc_join_options *opt,
                   int workers, double timeout, int quiet);

/* For a job whose workers may change: prepares to join one with `least` to `most`
 * workers. The first gwc_join_next() joins it. As gwc_join() otherwise. */
gw_status gwc_join_later(gwc_joined **out, const gwc_join_options *opt, int least,
                         int most, double timeout, int quiet);

/* Waits for the next view and makes a comm of it; whether one is due; says a line about
 * it. They are those of gwt_views, with a gwc_joined. */
gw_status gwc_join_next(void *joined, gw_comm **out);
int gwc_join_due(void *joined);
void gwc_join_tell(void *joined, const char *line);

/* Ends a wait for others, unless they are about to come and this worker has something
 * to hand over. It may be called from a signal handler. */
void gwc_join_wake(gwc_joined *joined);

/* Tells the meeting how far the run is. joined may be NULL. */
void gwc_join_report(gwc_joined *joined, const gwt_progress *progress);

/* Whether this worker is one of several that meet somewhere. */
int gwc_joins(const gwc_join_options *opt);

/* Leaves the job, and ends the meeting if this worker runs it. joined may be NULL. */
void gwc_join_leave(gwc_joined *joined, gwc_host_end end);

/* Reads a job's key from a file, or from GRADWIRE_KEY if path is NULL. The caller frees
 * it with free(). GW_ERR_ARG, GW_ERR_SYSTEM. */
gw_status gwc_key_read(const char *path, char **key);

#endif
