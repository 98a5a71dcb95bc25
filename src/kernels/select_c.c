/* SPDX-License-Identifier: Apache-2.0
 *
 * select_c.c - the collecting loop in portable C, which defines it, and the
 * choice between it and the others. */
#include "kernels/select.h"

#include "kernels/cpu.h"
#include "kernels/float_bits.h"

#include <string.h>

/* Few entries are above in practice, so the floats are looked at in runs: a loop
 * without branches adds and finds the largest, and most runs end there. */
enum { RUN = 16 };

static size_t collect_c(float *r, const float *g, size_t begin, size_t end,
                        int32_t above, gwi_list *out)
{
    size_t i = begin, n = out->n;

    while (i < end && n + GWI_COLLECT_ROOM <= out->cap) {
        size_t stop = end - i < RUN ? end : i + RUN;
        int32_t most = -1;
        for (size_t j = i; j < stop; j++) {
            r[j] = g ? r[j] + g[j] : r[j];
            int32_t bits = gwi_magnitude_bits(r[j]);
            most = bits > most ? bits : most;
        }
        for (; most > above && i < stop; i++) {
            if (gwi_magnitude_bits(r[i]) <= above)
                continue;
            out->index[n] = (uint32_t)i;
            out->value[n++] = r[i];
            r[i] = 0.0f;
        }
        i = stop;
    }
    out->n = n;
    return i;
}

/* ---- among candidates ---------------------------------------------------------- */

/* A row at a time: a loop of known length is one that the compiler can do for several
 * values. */
enum { FEW = 512, ROW = GWI_FEW_STEP };

static uint32_t keys_c(int32_t *keys, const float *value, size_t n)
{
    int32_t differ = 0;

    for (size_t i = 0; i < n; i++) {
        keys[i] = gwi_magnitude_key(value[i]);
        differ |= keys[i] ^ keys[0];
    }
    for (size_t i = n; i % ROW != 0; i++)
        keys[i] = -1;
    return (uint32_t)differ;
}

static size_t count_c(const int32_t *keys, size_t n, int32_t least)
{
    int32_t count = 0;

    for (size_t at = 0; at < n; at += ROW)
        for (size_t i = 0; i < ROW; i++)
            count += keys[at + i] >= least;
    return (size_t)count;
}

static void append(gwi_list *to, const gwi_list *from, size_t i)
{
    size_t count = from->n - i;

    memmove(to->index + to->n, from->index + i, count * sizeof *to->index);
    memmove(to->value + to->n, from->value + i, count * sizeof *to->value);
    to->n += count;
}

static size_t count_largest(const gwi_list *list, int32_t nth, size_t ties)
{
    size_t count = 0;

    for (size_t i = 0; i < list->n; i++)
        count += gwi_is_largest(gwi_magnitude_key(list->value[i]), nth, &ties);
    return count;
}

/* Each entry is written to both and counted in one, as long as there is one to come
 * for each: behind the last there may be no room. */
static void split_c(const gwi_list *from, size_t k, int32_t nth, size_t ties,
                    gwi_list *largest, gwi_list *others)
{
    const gwi_list list = *from;
    size_t i = 0;

    if (k > list.n)
        k = count_largest(&list, nth, ties);
    largest->n = others->n = 0;
    for (; largest->n < k && others->n < list.n - k; i++) {
        uint32_t index = list.index[i];
        float value = list.value[i];
        size_t keep = gwi_is_largest(gwi_magnitude_key(value), nth, &ties);
        largest->index[largest->n] = others->index[others->n] = index;
        largest->value[largest->n] = others->value[others->n] = value;
        largest->n += keep;
        others->n += 1 - keep;
    }
    append(largest->n < k ? largest : others, &list, i);
}

void gwi_select_for(unsigned flags, gwi_select_kernels *k)
{
    k->isa = "c";
    k->collect = collect_c;
    k->few = FEW;
    k->keys = keys_c;
    k->count_from = count_c;
    k->split = split_c;
#if defined(__x86_64__)
    if (flags & GWI_CPU_AVX2)
        gwi_select_avx2(k);
    if (flags & GWI_CPU_AVX512)
        gwi_select_avx512(k);
#elif defined(__aarch64__)
    if (flags & GWI_CPU_NEON)
        gwi_select_neon(k);
#endif
    (void)flags;
}
