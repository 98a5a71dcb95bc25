/* SPDX-License-Identifier: Apache-2.0
 *
 * virtual_net.h - a network in virtual time. Real workers exchange real messages in
 * memory, and every worker keeps one clock per link, which shows the time that would
 * have passed on a link of that rate. One run gives the results for all links.
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
    const gwc_link *link; /* the links to keep clocks for */
    size_t links;
    double cpu_factor;  /* multiplies processor time */
    double byte_factor; /* multiplies bytes, to stand for longer vectors */
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

/* Sets all clocks of all workers to 0. No worker may be in an exchange. */
void gwc_virtual_net_start(gwc_virtual_net *net);

/* Between these calls is an exchange: the thread's processor time counts as the
 * worker's. */
void gwc_virtual_net_enter(gwc_virtual_net *net, int rank);
void gwc_virtual_net_leave(gwc_virtual_net *net, int rank);

/* Advances a worker's clocks by the time of a computation. */
void gwc_virtual_net_spend(gwc_virtual_net *net, int rank, double seconds);

gwc_clocks gwc_virtual_net_clocks(const gwc_virtual_net *net, int rank);

#endif
