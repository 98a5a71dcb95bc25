/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_lots.c - every batch is used once, whoever comes and goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "elastic/lots.h"
#include "support_ranks.h"

enum { BATCHES = 4000, MOST = 8 };

/* Without changes: the batches of worker r in step s are those of a fixed run. */
static void test_nobody_changes(void **state)
{
    static gwt_lots l;
    uint64_t ids[3] = {11, 12, 13};

    (void)state;
    for (uint64_t period = 1; period < 5; period++) {
        gwt_lots_begin(&l, 0, 0);
        gwt_lots_follow(&l, ids, 3, period);
        for (uint64_t step = 0; step < 5 * period; step++) {
            for (size_t r = 0; r < 3; r++)
                assert_int_equal(gwt_lots_batch(&l, r, step % period), 3 * step + r);
            if ((step + 1) % period == 0)
                gwt_lots_use(&l, step + 1, period);
        }
        assert_int_equal(l.used, 15 * period);
    }
}

/* Uses the lots of all workers in one period. */
static void use_all(gwt_lots *l, uint8_t *used, uint64_t *exchange, uint64_t period)
{
    for (uint64_t r = 0; r < l->count; r++)
        for (uint64_t i = 0; i < period; i++) {
            uint64_t batch = gwt_lots_batch(l, (size_t)r, i);
            if (batch < BATCHES)
                used[batch]++;
        }
    *exchange += period;
    gwt_lots_use(l, *exchange, period);
}

static size_t change(uint64_t *ids, size_t count, uint64_t *last, uint64_t seed)
{
    uint64_t what = test_random(seed, 0) % 4;

    if (what == 0 && count > 1) {
        size_t gone = (size_t)(test_random(seed, 1) % count);
        memmove(ids + gone, ids + gone + 1, (count - gone - 1) * sizeof *ids);
        return count - 1;
    }
    if (what == 1 && count < MOST) {
        ids[count] = ++*last;
        return count + 1;
    }
    return count;
}

static void test_every_batch_once(void **state)
{
    static gwt_lots l;
    static uint8_t used[BATCHES];

    (void)state;
    for (uint64_t period = 1; period < 10; period += 4) {
        uint64_t ids[MOST] = {1, 2, 3, 4}, last = 4, exchange = 0, seed = 1000 * period;
        size_t count = 4;
        memset(used, 0, sizeof used);
        gwt_lots_begin(&l, 0, 0);
        gwt_lots_follow(&l, ids, count, period);
        while (l.next < BATCHES) {
            count = change(ids, count, &last, seed++);
            gwt_lots_follow(&l, ids, count, period);
            assert_true(gwt_lots_good(&l));
            if (test_random(seed, 7) % 3 != 0)
                use_all(&l, used, &exchange, period);
        }
        for (int i = 0; i < 50; i++) /* what was returned is used up */
            use_all(&l, used, &exchange, period);
        for (int i = 0; i < BATCHES; i++)
            assert_int_equal(used[i], 1);
        assert_int_equal(l.skipped, 0);
        assert_int_equal(l.returned_count, 0);
    }
}

/* A period that becomes longer leaves shorter lots behind; they are counted if they are
 * too many to remember. */
static void test_lots_that_nobody_takes(void **state)
{
    static gwt_lots l;
    uint64_t last = 1;

    (void)state;
    gwt_lots_begin(&l, 0, 0);
    for (int i = 0; i < 2 * GWT_MOST_RETURNED; i++) {
        uint64_t id = last++;
        gwt_lots_follow(&l, &id, 1, (uint64_t)i + 1);
        assert_true(gwt_lots_good(&l));
    }
    assert_true(l.skipped > 0);
}

static void test_tables_that_are_wrong(void **state)
{
    static gwt_lots l;
    uint64_t id = 5;

    (void)state;
    gwt_lots_begin(&l, 0, 0);
    gwt_lots_follow(&l, &id, 1, 3);
    assert_true(gwt_lots_good(&l));
    l.lots[0].count = 0;
    assert_false(gwt_lots_good(&l));
    l.lots[0].count = 3;
    l.count = GWT_MOST_LOTS + 1;
    assert_false(gwt_lots_good(&l));
    l.count = 1;
    l.returned_count = GWT_MOST_RETURNED + 1;
    assert_false(gwt_lots_good(&l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_changes),
        cmocka_unit_test(test_every_batch_once),
        cmocka_unit_test(test_lots_that_nobody_takes),
        cmocka_unit_test(test_tables_that_are_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
