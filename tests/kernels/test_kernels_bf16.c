/* SPDX-License-Identifier: Apache-2.0
 *
 * test_kernels_bf16.c - bf16: C against an obvious rounding, every instruction set
 * against C, any number of threads against one. */
#include "kernels/bf16.h"
#include "kernels/pool.h"
#include "support_kernels.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CAP = 1200 };

static const gwi_bf16_kernels *const portable = &kernels_tested[0].bf16;

static int setup(void **unused)
{
    (void)unused;
    return kernels_setup(CAP, 2 * CAP);
}

static float from_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- C against what rounding means -------------------------------------------- */

static void known_numbers(void **unused)
{
    static const struct {
        uint32_t bits;
        uint16_t bf16;
    } known[] = {
        {0x00000000, 0x0000}, {0x80000000, 0x8000}, {0x3f800000, 0x3f80},
        {0x3f808000, 0x3f80}, /* a tie, to even: down */
        {0x3f818000, 0x3f82}, /* a tie, to even: up */
        {0x3f808001, 0x3f81}, {0x3f807fff, 0x3f80}, {0xbf80ffff, 0xbf81},
        {0x00008000, 0x0000}, {0x00008001, 0x0001}, {0x007fffff, 0x0080},
        {0x7f7f7fff, 0x7f7f}, {0x7f7f8000, 0x7f80}, {0xff7fffff, 0xff80},
        {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x7f800001, 0x7fc0},
        {0xffc12345, 0xffc1}, {0x7fffffff, 0x7fff}, {0xff80ffff, 0xffc0},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(gwi_bf16_of(from_bits(known[i].bits)), known[i].bf16);
}

/* Every bf16 comes back as it was, and the floats between two neighbours go to the
 * nearer one. */
static void every_number(void **unused)
{
    (void)unused;
    for (uint32_t b = 0; b < 0x10000; b++) {
        float x = gwi_bf16_value((uint16_t)b);
        if (isnan(x)) {
            assert_int_equal(gwi_bf16_of(x), b | 0x40);
            continue;
        }
        assert_int_equal(gwi_bf16_of(x), b);
        if ((b & 0x7fff) >= 0x7f7f)
            continue;
        for (int i = 0; i < 8; i++) {
            uint32_t low = (uint32_t)values_below(0x10000);
            double y = (double)from_bits(b << 16 | low);
            double below = fabs(y - (double)x);
            double above = fabs((double)gwi_bf16_value((uint16_t)(b + 1)) - y);
            uint32_t want = below < above || (below == above && b % 2 == 0) ? b : b + 1;
            assert_int_equal(gwi_bf16_of((float)y), want);
        }
    }
}

static void c_is_what_it_says(void **unused)
{
    enum { N = 500 };
    float v[N], out[N], acc[N], error[N];
    uint8_t bytes[2 * N], again[2 * N];

    (void)unused;
    values_fill(v, N, VALUES_HEAVY);
    memcpy(acc, v, sizeof v);
    memcpy(error, v, sizeof v);
    portable->encode(v, N, bytes);
    portable->encode_subtract(error, N, again);
    portable->decode(bytes, out, N);
    portable->decode_add(bytes, acc, N);
    assert_memory_equal(bytes, again, sizeof bytes);
    for (size_t j = 0; j < N; j++) {
        uint16_t b = gwi_bf16_of(v[j]);
        assert_int_equal(bytes[2 * j], b & 255);
        assert_int_equal(bytes[2 * j + 1], b >> 8);
        assert_true(out[j] == gwi_bf16_value(b));
        assert_true(fabsf(out[j] - v[j]) <= fabsf(v[j]) / 256);
        assert_true(acc[j] == v[j] + out[j]);
        assert_true(error[j] == v[j] - out[j]);
    }
}

/* ---- every instruction set against C ------------------------------------------ */

static void same_as_c(const gwi_kernels *all, const kernels_place *p)
{
    const gwi_bf16_kernels *k = &all->bf16;
    const size_t n = p->n, len = n * sizeof(float);
    float *v = guard_place(&kernels_floats, len, p->side, p->offset * sizeof *v);
    uint8_t *bytes = guard_place(&kernels_bytes, 2 * n, p->side, p->offset);
    uint8_t want_bytes[2 * CAP];
    float start[CAP], want[CAP];

    values_fill(start, n, p->kind);
    memcpy(v, start, len);
    memcpy(want, start, len);
    portable->encode(v, n, want_bytes);
    k->encode(v, n, bytes);
    assert_memory_equal(bytes, want_bytes, 2 * n);
    kernels_same_floats(k->isa, "encode", v, start, n);
    memset(bytes, 0x55, 2 * n);
    portable->encode_subtract(want, n, want_bytes);
    k->encode_subtract(v, n, bytes);
    assert_memory_equal(bytes, want_bytes, 2 * n);
    assert_true(guard_intact(&kernels_bytes));
    kernels_same_floats(k->isa, "encode_subtract", v, want, n);

    for (size_t i = 0; i < 2 * n; i++)
        bytes[i] = (uint8_t)values_random();
    portable->decode(bytes, want, n);
    k->decode(bytes, v, n);
    kernels_same_floats(k->isa, "decode", v, want, n);
    memcpy(v, start, len);
    memcpy(want, start, len);
    portable->decode_add(bytes, want, n);
    k->decode_add(bytes, v, n);
    kernels_same_floats(k->isa, "decode_add", v, want, n);
}

static void all_lengths_and_offsets(void **unused)
{
    (void)unused;
    kernels_everywhere(same_as_c, 1001, 1);
}

/* All that decides a rounding is in the upper half, the half below it, and whether
 * more bits follow. */
static void every_rounding(void **unused)
{
    static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    enum { LOWS = sizeof low / sizeof *low };
    float v[16 * LOWS];
    uint8_t bytes[32 * LOWS], want[32 * LOWS];

    (void)unused;
    for (size_t t = 0; t < kernels_tested_count; t++)
        for (uint32_t b = 0; b < 0x10000; b += 16) {
            for (uint32_t i = 0; i < 16 * LOWS; i++)
                v[i] = from_bits((b + i / LOWS) << 16 | low[i % LOWS]);
            portable->encode(v, 16 * LOWS, want);
            kernels_tested[t].bf16.encode(v, 16 * LOWS, bytes);
            assert_memory_equal(bytes, want, sizeof want);
        }
}

/* ---- whole vectors ------------------------------------------------------------ */

enum { LARGE = 200003 };

typedef struct whole {
    float v[LARGE], error[LARGE], out[LARGE], acc[LARGE];
    uint8_t bytes[2 * LARGE], again[2 * LARGE];
} whole;

static void encode_whole(whole *w, const gwi_kernels *k)
{
    gwi_kernels_use(k);
    memcpy(w->error, w->v, sizeof w->v);
    memcpy(w->acc, w->v, sizeof w->v);
    gwi_bf16_encode(w->v, LARGE, w->bytes);
    gwi_bf16_encode_subtract(w->error, LARGE, w->again);
    gwi_bf16_decode(w->bytes, w->out, LARGE);
    gwi_bf16_decode_add(w->bytes, w->acc, LARGE);
}

static void threads_agree(void **unused)
{
    whole *one = calloc(1, sizeof *one), *many = calloc(1, sizeof *many);

    (void)unused;
    assert_true(one != NULL && many != NULL);
    values_fill(one->v, LARGE, VALUES_HEAVY);
    memcpy(many->v, one->v, sizeof one->v);
    gwi_threads_set(1);
    encode_whole(one, &kernels_tested[0]);
    for (size_t j = 0; j < LARGE; j++)
        assert_true(one->out[j] == gwi_bf16_value(gwi_bf16_of(one->v[j])));
    for (unsigned threads = 1; threads < 5; threads++) {
        gwi_threads_set(threads);
        encode_whole(many, NULL);
        assert_memory_equal(one, many, sizeof *one);
    }
    gwi_threads_set(0);
    gwi_bf16_encode(NULL, 0, NULL);
    gwi_bf16_decode_add(NULL, NULL, 0);
    free(one);
    free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_numbers),     cmocka_unit_test(every_number),
        cmocka_unit_test(c_is_what_it_says), cmocka_unit_test(all_lengths_and_offsets),
        cmocka_unit_test(every_rounding),    cmocka_unit_test(threads_agree),
    };

    return cmocka_run_group_tests(tests, setup, kernels_teardown);
}
