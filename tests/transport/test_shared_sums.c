/* SPDX-License-Identifier: Apache-2.0
 *
 * test_shared_sums.c - sums in shared memory against those of the ring: the same bits,
 * notes and traffic. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collective/collective.h"
#include "copy.h"

typedef struct task {
    size_t n;
    float divide;
    int noted;     /* the worker that brings a note, or -1 */
    size_t broken; /* the index at which the sum overflows; n: nowhere */
} task;

/* One all-reduce, and all that is to be seen of it. */
typedef struct outcome {
    float *x;
    gwi_note note;
    gw_traffic traffic; /* of this call alone */
} outcome;

typedef gw_status reduction(gw_comm *c, float *x, size_t n, float divide,
                            gwi_note *note);

static gw_status reduce(gw_comm *c, const task *t, reduction *by, outcome *o)
{
    gw_traffic before = gw_comm_traffic(c);
    int rank = gw_comm_rank(c);

    for (size_t i = 0; i < t->n; i++)
        o->x[i] = test_float((uint64_t)rank, i) * (float)(1 << i % 20);
    if (t->broken < t->n)
        o->x[t->broken] = 3e38f;
    o->note = rank == t->noted ? 7 : 0;
    PASS_ON(by(c, o->x, t->n, t->divide, t->noted == -2 ? NULL : &o->note));
    o->traffic = gw_comm_traffic(c);
    o->traffic.bytes_sent -= before.bytes_sent;
    o->traffic.bytes_received -= before.bytes_received;
    o->traffic.messages_sent -= before.messages_sent;
    o->traffic.messages_received -= before.messages_received;
    return GW_OK;
}

static gw_status by_sharing(gw_comm *c, float *x, size_t n, float divide,
                            gwi_note *note)
{
    return c->shared.gates != NULL ? gwi_allreduce_direct(c, x, n, divide, note, NULL)
                                   : gwi_allreduce_shared(c, x, n, divide, note, NULL);
}

static gw_status compare(const task *t, const outcome *a, const outcome *b)
{
    REQUIRE(memcmp(a->x, b->x, t->n * sizeof *a->x) == 0, "n=%zu: other bits", t->n);
    REQUIRE(a->note == b->note, "n=%zu: notes %llx and %llx", t->n,
            (unsigned long long)a->note, (unsigned long long)b->note);
    REQUIRE(a->traffic.bytes_sent == b->traffic.bytes_sent &&
                a->traffic.bytes_received == b->traffic.bytes_received &&
                a->traffic.messages_sent == b->traffic.messages_sent &&
                a->traffic.messages_received == b->traffic.messages_received,
            "n=%zu: other traffic, %llu and %llu bytes", t->n,
            (unsigned long long)a->traffic.bytes_sent,
            (unsigned long long)b->traffic.bytes_sent);
    return GW_OK;
}

static gw_status both_body(gw_comm *c, void *arg)
{
    const task *t = arg;
    float *x = malloc(2 * t->n * sizeof *x);
    outcome ring = {.x = x}, shared = {.x = x + t->n};
    gw_status st;

    if (!gwi_shares_sums(c))
        st = gw_fail(GW_ERR_DATA, "local workers do not share memory");
    else
        st = reduce(c, t, gwi_allreduce_ring, &ring);
    if (st == GW_OK)
        st = reduce(c, t, by_sharing, &shared);
    if (st == GW_OK)
        st = compare(t, &ring, &shared);
    free(x);
    return st;
}

static void both(int workers, task t)
{
    assert_run_ok(ranks_run(RANKS_THREADS, workers, both_body, &t));
    assert_run_ok(ranks_run(RANKS_PROCESSES, workers, both_body, &t));
}

/* Lengths around one chunk, many chunks, and segments of which some have one more. */
static void test_same_bits(void **state)
{
    size_t lengths[] = {9, 8193, 65536, 65551, 300007};

    (void)state;
    for (int p = 2; p <= 9; p = ranks_more(p))
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            size_t n = lengths[i];
            both(p, (task){.n = n, .divide = 1, .noted = -2, .broken = n});
            both(p, (task){.n = n, .divide = (float)p, .noted = -1, .broken = n});
        }
}

static void test_same_notes(void **state)
{
    size_t n = 100003;

    (void)state;
    for (int p = 2; p <= 5; p++) {
        both(p, (task){.n = n, .divide = (float)p, .noted = p - 1, .broken = n});
        both(p, (task){.n = n, .divide = (float)p, .noted = -1, .broken = n / 2});
        both(p, (task){.n = n, .divide = (float)p, .noted = p - 1, .broken = 0});
    }
}

/* ---- bad numbers that nobody has looked for ------------------------------------- */

static gwi_note note_about(void *arg, int worker, size_t index)
{
    (void)arg;
    return ((uint64_t)worker + 1) << 32 | (index / 1000);
}

/* The same by a look before the sum. */
static gw_status look_and_reduce(gw_comm *c, float *x, size_t n, gwi_note *note)
{
    for (size_t i = n; i-- > 0;)
        if (!isfinite(x[i]))
            *note = note_about(NULL, gw_comm_rank(c), i);
    return gwi_allreduce_ring(c, x, n, 1, note);
}

/* One worker's vector is bad at two places, and another one's at one before; or the sum
 * is where no term is. */
static void spoil(int rank, int bad_from, float *x, size_t n)
{
    if (bad_from < 0)
        x[n / 3] = 3e38f;
    if (bad_from >= 0 && rank >= bad_from)
        x[n / 2 - (size_t)rank] = rank % 2 ? INFINITY : NAN;
    if (rank == bad_from)
        x[n - 1] = -INFINITY;
}

static gw_status looking_body(gw_comm *c, void *arg)
{
    int bad_from = *(const int *)arg, rank = gw_comm_rank(c);
    size_t n = 70001;
    float *x = malloc(2 * n * sizeof *x);
    gwi_looker look = {note_about, NULL};
    gwi_note before = 0, along = 0;

    for (size_t i = 0; i < n; i++)
        x[i] = test_float((uint64_t)rank, i);
    spoil(rank, bad_from, x, n);
    memcpy(x + n, x, n * sizeof *x);
    gw_status st = look_and_reduce(c, x, n, &before);
    if (st == GW_OK)
        st = gwi_allreduce_looking(c, x + n, n, 1, &along, &look);
    bool same = true;
    for (size_t i = 0; st == GW_OK && i < n; i++)
        same = same && (memcmp(&x[i], &x[n + i], 4) == 0 || isnan(x[i]));
    free(x);
    PASS_ON(st);
    REQUIRE(same, "other bits");
    REQUIRE(along == before && (along != 0) == (bad_from < gw_comm_workers(c)),
            "notes %llx and %llx", (unsigned long long)before,
            (unsigned long long)along);
    return GW_OK;
}

static void test_looking(void **state)
{
    (void)state;
    for (int p = 2; p <= 5; p++)
        for (int from = -1; from <= p; from++) {
            assert_run_ok(ranks_run(RANKS_THREADS, p, looking_body, &from));
            assert_run_ok(ranks_run(RANKS_PROCESSES, p, looking_body, &from));
            assert_run_ok(ranks_run(RANKS_SOCKETS, p, looking_body, &from));
        }
}

/* ---- rings and areas of other sizes -------------------------------------------- */

static void with_rings_of(size_t bytes, int workers, gw_status expected)
{
    task t = {.n = 40009, .divide = 1, .noted = -1, .broken = 40009};
    gw_local_options opt = {.struct_size = sizeof opt,
                            .workers = workers,
                            .spawn = GW_SPAWN_THREADS,
                            .ring_bytes = bytes};

    assert_int_equal(gw_local_run(&opt, both_body, &t), expected);
}

/* The least rings make chunks of a few floats. Many workers go by the ring. */
static void test_small_areas(void **state)
{
    (void)state;
    with_rings_of(4096, 3, GW_OK);
    with_rings_of(16384, GWI_SHARING_WORKERS, GW_OK);
    with_rings_of(16384, GWI_SHARING_WORKERS + 1, GW_ERR_DATA);
    assert_string_equal(gw_error_message(), "local workers do not share memory");
}

/* What crosses an emulated link must be sent. */
static gw_status link_body(gw_comm *c, void *arg)
{
    (void)arg;
    REQUIRE(!gwi_shares_sums(c), "memory is shared beside the link");
    return GW_OK;
}

static void test_link(void **state)
{
    (void)state;
    assert_run_ok(ranks_run_with(RANKS_THREADS, 2, "1gbit,50us", 0, link_body, NULL));
}

/* ---- what goes wrong ------------------------------------------------------------- */

static gw_status mismatch_body(gw_comm *c, void *arg)
{
    size_t n = 20000 + (size_t)gw_comm_rank(c);
    float *x = calloc(n, sizeof *x);
    gw_status st = gw_allreduce(c, x, n);

    (void)arg;
    free(x);
    return st;
}

static void test_lengths_differ(void **state)
{
    gw_status st = ranks_run(RANKS_PROCESSES, 2, mismatch_body, NULL);

    (void)state;
    assert_int_equal(st, GW_ERR_DATA);
    assert_non_null(strstr(gw_error_message(), "floats, expected"));
}

static void *die(void *arg)
{
    (void)arg;
    usleep(20000);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Wherever in its turns a worker dies, nobody waits for it, and nobody ends well. */
static gw_status dying_body(gw_comm *c, void *arg)
{
    enum { LONG = 1 << 20 };
    float *x = calloc(LONG, sizeof *x);
    gw_status st = GW_OK;
    pthread_t thread;

    (void)arg;
    if (gw_comm_rank(c) == 1)
        pthread_create(&thread, NULL, die, NULL);
    while (st == GW_OK)
        st = gw_allreduce(c, x, LONG);
    free(x);
    REQUIRE(st == GW_ERR_PEER, "a worker died, and the others see %s",
            gw_status_name(st));
    return GW_OK;
}

static void test_one_dies(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(RANKS_PROCESSES, 4, dying_body, NULL), GW_ERR_PEER);
    assert_non_null(strstr(gw_error_message(), "worker 1"));
}

/* Worker 0 is interrupted at some time, and frees its vector. The others must not be in
 * it any more: the address sanitizer would see them. */
typedef struct haste {
    gw_comm *comm;
    int microseconds;
} haste;

static void *interrupt_later(void *arg)
{
    const haste *h = arg;
    struct timespec t = {.tv_nsec = 1000L * h->microseconds};

    nanosleep(&t, NULL);
    gw_comm_interrupt(h->comm);
    return NULL;
}

static gw_status hasty_body(gw_comm *c, void *arg)
{
    haste h = {c, *(const int *)arg};
    pthread_t thread;
    gw_status st = GW_OK;

    if (gw_comm_rank(c) == 0)
        REQUIRE(pthread_create(&thread, NULL, interrupt_later, &h) == 0, "no thread");
    while (st == GW_OK) {
        size_t n = 400000;
        float *x = calloc(n, sizeof *x);
        st = gw_allreduce(c, x, n);
        free(x);
    }
    if (gw_comm_rank(c) == 0)
        pthread_join(thread, NULL);
    return st;
}

static void test_interrupted(void **state)
{
    (void)state;
    for (int t = 500; t < 10000; t += 331)
        assert_int_equal(ranks_run(RANKS_THREADS, 4, hasty_body, &t), GW_ERR_STOPPED);
}

/* ---- copying --------------------------------------------------------------------- */

enum { ROOM = 40000 };

/* Not a byte beside the copy is written, whichever way it goes. */
static void check_copy(gwi_copier *k, uint8_t *to, const uint8_t *from, size_t at,
                       size_t len)
{
    memset(to, 0xee, ROOM);
    gwi_copy_over(k, to + at, from, len);
    assert_memory_equal(to + at, from, len);
    for (size_t i = 0; i < at; i++)
        assert_int_equal(to[i], 0xee);
    for (size_t i = at + len; i < ROOM; i++)
        assert_int_equal(to[i], 0xee);
}

static void test_copy(void **state)
{
    size_t lengths[] = {0, 1, 8191, 8192, 8193, 8255, 20000, 32768};
    uint8_t *to = malloc(ROOM), *from = malloc(ROOM);
    gwi_copier ways[] = {{.copies = 2, .cost = {1, 1}},
                         {.copies = 2, .cost = {1, 1e-3}}};

    (void)state;
    for (size_t i = 0; i < ROOM; i++)
        from[i] = (uint8_t)(i * 7 + i / 251);
    for (size_t at = 0; at < 70; at += 3)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            for (size_t w = 0; w < 2; w++) {
                gwi_copier k = ways[w];
                check_copy(&k, to, from + at % 5, at, lengths[i]);
            }
    free(to);
    free(from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),      cmocka_unit_test(test_same_notes),
        cmocka_unit_test(test_small_areas),    cmocka_unit_test(test_link),
        cmocka_unit_test(test_lengths_differ), cmocka_unit_test(test_one_dies),
        cmocka_unit_test(test_copy),           cmocka_unit_test(test_looking),
        cmocka_unit_test(test_interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
