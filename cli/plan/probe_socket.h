/* SPDX-License-Identifier: Apache-2.0
 *
 * probe_socket.h - one TCP connection between two hosts, for a measurement. */
#ifndef GWC_PROBE_SOCKET_H
#define GWC_PROBE_SOCKET_H

#include "gradwire.h"

/* Room for the numeric address of a host. */
enum { GWC_PEER_CAP = 64 };

/* Connects to "HOST:PORT" or "[ADDRESS]:PORT". GW_ERR_ARG: it is neither, or the host
 * is not known. GW_ERR_SYSTEM: nobody listens there. */
gw_status gwc_probe_connect(int *fd, const char *address);

/* Waits for one connection to a port of this machine, 0 for any free port, and says on
 * standard error which one it is. peer receives the address of who connected.
 * GW_ERR_SYSTEM, GW_ERR_TIMEOUT. */
gw_status gwc_probe_accept(int *fd, int port, char peer[GWC_PEER_CAP]);

void gwc_probe_close(int fd);

#endif
