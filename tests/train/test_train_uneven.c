/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_uneven.c - slower workers get fewer batches, each batch is used once all
 * the same, and models are averaged by the steps that workers have made. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "elastic/uneven.h"
#include "support_ranks.h"

enum { BATCHES = 3000, PERIOD = 8, WORKERS = 4, FLOATS = 100 };

static void test_shares(void **state)
{
    (void)state;
    assert_int_equal(gwt_uneven_share(8, 0.02, 0.02), 8);
    assert_int_equal(gwt_uneven_share(8, 0.0205, 0.02), 8); /* noise */
    assert_int_equal(gwt_uneven_share(8, 0.04, 0.02), 4);
    assert_int_equal(gwt_uneven_share(30, 0.04, 0.02), 15);
    assert_int_equal(gwt_uneven_share(8, 10, 0.02), 1);
    assert_int_equal(gwt_uneven_share(8, 0, 0.02), 8); /* it has told nothing yet */
    assert_int_equal(gwt_uneven_share(8, NAN, 0.02), 8);
    for (int i = 1; i <= 100; i++) {
        uint64_t share = gwt_uneven_share(PERIOD, 0.01 * i, 0.01);
        assert_true(share == 1 || (double)share * 0.01 * i <= 1.05001 * PERIOD * 0.01);
    }
}

static void use_all(gwt_lots *l, uint8_t *used, uint64_t exchange)
{
    for (uint64_t r = 0; r < l->count; r++)
        for (uint64_t i = 0; i < l->lots[r].count; i++) {
            uint64_t batch = gwt_lots_batch(l, (size_t)r, i);
            if (batch < BATCHES)
                used[batch]++;
        }
    gwt_lots_use(l, exchange, PERIOD);
}

/* Shares change from round to round, and one worker leaves and comes back. */
static void test_every_batch_once(void **state)
{
    static gwt_lots l;
    static uint8_t used[BATCHES];
    uint64_t ids[WORKERS] = {1, 2, 3, 4}, exchange = 0, seed = test_seed();

    (void)state;
    memset(used, 0, sizeof used);
    gwt_lots_begin(&l, 0, 0);
    gwt_lots_follow(&l, ids, WORKERS, PERIOD);
    for (uint64_t round = 0; l.next < BATCHES + WORKERS * PERIOD; round++) {
        for (uint64_t r = 0; r < l.count; r++)
            l.lots[r].share = 1 + test_random(seed, 8 * round + r) % PERIOD;
        use_all(&l, used, exchange += PERIOD);
        gwt_lots_follow(&l, ids, WORKERS - round % 5 / 4, PERIOD);
        assert_true(gwt_lots_good(&l));
    }
    /* What was returned, and nobody has taken yet, is still there. */
    for (uint64_t i = 0; i < l.returned_count; i++)
        for (uint64_t k = 0; k < l.returned[i].count; k++) {
            uint64_t batch = l.returned[i].first + k * l.returned[i].stride;
            if (batch < BATCHES)
                used[batch]++;
        }
    for (uint64_t r = 0; r < l.count; r++)
        for (uint64_t i = 0; i < l.lots[r].count; i++)
            if (gwt_lots_batch(&l, (size_t)r, i) < BATCHES)
                used[gwt_lots_batch(&l, (size_t)r, i)]++;
    assert_int_equal(l.skipped, 0);
    for (size_t b = 0; b < BATCHES; b++)
        assert_int_equal(used[b], 1);
}

/* ---- weights ------------------------------------------------------------------------
 */

typedef struct models {
    float from[FLOATS], own[FLOATS], x[WORKERS][FLOATS], weighed[WORKERS][FLOATS];
} models;

static void weigh_all(models *m, const gwt_lots *l)
{
    for (int r = 0; r < WORKERS; r++) {
        gwt_uneven u = {.from = m->from, .own = m->own};
        memcpy(m->weighed[r], m->x[r], sizeof m->x[r]);
        gwt_uneven_weigh(&u, l, r, m->weighed[r], FLOATS);
        float once[FLOATS];
        memcpy(once, m->weighed[r], sizeof once);
        gwt_uneven_weigh(&u, l, r, m->weighed[r], FLOATS); /* a call made again */
        assert_memory_equal(once, m->weighed[r], sizeof once);
    }
}

static void test_models_are_averaged_by_steps(void **state)
{
    static const uint64_t counts[][WORKERS] = {
        {8, 8, 8, 8}, {8, 8, 4, 8}, {8, 1, 3, 5}};
    static gwt_lots l;
    static models m;

    (void)state;
    for (uint64_t i = 0; i < FLOATS; i++) {
        m.from[i] = (float)(test_random(7, i) % 2000) / 1000 - 1;
        for (uint64_t r = 0; r < WORKERS; r++)
            m.x[r][i] = m.from[i] + (float)(test_random(8 + r, i) % 200) / 1000 - 0.1f;
    }
    l.count = WORKERS;
    for (size_t c = 0; c < 3; c++) {
        double sum = 0;
        for (int r = 0; r < WORKERS; r++)
            sum += (double)(l.lots[r].count = counts[c][r]);
        weigh_all(&m, &l);
        for (int i = 0; i < FLOATS; i++) {
            double mean = 0, wanted = 0;
            for (int r = 0; r < WORKERS; r++) {
                mean += (double)m.weighed[r][i] / WORKERS;
                wanted += (double)counts[c][r] * (double)m.x[r][i] / sum;
            }
            assert_true(fabs(mean - wanted) < 1e-6);
        }
        if (c == 0) /* equal steps: the same bits as without weights */
            assert_memory_equal(m.weighed, m.x, sizeof m.x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_every_batch_once),
        cmocka_unit_test(test_models_are_averaged_by_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
