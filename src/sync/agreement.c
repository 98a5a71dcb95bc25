/* SPDX-License-Identifier: Apache-2.0
 *
 * agreement.c - comparing the models of the workers. */
#include "sync/agreement.h"

#include <inttypes.h>
#include <stdio.h>

#include "kernels/crc32c.h"
#include "wire/wire_bytes.h"

/* Whether the models are equal after this step, if all is well. */
static bool equal_now(const gw_sync *s)
{
    if (s->now.gradient)
        return !s->exchange->differs;
    return s->now.model && s->spec.which != GWI_WHICH_CHUNK;
}

bool gwi_agreement_due(const gw_sync *s)
{
    uint64_t every = s->spec.opt.check;
    /* The last step before this one that left the models equal. */
    uint64_t before = s->now.model ? s->phase.begin : s->step - 1;

    return s->comm->workers > 1 && every > 0 && equal_now(s) &&
           s->step / every > before / every;
}

bool gwi_agreement_ends(const gw_sync *s)
{
    return s->comm->workers > 1 && s->spec.opt.check > 0 && equal_now(s);
}

/* The word that most workers have; of several, that of the lowest rank. */
static uint32_t most_common(const uint8_t *words, size_t p)
{
    size_t best = 0, votes = 0;

    for (size_t i = 0; i < p; i++) {
        size_t same = 0;
        for (size_t j = 0; j < p; j++)
            same += gwi_read_u32le(words + 4 * i) == gwi_read_u32le(words + 4 * j);
        if (same > votes) {
            votes = same;
            best = i;
        }
    }
    return gwi_read_u32le(words + 4 * best);
}

/* Lists the workers that have another word: " 2 3". */
static void list_others(const uint8_t *words, size_t p, char *text, size_t cap)
{
    uint32_t most = most_common(words, p);
    size_t len = 0;

    for (size_t r = 0; r < p && len < cap; r++)
        if (gwi_read_u32le(words + 4 * r) != most)
            len += (size_t)snprintf(text + len, cap - len, " %zu", r);
}

/* Gathers everybody's word, to say who differs. */
static gw_status name_workers(gw_sync *s, const uint8_t *word)
{
    size_t p = (size_t)s->comm->workers;
    size_t *lens = gwi_calloc(p, 4 + sizeof *lens);
    char others[200] = "";

    if (lens == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory to compare %zu workers", p);
    uint8_t *words = (uint8_t *)(lens + p);
    gw_status st = gw_allgather(s->comm, word, 4, words, 4, lens);
    if (st == GW_OK) {
        list_others(words, p, others, sizeof others);
        gw_fail(GW_ERR_DIFFER,
                "after step %" PRIu64 " the models of the workers differ, which '%s' "
                "keeps equal; not the same as the others':%s",
                s->step, s->text, others);
        st = gwi_comm_break(s->comm, GW_ERR_DIFFER);
    }
    gwi_free(lens);
    return st;
}

gw_status gwi_agreement_check(gw_sync *s, const float *params)
{
    uint32_t check = gwi_crc32c(0, params, s->layout->floats * sizeof *params);
    uint8_t word[4];
    bool same;

    gwi_write_u32le(word, check);
    GWI_TRY(gwi_all_same(s->comm, (uint64_t)check << 1, &same));
    return same ? GW_OK : name_workers(s, word);
}
