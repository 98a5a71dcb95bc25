/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_exchange.c - messages and all-reduces between local workers, large ones
 * against copying as much memory. */
#include "crew.h"

#include <math.h>
#include <stdio.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

enum {
    MESSAGE_BYTES = 64 << 20,
    REDUCED_FLOATS = 10000000,
    QUICK_PART = 100, /* by which --quick divides them */
    SMALL_BYTES = 8,
    REPEAT = 1000,
    QUICK_REPEAT = 10
};

/* ---- what workers do ----------------------------------------------------------- */

static gw_status act_allreduce(gw_comm *comm, gwb_board *b, uint8_t *out, uint8_t *in)
{
    int first = gw_comm_rank(comm) == 0;

    (void)in;
    if (first)
        b->start = gwi_now();
    for (unsigned i = 0; i < b->task->repeat; i++)
        GWI_TRY(gw_allreduce(comm, (float *)(void *)out, b->task->len / sizeof(float)));
    if (first)
        b->end = gwi_now();
    return GW_OK;
}

static gw_status there_and_back(gw_comm *comm, uint8_t *out, uint8_t *in, size_t len)
{
    int first = gw_comm_rank(comm) == 0;
    gwi_op send = {0}, recv = {0};

    GWI_TRY(gwi_recv(comm, &recv, first ? 1 : 0, in, len));
    if (!first)
        GWI_TRY(gwi_wait_exactly(comm, &recv, len));
    GWI_TRY(gwi_send(comm, &send, first ? 1 : 0, out, len));
    GWI_TRY(gwi_wait(comm, &send));
    return first ? gwi_wait_exactly(comm, &recv, len) : GW_OK;
}

/* Two repetitions are one way there and one back. */
static gw_status act_ping(gw_comm *comm, gwb_board *b, uint8_t *out, uint8_t *in)
{
    int first = gw_comm_rank(comm) == 0;

    if (first)
        b->start = gwi_now();
    for (unsigned i = 0; i < b->task->repeat; i += 2)
        GWI_TRY(there_and_back(comm, out, in, b->task->len));
    if (first)
        b->end = gwi_now();
    return GW_OK;
}

/* ---- rows ---------------------------------------------------------------------- */

typedef struct exchange {
    const char *name;
    int workers;
    size_t len;
    int copies;
    double target; /* or NaN */
    gw_status (*act)(gw_comm *, gwb_board *, uint8_t *, uint8_t *);
} exchange;

#define NONE ((double)NAN)

static const exchange exchanges[] = {
    {"large message", 2, MESSAGE_BYTES, 1, NONE, gwb_act_message},
    {"large all-reduce", 2, sizeof(float) * REDUCED_FLOATS, 1, NONE, act_allreduce},
    {"large all-reduce", 4, sizeof(float) * REDUCED_FLOATS, 1, 4, act_allreduce},
    {"small message, one way", 2, SMALL_BYTES, 0, NONE, act_ping},
    {"small all-reduce", 2, SMALL_BYTES, 0, NONE, act_allreduce},
    {"small all-reduce", 4, SMALL_BYTES, 0, NONE, act_allreduce},
};

static gw_status measure(gwb_sheet *sheet, const exchange *e, gw_spawn spawn)
{
    int quick = sheet->set->quick, small = !e->copies;
    size_t len = quick && !small ? e->len / QUICK_PART / 8 * 8 : e->len;
    gwb_task task = {.spawn = spawn,
                     .workers = e->workers,
                     .len = len,
                     .repeat = !small  ? 1
                               : quick ? QUICK_REPEAT
                                       : REPEAT,
                     .copies = e->copies,
                     .act = e->act};
    gwb_row row = gwb_row_new("exchange", len, "%s, %d %s", e->name, e->workers,
                              spawn == GW_SPAWN_THREADS ? "threads" : "processes");
    gwb_crew_result result;

    row.bytes = 1;
    if (!gwb_wanted(sheet, row.name))
        return GW_OK;
    GWI_TRY(gwb_crew_run(sheet->set, &task, &result));
    row.seconds = result.best;
    if (!small) {
        row.rate = 1e-9 * (double)len / result.best;
        row.unit = "GB/s";
        row.limit = "memcpy";
        row.target = e->target;
    }
    row.limit_seconds = result.limit_best;
    row.ratio = result.ratio;
    row.median = result.ratio_median;
    gwb_sheet_add(sheet, &row);
    return GW_OK;
}

static gw_status run(gwb_sheet *sheet)
{
    for (size_t i = 0; i < COUNT(exchanges); i++) {
        GWI_TRY(measure(sheet, &exchanges[i], GW_SPAWN_PROCESSES));
        GWI_TRY(measure(sheet, &exchanges[i], GW_SPAWN_THREADS));
    }
    return GW_OK;
}

const gwb_group gwb_group_exchange = {
    .name = "exchange",
    .summary = "local messages and all-reduces, against memcpy",
    .by_default = 1,
    .run = run,
};
