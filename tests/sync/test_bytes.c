/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bytes.c - what each recipe sends is what the formulas say, to the byte, for
 * every worker: n floats, P workers, k entries, and messages as docs/format.md
 * describes them. The formulas are written out here and not asked of the library;
 * only the length of coded positions comes from the coder itself. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/select.h"
#include "wire/index_coder.h"

enum { FNN3 = 199210, HEADER = 20, NOTE = 8, CHECK = 4, BUCKET = 512, SHORT = 8192 };

typedef struct scene scene;

/* How many steps, on which tensors, and what a worker should send in all of them. */
struct scene {
    const char *spec;
    int steps;
    size_t period; /* of local, spa and pqasgd; 1 otherwise */
    size_t k;      /* entries that are selected; 0 with drop, which samples */
    unsigned bits;
    size_t tensors[3]; /* floats of each; 0: no more */
    size_t (*expected)(const scene *s, int workers, int rank);
};

static size_t floats_of(const scene *s)
{
    return s->tensors[0] + s->tensors[1] + s->tensors[2];
}

static float gradient_at(int step, int rank, size_t i)
{
    float u = test_float((uint64_t)step * 100 + (uint64_t)rank, i);

    return u * u * u;
}

/* ---- lengths --------------------------------------------------------------------- */

static size_t up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Part r of n in P parts as even as can be. */
static size_t part(size_t n, int p, int r)
{
    return n / (size_t)p + ((size_t)r < n % (size_t)p);
}

/* The largest power of two that is not above p, and its logarithm. */
static int power_below(int p, size_t *log)
{
    int q = 1;

    for (*log = 0; 2 * q <= p; ++*log)
        q *= 2;
    return q;
}

/* Messages that a worker sends in recursive doubling: those past the power of two
 * hand their vector down and get the result back. */
static size_t doubling_messages(int p, int rank)
{
    size_t rounds;
    int q = power_below(p, &rounds);

    return rank >= q ? 1 : rounds + (rank + q < p);
}

/* What a worker sends around a ring beside floats: each round has a check, and those
 * that add have a note. */
static size_t words_of(int p)
{
    return (size_t)(p - 1) * (NOTE + 2 * CHECK);
}

/* An all-reduce: around the ring each worker sends every segment twice but for its
 * own and the one after it; all workers together 8n(P-1) bytes. */
static size_t reduce_bytes(size_t n, int p, int rank)
{
    if (p == 1)
        return 0;
    if (n <= SHORT)
        return doubling_messages(p, rank) * (4 * n + NOTE + CHECK);
    return 4 * (2 * n - part(n, p, rank) - part(n, p, (rank + 1) % p)) + words_of(p);
}

static size_t levels_bytes(size_t values, unsigned bits)
{
    return 4 + 4 * up(values, BUCKET) + up(values * bits, 8);
}

/* ---- whole vectors -----------------------------------------------------------------
 */

static size_t nothing(const scene *s, int workers, int rank)
{
    (void)s, (void)workers, (void)rank;
    return 0;
}

static size_t dense(const scene *s, int workers, int rank)
{
    return (size_t)s->steps * reduce_bytes(floats_of(s), workers, rank);
}

/* Tensors of more than 2^20 floats are buckets of their own. */
static size_t dense_buckets(const scene *s, int workers, int rank)
{
    size_t sum = 0;

    for (int i = 0; i < 3; i++)
        sum += reduce_bytes(s->tensors[i], workers, rank);
    return (size_t)s->steps * sum;
}

static size_t means(const scene *s, int workers, int rank)
{
    return (size_t)s->steps * (workers > 1 ? doubling_messages(workers, rank) : 0) *
           (8 + NOTE + CHECK);
}

static size_t local(const scene *s, int workers, int rank)
{
    return (size_t)s->steps / s->period * reduce_bytes(floats_of(s), workers, rank);
}

static size_t chunks(const scene *s, int workers, int rank)
{
    size_t sum = 0;

    for (int i = 0; i < s->steps; i++) {
        int which = i % (int)s->period;
        sum += reduce_bytes(part(floats_of(s), (int)s->period, which), workers, rank);
    }
    return sum;
}

static size_t coded_gather(const scene *s, int workers, int rank)
{
    size_t message = HEADER + levels_bytes(floats_of(s), s->bits);

    (void)rank;
    return (size_t)s->steps / s->period * (size_t)(workers - 1) * message;
}

/* The message for worker r's segment, which is whole buckets; the last may be short. */
static size_t segment_message(const scene *s, int workers, int r)
{
    size_t n = floats_of(s), buckets = up(n, BUCKET), first = 0;

    for (int i = 0; i < r; i++)
        first += part(buckets, workers, i);
    size_t begin = first * BUCKET, end = begin + part(buckets, workers, r) * BUCKET;
    begin = begin < n ? begin : n;
    end = end < n ? end : n;
    return HEADER + levels_bytes(end - begin, s->bits);
}

static size_t coded_scatter(const scene *s, int workers, int rank)
{
    size_t sum = (size_t)(workers - 1) * segment_message(s, workers, rank);

    for (int r = 0; r < workers; r++)
        sum += r != rank ? segment_message(s, workers, r) : 0;
    return (size_t)s->steps / s->period * sum;
}

/* With dense_below=1000, tensors of fewer floats are summed as they are, and coded are
 * the others. */
static size_t apart(const scene *s, int workers, int rank,
                    size_t (*coded)(const scene *s, int workers, int rank))
{
    scene rest = *s;
    size_t small = 0;

    for (int i = 0; i < 3; i++)
        if (rest.tensors[i] < 1000) {
            small += rest.tensors[i];
            rest.tensors[i] = 0;
        }
    return coded(&rest, workers, rank) +
           (size_t)s->steps * reduce_bytes(small, workers, rank);
}

static size_t apart_gather(const scene *s, int workers, int rank)
{
    return apart(s, workers, rank, coded_gather);
}

static size_t apart_scatter(const scene *s, int workers, int rank)
{
    return apart(s, workers, rank, coded_scatter);
}

/* ---- selected entries ---------------------------------------------------------------
 */

/* Sorts magnitudes, the largest first. */
static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x < y) - (x > y);
}

/* The magnitude that k of n values are not below; no two are equal here. */
static float kth_largest(const float *v, size_t n, size_t k)
{
    float *sorted = malloc(n * sizeof *sorted);

    for (size_t i = 0; i < n; i++)
        sorted[i] = fabsf(v[i]);
    qsort(sorted, n, sizeof *sorted, by_size);
    float kth = sorted[k - 1];
    free(sorted);
    return kth;
}

/* The length of a message about the entries of v that are not 0. */
static size_t list_message(const scene *s, const float *v, size_t n)
{
    uint32_t *index = malloc(n * sizeof *index), k = 0;
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        index[k] = (uint32_t)i;
        k += v[i] != 0;
    }
    uint8_t *out = malloc(gwi_index_bound((uint32_t)n, k));
    gwi_index_encode(index, k, (uint32_t)n, out, &len);
    free(out);
    free(index);
    return HEADER + len + (s->bits == 32 ? 4 * k : levels_bytes(k, s->bits));
}

/* Moves what is at least `least` from r to out, which is 0 elsewhere. */
static void move_large(float *r, float *out, size_t n, float least)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = fabsf(r[i]) >= least ? r[i] : 0;
        r[i] = fabsf(r[i]) >= least ? 0 : r[i];
    }
}

/* The threshold of dropping is in between: entries above it are sent. */
static float least_sent(const scene *s, const float *r, size_t n)
{
    if (s->k > 0)
        return kth_largest(r, n, s->k);
    float *scratch = malloc(GWI_THRESHOLD_FLOATS(n) * sizeof *scratch);
    float threshold = gwi_sampled_threshold(r, NULL, n, 0.99, scratch).value;
    free(scratch);
    return nextafterf(threshold, INFINITY);
}

static size_t gathered(const scene *s, int workers, int rank)
{
    size_t n = floats_of(s), sum = 0;
    float *r = calloc(2 * n, sizeof *r), *out = r + n;

    for (int t = 1; t <= s->steps; t++) {
        for (size_t i = 0; i < n; i++)
            r[i] += gradient_at(t, rank, i);
        move_large(r, out, n, least_sent(s, r, n));
        sum += (size_t)(workers - 1) * list_message(s, out, n);
    }
    free(r);
    return sum;
}

/* Workers to which a worker hands the result down the tree. */
static size_t children(int workers, int rank)
{
    size_t count = 0;

    for (int bit = 1; bit < workers && (rank & bit) == 0; bit *= 2)
        count += rank + bit < workers;
    return count;
}

/* Plays the tree of one step: *own is what the worker of that rank sends up it. */
static size_t play_tree(const scene *s, float *v, int workers, int rank, size_t *own)
{
    size_t n = floats_of(s);

    *own = 0;
    for (int d = 1; d < workers; d *= 2)
        for (int r = 0; r + d < workers; r += 2 * d) {
            float *w = v + (size_t)r * n, *theirs = v + (size_t)(r + d) * n;
            if (r + d == rank)
                *own = list_message(s, theirs, n);
            for (size_t i = 0; i < n; i++)
                w[i] += theirs[i];
            move_large(w, theirs, n, kth_largest(w, n, s->k));
            memcpy(w, theirs, n * sizeof *w);
        }
    return list_message(s, v, n);
}

/* What all workers select in the first step, and room for one more vector. */
static float *first_lists(const scene *s, int workers)
{
    size_t n = floats_of(s);
    float *v = calloc((size_t)(workers + 1) * n, sizeof *v);
    float *left = v + (size_t)workers * n;

    for (int r = 0; r < workers; r++) {
        for (size_t i = 0; i < n; i++)
            left[i] = gradient_at(1, r, i);
        move_large(left, v + (size_t)r * n, n, kth_largest(left, n, s->k));
    }
    return v;
}

/* One step: up the tree each worker but the first sends one message, and down it
 * there are as many again, all the same. */
static size_t tree(const scene *s, int workers, int rank)
{
    float *v = first_lists(s, workers);
    size_t own, result = play_tree(s, v, workers, rank, &own);

    free(v);
    return own + children(workers, rank) * result;
}

/* Both lists become the largest of their sum. */
static void merge(const scene *s, float *a, float *b)
{
    size_t n = floats_of(s);

    for (size_t i = 0; i < n; i++)
        a[i] += b[i];
    move_large(a, b, n, kth_largest(a, n, s->k));
    memcpy(a, b, n * sizeof *a);
}

/* One step in pairs: a list in each round, those past the power of two apart, who
 * send theirs and get the result. */
static size_t pairs(const scene *s, int workers, int rank)
{
    size_t n = floats_of(s), log, sent = 0;
    float *v = first_lists(s, workers);
    int q = power_below(workers, &log);

    for (int r = q; r < workers; r++) {
        sent += r == rank ? list_message(s, v + (size_t)r * n, n) : 0;
        merge(s, v + (size_t)(r - q) * n, v + (size_t)r * n);
    }
    for (int d = 1; d < q; d *= 2) {
        sent += rank < q ? list_message(s, v + (size_t)rank * n, n) : 0;
        for (int r = 0; r < q; r++)
            if ((r & d) == 0)
                merge(s, v + (size_t)r * n, v + (size_t)(r + d) * n);
    }
    sent += rank + q < workers ? list_message(s, v + (size_t)rank * n, n) : 0;
    free(v);
    return sent;
}

/* ---- the real thing ---------------------------------------------------------------
 */

static gw_status make(gw_sync **sync, const scene *s, gw_comm *c)
{
    gw_tensor t[3];
    gw_layout *layout;
    size_t count = 0, offset = 0;

    for (; count < 3 && s->tensors[count] > 0; count++) {
        t[count] = (gw_tensor){.offset = offset, .rows = 1, .cols = s->tensors[count]};
        offset += s->tensors[count];
    }
    PASS_ON(gw_layout_new(&layout, t, count));
    gw_status st = gw_sync_new(sync, s->spec, layout, c, NULL);
    gw_layout_free(layout);
    return st;
}

static gw_status step(gw_sync *sync, int t, int rank, float *g, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        g[i] = gradient_at(t, rank, i);
    PASS_ON(gw_sync_gradient(sync, g));
    for (size_t i = 0; i < n; i++)
        x[i] -= 0.1f * g[i];
    return gw_sync_model(sync, x);
}

static gw_status take_steps(const scene *s, gw_comm *c, gw_sync *sync)
{
    size_t n = floats_of(s);
    float *g = calloc(2 * n, sizeof *g);
    gw_status st = gw_sync_start(sync, g + n);

    for (int t = 1; st == GW_OK && t <= s->steps; t++)
        st = step(sync, t, gw_comm_rank(c), g, g + n, n);
    free(g);
    return st;
}

static gw_status body(gw_comm *c, void *arg)
{
    const scene *s = arg;
    int workers = gw_comm_workers(c), rank = gw_comm_rank(c);
    gw_sync *sync = NULL;

    PASS_ON(make(&sync, s, c));
    gw_status st = take_steps(s, c, sync);
    size_t sent = (size_t)gw_sync_stats(sync).bytes_sent;
    gw_sync_free(sync);
    PASS_ON(st);
    size_t due = s->expected(s, workers, rank);
    REQUIRE(sent == due, "%s: worker %d of %d sent %zu bytes in %d steps, not %zu",
            s->spec, rank, workers, sent, s->steps, due);
    return GW_OK;
}

/* ---- tests ------------------------------------------------------------------------
 */

#define WHOLE(spec, steps, period, bits, n, expected)     \
    {                                                     \
        spec, steps, period, 0, bits, {n, 0, 0}, expected \
    }
#define LISTS(spec, steps, k, bits, n, expected)     \
    {                                                \
        spec, steps, 1, k, bits, {n, 0, 0}, expected \
    }

#define SMALL(spec, bits, expected)                     \
    {                                                   \
        spec, 2, 1, 0, bits, {100, 10007, 60}, expected \
    }

static const scene scenes[] = {
    WHOLE("none", 3, 1, 32, 10007, nothing),
    WHOLE("oneshot", 3, 1, 32, 10007, nothing),
    WHOLE("dense", 3, 1, 32, FNN3, dense),
    WHOLE("dense", 2, 1, 32, SHORT, dense),
    WHOLE("dense", 2, 1, 32, SHORT + 1, dense),
    WHOLE("a2sgd", 3, 1, 32, 10007, means),
    WHOLE("local:4", 8, 4, 32, FNN3, local),
    WHOLE("spa:3", 4, 3, 32, FNN3, chunks),
    WHOLE("spa:3", 4, 3, 32, 10007, chunks),
    WHOLE("qsgd:4,via=gather", 2, 1, 4, FNN3, coded_gather),
    WHOLE("qsgd:3,via=gather,norm=l2", 2, 1, 3, 10007, coded_gather),
    WHOLE("qsgd:4,via=scatter", 2, 1, 4, FNN3, coded_scatter),
    WHOLE("qsgd:8,via=scatter,residual=on", 2, 1, 8, 10007, coded_scatter),
    WHOLE("pqasgd:4,4,via=gather", 8, 4, 4, 10007, coded_gather),
    WHOLE("pqasgd:4,4,via=scatter", 8, 4, 4, 10007, coded_scatter),
    SMALL("qsgd:4,via=gather,dense_below=1000", 4, apart_gather),
    SMALL("qsgd:4,via=scatter,dense_below=1000", 4, apart_scatter),
    SMALL("qsgd:8,via=scatter,residual=on,dense_below=1000", 8, apart_scatter),
    SMALL("qsgd:32,dense_below=1000", 32, dense),
    LISTS("topk:0.01", 3, 100, 32, 10007, gathered),
    LISTS("topk:0.001", 1, 199, 32, FNN3, gathered),
    LISTS("topk:0.1+q:4", 1, 1000, 4, 10007, gathered),
    LISTS("drop:0.99", 2, 0, 32, 10007, gathered),
    LISTS("gtopk:0.01", 1, 100, 32, 10007, pairs),
    LISTS("gtopk:0.001", 1, 30, 32, 30011, pairs),
    LISTS("gtopk:0.01,via=tree", 1, 100, 32, 10007, tree),
    LISTS("gtopk:0.001,via=tree", 1, 30, 32, 30011, tree),
};

static gw_status run(const scene *s, int workers)
{
    return ranks_run(RANKS_THREADS, workers, body, (void *)(uintptr_t)s);
}

static void test_formulas(void **state)
{
    static const int counts[] = {1, 2, 3, 4, 6, 8};

    (void)state;
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        for (size_t j = 0; j < sizeof counts / sizeof *counts; j++)
            assert_run_ok(run(&scenes[i], counts[j]));
}

static void test_buckets(void **state)
{
    const scene s = {.spec = "dense",
                     .steps = 1,
                     .tensors = {5000, 1100000, 1050001},
                     .expected = dense_buckets};

    (void)state;
    assert_run_ok(run(&s, 3));
    assert_run_ok(run(&s, 4));
}

/* The formulas of the ring, tree and doubling, added up over the workers, are those
 * of the literature. */
static void test_sums(void **state)
{
    (void)state;
    for (int p = 1; p <= 9; p++) {
        size_t ring = 0, handed = 0, q = (size_t)p - 1;
        for (int r = 0; r < p; r++) {
            ring += reduce_bytes(FNN3, p, r) - words_of(p);
            handed += children(p, r);
        }
        assert_int_equal(ring, 8 * q * (size_t)FNN3);
        assert_int_equal(handed, q);
    }
    assert_int_equal(reduce_bytes(FNN3 - 2, 4, 0) - words_of(4),
                     8 * (size_t)(FNN3 - 2) * 3 / 4);
    for (int r = 0; r < 8; r++)
        assert_int_equal(doubling_messages(8, r), 3);
}

/* What PQASGD is for: with four workers, 4 bits and an exchange in every eighth step,
 * a few per cent of what dense sends. */
static void check_share(const scene *s, double most)
{
    double all = s->steps * 8.0 * FNN3 * 3 / 4;

    assert_run_ok(run(s, 4));
    for (int r = 0; r < 4; r++)
        assert_true((double)s->expected(s, 4, r) <= most * all);
}

static void test_share_of_dense(void **state)
{
    static const scene gather =
        WHOLE("pqasgd:8,4,via=gather", 16, 8, 4, FNN3, coded_gather);
    static const scene scatter =
        WHOLE("pqasgd:8,4,via=scatter", 16, 8, 4, FNN3, coded_scatter);

    (void)state;
    check_share(&gather, 0.033);
    check_share(&scatter, 0.018);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_share_of_dense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
