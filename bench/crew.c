/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.c - rounds of a measurement that several workers take part in:
 *
 *     rank 0     another round?   copies memory           acts
 *     others             barrier           waits, barrier   act
 */
#define _GNU_SOURCE
#include "crew.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

static gw_status round_of(gw_comm *comm, gwb_board *b, uint8_t *out, uint8_t *in)
{
    const gwb_task *t = b->task;
    int first = gw_comm_rank(comm) == 0;

    if (first && t->copies) {
        double start = gwi_now();
        memcpy(in, out, t->len);
        b->limit[b->rounds] = gwi_now() - start;
    }
    GWI_TRY(gw_barrier(comm));
    GWI_TRY(t->act(comm, b, out, in));
    GWI_TRY(gw_barrier(comm));
    if (first)
        b->took[b->rounds++] = (b->end - b->start) / t->repeat;
    return GW_OK;
}

static gw_status rounds(gw_comm *comm, gwb_board *b, uint8_t *out, uint8_t *in)
{
    int first = gw_comm_rank(comm) == 0;
    double since;

    /* The first round is not counted. */
    GWI_TRY(round_of(comm, b, out, in));
    if (first)
        b->rounds = 0;
    for (since = gwi_now();;) {
        if (first)
            b->more = gwb_more(b->set, b->rounds, since);
        GWI_TRY(gw_barrier(comm));
        if (!b->more)
            return GW_OK;
        GWI_TRY(round_of(comm, b, out, in));
    }
}

static gw_status body(gw_comm *comm, void *arg)
{
    gwb_board *b = arg;
    size_t len = b->task->len;
    uint8_t *buffers = gwi_calloc(2, len);
    gw_status st;

    if (buffers == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for messages of %zu bytes", len);
    st = rounds(comm, b, buffers, buffers + len);
    gwi_free(buffers);
    return st;
}

static gwb_crew_result judge(gwb_board *b)
{
    gwb_crew_result r = {
        .limit_best = (double)NAN, .ratio = (double)NAN, .ratio_median = (double)NAN};
    double ratio[GWB_ROUNDS_MAX];

    for (unsigned i = 0; i < b->rounds; i++)
        ratio[i] = b->took[i] / b->limit[i];
    r.median = gwb_median(b->took, b->rounds);
    r.best = b->took[0];
    if (b->task->copies) {
        r.ratio_median = gwb_median(ratio, b->rounds);
        (void)gwb_median(b->limit, b->rounds);
        r.limit_best = b->limit[0];
        r.ratio = r.best / r.limit_best;
    }
    return r;
}

gw_status gwb_crew_run(const gwb_settings *set, const gwb_task *task,
                       gwb_crew_result *result)
{
    gw_local_options opt = {.struct_size = sizeof opt,
                            .workers = task->workers,
                            .spawn = task->spawn,
                            .link = task->link};
    gwb_board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    gw_status st;

    if (b == MAP_FAILED)
        return gw_fail(GW_ERR_NOMEM, "no memory for results");
    b->set = set;
    b->task = task;
    st = gw_local_run(&opt, body, b);
    if (st == GW_OK)
        *result = judge(b);
    munmap(b, sizeof *b);
    return st;
}

gw_status gwb_act_message(gw_comm *comm, gwb_board *board, uint8_t *out, uint8_t *in)
{
    gwi_op op = {0};
    size_t len = board->task->len;

    if (gw_comm_rank(comm) == 0) {
        board->start = gwi_now();
        GWI_TRY(gwi_send(comm, &op, 1, out, len));
        return gwi_wait(comm, &op);
    }
    GWI_TRY(gwi_recv(comm, &op, 0, in, len));
    GWI_TRY(gwi_wait_exactly(comm, &op, len));
    board->end = gwi_now();
    return GW_OK;
}
