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
 * A message contains the vector, the note if there is one, and the checksum of both. */
#include "collective/check.h"
#include "collective/collective.h"

#include <string.h>

#include "kernels/vector.h"

typedef struct doubling {
    gw_comm *comm;
    float *x;
    size_t n, len; /* floats; bytes of a message without its check */
    gwi_note *note;
    gwi_combine_run *combine; /* instead of a sum; NULL: a sum */
    void *arg;
    uint8_t *out, *in; /* len bytes and a check each */
} doubling;

static void pack(const doubling *d)
{
    memcpy(d->out, d->x, d->n * sizeof(float));
    if (d->note != NULL)
        memcpy(d->out + d->n * sizeof(float), d->note, sizeof *d->note);
    gwi_put_check(d->out + d->len, d->out, d->len);
}

static gw_status check_incoming(const doubling *d, int from)
{
    return gwi_is_checked(d->in + d->len, d->in, d->len)
               ? GW_OK
               : gwi_fail_check(d->comm, from);
}

static gwi_note note_of(const uint8_t *end_of_vector)
{
    gwi_note note;

    memcpy(&note, end_of_vector, sizeof note);
    return note;
}

static void add_incoming(const doubling *d)
{
    if (d->combine != NULL)
        d->combine(d->arg, d->x, (const float *)d->in);
    else
        gwi_vector()->add(d->x, (const float *)d->in, d->n);
    if (d->note != NULL)
        *d->note = gwi_lesser_note(*d->note, note_of(d->in + d->n * sizeof(float)));
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
    GWI_TRY(gwi_send(d->comm, &d->comm->ops[0], to, d->out, d->len + GWI_CHECK_LEN));
    return gwi_wait(d->comm, &d->comm->ops[0]);
}

static gw_status receive(const doubling *d, int from)
{
    size_t len = d->len + GWI_CHECK_LEN;

    GWI_TRY(gwi_recv(d->comm, &d->comm->ops[0], from, d->in, len));
    GWI_TRY(gwi_wait_exactly(d->comm, &d->comm->ops[0], len));
    return check_incoming(d, from);
}

static gw_status exchange_all(const doubling *d, int q, float divide)
{
    size_t len = d->len + GWI_CHECK_LEN;

    for (int bit = 1; bit < q; bit *= 2) {
        int peer = d->comm->rank ^ bit;
        pack(d);
        GWI_TRY(gwi_swap(d->comm, peer, d->out, len, peer, d->in, len));
        GWI_TRY(check_incoming(d, peer));
        add_incoming(d);
    }
    if (divide != 1.0f)
        gwi_vector()->divide(d->x, divide, d->n);
    return GW_OK;
}

/* What a worker past Q does: hand over, take back. */
static gw_status follow(const doubling *d, int partner)
{
    GWI_TRY(send_out(d, partner));
    GWI_TRY(receive(d, partner));
    take_incoming(d);
    return GW_OK;
}

static gw_status lead(const doubling *d, int q, float divide)
{
    int partner = d->comm->rank + q;

    if (partner < d->comm->workers) {
        GWI_TRY(receive(d, partner));
        add_incoming(d);
    }
    GWI_TRY(exchange_all(d, q, divide));
    return partner < d->comm->workers ? send_out(d, partner) : GW_OK;
}

/* All workers have the same sum, so all say the same of it. */
static void look_at_sum(const doubling *d)
{
    if (d->note == NULL || *d->note != 0)
        return;
    size_t bad = gwi_vector()->first_nonfinite(d->x, d->n);
    if (bad < d->n)
        *d->note = GWI_NOTE_SUM | bad;
}

static gw_status run(doubling d, float divide)
{
    gw_comm *c = d.comm;
    int q = 1;

    while (q <= c->workers / 2)
        q *= 2;
    d.len = d.n * sizeof(float) + (d.note != NULL ? sizeof *d.note : 0);
    /* The second buffer begins aligned for floats whatever the note does. */
    size_t stride = (d.len + GWI_CHECK_LEN + 63) & ~(size_t)63;
    d.out = gwi_comm_scratch(c, 2 * stride);
    if (d.out == NULL)
        return GW_ERR_NOMEM;
    d.in = d.out + stride;
    GWI_TRY(c->rank >= q ? follow(&d, c->rank - q) : lead(&d, q, divide));
    look_at_sum(&d);
    return GW_OK;
}

gw_status gwi_allreduce_doubling(gw_comm *c, float *x, size_t n, float divide,
                                 gwi_note *note)
{
    return run((doubling){.comm = c, .x = x, .n = n, .note = note}, divide);
}

gw_status gwi_combine_doubling(gw_comm *c, float *x, size_t n, gwi_combine_run *combine,
                               void *arg, gwi_note *note)
{
    doubling d = {
        .comm = c, .x = x, .n = n, .note = note, .combine = combine, .arg = arg};

    return run(d, 1);
}
