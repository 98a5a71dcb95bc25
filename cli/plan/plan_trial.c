/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_trial.c - runs a method on made-up gradients in virtual time.
 *
 * Only the two calls of a sync are counted; making gradients and the step of the
 * optimizer happen outside virtual time. */
#define _GNU_SOURCE
#include "plan/plan_trial.h"

#include "plan/heavy_gradient.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* In the warm steps, residuals and guesses settle. At least so many steps are made, in
 * whole periods of methods that have periods up to the third. Longer ones would take
 * too long, and count as methods that send nothing. */
enum { WARM_STEPS = 8, MEASURED_STEPS = 16, PERIOD_MOST = 1000 };

/* All workers' vectors together have at most the first number of floats, or fewer if
 * there are more steps. A worker's vector has at least the second, or fixed costs would
 * be multiplied. */
static const size_t floats_most = (size_t)16 << 20, floats_least = 100000;

/* The distance between the gradients of two steps or workers in made_up, and after how
 * many steps they come again. */
enum { SHIFT = 4096, GRADIENTS = WARM_STEPS + MEASURED_STEPS };

/* The width of matrices where the model's own are not known. */
enum { WIDTH = 1024 };

typedef struct trial {
    const gwc_plan_job *job;
    const char *spec;
    size_t n;              /* floats of a worker here */
    size_t warm, measured; /* steps */
    size_t fragments;      /* that the spec cuts a model into */
    gwc_virtual_net *net;
    const float *made_up; /* n and all shifts */
    pthread_barrier_t meet;
    pthread_mutex_t gate; /* held until it is known whether all threads are there */
    int all_there;
    gwc_clocks *clocks; /* per worker, at the end */
    gw_stats stats;     /* of worker 0 */
    int keeps_equal;
} trial;

typedef struct worker {
    trial *t;
    int rank;
    float *grad, *params;
    gw_comm *comm;
    gw_sync *sync;
    gw_status status;
    char why[512];
} worker;

static size_t shifts(const trial *t)
{
    return (GRADIENTS + (size_t)t->job->workers) * SHIFT;
}

static size_t whole_periods(size_t least, size_t period)
{
    return (least + period - 1) / period * period;
}

/* Periods that grow have no whole multiple. */
static gw_status count_steps(trial *t)
{
    gw_spec_info info = {.struct_size = sizeof info};
    size_t period = 1;

    GWT_TRY(gw_spec_describe(t->spec, &info));
    if (info.resync > 0)
        info.period = info.resync; /* each has all that steps do */
    if (info.growth == 0.0 && info.period > 0 && info.period <= PERIOD_MOST)
        period = (size_t)info.period;
    t->fragments = (size_t)info.fragments;
    t->warm = whole_periods(WARM_STEPS, period);
    t->measured = whole_periods(MEASURED_STEPS, period);
    return GW_OK;
}

/* ---- a worker ---------------------------------------------------------------------
 */

/* Which tensors the model has is not known. Square matrices of a usual width are
 * assumed, for methods that look at rows and columns, and at least one for each
 * fragment of a model; what fills no row is a vector. */
static gw_status make_layout(gw_layout **out, size_t n, size_t fragments)
{
    size_t most = n / WIDTH / fragments < WIDTH ? n / WIDTH / fragments : WIDTH;
    size_t height = fragments > 1 && most > 0 ? most : WIDTH;
    gw_tensor *t = gwt_calloc(n / (height * WIDTH) + 2, sizeof *t, "tensors");
    size_t count = 0, at = 0;
    gw_status st;

    if (t == NULL)
        return GW_ERR_NOMEM;
    while (n - at >= WIDTH) {
        size_t rows = (n - at) / WIDTH;
        rows = rows < height ? rows : height;
        t[count++] = (gw_tensor){"matrix", at, rows, WIDTH};
        at += rows * WIDTH;
    }
    if (at < n)
        t[count++] = (gw_tensor){"rest", at, 1, n - at};
    st = gw_layout_new(out, t, count);
    gwt_free(t);
    return st;
}

static gw_status open_worker(worker *w)
{
    gw_layout *layout;
    gw_status st;

    w->grad = gwt_calloc(2 * w->t->n, sizeof *w->grad, "a worker of a trial");
    if (w->grad == NULL)
        return GW_ERR_NOMEM;
    w->params = w->grad + w->t->n;
    GWT_TRY(gwc_virtual_net_join(&w->comm, w->t->net, w->rank));
    GWT_TRY(make_layout(&layout, w->t->n, w->t->fragments));
    st = gw_sync_new(&w->sync, w->t->spec, layout, w->comm, NULL);
    gw_layout_free(layout);
    if (st == GW_OK)
        st = gw_sync_start(w->sync, w->params);
    return st;
}

static gw_status step(worker *w, size_t s)
{
    gwc_virtual_net *net = w->t->net;
    gw_status st;

    memcpy(w->grad, w->t->made_up + (s % GRADIENTS + (size_t)w->rank) * SHIFT,
           w->t->n * sizeof *w->grad);
    gwc_virtual_net_spend(net, w->rank, w->t->job->compute);
    gwc_virtual_net_enter(net, w->rank);
    st = gw_sync_gradient(w->sync, w->grad);
    gwc_virtual_net_leave(net, w->rank);
    GWT_TRY(st);
    for (size_t i = 0; i < w->t->n; i++)
        w->params[i] -= 0.01f * w->grad[i];
    gwc_virtual_net_enter(net, w->rank);
    st = gw_sync_model(w->sync, w->params);
    gwc_virtual_net_leave(net, w->rank);
    return st;
}

/* Warms up, sets all clocks to 0 together, and measures. */
static gw_status work(worker *w)
{
    gw_stats before;

    for (size_t s = 0; s < w->t->warm; s++)
        GWT_TRY(step(w, s));
    pthread_barrier_wait(&w->t->meet);
    if (w->rank == 0)
        gwc_virtual_net_start(w->t->net);
    pthread_barrier_wait(&w->t->meet);
    before = gw_sync_stats(w->sync);
    for (size_t s = 0; s < w->t->measured; s++)
        GWT_TRY(step(w, w->t->warm + s));
    w->t->clocks[w->rank] = gwc_virtual_net_clocks(w->t->net, w->rank);
    if (w->rank == 0) {
        gw_stats after = gw_sync_stats(w->sync);
        w->t->keeps_equal = gw_sync_keeps_equal(w->sync);
        w->t->stats.bytes_sent = after.bytes_sent - before.bytes_sent;
        w->t->stats.encode_seconds = after.encode_seconds - before.encode_seconds;
        w->t->stats.decode_seconds = after.decode_seconds - before.decode_seconds;
    }
    return GW_OK;
}

static void *worker_main(void *arg)
{
    worker *w = arg;

    pthread_mutex_lock(&w->t->gate);
    int all_there = w->t->all_there;
    pthread_mutex_unlock(&w->t->gate);
    /* If only some threads started, they would wait for the others for ever. */
    if (!all_there)
        return NULL;
    w->status = open_worker(w);
    /* Either all workers get here or none, since a failure is the same on all of
     * them. */
    if (w->status == GW_OK)
        w->status = work(w);
    if (w->status != GW_OK)
        snprintf(w->why, sizeof w->why, "%s", gw_error_message());
    gw_sync_free(w->sync);
    gw_comm_free(w->comm);
    gwt_free(w->grad);
    return NULL;
}

/* ---- all workers ------------------------------------------------------------------
 */

/* Starts as many threads as possible and returns their number. They work only if all of
 * them could be started. */
static int start_workers(trial *t, worker *w, pthread_t *thread)
{
    int started = 0;

    pthread_mutex_lock(&t->gate);
    for (; started < t->job->workers; started++) {
        w[started] = (worker){.t = t, .rank = started};
        if (pthread_create(&thread[started], NULL, worker_main, &w[started]) != 0)
            break;
    }
    t->all_there = started == t->job->workers;
    pthread_mutex_unlock(&t->gate);
    return started;
}

static gw_status run_workers(trial *t)
{
    int count = t->job->workers, started;
    pthread_t thread[GWC_PLAN_WORKERS_MAX];
    worker *w = gwt_calloc((size_t)count, sizeof *w, "the workers of a trial");
    gw_status st = GW_OK;

    if (w == NULL)
        return GW_ERR_NOMEM;
    started = start_workers(t, w, thread);
    for (int r = 0; r < started; r++) {
        pthread_join(thread[r], NULL);
        if (w[r].status != GW_OK && st == GW_OK)
            st = gw_fail(w[r].status, "%s: %s", t->spec, w[r].why);
    }
    if (started < count)
        st = gw_fail(GW_ERR_SYSTEM,
                     "only %d of %d threads could be started; use fewer --workers",
                     started, count);
    gwt_free(w);
    return st;
}

/* A method whose results are late exchanges beside further steps' computing: in each
 * period, its exchanges beside `delay` steps each. */
static void run_beside(gwc_plan_result *out, const trial *t)
{
    gw_spec_info info = {.struct_size = sizeof info};
    double compute = t->job->compute;

    if (gw_spec_describe(t->spec, &info) != GW_OK || !(info.traits & GW_TRAIT_LATE))
        return;
    double steps = (double)(info.fragments * info.delay) / (double)info.period;
    for (size_t k = 0; k < t->job->links; k++)
        out->step[k] = fmax(compute, out->step[k] - steps * compute);
}

static void sum_up(gwc_plan_result *out, const trial *t)
{
    const double steps = (double)t->measured;
    double cpu = 0.0, coded = t->stats.encode_seconds + t->stats.decode_seconds;

    memset(out, 0, sizeof *out);
    for (int r = 0; r < t->job->workers; r++) {
        for (size_t k = 0; k < t->job->links; k++)
            if (t->clocks[r].at[k] / steps > out->step[k])
                out->step[k] = t->clocks[r].at[k] / steps;
        if (t->clocks[r].cpu / steps > cpu)
            cpu = t->clocks[r].cpu / steps;
    }
    out->encode = coded > 0.0 ? cpu * t->stats.encode_seconds / coded : 0.0;
    out->decode = cpu - out->encode;
    out->bytes =
        (double)t->stats.bytes_sent / steps * (double)t->job->params / (double)t->n;
    out->keeps_equal = t->keeps_equal;
    out->exchanges_nothing = t->stats.bytes_sent == 0;
    run_beside(out, t);
}

static gw_status prepare(trial *t, float **made_up)
{
    const gwc_plan_job *job = t->job;
    double cut;

    GWT_TRY(count_steps(t));
    t->n = floats_most / (size_t)job->workers * GRADIENTS / (t->warm + t->measured);
    t->n = t->n < floats_least ? floats_least : t->n;
    t->n = t->n < job->params ? t->n : job->params;
    cut = (double)job->params / (double)t->n;
    gwc_net_settings net = {job->workers, job->link, job->links, cut * job->share, cut};
    *made_up = gwt_calloc(t->n + shifts(t), sizeof **made_up, "made-up gradients");
    t->clocks = gwt_calloc((size_t)job->workers, sizeof *t->clocks, "clocks");
    if (*made_up == NULL || t->clocks == NULL)
        return GW_ERR_NOMEM;
    gwc_heavy_gradient(*made_up, t->n + shifts(t));
    t->made_up = *made_up;
    return gwc_virtual_net_new(&t->net, &net);
}

gw_status gwc_plan_try(gwc_plan_result *out, const gwc_plan_job *job, const char *spec)
{
    trial t = {.job = job, .spec = spec};
    float *made_up = NULL;
    gw_status st;

    GWT_TRY(gw_spec_check(spec, NULL, 0));
    if (job->workers < 1 || job->workers > GWC_PLAN_WORKERS_MAX)
        return gw_fail(
            GW_ERR_ARG,
            "plan supports 1 to %d workers; use 'gradwire simulate' for more",
            GWC_PLAN_WORKERS_MAX);
    st = prepare(&t, &made_up);
    if (st == GW_OK) {
        pthread_barrier_init(&t.meet, NULL, (unsigned)job->workers);
        pthread_mutex_init(&t.gate, NULL);
        st = run_workers(&t);
        pthread_mutex_destroy(&t.gate);
        pthread_barrier_destroy(&t.meet);
    }
    if (st == GW_OK)
        sum_up(out, &t);
    gwc_virtual_net_free(t.net);
    gwt_free(t.clocks);
    gwt_free(made_up);
    return st;
}

gw_status gwc_plan_link(gwc_link *out, const char *text)
{
    return gw_link_parse(text, &out->bytes_per_second, &out->delay);
}
