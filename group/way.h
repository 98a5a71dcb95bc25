/* SPDX-License-Identifier: Apache-2.0
 *
 * way.h - a member's way to its meeting. A thread keeps it up, so that a member is
 * known to be alive while it computes, and finds a meeting again that was away.
 *
 *     way.c       the thread, and what it and the member tell each other
 *     way_tcp.c   tcp://HOST:PORT, a server that 'gradwire meet' runs
 *     way_etcd.c  etcd://HOST:PORT,.../JOB, a cluster of etcd
 *
 * The member asks for views, reports, and leaves. The thread brings it the lines that
 * docs/format-group.md lists under "From the meeting", whatever kind of meeting it is,
 * and two of its own: "away TEXT" if the meeting cannot be reached, and why, and "back"
 * once it can be again. */
#ifndef GWG_WAY_H
#define GWG_WAY_H

#include <pthread.h>
#include <stdbool.h>

#include "address.h"
#include "gradwire_group.h"
#include "talk.h"
#include "terms.h"

enum { GWG_JOB_CAP = 65, GWG_MEMBER_NAME_CAP = 64, GWG_ENDPOINTS = 8 };

/* Who joins, and where. It does not change. */
typedef struct gwg_self {
    gwg_tls *tls;
    gwg_terms terms;
    int port; /* 0: it can only call out */
    double timeout;
    char job[GWG_JOB_CAP];
    char address[GWG_HOST_CAP]; /* "-": where it calls from */
    char name[GWG_MEMBER_NAME_CAP];
    uint64_t token;                      /* random: tells it from all others */
    gwg_address meetings[GWG_ENDPOINTS]; /* one is enough */
    int meeting_count;
} gwg_self;

typedef struct gwg_link gwg_link;

/* A kind of meeting. */
typedef struct gwg_way {
    const char *scheme; /* "tcp://" */
    bool relays;        /* the meeting passes bytes on if no member can */

    /* Reads what follows the scheme: self->meetings, and the job if it names one.
     * GW_ERR_ARG. */
    gw_status (*parse)(gwg_self *self, const char *text);

    /* In the link's thread: joins and moves lines until the member leaves (GW_OK) or is
     * sent away (GW_ERR_MISMATCH). Fails with GW_ERR_PEER and others if it cannot join
     * at all; later it tries again for ever. */
    gw_status (*run)(gwg_link *link);

    /* Calls `line` for each line of the status. It may wait self->timeout. */
    gw_status (*watch)(const gwg_self *self, void (*line)(void *arg, const char *line),
                       void *arg);
} gwg_way;

/* Finds the way to a meeting by its text and reads that. GW_ERR_ARG. */
gw_status gwg_way_find(const char *meeting, gwg_self *self, const gwg_way **out);

extern const gwg_way gwg_way_tcp;
extern const gwg_way gwg_way_etcd;

/* ---- for the member ------------------------------------------------------------ */

/* Starts the thread. `self` must outlive the link. GW_ERR_NOMEM, GW_ERR_SYSTEM. */
gw_status gwg_link_open(gwg_link **out, const gwg_way *way, const gwg_self *self);

/* Leaves the meeting and ends the thread; link may be NULL. */
void gwg_link_close(gwg_link *link);

/* Takes the next line. GW_PENDING: there is none yet. Anything else: the link has
 * ended, and the message says why. */
gw_status gwg_link_take(gwg_link *link, char line[GWG_LINE_CAP]);

/* A descriptor that poll() finds readable when there may be a line. */
int gwg_link_fd(const gwg_link *link);

/* Asks for the view after `view`, the last that this member was in. All others that
 * live will have asked within `patience` seconds; 0: the meeting may know. */
void gwg_link_ask(gwg_link *link, uint64_t view, double patience);

/* Only the newest report counts. */
void gwg_link_report(gwg_link *link, const gw_group_progress *progress);

/* ---- for ways, in the thread ------------------------------------------------------
 */

typedef struct gwg_wishes {
    bool leaves;
    bool asks; /* until gwg_link_answered() */
    uint64_t view;
    double patience;
    unsigned report; /* how many there were so far; 0: none */
    gw_group_progress progress;
} gwg_wishes;

const gwg_self *gwg_link_self(const gwg_link *link);
gwg_wishes gwg_link_wishes(gwg_link *link);

/* The member has the view that it asked for, unless it has asked for a later one since.
 */
void gwg_link_answered(gwg_link *link, uint64_t view);

/* Brings the member a line. GW_ERR_NOMEM, GW_ERR_SPACE: it takes none. */
gw_status gwg_link_bring(gwg_link *link, const char *format, ...) GW_PRINTF(2, 3);

/* Sleeps until fd (or nothing, if it is -1) has one of the events, the member wishes
 * something, or `seconds` have passed. Returns the events of fd. */
short gwg_link_sleep(gwg_link *link, int fd, short events, double seconds);

/* A descriptor that is readable when the member wishes something, and what to do before
 * looking at the wishes, for ways that sleep by themselves. */
int gwg_link_wake_fd(const gwg_link *link);
void gwg_link_woken(gwg_link *link);

#endif
