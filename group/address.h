/* SPDX-License-Identifier: Apache-2.0
 *
 * address.h - texts such as "tcp://host:port" and the sockets behind them. */
#ifndef GWG_ADDRESS_H
#define GWG_ADDRESS_H

#include "tls.h"

enum { GWG_HOST_CAP = 256, GWG_PORT_CAP = 8 };

typedef struct gwg_address {
    char host[GWG_HOST_CAP]; /* "" if the text has none */
    char port[GWG_PORT_CAP];
} gwg_address;

/* Parses HOST:PORT, [IPV6]:PORT, or :PORT and PORT alone, which have no host.
 * GW_ERR_ARG. */
gw_status gwg_address_parse(const char *text, gwg_address *out);

/* Opens a listening socket; an empty host means all interfaces, port "0" any that is
 * free. *port is the one that it got. GW_ERR_SYSTEM. */
gw_status gwg_listen(const gwg_address *at, int *fd, int *port);

/* Accepts one connection and writes the caller's address, or returns -1 if none is
 * there. The sockets are non-blocking. */
int gwg_accept(int listener, char from[GWG_HOST_CAP]);

/* Connects within `seconds`. GW_ERR_PEER: nobody answers there. GW_ERR_ARG: no such
 * host. */
gw_status gwg_connect(const gwg_address *to, double seconds, int *fd);

/* Returns whether the host says that nobody listens there. It waits `seconds` at most;
 * silence is no answer. */
int gwg_is_refused(const gwg_address *at, double seconds);

/* Returns whether a numeric address leads back to the machine that uses it. */
int gwg_is_loopback(const char *host);

/* Writes this side's address of a connection. */
void gwg_local_host(int fd, char host[GWG_HOST_CAP]);

/* Begins to connect: the socket is writable once that is over. An address that cannot
 * be reached shows when it is used. GW_ERR_ARG, GW_ERR_PEER. */
gw_status gwg_connect_begin(const gwg_address *to, int *fd);

/* Seconds of a clock that only moves forward. */
double gwg_now(void);

#endif
