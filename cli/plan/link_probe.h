/* SPDX-License-Identifier: Apache-2.0
 *
 * link_probe.h - measures a real link between two hosts: its round trip and its rate in
 * both directions, over TCP or over MPI, by the transports that training uses. */
#ifndef GWC_LINK_PROBE_H
#define GWC_LINK_PROBE_H

#include "launch.h"
#include "plan/virtual_net.h"

/* Measures the link to "HOST:PORT", where gwc_probe_serve() waits. Takes a few seconds.
 * GW_ERR_ARG: that is no address. GW_ERR_SYSTEM, GW_ERR_PEER, GW_ERR_TIMEOUT and
 * GW_ERR_DATA: nobody answers there, or somebody else does. */
gw_status gwc_probe_host(gwc_link *out, const char *address);

/* Waits on a TCP port of this machine until one measurement has been made; 0: any free
 * port. Tells on standard error which port it is, and who has measured. */
gw_status gwc_probe_serve(int port);

/* Measures the link between the two ranks that a launcher has started; both call it.
 * Leaves MPI at the end. Sets *out on rank 0 alone. On failure the exit code is in
 * *code, and the message has been printed. */
gw_status gwc_probe_ranks(gwc_link *out, const gwc_launch *launch, int *code);

#endif
