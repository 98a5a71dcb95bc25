/* SPDX-License-Identifier: Apache-2.0
 *
 * meeting.h - the server that members of a job meet at.
 *
 *     meeting.c         opening and closing it; its loop
 *     meeting_guests.c  connections: who came, who is gone
 *     meeting_join.c    who joins, and who comes back
 *     meeting_view.c    what members say, and views
 *
 * A guest is a connection. It is a *stranger* until its handshake is over and it has
 * said what it wants. Then it is a *member* or a *watcher*. All state belongs to the
 * meeting's thread. */
#ifndef GWG_MEETING_H
#define GWG_MEETING_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>

#include "address.h"
#include "gradwire_group.h"
#include "relay.h"
#include "talk.h"
#include "terms.h"

enum {
    GWG_MOST_WORKERS = 1024,
    GWG_MOST_GUESTS = GWG_MOST_WORKERS + 64,
    GWG_MOST_STRANGERS = 32,
    GWG_NAME_CAP = 64,
};

/* A meeting that has just been opened, or has just heard of a view that it does not
 * know, waits so long for members to come back: they call every 0.3 seconds. */
#define GWG_SETTLE_SECONDS 2.0

/* How long a stranger may take for its handshake and its first line. */
#define GWG_STRANGER_SECONDS 5.0

typedef enum gwg_role {
    GWG_NOBODY, /* the place is free */
    GWG_STRANGER,
    GWG_WATCHER,
    /* The rest are members. */
    GWG_JOINED, /* a member that has not asked for a view yet */
    GWG_ASKS,   /* a member that waits for the next view */
    GWG_RUNS,   /* a member of the current view */
} gwg_role;

typedef struct gwg_guest {
    gwg_role role;
    bool shaken; /* its handshake is over */
    gwg_talk talk;
    double since;    /* when it came */
    double patience; /* for those who have not asked, if it asks; 0: the meeting's */
    uint64_t id;     /* of members: 1, 2, ... in the order in which they joined */
    uint64_t view;   /* the last one that it was in; 0: none */
    uint64_t token, senior; /* its own random number, and the first id that it got */
    char from[GWG_HOST_CAP], host[GWG_HOST_CAP], name[GWG_NAME_CAP];
    int port; /* 0: it only calls out */
    bool reported;
    gw_group_progress progress; /* as it has reported it last */
} gwg_guest;

struct gw_meeting {
    gwg_tls *tls;
    int listener, port;
    int wake[2]; /* a pipe: a byte ends the loop */
    pthread_t thread;
    double timeout;
    void (*tell)(void *arg, const char *line);
    void *arg;
    gwg_terms terms; /* those of the first member, as long as there are members */
    uint64_t view, last_id;
    double over_at;  /* when members were told that the view is over; 0: it is not */
    int missing;     /* members of a view from before, who have not come back */
    double heard_at; /* when the meeting heard of that view, or was opened */
    int told_have;   /* what members were told last about how many are there */
    gw_group_progress past; /* the last report of a worker that ran and is gone */
    gwg_relay *relay; /* for views in which nobody can be called; NULL: none yet */
    gwg_guest guests[GWG_MOST_GUESTS];
    struct pollfd polls[GWG_MOST_GUESTS + 2];
    int polled[GWG_MOST_GUESTS + 2];
};

/* ---- meeting_guests.c ------------------------------------------------------------ */

/* Takes in everybody who calls. */
void gwg_guests_accept(gw_meeting *m);

/* Moves a guest's bytes and acts on its lines. */
void gwg_guest_serve(gw_meeting *m, gwg_guest *g);

/* Sends a guest away; `why` is told, and NULL if it went by itself. */
void gwg_guest_drop(gw_meeting *m, gwg_guest *g, const char *why);

/* Sends away strangers that take too long. */
void gwg_guests_expire(gw_meeting *m, double now);

static inline bool gwg_is_member(const gwg_guest *g)
{
    return g->role >= GWG_JOINED;
}

/* ---- meeting_join.c -------------------------------------------------------------- */

/* A stranger's line that begins with "join ". GW_ERR_DATA. */
gw_status gwg_meeting_join(gw_meeting *m, gwg_guest *g, const char *line);

/* Returns whether members of a view from before may still come back. */
bool gwg_meeting_settles(const gw_meeting *m, double now);

/* ---- meeting_view.c -------------------------------------------------------------- */

/* Acts on one line of a guest. GW_ERR_DATA, which says what is wrong with it. */
gw_status gwg_meeting_hear(gw_meeting *m, gwg_guest *g, const char *line);

/* Tells a guest something. A line that does not fit is not sent: who does not read is
 * found when it does not ask for the next view. */
void gwg_guest_say(gwg_guest *g, const char *format, ...) GW_PRINTF(2, 3);

int gwg_count_members(const gw_meeting *m);
int gwg_count_role(const gw_meeting *m, gwg_role role);

/* A member is gone: the others of its view are told that the view is over. */
void gwg_meeting_lost(gw_meeting *m, const gwg_guest *gone);

/* Makes the next view if everybody asks for it and there are enough. */
void gwg_meeting_form(gw_meeting *m, double now);

/* Calls tell() with a line of text. */
void gwg_meeting_tell(gw_meeting *m, const char *format, ...) GW_PRINTF(2, 3);

#endif
