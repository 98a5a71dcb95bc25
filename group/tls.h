/* SPDX-License-Identifier: Apache-2.0
 *
 * tls.h - connections between members of a job: TLS 1.3 with a key that all members
 * share, by OpenSSL. Whoever does not know the key cannot finish the handshake, so
 * nothing that a stranger sends is ever read as a message. */
#ifndef GWG_TLS_H
#define GWG_TLS_H

#include "gradwire_streams.h"

#define GWG_TRY(call)               \
    do {                            \
        gw_status st_try_ = (call); \
        if (st_try_ != GW_OK)       \
            return st_try_;         \
    } while (0)

/* What all connections of a job have in common. It must outlive them. */
typedef struct gwg_tls gwg_tls;

/* The key that handshakes use is derived from the job's name and its key, a text of 16
 * to 1024 bytes. GW_ERR_ARG, GW_ERR_NOMEM, GW_ERR_SYSTEM. */
gw_status gwg_tls_new(gwg_tls **out, const char *job, const char *key);
void gwg_tls_free(gwg_tls *tls);

/* Makes a code over some bytes that only those who know the job's key can make; codes
 * of different purposes have nothing in common. GW_ERR_SYSTEM. */
enum { GWG_MAC_LEN = 32 };
gw_status gwg_tls_mac(const gwg_tls *tls, const char *purpose, const void *bytes,
                      size_t len, unsigned char mac[GWG_MAC_LEN]);

/* Compares in a time that does not depend on where the difference is. */
int gwg_tls_same(const void *a, const void *b, size_t len);

/* One connection. It owns its socket, which is made non-blocking. */
typedef struct gwg_conn gwg_conn;

typedef enum gwg_side { GWG_CALLS, GWG_ANSWERS } gwg_side;

/* Begins a connection over fd. On failure fd is closed. GW_ERR_NOMEM, GW_ERR_SYSTEM. */
gw_status gwg_conn_new(gwg_conn **out, gwg_tls *tls, int fd, gwg_side side);
void gwg_conn_free(gwg_conn *conn);

/* Goes on with the handshake. Returns GW_OK once it is over, GW_PENDING before that, or
 * GW_ERR_PEER. */
gw_status gwg_conn_shake(gwg_conn *conn);

/* Returns the poll() events that it waits for. */
short gwg_conn_events(const gwg_conn *conn);
int gwg_conn_fd(const gwg_conn *conn);

/* Read and write as gw_stream does. */
long gwg_conn_read(gwg_conn *conn, void *buf, size_t len);
long gwg_conn_write(gwg_conn *conn, const struct iovec *parts, int count);
size_t gwg_conn_unread(const gwg_conn *conn);
size_t gwg_conn_unsent(const gwg_conn *conn);

/* Ends what was said with the one at the other end of the socket and begins anew with
 * whoever it passes bytes on to: a new handshake, in which this side calls or answers.
 * All that was written must have left. GW_ERR_PEER, GW_ERR_SYSTEM. */
gw_status gwg_conn_again(gwg_conn *conn, gwg_tls *tls, gwg_side side);

/* Releases the connection and returns its bare socket, or -1 if bytes are left on their
 * way in or out; the socket is closed then. */
int gwg_conn_detach(gwg_conn *conn);

/* Turns a connection into a stream for gw_comm_streams(), which then owns it. If plain,
 * both sides go on without encryption: they must have read all that the other has sent
 * encrypted. */
gw_stream gwg_conn_stream(gwg_conn *conn, int plain);

#endif
