/* SPDX-License-Identifier: Apache-2.0
 *
 * gradwire_group.h - workers on any number of machines that find each other through a
 * meeting. Link with libgradwire-group.
 *
 *     gw_group_join(&group, &options);
 *     gw_group_next(group, &comm);
 *     ... everything of gradwire.h ...
 *     gw_comm_free(comm);
 *     gw_group_leave(group);
 *
 * A *meeting* is a place that all workers can reach: a small server that 'gradwire
 * meet' runs, or a cluster of etcd, which goes on when one of its machines dies. A
 * *view* is a numbered list of members. Every member of a view has a connection to each
 * other member, and a comm over these connections. If a member dies, comms of the view
 * fail; the members that are left ask for the next view with gw_group_next(). New
 * members enter with the next view, too.
 *
 * Strangers: every connection, to the meeting and between members, is TLS 1.3 with the
 * job's key. Nothing is read from anybody who has not proven that it knows this key.
 *
 * Threads: one thread at a time may use a gw_group, which has a thread of its own for
 * its meeting: a member is known to be alive while it computes, and finds a meeting
 * again that was away. A gw_meeting has its own thread, too. */
#ifndef GRADWIRE_GROUP_H
#define GRADWIRE_GROUP_H

#include "gradwire_elastic.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a member ------------------------------------------------------------------ */

typedef struct gw_group gw_group;

typedef struct gw_group_options {
    size_t struct_size;  /* sizeof(gw_group_options) */
    const char *meeting; /* "tcp://HOST:PORT", "etcd://HOST:PORT[,HOST:PORT...]/JOB" */
    const char *job;     /* the job's name, if meeting has none; NULL: "job" */
    const char *key;     /* the job's key, 16 to 1024 bytes of text */
    const char *name;    /* this worker's name in messages; NULL: its host's */
    const char *address; /* where other members reach it; NULL: where it calls from, or
                          * where a tcp:// meeting is, if it calls that at home */
    int port;            /* that it opens for other members; 0: any that is free */
    int min_workers;     /* a view has at least so many members; 0: 1 */
    int max_workers;     /* and at most so many; 0: 1024 */
    int plain;    /* if not 0, members do not encrypt what they send each other */
    int out_only; /* if not 0, others cannot call this member, because of a firewall or
                   * a NAT: it opens no port and calls them. Two such members talk
                   * through the first member of the view that can be called, or else
                   * through the server of the meeting. */
    int streams;  /* connections to each other member, 1 to 16, for links that carry
                   * more in a round trip than one connection has under way; 0: 1. Two
                   * members that only call out have one in any case. */
    int learn_timeout; /* if not 0, comms learn their time limit (gw_comm_learn()), up
                        * to timeout_seconds */
    double timeout_seconds; /* to reach the meeting and other members, and without
                             * progress in a comm; 0: 60 s */

    /* Called with one line of text when something is worth telling, such as "waiting
     * for 2 more workers". NULL: nobody is told. */
    void (*tell)(void *arg, const char *line);
    void *arg;
} gw_group_options;

/* Joins the job at a meeting. All members must give the same numbers of workers and the
 * same `plain` and `streams`. On success the caller releases *out with
 * gw_group_leave(). On failure *out is NULL. Fails with GW_ERR_ARG, GW_ERR_NOMEM,
 * GW_ERR_SYSTEM; with GW_ERR_PEER if nobody answers at the meeting or it does not know
 * the key; or with GW_ERR_MISMATCH, which says what the other members have. */
GW_API gw_status gw_group_join(gw_group **out, const gw_group_options *opt);

/* Waits until there are enough members, connects with them, and makes a comm of the new
 * view. Members are ranked by the time at which they joined, so worker 0 was there
 * before all others. Free the comm of the last view before or after. There is no time
 * limit while members are missing; gw_group_interrupt() ends the wait. Nor is there one
 * while the meeting is away, if this member has been in a view: it waits until the
 * meeting is back, and tells so once. In the first view, a meeting that is away may
 * come back within the time limit. Fails with GW_ERR_PEER if it does not; with
 * GW_ERR_TIMEOUT, which names the member, if one of the first view cannot be reached,
 * while later another view is made; GW_ERR_MISMATCH if the meeting sends this member
 * away; GW_ERR_STOPPED, GW_ERR_NOMEM. The group can be used again after a failure. */
GW_API gw_status gw_group_next(gw_group *group, gw_comm **out);

/* Returns whether a new view is due because a member is gone or another waits to enter.
 * It does not wait. All members should call gw_group_next() soon, between two steps. */
GW_API int gw_group_due(gw_group *group);

/* Returns the number of the current view; 0 before the first. */
GW_API uint64_t gw_group_view(const gw_group *group);

/* How far a worker is. */
typedef struct gw_group_progress {
    size_t struct_size;  /* sizeof(gw_group_progress) */
    uint64_t step;       /* steps that are done */
    uint64_t steps;      /* of so many; 0: not known */
    double loss;         /* the last one; NaN: not known */
    double samples;      /* per second, of all workers; NaN: not known */
    uint64_t bytes_sent; /* by this worker, so far */
} gw_group_progress;

/* Tells the meeting how far this worker is, which 'gradwire status' shows. Only the
 * newest report counts. It does not wait, and does nothing while the meeting is away or
 * if struct_size is not the size. */
GW_API void gw_group_report(gw_group *group, const gw_group_progress *progress);

/* Ends a gw_group_next() that waits, which then fails with GW_ERR_STOPPED. It may be
 * called from another thread or a signal handler. */
GW_API void gw_group_interrupt(gw_group *group);

/* Says that this worker is about to leave. gw_group_next() still waits for a view, in
 * which the worker can hand over what it has, as long as others are on their way to
 * one. If there are too few workers for a view, this one has never been in any, or the
 * meeting is away for more than three seconds, it fails with GW_ERR_STOPPED instead. It
 * may be called from another thread or a signal handler. */
GW_API void gw_group_leaving(gw_group *group);

/* Tells the meeting that this worker leaves, and releases group, which may be NULL. If
 * others talk through this member, it waits for at most ten seconds until they have
 * heard that. */
GW_API void gw_group_leave(gw_group *group);

/* ---- a training that goes on when members die, join and leave ------------------- */

/* What a worker trains, filled in by the caller; and below, what gw_group_enter() makes
 * of it, which begins with zeros. */
typedef struct gw_training {
    size_t struct_size; /* sizeof(gw_training) */
    const char *spec;   /* these as for gw_sync_new() */
    const gw_layout *layout;
    const gw_sync_options *options;
    float *params; /* this worker's model */
    int leaves;    /* these as in gw_enter_options */
    gw_status (*hand)(void *arg, gw_comm *comm, const gw_entry *entry);
    void *arg;

    gw_comm *comm; /* of the view */
    gw_sync *sync; /* on it */
    gw_entry entry;
} gw_training;

/* Enters the next view and brings this worker to the state that all members have:
 * gw_group_next(), gw_sync_new() for the first time, and gw_sync_enter(). If a member
 * dies meanwhile, or leaves, it enters the view after. Call it first of all, and again
 *
 * - when a call of the sync has failed and gw_group_lost() says why; then make the same
 *   call with the same vector again, unless entry.joined;
 * - between two steps, when gw_group_due();
 * - with `leaves` set, between two steps, to leave; then gw_training_end() and
 *   gw_group_leave(). It calls gw_group_leaving(), so it fails with GW_ERR_STOPPED if
 *   nobody can take over what this worker has not sent.
 *
 * Fails as gw_group_next() and gw_sync_enter() do. A worker whose spec, layout or
 * options are not those of the workers that train fails with GW_ERR_MISMATCH and must
 * call gw_group_leave(); the others enter the view after. */
GW_API gw_status gw_group_enter(gw_group *group, gw_training *training);

/* Returns 1 if a status means that another worker is gone or does not answer, so that
 * gw_group_enter() helps. */
GW_API int gw_group_lost(gw_status status);

/* Releases sync and comm. */
GW_API void gw_training_end(gw_training *training);

/* ---- the meeting ----------------------------------------------------------------- */

typedef struct gw_meeting gw_meeting;

typedef struct gw_meeting_options {
    size_t struct_size;     /* sizeof(gw_meeting_options) */
    const char *listen;     /* "HOST:PORT", or ":PORT" for all interfaces */
    const char *job, *key;  /* as for members */
    double timeout_seconds; /* after which a member that is silent is gone; 0: 60 s */
    void (*tell)(void *arg, const char *line); /* called from the meeting's thread */
    void *arg;
} gw_meeting_options;

/* Opens a meeting, which runs in a thread of its own until gw_meeting_close(). On
 * failure *out is NULL. Fails with GW_ERR_ARG, GW_ERR_NOMEM or GW_ERR_SYSTEM. */
GW_API gw_status gw_meeting_open(gw_meeting **out, const gw_meeting_options *opt);

/* Returns the port that the meeting listens at. */
GW_API int gw_meeting_port(const gw_meeting *meeting);

/* Closes the meeting; it may be NULL. Members keep their comms, but nobody can join. A
 * meeting that is opened at the same place later goes on with the view that members are
 * in. */
GW_API void gw_meeting_close(gw_meeting *meeting);

/* Calls `line` for each line of a meeting's status: first the job, then each member.
 * opt needs meeting, job, key and timeout_seconds. Fails like gw_group_join(). */
GW_API gw_status gw_meeting_status(const gw_group_options *opt,
                                   void (*line)(void *arg, const char *line),
                                   void *arg);

/* Writes a new random key of 43 characters and a zero. GW_ERR_SYSTEM. */
GW_API gw_status gw_group_new_key(char key[44]);

#ifdef __cplusplus
}
#endif

#endif /* GRADWIRE_GROUP_H */
