/* SPDX-License-Identifier: Apache-2.0
 *
 * capture_wires.h - comms that write down every byte which crosses them, for
 * capture_driver.c.
 *
 * A tape is a list of records; what they hold is told in capture_driver.c. */
#ifndef CAPTURE_WIRES_H
#define CAPTURE_WIRES_H

#include "gradwire.h"

typedef enum tape_kind {
    TAPE_TEXT = 1,    /* what was run, as lines "name value" */
    TAPE_MESSAGE = 2, /* a = from, b = to */
    TAPE_STREAM = 3,  /* the same for all bytes of a socket, in their order */
    TAPE_VECTOR = 4,  /* a = worker, b = step, c = which one */
    TAPE_STATE = 5,   /* a = worker, b = step */
    TAPE_STATUS = 6   /* a = worker, b = step, c = call; a text, "" for GW_OK */
} tape_kind;

/* Grows as it is written. */
typedef struct tape {
    unsigned char *bytes;
    size_t len, cap;
} tape;

/* Appends a record: its head and len bytes of content. Ends the program if there is no
 * memory. */
void tape_put(tape *t, tape_kind kind, unsigned a, unsigned b, unsigned c,
              const void *content, size_t len);

/* Makes a comm over that of `inner`, a local one, that puts every message this worker
 * sends onto the tape. It tells nobody when it fails, so that the others come to the
 * same end by themselves. The caller frees it before inner, and frees *memory last. */
gw_status tapped_comm_new(gw_comm **out, void **memory, gw_comm *inner, tape *t);

/* Pairs of sockets for `workers` workers, with a thread in the middle of each direction
 * that hands on and writes down what passes. */
typedef struct tapped_sockets tapped_sockets;

/* NULL if the system refuses. */
tapped_sockets *tapped_sockets_new(int workers);

/* The descriptors of one worker, for gw_comm_sockets(). */
const int *tapped_sockets_of(const tapped_sockets *s, int rank);

/* Waits until all descriptors are closed, puts the streams onto the tape, and frees. */
void tapped_sockets_end(tapped_sockets *s, tape *t);

#endif
