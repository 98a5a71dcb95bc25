/* SPDX-License-Identifier: Apache-2.0
 *
 * trial.c - one sync, step by step.
 *
 * A step is: compute (slept), the gradient's call, the model's call. All ranks begin
 * it together, and it lasts until the last of them has ended it; what happens between
 * steps - new gradients, beginning together - takes no part in it.
 *
 * Simulated, the whole sequence of steps runs several times with a new sync each:
 * rounds that measure what coding costs in each step, and a last one that charges it.
 * Steps of one sequence may differ (local steps, warm-up), so the cost is kept per
 * step and call. */
#define _GNU_SOURCE
#include "rank.h"

#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "codec_clock.h"
#include "fold.h"

enum { GRADIENT, MODEL, CALLS };

/* Two calls of one step. */
typedef struct step_cost {
    gws_cost call[CALLS];
} step_cost;

typedef struct trial {
    const gws_settings *set;
    const char *spec;
    unsigned traits; /* of the spec */
    uint64_t delay;
    gw_comm *comm;
    gws_source *source;
    gw_layout *layout;
    gw_sync *sync;
    gws_clock *clock;  /* simulated only */
    step_cost *costs;  /* of each step; simulated only */
    bool measured;     /* the costs are known */
    double sum, least; /* of the seconds of timed steps, slowest rank */
    gw_stats before;   /* the timed steps */
} trial;

/* ---- beginning together ---------------------------------------------------- */

#ifdef GRADWIRE_SMPI
/* Ranks leave a barrier at different times; here clocks agree, so all sleep up to one
 * moment. */
static void begin_together(void)
{
    double now = MPI_Wtime(), last;

    MPI_Allreduce(&now, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    gws_sleep(ceil(last) + 1.0 - MPI_Wtime());
}
#else
static void begin_together(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}
#endif

static double slowest(double seconds)
{
    double most;

    MPI_Allreduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* ---- one step --------------------------------------------------------------- */

static gw_status call(trial *t, int which)
{
    return which == GRADIENT ? gw_sync_gradient(t->sync, t->source->grad)
                             : gw_sync_model(t->sync, t->source->params);
}

static void keep_least(gws_cost *least, gws_cost c, bool first)
{
    least->head = first || c.head < least->head ? c.head : least->head;
    least->middle = first || c.middle < least->middle ? c.middle : least->middle;
    least->tail = first || c.tail < least->tail ? c.tail : least->tail;
    least->received = c.received;
}

/* The call with the clock around it. */
static gw_status clocked(trial *t, int which, uint64_t step, uint64_t round)
{
    gws_cost *cost = t->costs != NULL ? &t->costs[step].call[which] : NULL;
    gw_status st;

    if (t->clock == NULL)
        return call(t, which);
    gws_clock_enter(t->clock, t->measured ? cost : NULL);
    st = call(t, which);
    gws_cost took = gws_clock_leave(t->clock);
    if (!t->measured)
        keep_least(cost, took, round == 0);
    return st;
}

/* Whether this rank is to look after its vectors: one is enough if all share them. */
static bool speaks(const trial *t)
{
    return !t->set->folded || gw_comm_rank(t->comm) == 0;
}

/* New parameters, where a method looks at them, and gradients. */
static void fill(trial *t, uint64_t s, bool gradient)
{
    if (t->traits & GW_TRAIT_NEEDS_MODEL)
        gws_source_fill(t->source, t->source->params, s);
    if (gradient)
        gws_source_fill(t->source, t->source->grad, s);
}

/* The time of a step whose exchange takes place after its computing. A method whose
 * results are late exchanges while the next ones compute. */
static double beside(const trial *t, double seconds)
{
    double compute = t->set->compute, hidden = (double)t->delay * compute;

    return t->traits & GW_TRAIT_LATE ? fmax(compute, seconds - hidden) : seconds;
}

/* The step's vectors are made before it begins and are no part of its time. Only where
 * memory is shared by all ranks they are made again before each call, so that nothing
 * grows or fades away in them from rank to rank; simulated, that takes no time. */
static gw_status step(trial *t, uint64_t s, uint64_t round, double *seconds)
{
    gws_source *source = t->source;
    double began;
    gw_status st;

    if (!t->set->folded)
        fill(t, s, true);
    begin_together();
    began = MPI_Wtime();
    gws_sleep(t->set->compute);
    if (t->set->folded)
        gws_source_fill(source, source->grad, s);
    st = clocked(t, GRADIENT, s, round);
    if (st == GW_OK) {
        if (t->set->folded)
            fill(t, s, false);
        st = clocked(t, MODEL, s, round);
    }
    if (t->traits & GW_TRAIT_LATE)
        (void)gw_comm_traffic(t->comm); /* until the exchange is over */
    *seconds = beside(t, slowest(MPI_Wtime() - began));
    return st;
}

static gw_status check_numbers(const trial *t)
{
    const gws_source *s = t->source;

    if (!speaks(t))
        return GW_OK;
    if (gws_first_nonfinite(s->grad, s->n) < s->n ||
        gws_first_nonfinite(s->params, s->n) < s->n)
        return gw_fail(GW_ERR_NUMBER, "'%s' produced NaN or infinity", t->spec);
    return GW_OK;
}

/* ---- a sequence of steps ----------------------------------------------------- */

static gw_status make_layout(trial *t)
{
    size_t n = (size_t)t->set->params, count = (size_t)t->set->tensors, end;
    gw_tensor *tensors = calloc(count, sizeof *tensors);
    gw_status st;

    if (tensors == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for %zu tensors", count);
    for (size_t i = 0; i < count; i++) {
        gw_part(n, (int)count, (int)i, &tensors[i].offset, &end);
        tensors[i].name = "tensor";
        tensors[i].rows = 1;
        tensors[i].cols = end - tensors[i].offset;
    }
    st = gw_layout_new(&t->layout, tensors, count);
    free(tensors);
    return st;
}

/* Messages that all ranks get from all are the same memory too, where every list is
 * sent to everybody: 1024 x 1024 of them would not fit. */
static void fold_memory(const trial *t)
{
    enum { LEAST = 65536 };
    const unsigned lists = GW_TRAIT_SPARSE | GW_TRAIT_GATHERS;

    if (t->set->folded)
        gws_fold_begin(t->source->n * sizeof(float),
                       (t->traits & lists) == lists ? LEAST : 0);
}

static gw_status begin_sequence(trial *t)
{
    gw_sync_options opt = {
        .struct_size = sizeof opt, .nonfinite = GW_NONFINITE_END, .seed = t->set->seed};
    gw_status st;

    fold_memory(t);
    st = gw_sync_new(&t->sync, t->spec, t->layout, t->comm, &opt);
    gws_fold_end();
    GWI_TRY(st);
    if (speaks(t))
        gws_source_fill(t->source, t->source->params, 0);
    t->sum = 0;
    t->least = INFINITY;
    t->before = (gw_stats){0};
    return gw_sync_start(t->sync, t->source->params);
}

static gw_status run_sequence(trial *t, uint64_t round)
{
    uint64_t warmup = t->set->warmup, all = warmup + t->set->steps;
    double seconds;

    GWI_TRY(begin_sequence(t));
    for (uint64_t s = 0; s < all; s++) {
        if (s == warmup)
            t->before = gw_sync_stats(t->sync);
        GWI_TRY(step(t, s, round, &seconds));
        if (s < warmup)
            continue;
        t->sum += seconds;
        t->least = fmin(t->least, seconds);
    }
    return check_numbers(t);
}

static void end_sequence(trial *t)
{
    MPI_Barrier(MPI_COMM_WORLD);
    gw_sync_free(t->sync);
    t->sync = NULL;
}

/* ---- what coding costs --------------------------------------------------------- */

#ifdef GRADWIRE_SMPI

/* All ranks do the same before the first and after the last message: the middle one of
 * their figures stands for all, and a rank that was disturbed delays nobody. */
static gw_status agree(gw_comm *comm, double *own, double *all, size_t *lens)
{
    size_t p = (size_t)gw_comm_workers(comm), below;

    GWI_TRY(gw_allgather(comm, own, sizeof *own, all, sizeof *own, lens));
    for (size_t i = 0; i < p; i++) {
        below = 0;
        for (size_t j = 0; j < p; j++)
            below += all[j] < all[i] || (all[j] == all[i] && j < i);
        if (below == p / 2)
            *own = all[i];
    }
    return GW_OK;
}

static gw_status agree_on_costs(trial *t)
{
    size_t p = (size_t)gw_comm_workers(t->comm);
    double *all = calloc(p, sizeof *all + sizeof(size_t));
    gw_status st = GW_OK;

    if (all == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for %zu measurements", p);
    for (uint64_t s = 0; s < t->set->warmup + t->set->steps; s++)
        for (int which = 0; st == GW_OK && which < CALLS; which++) {
            gws_cost *c = &t->costs[s].call[which];
            st = agree(t->comm, &c->head, all, (size_t *)(void *)(all + p));
            if (st == GW_OK)
                st = agree(t->comm, &c->tail, all, (size_t *)(void *)(all + p));
        }
    free(all);
    return st;
}

static gw_status measure_costs(trial *t)
{
    for (uint64_t round = 0; round < t->set->rounds; round++) {
        gw_status st = run_sequence(t, round);
        end_sequence(t);
        GWI_TRY(st);
    }
    if (t->set->rounds > 0)
        GWI_TRY(agree_on_costs(t));
    t->measured = true;
    return GW_OK;
}

#endif

/* ---- all of it ------------------------------------------------------------------ */

static void charged(const trial *t, double *encode, double *decode)
{
    *encode = *decode = 0;
    for (uint64_t s = t->set->warmup; s < t->set->warmup + t->set->steps; s++)
        for (int which = 0; which < CALLS; which++) {
            const gws_cost *c = &t->costs[s].call[which];
            *encode += c->head;
            *decode += c->middle + c->tail;
        }
}

/* Bytes of all ranks, as a double: exact to 2^53. */
static double of_all(double own)
{
    double sum;

    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

static void fill_result(const trial *t, gws_result *r)
{
    gw_stats now = gw_sync_stats(t->sync);
    const gw_stats *was = &t->before;
    double steps = (double)t->set->steps;

    strncpy(r->spec, gw_sync_spec(t->sync), sizeof r->spec - 1);
    r->step = t->sum / steps;
    r->step_min = t->least;
    r->encode = (now.encode_seconds - was->encode_seconds) / steps;
    r->decode = (now.decode_seconds - was->decode_seconds) / steps;
    r->wait = (now.wait_seconds - was->wait_seconds) / steps;
    if (t->costs != NULL) {
        charged(t, &r->encode, &r->decode);
        r->encode /= steps;
        r->decode /= steps;
        r->wait = fmax(0, r->step - t->set->compute - r->encode - r->decode);
    }
    r->bytes_sent = (double)(now.bytes_sent - was->bytes_sent) / steps;
    r->bytes_received = (double)(now.bytes_received - was->bytes_received) / steps;
    r->messages_sent = (double)(now.messages_sent - was->messages_sent) / steps;
    r->bytes_sent_all = of_all(r->bytes_sent);
}

static gw_status prepare(trial *t)
{
    GWI_TRY(make_layout(t));
#ifdef GRADWIRE_SMPI
    GWI_TRY(gws_clock_new(&t->clock, t->comm));
    t->costs = calloc(t->set->warmup + t->set->steps, sizeof *t->costs);
    if (t->costs == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for the costs of steps");
    return measure_costs(t);
#else
    t->measured = true;
    return GW_OK;
#endif
}

gw_status gws_trial(gws_result *result, const char *spec, const gws_settings *set,
                    gw_comm *comm, gws_source *source)
{
    trial t = {.set = set, .spec = spec, .comm = comm, .source = source};
    gw_spec_info info = {.struct_size = sizeof info};
    gw_status st;

    memset(result, 0, sizeof *result);
    GWI_TRY(gw_spec_describe(spec, &info));
    t.traits = info.traits;
    t.delay = info.delay;
    st = prepare(&t);
    if (st == GW_OK)
        st = run_sequence(&t, 0);
    if (st == GW_OK) {
        fill_result(&t, result);
        end_sequence(&t);
    }
    gw_sync_free(t.sync);
    gw_layout_free(t.layout);
    free(t.costs);
    return st;
}
