/* SPDX-License-Identifier: Apache-2.0
 *
 * doubling_allreduce.c - all-reduce of short vectors in log2 P rounds.
 *
 * With Q the largest power of two not above P, the P - Q workers past Q hand
 * their vector to a partner below, the Q workers exchange with the one whose rank
 * differs in bit 0, 1, 2, ... and add, and the partners hand the result back.
 * Both of a pair compute a + b from the same two vectors, and addition commutes
 * to the bit, so all have the same sum after every round.
 *
 * A message is the vector followed by the note, if there is one. */
#include "collective/collective.h"

#include <string.h>

#include "kernels/vector.h"

typedef struct doubling {
    gw_comm *comm;
    float *x;
    size_t n, len; /* floats; bytes of a message */
    gwi_note *note;
    uint8_t *out, *in; /* len bytes each */
} doubling;

static void pack(const doubling *d)
{
    memcpy(d->out, d->x, d->n * sizeof(float));
    if (d->note != NULL)
        memcpy(d->out + d->n * sizeof(float), d->note, sizeof *d->note);
}

static gwi_note note_of(const uint8_t *end_of_vector)
{
    gwi_note note;

    memcpy(&note, end_of_vector, sizeof note);
    return note;
}

static void add_incoming(const doubling *d)
{
    gwi_vector()->add(d->x, (const float *)d->in, d->n);
    if (d->note != NULL) {
        gwi_note theirs = note_of(d->in + d->n * sizeof(float));
        if (theirs != 0 && (*d->note == 0 || theirs < *d->note))
            *d->note = theirs;
    }
}

static void take_incoming(const doubling *d)
{
    memcpy(d->x, d->in, d->n * sizeof(float));
    if (d->note != NULL)
        *d->note = note_of(d->in + d->n * sizeof(float));
}

static gw_status send_out(const doubling *d, int to)
{
    pack(d);
    GWI_TRY(gwi_send(d->comm, &d->comm->ops[0], to, d->out, d->len));
    return gwi_wait(d->comm, &d->comm->ops[0]);
}

static gw_status receive(const doubling *d, int from)
{
    GWI_TRY(gwi_recv(d->comm, &d->comm->ops[0], from, d->in, d->len));
    return gwi_wait_exactly(d->comm, &d->comm->ops[0], d->len);
}

static gw_status exchange_all(const doubling *d, int q, float divide)
{
    for (int bit = 1; bit < q; bit *= 2) {
        int peer = d->comm->rank ^ bit;
        pack(d);
        GWI_TRY(gwi_swap(d->comm, peer, d->out, d->len, peer, d->in, d->len));
        add_incoming(d);
    }
    if (divide != 1.0f)
        gwi_vector()->divide(d->x, divide, d->n);
    return GW_OK;
}

gw_status gwi_allreduce_doubling(gw_comm *c, float *x, size_t n, float divide,
                                 gwi_note *note)
{
    doubling d = {.comm = c, .x = x, .n = n, .note = note};
    int q = 1;

    while (q <= c->workers / 2)
        q *= 2;
    d.len = n * sizeof(float) + (note != NULL ? sizeof *note : 0);
    /* The second buffer begins aligned for floats whatever the note does. */
    size_t stride = (d.len + 63) & ~(size_t)63;
    d.out = gwi_comm_scratch(c, 2 * stride);
    if (d.out == NULL)
        return GW_ERR_NOMEM;
    d.in = d.out + stride;

    if (c->rank >= q) {
        GWI_TRY(send_out(&d, c->rank - q));
        GWI_TRY(receive(&d, c->rank - q));
        take_incoming(&d);
        return GW_OK;
    }
    bool has_partner = c->rank + q < c->workers;
    if (has_partner) {
        GWI_TRY(receive(&d, c->rank + q));
        add_incoming(&d);
    }
    GWI_TRY(exchange_all(&d, q, divide));
    return has_partner ? send_out(&d, c->rank + q) : GW_OK;
}
