/* SPDX-License-Identifier: Apache-2.0
 *
 * support_wire.c - random positions and random messages. */
#include "support_wire.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/wire_bytes.h"

static uint64_t state;

void wire_seed(void)
{
    const char *text = getenv("GW_TEST_SEED");

    state = text != NULL ? strtoull(text, NULL, 0) : 20240607;
    printf("seed %llu\n", (unsigned long long)state);
}

/* splitmix64: one multiplication chain over a counter. */
uint64_t wire_random(void)
{
    uint64_t x = state += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t wire_below(uint64_t limit)
{
    return wire_random() % limit;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Few of many: drawn, sorted, drawn again where equal. */
static void draw_sparse(uint32_t *positions, uint32_t k, uint32_t n)
{
    uint32_t unique = 0;

    while (unique < k) {
        for (uint32_t i = unique; i < k; i++)
            positions[i] = (uint32_t)wire_below(n);
        qsort(positions, k, sizeof *positions, ascending);
        unique = 0;
        for (uint32_t i = 0; i < k; i++)
            if (unique == 0 || positions[unique - 1] != positions[i])
                positions[unique++] = positions[i];
    }
}

/* Many of not much more: each is taken with what is left to take of what is left. */
static void draw_dense(uint32_t *positions, uint32_t k, uint32_t n)
{
    uint32_t taken = 0;

    for (uint32_t i = 0; taken < k; i++)
        if (wire_below(n - i) < k - taken)
            positions[taken++] = i;
}

void wire_positions(uint32_t *positions, uint32_t k, uint32_t n)
{
    if (k > n / 4)
        draw_dense(positions, k, n);
    else
        draw_sparse(positions, k, n);
}

uint32_t wire_bernoulli(uint32_t *positions, uint32_t cap, uint32_t n,
                        double probability)
{
    double at = -1;
    uint32_t k = 0;

    for (;;) {
        double u = (double)(wire_random() >> 11) * 0x1p-53;

        at += 1 + floor(log1p(-u) / log1p(-probability));
        if (at >= n || k == cap)
            return k;
        positions[k++] = (uint32_t)at;
    }
}

void wire_fill(const gwi_wire_writer *w)
{
    unsigned used = (unsigned)((uint64_t)w->form.k * w->form.bits % 8);

    for (size_t i = 0; i < w->scale_count; i++)
        gwi_write_f32le(w->scales + 4 * i, (float)wire_below(1 << 20) * 0x1p-18f);
    for (size_t i = 0; i < w->values_len; i++)
        w->values[i] = (uint8_t)wire_random();
    if (used != 0)
        w->values[w->values_len - 1] &= (uint8_t)((1u << used) - 1);
}

uint8_t *wire_message(const gwi_wire_form *form, const uint32_t *positions, size_t *len)
{
    size_t bound = gwi_wire_bound(form);
    uint8_t *buffer = malloc(bound), *msg;
    gwi_wire_writer w;

    assert_non_null(buffer);
    assert_int_equal(gwi_wire_begin(&w, form, buffer, bound), GW_OK);
    wire_fill(&w);
    if (form->kind == GWI_WIRE_SPARSE)
        assert_int_equal(gwi_wire_put_positions(&w, positions), GW_OK);
    assert_true(w.len <= bound);
    gwi_wire_seal(buffer, w.len);
    /* Exactly as long, so that a sanitizer sees a read past the end. */
    msg = malloc(w.len);
    assert_non_null(msg);
    memcpy(msg, buffer, w.len);
    free(buffer);
    *len = w.len;
    return msg;
}
