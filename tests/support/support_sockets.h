/* SPDX-License-Identifier: Apache-2.0
 *
 * support_sockets.h - a toy transport over socketpairs, written as a user of the
 * library would write one. */
#ifndef SUPPORT_SOCKETS_H
#define SUPPORT_SOCKETS_H

#include "gradwire.h"

typedef struct socket_group socket_group;

/* Opens a socketpair for each pair of workers; NULL on failure. */
socket_group *socket_group_new(int workers);
void socket_group_free(socket_group *group);

/* The comm of one rank; without_wait leaves out the table's optional functions. */
gw_status socket_comm_new(gw_comm **out, socket_group *group, int rank,
                          int without_wait, double timeout);

/* The same by gw_comm_sockets(), which takes rank's sockets over from the group. */
gw_status stream_comm_new(gw_comm **out, socket_group *group, int rank, double timeout);

/* The end that rank has of the pair with peer, for tests that misbehave with it. */
int socket_group_fd(const socket_group *group, int rank, int peer);

/* Two ends of a TCP connection over the loopback; -1 on failure. */
int tcp_pair(int pair[2]);

#endif
