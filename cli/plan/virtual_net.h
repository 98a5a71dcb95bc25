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
#ifndef GWC_VIRTUAL_NET_H
#define GWC_VIRTUAL_NET_H

#include "gradwire.h"

enum { GWC_LINKS_MAX = 24 };

typedef struct gwc_link {
    double bytes_per_second, delay;
} gwc_link;

typedef struct gwc_net_settings {
    int workers;
    const gwc_link *link; /* which links to keep clocks for */
    size_t links;
    double cpu_factor;  /* a second of processor time counts so many */
    double byte_factor; /* a byte counts so many: stands for longer vectors */
} gwc_net_settings;

typedef struct gwc_virtual_net gwc_virtual_net;

/* Makes the network; released with gwc_virtual_net_free(), after its comms.
 * GW_ERR_ARG, GW_ERR_NOMEM, GW_ERR_SYSTEM. */
gw_status gwc_virtual_net_new(gwc_virtual_net **out, const gwc_net_settings *set);
void gwc_virtual_net_free(gwc_virtual_net *net);

/* A worker's comm, for the one thread that uses it. */
gw_status gwc_virtual_net_join(gw_comm **out, gwc_virtual_net *net, int rank);

/* What one worker's clocks say. */
typedef struct gwc_clocks {
    double at[GWC_LINKS_MAX]; /* seconds since the start, per link */
    double cpu;               /* of these, processor time spent in exchanges */
} gwc_clocks;

/* Sets all clocks of all workers to 0; no worker is in an exchange. */
void gwc_virtual_net_start(gwc_virtual_net *net);

/* From here on the thread's processor time counts as this worker's, until it stops
 * counting: what lies between is an exchange. */
void gwc_virtual_net_enter(gwc_virtual_net *net, int rank);
void gwc_virtual_net_leave(gwc_virtual_net *net, int rank);

/* Lets a worker compute for so long. */
void gwc_virtual_net_spend(gwc_virtual_net *net, int rank, double seconds);

gwc_clocks gwc_virtual_net_clocks(const gwc_virtual_net *net, int rank);

#endif
