/* SPDX-License-Identifier: Apache-2.0
 *
 * virtual_net.c - passes messages between threads and keeps virtual clocks. */
#define _GNU_SOURCE
#include "plan/virtual_net.h"

#include "common.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

/* A message on its way: when its first byte left the sender, per link. */
typedef struct letter {
    struct letter *next;
    size_t len;
    double left[GWC_LINKS_MAX];
    unsigned char bytes[];
} letter;

/* Messages from one worker to another, in order. The receiver numbers its receives:
 * while an earlier one is open, a later one takes nothing, even if a message arrives
 * between the tests of the two. */
typedef struct queue {
    letter *first, **end;
    uint64_t posted, taken;
} queue;

/* When an interface was busy receiving: at most this many intervals, sorted and
 * disjoint. Messages are seen in the order in which threads run, not in that of virtual
 * time, so each is fitted in where the interface was free. */
enum { STRETCHES = 64 };

typedef struct ingress {
    size_t count;
    double begin[STRETCHES], end[STRETCHES];
} ingress;

typedef struct end {
    gwc_virtual_net *net;
    int rank;
    bool counting;
    double entered; /* processor time when it last came back from the network */
    gwc_clocks clock;
    double out_free[GWC_LINKS_MAX];
    ingress in[GWC_LINKS_MAX];
    pthread_cond_t arrived;
} end;

struct gwc_virtual_net {
    gwc_net_settings set;
    gwc_link link[GWC_LINKS_MAX];
    pthread_mutex_t lock;
    int lost; /* a worker that failed, or -1 */
    end *ends;
    queue *queues; /* workers x workers: [to * workers + from] */
};

/* ---- clocks -----------------------------------------------------------------------
 */

static double cpu_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Adds the processor time since the thread last left the network. */
static void charge(end *e)
{
    if (!e->counting)
        return;
    double spent = (cpu_now() - e->entered) * e->net->set.cpu_factor;
    for (size_t k = 0; k < e->net->set.links; k++)
        e->clock.at[k] += spent;
    e->clock.cpu += spent;
}

static void let_go(end *e)
{
    if (e->counting)
        e->entered = cpu_now();
}

void gwc_virtual_net_enter(gwc_virtual_net *net, int rank)
{
    net->ends[rank].counting = true;
    let_go(&net->ends[rank]);
}

void gwc_virtual_net_leave(gwc_virtual_net *net, int rank)
{
    charge(&net->ends[rank]);
    net->ends[rank].counting = false;
}

void gwc_virtual_net_spend(gwc_virtual_net *net, int rank, double seconds)
{
    for (size_t k = 0; k < net->set.links; k++)
        net->ends[rank].clock.at[k] += seconds;
}

void gwc_virtual_net_start(gwc_virtual_net *net)
{
    for (int r = 0; r < net->set.workers; r++) {
        end *e = &net->ends[r];
        e->clock = (gwc_clocks){.cpu = 0.0};
        memset(e->out_free, 0, sizeof e->out_free);
        for (size_t k = 0; k < GWC_LINKS_MAX; k++)
            e->in[k].count = 0;
    }
}

gwc_clocks gwc_virtual_net_clocks(const gwc_virtual_net *net, int rank)
{
    return net->ends[rank].clock;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* How long the interface is busy with len bytes. */
static double busy(const end *e, size_t k, size_t len)
{
    return (double)len * e->net->set.byte_factor / e->net->link[k].bytes_per_second;
}

static void stamp(end *e, letter *l)
{
    for (size_t k = 0; k < e->net->set.links; k++) {
        l->left[k] = later(e->clock.at[k], e->out_free[k]);
        e->out_free[k] = l->left[k] + busy(e, k, l->len);
    }
}

/* When an interface that starts at `from` has been free for that many seconds, given
 * the intervals in which it is busy already. */
static double through(const ingress *in, double from, double seconds)
{
    for (size_t i = 0; i < in->count; i++) {
        if (in->end[i] <= from)
            continue;
        double room = in->begin[i] - from;
        if (room >= seconds)
            break;
        seconds -= room > 0.0 ? room : 0.0;
        from = in->end[i];
    }
    return from + seconds;
}

/* Marks [begin, end) as busy and merges the intervals that it touches. If there are too
 * many, merges the two oldest. */
static void occupy(ingress *in, double begin, double end)
{
    size_t kept = 0, at;

    for (size_t i = 0; i < in->count; i++) {
        if (in->end[i] < begin || in->begin[i] > end) {
            in->begin[kept] = in->begin[i];
            in->end[kept++] = in->end[i];
            continue;
        }
        begin = in->begin[i] < begin ? in->begin[i] : begin;
        end = later(end, in->end[i]);
    }
    in->count = kept;
    if (in->count == STRETCHES) {
        in->end[0] = in->end[1];
        in->count--;
        memmove(in->begin + 1, in->begin + 2, (in->count - 1) * sizeof *in->begin);
        memmove(in->end + 1, in->end + 2, (in->count - 1) * sizeof *in->end);
    }
    for (at = in->count; at > 0 && in->begin[at - 1] > begin; at--) {
        in->begin[at] = in->begin[at - 1];
        in->end[at] = in->end[at - 1];
    }
    in->begin[at] = begin;
    in->end[at] = end;
    in->count++;
}

static void take_in(end *e, const letter *l)
{
    for (size_t k = 0; k < e->net->set.links; k++) {
        double begin = l->left[k] + e->net->link[k].delay;
        double due = through(&e->in[k], begin, busy(e, k, l->len));
        occupy(&e->in[k], begin, due);
        e->clock.at[k] = later(e->clock.at[k], due);
    }
}

/* ---- the transport ----------------------------------------------------------------
 */

static queue *queue_of(gwc_virtual_net *net, int from, int to)
{
    return &net->queues[(size_t)to * (size_t)net->set.workers + (size_t)from];
}

static gw_status net_send(void *ctx, int to, const void *buf, size_t len,
                          gw_request *req)
{
    end *e = ctx;
    letter *l;

    charge(e);
    l = gwt_calloc(1, sizeof *l + len, "a message");
    if (l == NULL)
        return GW_ERR_NOMEM;
    l->len = len;
    memcpy(l->bytes, buf, len);
    stamp(e, l);
    pthread_mutex_lock(&e->net->lock);
    queue *q = queue_of(e->net, e->rank, to);
    *q->end = l;
    q->end = &l->next;
    pthread_cond_signal(&e->net->ends[to].arrived);
    pthread_mutex_unlock(&e->net->lock);
    req->pointer[0] = NULL;
    let_go(e);
    return GW_OK;
}

static gw_status net_recv(void *ctx, int from, void *buf, size_t cap, gw_request *req)
{
    end *e = ctx;

    queue *q = queue_of(e->net, from, e->rank);

    req->pointer[0] = q;
    req->pointer[1] = buf;
    req->word[0] = cap;
    req->word[1] = q->posted++;
    return GW_OK;
}

static letter *pop(end *e, queue *q, uint64_t number)
{
    letter *l;

    if (number != q->taken)
        return NULL;
    pthread_mutex_lock(&e->net->lock);
    l = q->first;
    if (l != NULL) {
        q->first = l->next;
        if (q->first == NULL)
            q->end = &q->first;
        q->taken++;
    }
    pthread_mutex_unlock(&e->net->lock);
    return l;
}

static gw_status net_test(void *ctx, gw_request *req, size_t *len)
{
    end *e = ctx;
    letter *l;

    if (req->pointer[0] == NULL)
        return GW_OK;
    charge(e);
    l = pop(e, req->pointer[0], req->word[1]);
    if (l != NULL && l->len <= req->word[0]) {
        take_in(e, l);
        memcpy(req->pointer[1], l->bytes, l->len);
        *len = l->len;
    }
    gw_status st = l == NULL ? GW_PENDING
                   : l->len <= req->word[0]
                       ? GW_OK
                       : gw_fail(GW_ERR_DATA, "a message is longer than its buffer");
    gwt_free(l);
    let_go(e);
    return st;
}

static bool anything_for(const end *e)
{
    const queue *q = queue_of(e->net, 0, e->rank);

    for (int from = 0; from < e->net->set.workers; from++)
        if (q[from].first != NULL)
            return true;
    return false;
}

static gw_status net_wait(void *ctx, double seconds)
{
    end *e = ctx;
    struct timespec until;
    gw_status st = GW_OK;

    charge(e);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(seconds * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&e->net->lock);
    while (!anything_for(e) && st == GW_OK)
        if (pthread_cond_timedwait(&e->arrived, &e->net->lock, &until) == ETIMEDOUT)
            st = GW_PENDING;
    pthread_mutex_unlock(&e->net->lock);
    let_go(e);
    return st;
}

static void net_abort(void *ctx, const char *reason)
{
    end *e = ctx;

    (void)reason;
    pthread_mutex_lock(&e->net->lock);
    if (e->net->lost < 0)
        e->net->lost = e->rank;
    pthread_mutex_unlock(&e->net->lock);
}

static int net_lost(void *ctx)
{
    end *e = ctx;
    int lost;

    pthread_mutex_lock(&e->net->lock);
    lost = e->net->lost;
    pthread_mutex_unlock(&e->net->lock);
    return lost == e->rank ? -1 : lost;
}

static const gw_transport transport = {
    .struct_size = sizeof(gw_transport),
    .name = "virtual",
    .send = net_send,
    .recv = net_recv,
    .test = net_test,
    .wait = net_wait,
    .lost = net_lost,
    .abort = net_abort,
    .one_thread = 1, /* whose time is measured */
};

gw_status gwc_virtual_net_join(gw_comm **out, gwc_virtual_net *net, int rank)
{
    return gw_comm_new(out, &transport, &net->ends[rank], rank, net->set.workers, NULL);
}

/* ---- making and freeing -----------------------------------------------------------
 */

gw_status gwc_virtual_net_new(gwc_virtual_net **out, const gwc_net_settings *set)
{
    size_t workers = (size_t)set->workers;
    gwc_virtual_net *net = gwt_calloc(1, sizeof *net, "a network");

    *out = NULL;
    if (net != NULL) {
        net->ends = gwt_calloc(workers, sizeof *net->ends, "its ends");
        net->queues = gwt_calloc(workers * workers, sizeof *net->queues, "its queues");
    }
    if (net == NULL || net->ends == NULL || net->queues == NULL) {
        gwc_virtual_net_free(net);
        return GW_ERR_NOMEM;
    }
    net->set = *set;
    net->lost = -1;
    memcpy(net->link, set->link, set->links * sizeof *net->link);
    pthread_mutex_init(&net->lock, NULL);
    for (size_t r = 0; r < workers; r++) {
        net->ends[r].net = net;
        net->ends[r].rank = (int)r;
        pthread_cond_init(&net->ends[r].arrived, NULL);
    }
    for (size_t i = 0; i < workers * workers; i++)
        net->queues[i].end = &net->queues[i].first;
    *out = net;
    return GW_OK;
}

static void free_letters(queue *q)
{
    while (q->first != NULL) {
        letter *l = q->first;
        q->first = l->next;
        gwt_free(l);
    }
}

void gwc_virtual_net_free(gwc_virtual_net *net)
{
    if (net == NULL)
        return;
    if (net->queues != NULL && net->ends != NULL && net->set.workers > 0) {
        size_t workers = (size_t)net->set.workers;
        for (size_t i = 0; i < workers * workers; i++)
            free_letters(&net->queues[i]);
        for (size_t r = 0; r < workers; r++)
            pthread_cond_destroy(&net->ends[r].arrived);
        pthread_mutex_destroy(&net->lock);
    }
    gwt_free(net->ends);
    gwt_free(net->queues);
    gwt_free(net);
}
