/* SPDX-License-Identifier: Apache-2.0
 *
 * support_select.c - selection the slow and obvious way. */
#include "support_select.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "support_values.h"

uint32_t select_key(float x)
{
    return values_bits(isnan(x) ? NAN : fabsf(x));
}

/* What qsort() sorts by. */
static const float *sorted_values;

static int larger_first(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    uint32_t ki = select_key(sorted_values[i]), kj = select_key(sorted_values[j]);

    if (ki != kj)
        return ki > kj ? -1 : 1;
    return i < j ? -1 : i > j;
}

static int lower_first(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

    return i < j ? -1 : i > j;
}

void *select_array(size_t n)
{
    void *memory = malloc((n + 1) * 4);

    assert_non_null(memory);
    return memory;
}

uint32_t *select_ranked(const float *x, size_t n)
{
    uint32_t *index = select_array(n);

    for (size_t i = 0; i < n; i++)
        index[i] = (uint32_t)i;
    sorted_values = x;
    qsort(index, n, sizeof *index, larger_first);
    return index;
}

uint32_t *select_sorted(const float *x, size_t n, size_t k)
{
    uint32_t *index = select_ranked(x, n);

    qsort(index, k, sizeof *index, lower_first);
    return index;
}

void select_check_taken(const float *before, const float *r, size_t n,
                        const uint32_t *index, size_t k, const gwi_list *got)
{
    size_t next = 0;

    assert_int_equal(got->n, k);
    for (size_t i = 0; i < k; i++) {
        if (got->index[i] != index[i] ||
            values_bits(got->value[i]) != values_bits(before[index[i]]))
            fail_msg("entry %zu is %u, not %u", i, got->index[i], index[i]);
    }
    for (size_t i = 0; i < n; i++) {
        int taken = next < k && index[next] == i;
        if (values_bits(r[i]) != (taken ? 0 : values_bits(before[i])))
            fail_msg("r[%zu] is %g, was %g", i, (double)r[i], (double)before[i]);
        next += (size_t)taken;
    }
}
