/* SPDX-License-Identifier: Apache-2.0
 *
 * gathering.c - a short message from every worker to every other. */
#include "collective/gathering.h"

#include <inttypes.h>

#include "wire/wire_bytes.h"

enum { WORD_LEN = 8, TOKEN_LEN = 2 * WORD_LEN };

static uint8_t *token_of(const gwi_gathering *g, int rank)
{
    return g->tokens + (size_t)(rank + 1) * TOKEN_LEN;
}

gw_status gwi_gathering_init(gwi_gathering *g, gw_comm *c, size_t n)
{
    *g = (gwi_gathering){.comm = c, .n = n};
    g->tokens = gwi_comm_scratch(c, ((size_t)c->workers + 1) * TOKEN_LEN);
    return g->tokens != NULL ? GW_OK : GW_ERR_NOMEM;
}

static gw_status post(gwi_gathering *g, uint64_t word)
{
    gw_comm *c = g->comm;
    size_t p = (size_t)c->workers;

    gwi_write_u64le(g->tokens, g->n);
    gwi_write_u64le(g->tokens + WORD_LEN, word);
    for (int i = 1; i < c->workers; i++) {
        int other = gwi_after(c, c->rank, i);
        GWI_TRY(gwi_send(c, &c->ops[i], other, g->tokens, TOKEN_LEN));
        GWI_TRY(
            gwi_recv(c, &c->ops[p + (size_t)i], other, token_of(g, other), TOKEN_LEN));
    }
    return GW_OK;
}

static gw_status check_length(const gwi_gathering *g, int other)
{
    uint64_t n = gwi_read_u64le(token_of(g, other));

    if (n == g->n)
        return GW_OK;
    gw_fail(GW_ERR_DATA, "worker %d sums %" PRIu64 " floats, expected %zu", other, n,
            g->n);
    return gwi_comm_break(g->comm, GW_ERR_DATA);
}

gw_status gwi_meet(gwi_gathering *g, uint64_t word)
{
    gw_comm *c = g->comm;
    gwi_op *in = c->ops + c->workers;

    GWI_TRY(post(g, word));
    for (int i = 1; i < c->workers; i++) {
        GWI_TRY(gwi_wait_exactly(c, &in[i], TOKEN_LEN));
        GWI_TRY(check_length(g, gwi_after(c, c->rank, i)));
    }
    return gwi_wait_all(c, c->ops + 1, (size_t)c->workers - 1);
}

uint64_t gwi_word_of(const gwi_gathering *g, int rank)
{
    return gwi_read_u64le(token_of(g, rank) + WORD_LEN);
}
