/* SPDX-License-Identifier: Apache-2.0
 *
 * virtual_net.h - a network in virtual time: real workers exchange real messages in
 * memory, and every worker keeps clocks that say when it would have been where on
 * links of given rates. One run answers for all of them.
 *
 *     a worker's clock   moves by the processor time it spends between messages
 *     its interface      sends one message after another, as transport/link.c does
 *     a receive          moves its clock to when the message would have arrived
 */
#ifndef GWB_VIRTUAL_NET_H
#define GWB_VIRTUAL_NET_H

#include "gradwire.h"

enum { GWB_LINKS_MAX = 24 };

typedef struct gwb_link {
    double bytes_per_second, delay;
} gwb_link;

typedef struct gwb_net_settings {
    int workers;
    const gwb_link *link; /* which links to keep clocks for */
    size_t links;
    double cpu_factor;  /* a second of processor time counts so many */
    double byte_factor; /* a byte counts so many: stands for longer vectors */
} gwb_net_settings;

typedef struct gwb_virtual_net gwb_virtual_net;

/* Makes the network; released with gwb_virtual_net_free(), after its comms.
 * GW_ERR_ARG, GW_ERR_NOMEM, GW_ERR_SYSTEM. */
gw_status gwb_virtual_net_new(gwb_virtual_net **out, const gwb_net_settings *set);
void gwb_virtual_net_free(gwb_virtual_net *net);

/* A worker's comm, for the one thread that uses it. */
gw_status gwb_virtual_net_join(gw_comm **out, gwb_virtual_net *net, int rank);

/* What one worker's clocks say. */
typedef struct gwb_clocks {
    double at[GWB_LINKS_MAX]; /* seconds since the start, per link */
    double cpu;               /* of these, processor time spent in exchanges */
} gwb_clocks;

/* Sets all clocks of all workers to 0; no worker is in an exchange. */
void gwb_virtual_net_start(gwb_virtual_net *net);

/* From here on the thread's processor time counts as this worker's, until it stops
 * counting: what lies between is an exchange. */
void gwb_virtual_net_enter(gwb_virtual_net *net, int rank);
void gwb_virtual_net_leave(gwb_virtual_net *net, int rank);

/* Lets a worker compute for so long. */
void gwb_virtual_net_spend(gwb_virtual_net *net, int rank, double seconds);

gwb_clocks gwb_virtual_net_clocks(const gwb_virtual_net *net, int rank);

#endif
