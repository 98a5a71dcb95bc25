/* SPDX-License-Identifier: Apache-2.0
 *
 * merge.c - sparse lists put together and cut down again. */
#include "kernels/merge.h"

#include <assert.h>
#include <string.h>

static uint32_t float_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static size_t append(gwi_list *out, size_t n, const gwi_list *from, size_t begin)
{
    size_t count = from->n - begin;

    if (count == 0)
        return n;
    memcpy(out->index + n, from->index + begin, count * sizeof *out->index);
    memcpy(out->value + n, from->value + begin, count * sizeof *out->value);
    return n + count;
}

/* Which list comes next is a coin toss, so nothing branches on it: every turn
 * takes from a, from b or from both, by arithmetic on masks. */
void gwi_merge_add(const gwi_list *a, const gwi_list *b, gwi_list *out)
{
    size_t i = 0, j = 0, n = 0;

    assert(out->cap >= a->n + b->n);
    while (i < a->n && j < b->n) {
        uint32_t ia = a->index[i], ib = b->index[j];
        uint32_t from_a = 0u - (uint32_t)(ia <= ib), from_b = 0u - (uint32_t)(ib <= ia);
        uint32_t va = float_bits(a->value[i]), vb = float_bits(b->value[j]);
        uint32_t sum = float_bits(a->value[i] + b->value[j]);
        uint32_t one = (va & ~from_b) | (vb & ~from_a);
        out->index[n] = ia < ib ? ia : ib;
        out->value[n++] = bits_float((sum & from_a & from_b) | one);
        i += from_a & 1;
        j += from_b & 1;
    }
    n = append(out, n, a, i);
    out->n = append(out, n, b, j);
}

static size_t count_nonzero(const gwi_list *list)
{
    size_t count = 0;

    for (size_t i = 0; i < list->n; i++)
        count += list->value[i] != 0; /* NaN, too, is not 0 */
    return count;
}

void gwi_keep_largest(const gwi_list *list, size_t k, gwi_list *largest,
                      gwi_list *others)
{
    const gwi_list from = *list;
    size_t nonzero = count_nonzero(&from);

    k = k < nonzero ? k : nonzero;
    if (k > 0 && k < from.n) {
        gwi_split_largest(&from, k, largest, others);
        return;
    }
    largest->n = 0;
    others->n = 0;
    if (from.n == 0)
        return;
    gwi_list *all = k > 0 ? largest : others;
    memmove(all->index, from.index, from.n * sizeof *from.index);
    memmove(all->value, from.value, from.n * sizeof *from.value);
    all->n = from.n;
}

void gwi_merge_largest(const gwi_list *a, const gwi_list *b, size_t k,
                       gwi_list *largest, gwi_list *others)
{
    gwi_merge_add(a, b, others);
    gwi_keep_largest(others, k, largest, others);
}
