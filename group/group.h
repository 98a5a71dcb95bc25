/* SPDX-License-Identifier: Apache-2.0
 *
 * group.h - the inside of a gw_group.
 *
 *     group.c  joining, views, leaving
 *     mesh.c   connections among the members of a view
 *     relay.c  bytes that a member passes on between two others
 */
#ifndef GWG_GROUP_H
#define GWG_GROUP_H

#include <stdatomic.h>

#include "relay.h"
#include "way.h"

typedef struct gwg_member {
    uint64_t id;
    gwg_address at; /* port "0": it can only call out */
    char name[GWG_MEMBER_NAME_CAP];
} gwg_member;

struct gw_group {
    gwg_self self;
    const gwg_way *way;
    gwg_link *link;   /* NULL: the meeting has sent this member away */
    int listener;     /* -1: this member can only call out */
    gwg_relay *relay; /* for others that can only call out; NULL: it was not needed */
    void (*tell)(void *arg, const char *line);
    void *arg;
    uint64_t id, next_id;   /* in the view, and from the next view on */
    double away_at;         /* since when the meeting does not answer; 0: it does */
    char away[128];         /* what is known about that */
    int told_away;          /* it has said that it waits for the meeting */
    int met;                /* it has been connected with all members of a view */
    uint64_t view;          /* 0: none yet */
    int over;               /* the meeting has said that the view is over */
    int lacking;            /* it has said that there are too few for the next one, and
                             * says it once */
    gw_limit *limit;        /* what comms learn; NULL: they do not */
    int rank, count, known; /* of the members of the view, `known` have been named */
    gwg_member *members;    /* [count] */
    atomic_int stopped, leaving; /* also by signal handlers, so without a lock */
};

/* Reads what the meeting has said. GW_OK also while it is away. GW_ERR_MISMATCH: it has
 * sent this member away. */
gw_status gwg_group_hear(gw_group *g);

/* Connects with all members of the view. GW_PENDING: the view is over before all were
 * connected. GW_ERR_TIMEOUT, which names the member; GW_ERR_STOPPED, GW_ERR_NOMEM. */
gw_status gwg_mesh(gw_group *g, gw_comm **out);

#endif
