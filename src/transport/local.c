/* SPDX-License-Identifier: Apache-2.0
 *
 * local.c - the transport between threads or forked processes of one machine.
 *
 * All workers map the same anonymous memory: a slot per worker and a ring per
 * ordered pair. The memory has no name, so nothing is left behind however the
 * job ends. A worker that waits sleeps on its own doorbell. The other workers ring
 * it when they have put something into a ring for it, or made room in one of its own.
 */
#define _GNU_SOURCE
#include "transport/local.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "comm.h"

/* 512 KiB: with 1 MiB two ranks all-reduce 10 M floats in 9.8 ms instead of 7.3, as
 * the rings fall out of the second-level cache; with 256 KiB four ranks on two cores
 * take 37 ms instead of 28, as they fill up too soon (gradwire bench exchange). */
enum { MAX_WORKERS = 1024, MIN_RING = 4096, MAX_RING = 1 << 19 };

/* An area of shared memory per worker, for all-reduces. With 512 KiB four ranks on two
 * cores of a Zen 5 take 7.5 ms for 10 M floats instead of 6.9, as they meet twice as
 * often; with 2 MiB two ranks take 2.8 ms instead of 2.5. */
enum { AREA_BYTES = 1 << 20 };

/* All rings together take at most this much unless the caller says otherwise:
 * pages are only taken when used, but a ring in use soon uses all of its own. */
#define RINGS_TOTAL ((size_t)256 << 20)

/* Looks at the doorbell before sleeping. A look takes about 40 ns with the pause
 * instruction, so this is roughly the cost of the system calls it may save; it is
 * only done while every worker can have a core of its own. */
enum { SPINS = 200 };

/* A worker that looked for messages this recently is not the one to blame. */
#define FRESH_NS 1000000000u

/* One worker's end: in private memory, found through gw_comm.ctx. */
typedef struct local_end {
    gw_local_group *group;
    int rank;
    pid_t pid; /* of who joined: a process forked from it does not speak for it */
    int spins;
    uint32_t seen;       /* rings of the own doorbell so far */
    int *pidfds;         /* [P], -1 where not open */
    gwi_copier *copiers; /* [P], into the ring for each */
    uint64_t *tickets;   /* [4][P]: sends given out, sends over, then receives */
} local_end;

/* ---- the group ---------------------------------------------------------- */

static size_t power_of_two_at_most(size_t x)
{
    size_t p = 1;

    while (p <= x / 2)
        p *= 2;
    return p;
}

static size_t ring_bytes_for(const gw_local_options *opt)
{
    size_t pairs = (size_t)opt->workers * (size_t)opt->workers;
    size_t bytes = opt->ring_bytes;

    if (bytes == 0) {
        bytes = RINGS_TOTAL / pairs;
        bytes = bytes < MAX_RING ? bytes : MAX_RING;
    }
    return power_of_two_at_most(bytes > MIN_RING ? bytes : MIN_RING);
}

static gw_status check_options(const gw_local_options *opt)
{
    if (opt == NULL || opt->struct_size != sizeof *opt)
        return gw_fail(GW_ERR_ARG,
                       "gw_local_options.struct_size is not %zu; set it to "
                       "sizeof(gw_local_options)",
                       sizeof(gw_local_options));
    if (opt->workers < 1 || opt->workers > MAX_WORKERS)
        return gw_fail(GW_ERR_ARG, "invalid number of workers %d; expected 1 to %d",
                       opt->workers, MAX_WORKERS);
    if (!(opt->timeout_seconds >= 0))
        return gw_fail(GW_ERR_ARG, "invalid timeout_seconds %g; expected 0 or more",
                       opt->timeout_seconds);
    return GW_OK;
}

static gw_status map_memory(gw_local_group *g)
{
    size_t p = (size_t)g->opt.workers;
    size_t slots = p * sizeof(gwi_slot), rings = p * p * sizeof(gwi_ring);
    size_t gates = p * sizeof(gwi_gate), head = slots + rings + gates;
    size_t area = 2 * g->opt.ring_bytes;

    g->shared.bytes = area < AREA_BYTES ? area : AREA_BYTES;
    g->mapping_len = head + p * p * g->opt.ring_bytes + p * g->shared.bytes;
    g->mapping = mmap(NULL, g->mapping_len, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (g->mapping == MAP_FAILED)
        return gw_fail(GW_ERR_SYSTEM,
                       "cannot map %zu bytes of shared memory for %zu workers: %s",
                       g->mapping_len, p, strerror(errno));
    g->slots = g->mapping;
    g->rings = (gwi_ring *)((uint8_t *)g->mapping + slots);
    g->gates = (gwi_gate *)((uint8_t *)g->mapping + slots + rings);
    g->data = (uint8_t *)g->mapping + head;
    g->shared.base = g->data + p * p * g->opt.ring_bytes;
    return GW_OK;
}

gw_status gw_local_group_new(gw_local_group **out, const gw_local_options *opt)
{
    gw_local_group *g;
    gw_status st;

    *out = NULL;
    GWI_TRY(check_options(opt));
    g = gwi_calloc(1, sizeof *g);
    if (g == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a group of workers");
    g->opt = *opt;
    g->opt.ring_bytes = ring_bytes_for(opt);
    if (opt->link != NULL) {
        snprintf(g->link, sizeof g->link, "%s", opt->link);
        g->opt.link = g->link;
    }
    if (gethostname(g->host, sizeof g->host - 1) != 0)
        snprintf(g->host, sizeof g->host, "localhost");
    st = map_memory(g);
    if (st != GW_OK) {
        gwi_free(g);
        return st;
    }
    *out = g;
    return GW_OK;
}

void gw_local_group_free(gw_local_group *g)
{
    if (g == NULL)
        return;
    munmap(g->mapping, g->mapping_len);
    gwi_free(g);
}

static void ring_everybody(gw_local_group *g)
{
    for (int r = 0; r < g->opt.workers; r++)
        gwi_doorbell_ring(&g->slots[r].bell);
}

void gwi_local_mark_dead(gw_local_group *g, int rank)
{
    atomic_store(&g->slots[rank].presence, GWI_DEAD);
    ring_everybody(g);
}

int gwi_pidfd(pid_t pid)
{
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, pid, 0);
#else
    (void)pid;
    return -1;
#endif
}

/* ---- moving messages ----------------------------------------------------------
 *
 * Several operations with one peer may be posted; tickets, counted for each peer
 * and direction, let only the oldest move. */

/* What this transport keeps in a gw_request. */

typedef struct request_view {
    void *buf;
    gwi_ring_cursor cursor;
    uint64_t ticket;
    size_t limit;
    int peer;
    int sends;
} request_view;

_Static_assert(sizeof(request_view) <= sizeof(gw_request), "fits in a request");

static uint64_t *ticket_row(const local_end *e, int row)
{
    return e->tickets + (size_t)row * (size_t)e->group->opt.workers;
}

static size_t ring_index(const local_end *e, int from, int to)
{
    return (size_t)from * (size_t)e->group->opt.workers + (size_t)to;
}

static gw_status post(local_end *e, gw_request *req, request_view v)
{
    v.ticket = ticket_row(e, v.sends ? 0 : 2)[v.peer]++;
    memcpy(req, &v, sizeof v);
    return GW_OK;
}

static gw_status local_send(void *ctx, int to, const void *buf, size_t len,
                            gw_request *req)
{
    request_view v = {.buf = (void *)(uintptr_t)buf, .peer = to, .sends = 1};

    v.cursor.len = len;
    return post(ctx, req, v);
}

static gw_status local_recv(void *ctx, int from, void *buf, size_t cap, gw_request *req)
{
    request_view v = {.buf = buf, .limit = cap, .peer = from, .sends = 0};

    return post(ctx, req, v);
}

static void push(local_end *e, request_view *v)
{
    gw_local_group *g = e->group;
    size_t i = ring_index(e, e->rank, v->peer), cap = g->opt.ring_bytes;

    while (!gwi_ring_finished(&v->cursor)) {
        if (gwi_ring_write(&g->rings[i], g->data + i * cap, cap, v->buf, &v->cursor,
                           &e->copiers[v->peer]) == 0)
            return;
        gwi_doorbell_ring(&g->slots[v->peer].bell);
    }
}

static gw_status pull(local_end *e, request_view *v)
{
    gw_local_group *g = e->group;
    size_t i = ring_index(e, v->peer, e->rank), cap = g->opt.ring_bytes;
    gwi_ring *ring = &g->rings[i];

    while (!gwi_ring_finished(&v->cursor)) {
        size_t moved =
            gwi_ring_read(ring, g->data + i * cap, cap, v->buf, v->limit, &v->cursor);
        if (v->cursor.len > v->limit)
            return gw_fail(GW_ERR_DATA,
                           "worker %d sent %llu bytes, expected at most %zu", v->peer,
                           (unsigned long long)v->cursor.len, v->limit);
        if (moved == 0)
            return GW_OK;
        if (atomic_load(&ring->writer_waits) != 0 &&
            atomic_exchange(&ring->writer_waits, 0) != 0)
            gwi_doorbell_ring(&g->slots[v->peer].bell);
    }
    return GW_OK;
}

/* Nothing moves and the peer has freed its comm: it never will. What the peer did
 * last it did before it left, so one more look at the ring settles it. */
static gw_status check_left(local_end *e, request_view *v)
{
    if (atomic_load(&e->group->slots[v->peer].presence) != GWI_LEFT)
        return GW_PENDING;
    if (v->sends)
        push(e, v);
    else
        GWI_TRY(pull(e, v));
    if (gwi_ring_finished(&v->cursor))
        return GW_OK;
    return gw_fail(GW_ERR_PEER, "worker %d on host %s has already ended", v->peer,
                   e->group->host);
}

static gw_status local_test(void *ctx, gw_request *req, size_t *len)
{
    local_end *e = ctx;
    request_view v;

    memcpy(&v, req, sizeof v);
    uint64_t *over = &ticket_row(e, v.sends ? 1 : 3)[v.peer];
    if (*over != v.ticket)
        return GW_PENDING;
    if (v.sends)
        push(e, &v);
    else
        GWI_TRY(pull(e, &v));
    if (!gwi_ring_finished(&v.cursor)) {
        gw_status st = check_left(e, &v);
        memcpy(req, &v, sizeof v);
        if (st != GW_OK)
            return st;
    }
    ++*over;
    if (!v.sends)
        *len = (size_t)v.cursor.len;
    return GW_OK;
}

static uint64_t nanoseconds(void)
{
    return (uint64_t)(gwi_now() * 1e9);
}

static void local_busy(void *ctx, double until)
{
    local_end *e = ctx;

    atomic_store(&e->group->slots[e->rank].busy, (uint64_t)(until * 1e9));
}

/* Whether a message is on its way to somebody through an emulated link. */
static bool somebody_busy(const local_end *e)
{
    uint64_t now = nanoseconds();

    for (int r = 0; r < e->group->opt.workers; r++)
        if (r != e->rank && atomic_load(&e->group->slots[r].busy) > now)
            return true;
    return false;
}

static gw_status local_wait(void *ctx, double seconds)
{
    local_end *e = ctx;
    gwi_slot *own = &e->group->slots[e->rank];

    atomic_store_explicit(&own->beat, nanoseconds(), memory_order_relaxed);
    if (gwi_doorbell_wait(&own->bell, &e->seen, seconds, e->spins))
        return GW_OK;
    return somebody_busy(e) ? GW_OK : GW_PENDING;
}

/* ---- who is gone, who is late ------------------------------------------- */

/* True if the process behind rank has ended, also as a zombie. */
static int process_ended(local_end *e, int rank)
{
    int pid = atomic_load(&e->group->slots[rank].pid);
    struct pollfd p = {.events = POLLIN};

    if (pid == 0 || pid == (int)getpid())
        return 0;
    if (e->pidfds[rank] < 0)
        e->pidfds[rank] = gwi_pidfd(pid);
    if (e->pidfds[rank] < 0)
        return errno == ESRCH;
    p.fd = e->pidfds[rank];
    return poll(&p, 1, 0) == 1;
}

static int local_lost(void *ctx)
{
    local_end *e = ctx;

    for (int r = 0; r < e->group->opt.workers; r++) {
        int presence = atomic_load(&e->group->slots[r].presence);
        if (presence == GWI_DEAD)
            return r;
        if (r != e->rank && presence == GWI_PRESENT && process_ended(e, r) &&
            atomic_load(&e->group->slots[r].presence) == GWI_PRESENT)
            return r;
    }
    return -1;
}

/* Everybody who waits looks for messages every few milliseconds; the worker that
 * has not looked for the longest time is the one that hangs. */
static int local_suspect(void *ctx)
{
    local_end *e = ctx;
    uint64_t oldest = UINT64_MAX;
    int suspect = -1;

    for (int r = 0; r < e->group->opt.workers; r++) {
        uint64_t beat = atomic_load(&e->group->slots[r].beat);
        if (r != e->rank && atomic_load(&e->group->slots[r].presence) != GWI_LEFT &&
            beat < oldest) {
            oldest = beat;
            suspect = r;
        }
    }
    return suspect >= 0 && oldest + FRESH_NS < nanoseconds() ? suspect : -1;
}

static const char *local_host(void *ctx, int rank)
{
    (void)rank;
    return ((local_end *)ctx)->group->host;
}

static void local_step(void *ctx, uint64_t step)
{
    local_end *e = ctx;

    atomic_store_explicit(&e->group->slots[e->rank].step, step, memory_order_relaxed);
    atomic_store_explicit(&e->group->slots[e->rank].beat, nanoseconds(),
                          memory_order_relaxed);
}

static void local_abort(void *ctx, const char *reason)
{
    local_end *e = ctx;

    (void)reason;
    if (e->pid == getpid())
        gwi_local_mark_dead(e->group, e->rank);
}

static void local_close(void *ctx)
{
    local_end *e = ctx;
    gwi_slot *own = &e->group->slots[e->rank];
    int present = GWI_PRESENT;

    if (e->pid == getpid() &&
        atomic_compare_exchange_strong(&own->presence, &present, GWI_LEFT))
        ring_everybody(e->group);
    for (int r = 0; r < e->group->opt.workers; r++)
        if (e->pidfds[r] >= 0)
            close(e->pidfds[r]);
    gwi_free(e);
}

/* ---- joining ------------------------------------------------------------ */

static local_end *new_end(gw_local_group *g, int rank)
{
    size_t p = (size_t)g->opt.workers;
    local_end *e = gwi_calloc(1, sizeof *e + 4 * p * sizeof(uint64_t) +
                                     p * sizeof(gwi_copier) + p * sizeof(int));

    if (e == NULL)
        return NULL;
    e->group = g;
    e->rank = rank;
    e->pid = getpid();
    e->spins = sysconf(_SC_NPROCESSORS_ONLN) >= g->opt.workers ? SPINS : 0;
    e->tickets = (uint64_t *)(e + 1);
    e->copiers = (gwi_copier *)(e->tickets + 4 * p);
    e->pidfds = (int *)(e->copiers + p);
    for (size_t r = 0; r < p; r++)
        e->pidfds[r] = -1;
    return e;
}

static const gw_transport local_table = {
    .struct_size = sizeof(gw_transport),
    .name = "local",
    .send = local_send,
    .recv = local_recv,
    .test = local_test,
    .wait = local_wait,
    .lost = local_lost,
    .suspect = local_suspect,
    .host = local_host,
    .step = local_step,
    .abort = local_abort,
    .close = local_close,
    .busy = local_busy,
};

static gw_status new_comm(gw_comm **out, local_end *e)
{
    const gw_local_options *opt = &e->group->opt;
    gw_comm_options options = {.struct_size = sizeof options,
                               .timeout_seconds = opt->timeout_seconds};

    GWI_TRY(gw_comm_new(out, &local_table, e, e->rank, opt->workers, &options));
    (*out)->in_memory = true;
    (*out)->shared = e->group->shared;
    gw_status st = opt->link != NULL ? gw_comm_link(*out, opt->link) : GW_OK;
    if (st != GW_OK) {
        (*out)->table.close = NULL; /* the end is released by gw_local_join() */
        gw_comm_free(*out);
        *out = NULL;
    }
    return st;
}

gw_status gw_local_join(gw_comm **out, gw_local_group *g, int rank)
{
    int absent = GWI_ABSENT;
    local_end *e;
    gw_status st;

    *out = NULL;
    if (g == NULL || rank < 0 || rank >= g->opt.workers)
        return gw_fail(GW_ERR_ARG, "rank %d is not in the group", rank);
    e = new_end(g, rank);
    if (e == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to join a group of %d",
                       g->opt.workers);
    st = new_comm(out, e);
    if (st != GW_OK)
        goto fail;
    gwi_slot *own = &g->slots[rank];
    atomic_store(&own->pid, (int)getpid());
    atomic_store(&own->beat, nanoseconds());
    if (!atomic_compare_exchange_strong(&own->presence, &absent, GWI_PRESENT)) {
        (*out)->table.close = NULL;
        gw_comm_free(*out);
        *out = NULL;
        st = gw_fail(GW_ERR_ARG, "rank %d has already joined the group", rank);
        goto fail;
    }
    return GW_OK;

fail:
    gwi_free(e);
    return st;
}
