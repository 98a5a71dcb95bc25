/* SPDX-License-Identifier: Apache-2.0
 *
 * test_kernels_merge.c - sparse lists against the dense vectors they stand for. */
#include "kernels/merge.h"
#include "support_values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N = 400 }; /* length of the dense vectors */

/* A list of exactly n entries on the heap, so that a sanitizer sees a step past. */
static gwi_list list_new(size_t n)
{
    gwi_list list = {malloc(n * 4), malloc(n * 4), 0, n};

    return list;
}

static void list_free(gwi_list *list)
{
    free(list->index);
    free(list->value);
}

static gwi_list random_list(size_t n, values_kind kind)
{
    gwi_list list = list_new(n);
    size_t left = n;

    values_fill(list.value, n, kind);
    for (size_t i = 0; i < N && left > 0; i++)
        if (values_below(N - i) < left) {
            list.index[list.n++] = (uint32_t)i;
            left--;
        }
    return list;
}

/* The same as a dense vector, and which entries it has. */
typedef struct dense {
    float value[N];
    int has[N];
} dense;

static void dense_add(dense *d, const gwi_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        uint32_t at = list->index[i];
        assert_true(at < N && (i == 0 || list->index[i - 1] < at));
        d->value[at] = d->has[at] ? d->value[at] + list->value[i] : list->value[i];
        d->has[at] = 1;
    }
}

static void assert_dense_equal(const dense *x, const dense *y)
{
    assert_memory_equal(x->has, y->has, sizeof x->has);
    assert_int_equal(values_differ(x->value, y->value, N), N);
}

static void merging_adds(void **unused)
{
    (void)unused;
    for (int trial = 0; trial < 5000; trial++) {
        values_kind kind = (values_kind)(trial % VALUES_KINDS);
        gwi_list a = random_list(values_below(trial % 2 ? N : 20), kind);
        gwi_list b = random_list(values_below(trial % 3 ? N : 20), kind);
        gwi_list out = list_new(a.n + b.n);
        dense want = {0}, got = {0};
        dense_add(&want, &a);
        dense_add(&want, &b);
        gwi_merge_add(&a, &b, &out);
        dense_add(&got, &out);
        assert_dense_equal(&want, &got);
        list_free(&a);
        list_free(&b);
        list_free(&out);
    }
}

static size_t count_nonzero(const gwi_list *list)
{
    size_t count = 0;

    for (size_t i = 0; i < list->n; i++)
        count += gwi_magnitude_key(list->value[i]) != 0;
    return count;
}

/* Every kept entry comes before every other one in the order of select.h, and no 0 is
 * kept: fewer than k only if the others are zeros. */
static void assert_split(const gwi_list *kept, const gwi_list *others, size_t k)
{
    assert_true(kept->n == k || (kept->n < k && count_nonzero(others) == 0));
    assert_int_equal(count_nonzero(kept), kept->n);
    for (size_t i = 0; i < kept->n; i++)
        for (size_t j = 0; j < others->n; j++) {
            int32_t in = gwi_magnitude_key(kept->value[i]);
            int32_t out = gwi_magnitude_key(others->value[j]);
            assert_true(in > out || (in == out && kept->index[i] < others->index[j]));
        }
}

static size_t some_k(size_t n)
{
    switch (values_below(4)) {
    case 0:
        return values_below(3);
    case 1:
        return n;
    case 2:
        return n + values_below(5);
    default:
        return values_below(n + 1);
    }
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void merging_and_keeping_loses_nothing(void **unused)
{
    (void)unused;
    for (int trial = 0; trial < 3000; trial++) {
        values_kind kind = (values_kind)(trial % VALUES_KINDS);
        gwi_list a = random_list(values_below(100), kind);
        gwi_list b = random_list(values_below(100), kind);
        size_t total = a.n + b.n, k = some_k(total);
        gwi_list kept = list_new(least(k, total)), others = list_new(total);
        dense want = {0}, got = {0};
        dense_add(&want, &a);
        dense_add(&want, &b);
        gwi_merge_largest(&a, &b, k, &kept, &others);
        assert_split(&kept, &others, k);
        dense_add(&got, &kept);
        dense_add(&got, &others);
        assert_dense_equal(&want, &got);
        list_free(&a);
        list_free(&b);
        list_free(&kept);
        list_free(&others);
    }
}

/* In the tree the lists have k entries each, and the sum replaces one of them. */
static void the_largest_may_replace_an_operand(void **unused)
{
    (void)unused;
    for (int trial = 0; trial < 2000; trial++) {
        size_t k = 1 + values_below(100);
        gwi_list a = random_list(k, VALUES_FEW), b = random_list(k, VALUES_FEW);
        gwi_list others = list_new(2 * k);
        dense want = {0}, got = {0};
        dense_add(&want, &a);
        dense_add(&want, &b);
        gwi_merge_largest(&a, &b, k, trial % 2 ? &a : &b, &others);
        assert_split(trial % 2 ? &a : &b, &others, k);
        dense_add(&got, trial % 2 ? &a : &b);
        dense_add(&got, &others);
        assert_dense_equal(&want, &got);
        list_free(&a);
        list_free(&b);
        list_free(&others);
    }
}

/* 0: new lists, 1: the largest stay in the list, 2: the others do. */
static void keeping_in_place(void **unused)
{
    (void)unused;
    for (int trial = 0; trial < 3000; trial++) {
        values_kind kind = (values_kind)(trial % VALUES_KINDS);
        gwi_list list = random_list(values_below(200), kind);
        size_t n = list.n, k = some_k(n);
        gwi_list kept = list_new(least(k, n)), others = list_new(n);
        gwi_list *largest = trial % 3 == 1 ? &list : &kept;
        gwi_list *rest = trial % 3 == 2 ? &list : &others;
        dense want = {0}, got = {0};
        dense_add(&want, &list);
        gwi_keep_largest(&list, k, largest, rest);
        assert_split(largest, rest, k);
        dense_add(&got, largest);
        dense_add(&got, rest);
        assert_dense_equal(&want, &got);
        list_free(&list);
        list_free(&kept);
        list_free(&others);
    }
}

/* A sum that cancels stays an entry, and a lone -0 keeps its sign. */
static void zeros_stay(void **unused)
{
    uint32_t ia[] = {1, 4}, ib[] = {1, 9}, io[4];
    float va[] = {2.0f, -0.0f}, vb[] = {-2.0f, 3.0f}, vo[4];
    gwi_list a = {ia, va, 2, 2}, b = {ib, vb, 2, 2}, out = {io, vo, 0, 4};

    (void)unused;
    gwi_merge_add(&a, &b, &out);
    assert_int_equal(out.n, 3);
    assert_int_equal(values_bits(vo[0]), 0);
    assert_int_equal(values_bits(vo[1]), 0x80000000);
    assert_true(io[0] == 1 && io[1] == 4 && io[2] == 9 && vo[2] == 3.0f);
}

/* What cancels in a merge is not kept, even where there is room. */
static void zeros_are_not_kept(void **unused)
{
    uint32_t ia[] = {1, 4, 6}, ib[] = {1, 6, 9}, ik[5], io[6];
    float va[] = {2.0f, -0.5f, 1.0f}, vb[] = {-2.0f, 1.0f, -0.0f}, vk[5], vo[6];
    gwi_list a = {ia, va, 3, 3}, b = {ib, vb, 3, 3};
    gwi_list kept = {ik, vk, 0, 5}, others = {io, vo, 0, 6};

    (void)unused;
    gwi_merge_largest(&a, &b, 5, &kept, &others);
    assert_true(kept.n == 2 && ik[0] == 4 && ik[1] == 6 && vk[1] == 2.0f);
    assert_true(others.n == 2 && io[0] == 1 && io[1] == 9);
}

static void empty_lists(void **unused)
{
    gwi_list none = {NULL, NULL, 0, 0}, kept = none, others = none;

    (void)unused;
    gwi_merge_largest(&none, &none, 3, &kept, &others);
    assert_true(kept.n == 0 && others.n == 0);
    gwi_keep_largest(&none, 0, &kept, &others);
    assert_true(kept.n == 0 && others.n == 0);
}

static int setup(void **unused)
{
    (void)unused;
    values_seed();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging_adds),
        cmocka_unit_test(merging_and_keeping_loses_nothing),
        cmocka_unit_test(the_largest_may_replace_an_operand),
        cmocka_unit_test(keeping_in_place),
        cmocka_unit_test(zeros_stay),
        cmocka_unit_test(zeros_are_not_kept),
        cmocka_unit_test(empty_lists),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
