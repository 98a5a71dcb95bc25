/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap.c - the thread that exchanges what is complete.
 *
 * Tensors are fed from the last to the first; `ready` is the lowest one fed so far. The
 * thread takes buckets in their fixed order as soon as they are ready, so the result
 * has the same bits as one call for the whole vector. A method that needs the whole
 * vector has one piece of work, which starts when the first tensor has been fed. */
#include "sync/beside/overlap.h"

#include <pthread.h>
#include <stdio.h>

#include "sync/beside/late.h"

typedef struct gwi_overlap {
    gw_sync *sync;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    float *grad;  /* of the step that is being fed, NULL between steps */
    size_t ready; /* tensors from here on were fed */
    bool done;    /* the thread has nothing more to do in this step */
    bool quit;
    gw_status status;
    gwi_note note;
    char message[512];
} gwi_overlap;

int gw_sync_overlaps(const gw_sync *s)
{
    return gwi_spec_is_dense(&s->spec) && s->undo == NULL && s->late == NULL;
}

static bool piecewise(const gw_sync *s)
{
    return s->now.gradient && (s->now.dense || gwi_spec_is_dense(&s->spec)) &&
           s->kept[GWI_VELOCITY] == NULL && !gwi_estimates(&s->spec);
}

bool gwi_overlap_pending(const gw_sync *s)
{
    if (s->late != NULL)
        return gwi_late_feed(s)->grad != NULL;
    return s->overlap != NULL && s->overlap->grad != NULL;
}

/* ---- the thread --------------------------------------------------------- */

/* Waits until tensor is ready; false if the step, or the thread, is to end. */
static bool await(gwi_overlap *o, size_t tensor)
{
    pthread_mutex_lock(&o->lock);
    while (!o->quit && o->ready > tensor)
        pthread_cond_wait(&o->changed, &o->lock);
    bool go = !o->quit;
    pthread_mutex_unlock(&o->lock);
    return go;
}

/* The tensor of the whole in which place `at` of a segment lies. */
static size_t tensor_of(const gw_sync *segment, size_t at)
{
    const gw_layout *l = segment->whole->layout;

    return (size_t)(gwi_layout_find(l, segment->base + at) - l->tensors);
}

static gw_status segment_by_buckets(gwi_overlap *o, gw_sync *s, gwi_note *note)
{
    gwi_bucket b = {.first_tensor = s->layout->count};

    while (gwi_bucket_next(s->layout, &b)) {
        gwi_note found = 0;
        if (!await(o, tensor_of(s, b.begin)))
            return GW_ERR_STOPPED;
        gw_status st = gwi_sync_bucket(s, &b, o->grad + s->base, &found);
        *note = gwi_lesser_note(*note, found);
        GWI_TRY(st);
    }
    return GW_OK;
}

static gw_status by_buckets(gwi_overlap *o, gwi_note *note)
{
    gw_sync *s = o->sync;

    for (size_t i = s->segment_count; i-- > 0;)
        GWI_TRY(segment_by_buckets(o, s->segments[i], note));
    return GW_OK;
}

static gw_status one_step(gwi_overlap *o, gwi_note *note)
{
    if (piecewise(o->sync))
        return by_buckets(o, note);
    if (!await(o, 0))
        return GW_ERR_STOPPED;
    return gwi_sync_whole(o->sync, o->grad, note);
}

static bool await_step(gwi_overlap *o)
{
    pthread_mutex_lock(&o->lock);
    while (!o->quit && (o->grad == NULL || o->done))
        pthread_cond_wait(&o->changed, &o->lock);
    bool go = !o->quit;
    pthread_mutex_unlock(&o->lock);
    return go;
}

static void *thread_main(void *arg)
{
    gwi_overlap *o = arg;

    while (await_step(o)) {
        gwi_note note = 0;
        gw_status st = one_step(o, &note);
        pthread_mutex_lock(&o->lock);
        o->status = st;
        o->note = note;
        /* Messages belong to threads: this one's must reach the caller's. */
        snprintf(o->message, sizeof o->message, "%s", gw_error_message());
        o->done = true;
        pthread_cond_broadcast(&o->changed);
        pthread_mutex_unlock(&o->lock);
    }
    return NULL;
}

/* ---- the caller's side -------------------------------------------------- */

static gw_status make(gw_sync *s)
{
    gwi_overlap *o = gwi_calloc(1, sizeof *o);

    if (o == NULL)
        return gw_fail(GW_ERR_NOMEM,
                       "not enough memory to exchange while backward computes");
    o->sync = s;
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    if (pthread_create(&o->thread, NULL, thread_main, o) != 0) {
        gwi_free(o);
        return gw_fail(GW_ERR_SYSTEM,
                       "cannot start a thread to exchange while backward computes");
    }
    s->overlap = o;
    return GW_OK;
}

static void begin(gwi_overlap *o, float *grad)
{
    gwi_sync_begin_step(o->sync);
    pthread_mutex_lock(&o->lock);
    o->grad = grad;
    o->ready = o->sync->layout->count;
    o->done = false;
    pthread_mutex_unlock(&o->lock);
}

static void feed(gwi_overlap *o, size_t tensor)
{
    pthread_mutex_lock(&o->lock);
    o->ready = tensor;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

static gw_status check_order(const gwi_feed *f, size_t count, const float *grad,
                             size_t tensor)
{
    size_t expected = f->grad != NULL ? f->ready : count;

    if (tensor + 1 == expected && (f->grad == NULL || f->grad == grad))
        return GW_OK;
    return gw_fail(GW_ERR_ARG,
                   "tensor %zu was fed, expected tensor %zu of the same vector; "
                   "feed the last tensor first",
                   tensor, expected - 1);
}

/* A late result is exchanged whole, so that nothing begins before the last tensor. */
static gw_status feed_late(gwi_feed *f, size_t count, float *grad, size_t tensor)
{
    GWI_TRY(check_order(f, count, grad, tensor));
    *f = (gwi_feed){grad, tensor};
    return GW_OK;
}

gw_status gw_sync_gradient_part(gw_sync *s, float *grad, size_t tensor)
{
    /* A step that may be put back begins when the vector is complete. */
    if (s->undo != NULL)
        return GW_OK;
    if (s->late != NULL)
        return feed_late(gwi_late_feed(s), s->layout->count, grad, tensor);
    if (s->overlap == NULL)
        GWI_TRY(make(s));
    gwi_overlap *o = s->overlap;
    gwi_feed fed = {o->grad, o->ready};
    GWI_TRY(check_order(&fed, s->layout->count, grad, tensor));
    if (o->grad == NULL)
        begin(o, grad);
    feed(o, tensor);
    return GW_OK;
}

static gw_status check_fed(const float *fed, const float *grad)
{
    if (fed == grad)
        return GW_OK;
    return gw_fail(
        GW_ERR_ARG,
        "gw_sync_gradient() got another vector than gw_sync_gradient_part()");
}

gw_status gwi_overlap_late(gw_sync *s, float *grad)
{
    gwi_feed *f = gwi_late_feed(s);

    if (f->grad != NULL)
        GWI_TRY(check_fed(f->grad, grad));
    *f = (gwi_feed){0};
    return gwi_late_gradient(s, &(gw_piece){grad, s->layout->floats}, 1);
}

gw_status gwi_overlap_finish(gw_sync *s, float *grad, gwi_note *note)
{
    gwi_overlap *o = s->overlap;

    GWI_TRY(check_fed(o->grad, grad));
    feed(o, 0);
    pthread_mutex_lock(&o->lock);
    while (!o->done)
        pthread_cond_wait(&o->changed, &o->lock);
    o->grad = NULL;
    *note = o->note;
    gw_status st = o->status;
    pthread_mutex_unlock(&o->lock);
    return st == GW_OK ? GW_OK : gw_fail(st, "%s", o->message);
}

void gwi_overlap_free(gw_sync *s)
{
    gwi_overlap *o = s->overlap;

    if (o == NULL)
        return;
    pthread_mutex_lock(&o->lock);
    o->quit = true;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    pthread_join(o->thread, NULL);
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->changed);
    gwi_free(o);
    s->overlap = NULL;
}
