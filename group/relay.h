/* SPDX-License-Identifier: Apache-2.0
 *
 * relay.h - passes bytes on between two members that can only call out.
 *
 * Both call the hub, prove the key, and say "relay VIEW FROM TO". Once both are there
 * the hub answers "relayed" and from then on moves bytes from one to the other, without
 * looking at them: the two make a TLS connection of their own through it.
 *
 * Callers are taken in by one thread, the hub's own. Another one moves the bytes. It
 * reads from one side only what the other side has taken, so that a slow reader slows
 * its sender and costs no memory. */
#ifndef GWG_RELAY_H
#define GWG_RELAY_H

#include "talk.h"

/* Pairs that one relay serves at most, which is those among 64 members. */
enum { GWG_MOST_PAIRS = 64 * 63 / 2 };

typedef struct gwg_relay gwg_relay;

/* Who calls, for whom. */
typedef struct gwg_pair {
    uint64_t view, from, to;
} gwg_pair;

/* Reads "relay VIEW FROM TO". GW_ERR_DATA. */
gw_status gwg_pair_read(const char *line, gwg_pair *out);

/* Whether this process may have as many files open as so many pairs take;
 * GW_ERR_SYSTEM says what is missing. */
gw_status gwg_relay_check(int pairs);

/* GW_ERR_NOMEM, GW_ERR_SYSTEM. */
gw_status gwg_relay_new(gwg_relay **out);

/* Waits `seconds` at most until all pairs have ended by themselves: others may still
 * talk when this member is done. relay may be NULL. */
void gwg_relay_free(gwg_relay *relay, double seconds);

/* Takes a caller, who waits until the other one has come, too; a pair that the two had
 * in this view ends. On success the talk is the relay's. GW_ERR_PEER: one of both is of
 * no use. GW_ERR_SPACE, GW_ERR_NOMEM, GW_ERR_SYSTEM. */
gw_status gwg_relay_take(gwg_relay *relay, gwg_talk *talk, const gwg_pair *pair);

/* Hangs up on callers that have waited for more than so long. */
void gwg_relay_forget(gwg_relay *relay, double seconds);

/* Returns how many pairs of a view are connected. */
int gwg_relay_pairs(gwg_relay *relay, uint64_t view);

#endif
