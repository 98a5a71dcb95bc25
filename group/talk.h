/* SPDX-License-Identifier: Apache-2.0
 *
 * talk.h - lines of text over an encrypted connection: how members talk to a meeting
 * and greet each other. docs/format-group.md lists the lines. */
#ifndef GWG_TALK_H
#define GWG_TALK_H

#include "tls.h"

/* The longest line, with the zero behind it; and the most that may wait to be sent. */
enum { GWG_LINE_CAP = 512, GWG_WAITING_CAP = 1 << 18 };

typedef struct gwg_talk {
    gwg_conn *conn;
    char in[GWG_LINE_CAP];
    size_t in_len;
    char *out; /* GWG_WAITING_CAP bytes at most */
    size_t out_len, out_cap;
} gwg_talk;

/* Talks over conn, which it owns. A talk without a connection is all zeros. */
gwg_talk gwg_talk_over(gwg_conn *conn);
void gwg_talk_end(gwg_talk *talk);

/* Sends what can be sent without waiting, and reads nothing. GW_ERR_PEER. */
gw_status gwg_talk_send(gwg_talk *talk);

/* Moves what can be moved without waiting. GW_OK, or GW_ERR_PEER: it has ended. */
gw_status gwg_talk_move(gwg_talk *talk);

/* Takes the next line, without its end. GW_PENDING: there is none yet. GW_ERR_PEER: it
 * has ended. GW_ERR_DATA: what came is not a line of printable ASCII. */
gw_status gwg_talk_take(gwg_talk *talk, char line[GWG_LINE_CAP]);

/* Adds a line to what is to be sent. GW_ERR_SPACE: too much waits already. */
gw_status gwg_talk_put(gwg_talk *talk, const char *format, ...) GW_PRINTF(2, 3);

/* Returns whether there is more to take that poll() does not show. */
int gwg_talk_has_more(const gwg_talk *talk);

/* Returns the poll() events that it waits for. */
short gwg_talk_events(const gwg_talk *talk);

#endif
