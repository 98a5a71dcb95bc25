/* SPDX-License-Identifier: Apache-2.0
 *
 * cmocka.h - as much of cmocka as the kernels' tests use, for builds for a CPU that
 * Debian has no cmocka package for on this machine. The first failure ends it. */
#ifndef CROSS_CMOCKA_H
#define CROSS_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

#define cmocka_unit_test(test)     \
    {                              \
        .name = #test, .run = test \
    }
#define print_message(...) printf(__VA_ARGS__)
#define skip()             return

#define fail_msg(...)        \
    do {                     \
        printf(__VA_ARGS__); \
        puts("");            \
        exit(1);             \
    } while (0)

#define assert_true(condition)                                         \
    do {                                                               \
        if (!(condition))                                              \
            fail_msg("%s:%d: not %s", __FILE__, __LINE__, #condition); \
    } while (0)
#define assert_false(condition)        assert_true(!(condition))
#define assert_non_null(pointer)       assert_true((pointer) != NULL)
#define assert_null(pointer)           assert_true((pointer) == NULL)
#define assert_int_equal(a, b)         assert_true((long long)(a) == (long long)(b))
#define assert_int_not_equal(a, b)     assert_true((long long)(a) != (long long)(b))
#define assert_memory_equal(a, b, len) assert_true(memcmp(a, b, len) == 0)
#define assert_string_equal(a, b)      assert_true(strcmp(a, b) == 0)
#define assert_float_equal(a, b, most) \
    assert_true((a) - (b) <= (most) && (b) - (a) <= (most))
#define assert_in_range(x, least, most) assert_true((x) >= (least) && (x) <= (most))

static inline int run_tests(const struct CMUnitTest *tests, size_t n,
                            int (*before)(void **), int (*after)(void **))
{
    void *state = NULL;

    if (before != NULL && before(&state) != 0)
        return 1;
    for (size_t i = 0; i < n; i++) {
        printf("%s\n", tests[i].name);
        tests[i].run(&state);
    }
    return after != NULL ? after(&state) : 0;
}

#define cmocka_run_group_tests(tests, before, after) \
    run_tests(tests, sizeof(tests) / sizeof *(tests), before, after)

#endif
