/* SPDX-License-Identifier: Apache-2.0
 *
 * test_kernels_levels.c - random numbers and levels: bytes fixed for good, C
 * against an obvious version in double, every instruction set against C, any
 * number of threads against one, and what probability promises. */
#include "kernels/levels.h"
#include "kernels/pool.h"
#include "support_kernels.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CAP = 1200 };

static const gwi_levels_kernels *const portable = &kernels_tested[0].levels;

static int setup(void **unused)
{
    (void)unused;
    return kernels_setup(CAP, CAP);
}

/* ---- random numbers --------------------------------------------------------- */

static void random_is_as_specified(void **unused)
{
    static const uint32_t draws[] = {0xbccaca, 0x1aad3d, 0xbd4392, 0x055701};
    gwi_random_words words = gwi_random_block(gwi_random_key(1, 2, 3), 4);

    (void)unused;
    assert_true(gwi_mix64(1) == UINT64_C(0x5692161d100b05e5));
    assert_true(gwi_random64(5, 7) == UINT64_C(0x89ffc304a6bd448d));
    assert_true(gwi_random_key(1, 2, 3) == UINT64_C(0x69a04f78e0cfe013));
    assert_int_equal(words.add, 0x1b5b8e12);
    assert_int_equal(words.mid, 0xa35504b1);
    for (uint32_t j = 0; j < 4; j++)
        assert_int_equal(gwi_random24(words, j), draws[j]);
}

/* The five ways in which two draws can be neighbours. */
enum { NEXT_ENTRY, NEXT_BUCKET, NEXT_WORKER, NEXT_STEP, NEXT_SEED, NEIGHBOURS };

static uint32_t draw_at(uint64_t i, int neighbour)
{
    uint64_t at[NEIGHBOURS] = {i % 512, i / 512 % 64, i / 32768 % 4, i / 131072, 9};

    if (neighbour >= 0)
        at[neighbour]++;
    uint64_t key = gwi_random_key(at[NEXT_SEED], at[NEXT_STEP], at[NEXT_WORKER]);
    return gwi_random24(gwi_random_block(key, at[NEXT_BUCKET]),
                        (uint32_t)at[NEXT_ENTRY]);
}

/* Chi-square of 256 counts, as a number of standard deviations from its mean. */
static double deviation(const uint32_t *count, double total)
{
    double chi = 0.0;

    for (int i = 0; i < 256; i++) {
        double d = count[i] - total / 256;
        chi += d * d / (total / 256);
    }
    return (chi - 255) / sqrt(2 * 255);
}

static void random_bytes_are_even(void **unused)
{
    enum { TOTAL = 1 << 18 };
    uint32_t small[3][256] = {{0}}, large[8][256] = {{0}};

    (void)unused;
    for (uint64_t i = 0; i < TOTAL; i++) {
        uint32_t x = draw_at(i, -1);
        uint64_t y = gwi_random64(77, i);
        for (int b = 0; b < 3; b++)
            small[b][x >> 8 * b & 255]++;
        for (int b = 0; b < 8; b++)
            large[b][y >> 8 * b & 255]++;
    }
    for (int b = 0; b < 3; b++)
        assert_true(fabs(deviation(small[b], TOTAL)) < 5);
    for (int b = 0; b < 8; b++)
        assert_true(fabs(deviation(large[b], TOTAL)) < 5);
}

/* The exclusive or of neighbours must have even bytes too, so that no bit follows
 * another, and as numbers in [-1, 1] they must not be correlated. */
static void random_neighbours_are_unlike(void **unused)
{
    enum { TOTAL = 1 << 18 };

    (void)unused;
    for (int neighbour = 0; neighbour < NEIGHBOURS; neighbour++) {
        uint32_t count[3][256] = {{0}};
        double product = 0.0;
        for (uint64_t i = 0; i < TOTAL; i++) {
            uint32_t x = draw_at(i, -1), y = draw_at(i, neighbour);
            for (int b = 0; b < 3; b++)
                count[b][(x ^ y) >> 8 * b & 255]++;
            product += (x * 0x1p-23 - 1) * (y * 0x1p-23 - 1);
        }
        for (int b = 0; b < 3; b++)
            assert_true(fabs(deviation(count[b], TOTAL)) < 5);
        /* Each product has mean 0 and variance 1/9. */
        assert_true(fabs(product) < 5 * sqrt(TOTAL / 9.0));
    }
}

/* ---- bytes ------------------------------------------------------------------ */

/* These bytes were computed by a program in another language from the text of
 * levels.h. */
static void bytes_are_as_specified(void **unused)
{
    static const char *const want[] = {"731cf41dc4",
                                       "c78307c89f07170e",
                                       "297db1055b9ed3177b90",
                                       "5af41238019c783dba0959810b",
                                       "21337f469b01e89487cdfc19e90784",
                                       "e8841d43884f00edc71eadb0630a6314200b",
                                       "8132cd7f19b365009b4de68133cd7f19a17f0081"};
    float v[20], norms[2];

    (void)unused;
    for (int i = 0; i < 20; i++)
        v[i] = (float)(i * 7 % 11 - 5) * 0.25f;
    for (unsigned bits = 2; bits <= 8; bits++) {
        gwi_levels_format f = {bits, 16, bits % 2 ? GWI_NORM_L2 : GWI_NORM_MAX};
        uint8_t packed[20];
        char text[41] = "";
        size_t len = gwi_levels_packed_len(&f, 20);
        gwi_levels_encode(&f, v, 20, gwi_random_key(1, 2, 3), 4, packed, norms);
        for (size_t i = 0; i < len; i++)
            snprintf(text + 2 * i, 3, "%02x", packed[i]);
        assert_string_equal(text, want[bits - 2]);
        assert_true(norms[0] == (bits % 2 ? 3.25f : 1.25f));
        assert_true(norms[1] == (bits % 2 ? 0x1.99cccap+0f : 1.0f));
    }
}

/* ---- C against an obvious version --------------------------------------------- */

/* Level j, read bit by bit. */
static int obvious_level(const uint8_t *packed, unsigned bits, size_t j)
{
    int level = 0;

    for (unsigned b = 0; b < bits; b++) {
        size_t at = j * bits + b;
        int bit = packed[at / 8] >> at % 8 & 1;
        level += (b == bits - 1 ? -bit : bit) * (1 << b);
    }
    return level;
}

static double obvious_norm(const float *v, size_t n, gwi_levels_norm norm)
{
    double sum = 0.0, most = 0.0;

    for (size_t j = 0; j < n; j++) {
        sum += (double)v[j] * (double)v[j];
        most = fmax(most, fabs((double)v[j]));
    }
    return norm == GWI_NORM_L2 ? sqrt(sum) : most;
}

/* Checks bucket b, which has the m entries at v. */
static void check_bucket(const gwi_levels_format *f, const float *v, size_t m,
                         uint64_t key, size_t b, const uint8_t *packed, float norm,
                         const float *decoded)
{
    const double s = (double)(1 << (f->bits - 1)) - 1;
    const double exact = obvious_norm(v, m, f->norm);
    gwi_random_words words = gwi_random_block(key, b);

    assert_true(fabs((double)norm - exact) <= 1e-7 * exact);
    for (size_t j = 0; j < m; j++) {
        double a = exact > 0 ? s * fabs((double)v[j]) / exact : 0;
        double u = (double)gwi_random24(words, (uint32_t)j) * 0x1p-24;
        int level = obvious_level(packed, f->bits, b * f->bucket + j);
        double value = (double)norm / s * level;
        /* The level is floor(a + u) unless rounding decides. */
        if (fabs(a + u - round(a + u)) > 1e-4)
            assert_int_equal(abs(level), (int)fmin(floor(a + u), s));
        assert_true(abs(level) <= (int)s);
        assert_true(level == 0 || (level < 0) == (v[j] < 0));
        assert_true(fabs((double)decoded[j] - value) <= 1e-6 * fabs(value));
    }
}

static void c_is_what_it_says(void **unused)
{
    enum { N = 300 };
    float v[N], norms[N / 8 + 1], out[N], acc[N], error[N];
    uint8_t packed[N], again[N];

    (void)unused;
    gwi_kernels_use(&kernels_tested[0]);
    for (size_t trial = 0; trial < 2 * 7 * 50; trial++) {
        gwi_levels_format f = {2 + (unsigned)(trial / 2 % 7),
                               (uint32_t)(8 + 8 * values_below(20)),
                               (gwi_levels_norm)(trial % 2)};
        size_t n = values_below(N + 1);
        uint64_t key = values_random();
        values_fill(v, n, trial % 3 ? VALUES_PLAIN : VALUES_HEAVY);
        assert_int_equal(gwi_levels_packed_len(&f, n), (n * f.bits + 7) / 8);
        assert_int_equal(gwi_levels_buckets(&f, n), (n + f.bucket - 1) / f.bucket);
        gwi_levels_encode(&f, v, n, key, 0, packed, norms);
        gwi_levels_decode(&f, packed, norms, out, n);
        for (size_t b = 0; b * f.bucket < n; b++) {
            size_t at = b * f.bucket;
            check_bucket(&f, v + at, n - at < f.bucket ? n - at : f.bucket, key, b,
                         packed, norms[b], out + at);
        }
        memcpy(acc, v, sizeof acc);
        memcpy(error, v, sizeof error);
        gwi_levels_decode_add(&f, packed, norms, acc, n);
        gwi_levels_encode_subtract(&f, error, n, key, 0, again, norms);
        assert_memory_equal(again, packed, gwi_levels_packed_len(&f, n));
        for (size_t j = 0; j < n; j++) {
            assert_true(acc[j] == v[j] + out[j]);
            assert_true(error[j] == v[j] - out[j]);
        }
    }
    gwi_kernels_use(NULL);
}

static void norms_are_guarded(void **unused)
{
    float x[] = {0.0f, -0.0f, 0.0f};

    (void)unused;
    for (int which = 0; which < 2; which++) {
        gwi_levels_norm norm = (gwi_levels_norm)which;
        assert_true(gwi_levels_norm_of(portable, norm, x, 0) == 0.0f);
        x[1] = 0.0f;
        assert_true(gwi_levels_norm_of(portable, norm, x, 3) == 0.0f);
        x[1] = -0x1.8p-97f;
        assert_true(gwi_levels_norm_of(portable, norm, x, 3) == 0.0f);
        x[1] = -0x1p-96f;
        assert_true(gwi_levels_norm_of(portable, norm, x, 3) == 0x1p-96f);
        x[0] = x[1] = FLT_MAX;
        assert_true(gwi_levels_norm_of(portable, norm, x, 3) == GWI_LEVELS_NORM_MAX);
        x[1] = -INFINITY;
        assert_true(gwi_levels_norm_of(portable, norm, x, 3) == GWI_LEVELS_NORM_MAX);
        x[1] = NAN;
        assert_true(gwi_levels_norm_of(portable, norm, x, 3) == GWI_LEVELS_NORM_MAX);
        x[0] = 0.0f;
    }
}

/* From the smallest norm to the largest, what is decoded is finite and within one
 * unit of what was encoded, and a bucket of zeros stays one. */
static void extremes_survive(void **unused)
{
    static const float sizes[] = {0x1p-96f, 0x1p-60f, 1.0f, 0x1p60f, FLT_MAX};
    float v[64] = {0}, out[64], norms[8];
    uint8_t packed[64];

    (void)unused;
    gwi_kernels_use(&kernels_tested[0]);
    for (unsigned trial = 0; trial < 5 * 7 * 2; trial++) {
        gwi_levels_format f = {2 + trial % 7, 8, (gwi_levels_norm)(trial / 7 % 2)};
        float size = sizes[trial / 14];
        for (size_t j = 8; j < 64; j++)
            v[j] = (j % 2 ? -size : size) / (float)(1 + j % 8);
        gwi_levels_encode(&f, v, 64, trial, 0, packed, norms);
        gwi_levels_decode(&f, packed, norms, out, 64);
        for (size_t j = 0; j < 64; j++) {
            float unit = gwi_levels_unit(f.bits, norms[j / 8]);
            assert_true(isfinite(out[j]));
            assert_true(fabs((double)out[j] - (double)v[j]) <= 1.0001 * (double)unit);
            assert_true(j >= 8 || out[j] == 0.0f);
        }
    }
    gwi_kernels_use(NULL);
}

/* ---- every instruction set against C ------------------------------------------ */

static void check_floats(const gwi_levels_kernels *k, const char *what,
                         const float *got, const float *want, size_t n, unsigned bits)
{
    char text[64];

    snprintf(text, sizeof text, "%s, %u bits", what, bits);
    kernels_same_floats(k->isa, text, got, want, n);
}

static void same_encoding(const gwi_levels_kernels *k, const kernels_place *p,
                          const gwi_levels_rule *rule, const float *start)
{
    const size_t len = (p->n * rule->bits + 7) / 8;
    float *v =
        guard_place(&kernels_floats, p->n * sizeof *v, p->side, p->offset * sizeof *v);
    uint8_t *packed = guard_place(&kernels_bytes, len, p->side, p->offset);
    uint8_t want[CAP];
    float error[CAP];

    memcpy(v, start, p->n * sizeof *v);
    portable->encode(rule, v, p->n, want);
    k->encode(rule, v, p->n, packed);
    assert_memory_equal(packed, want, len);
    assert_true(guard_intact(&kernels_bytes));
    check_floats(k, "encode", v, start, p->n, rule->bits);

    memcpy(error, start, p->n * sizeof *v);
    memset(packed, 0x55, len);
    portable->encode_subtract(rule, error, p->n, want);
    k->encode_subtract(rule, v, p->n, packed);
    assert_memory_equal(packed, want, len);
    assert_true(guard_intact(&kernels_bytes));
    check_floats(k, "encode_subtract", v, error, p->n, rule->bits);
}

static void same_decoding(const gwi_levels_kernels *k, const kernels_place *p,
                          unsigned bits, float unit, const float *start)
{
    const size_t len = (p->n * bits + 7) / 8;
    float *v =
        guard_place(&kernels_floats, p->n * sizeof *v, p->side, p->offset * sizeof *v);
    uint8_t *packed = guard_place(&kernels_bytes, len, p->side, p->offset);
    float want[CAP];

    for (size_t i = 0; i < len; i++)
        packed[i] = (uint8_t)values_random();
    portable->decode(packed, bits, unit, want, p->n);
    k->decode(packed, bits, unit, v, p->n);
    check_floats(k, "decode", v, want, p->n, bits);

    memcpy(v, start, p->n * sizeof *v);
    memcpy(want, start, p->n * sizeof *v);
    portable->decode_add(packed, bits, unit, want, p->n);
    k->decode_add(packed, bits, unit, v, p->n);
    check_floats(k, "decode_add", v, want, p->n, bits);
}

static void same_as_c(const gwi_kernels *all, const kernels_place *p)
{
    const gwi_levels_kernels *k = &all->levels;
    float start[CAP];

    values_fill(start, p->n, p->kind);
    for (unsigned bits = 2; bits <= 8; bits++) {
        gwi_levels_norm norm = (gwi_levels_norm)((bits + p->n) % 2);
        float size = gwi_levels_norm_of(portable, norm, start, p->n);
        gwi_levels_rule rule =
            gwi_levels_rule_make(bits, size, values_random(), values_random());
        assert_true(gwi_levels_norm_of(k, norm, start, p->n) == size);
        same_encoding(k, p, &rule, start);
        same_decoding(k, p, bits, rule.unit, start);
    }
}

static void all_lengths_and_offsets(void **unused)
{
    (void)unused;
    kernels_everywhere(same_as_c, 1001, 5);
}

/* ---- whole vectors ------------------------------------------------------------ */

enum { LARGE = 200003 };

typedef struct whole {
    float v[LARGE], error[LARGE], out[LARGE], acc[LARGE], norms[LARGE / 8 + 1];
    uint8_t packed[LARGE], again[LARGE];
} whole;

static void encode_whole(whole *w, const gwi_levels_format *f, const gwi_kernels *k)
{
    gwi_kernels_use(k);
    memcpy(w->error, w->v, sizeof w->v);
    memcpy(w->acc, w->v, sizeof w->v);
    memset(w->packed, 0, sizeof w->packed);
    memset(w->again, 0, sizeof w->again);
    gwi_levels_encode(f, w->v, LARGE, 5, 0, w->packed, w->norms);
    gwi_levels_encode_subtract(f, w->error, LARGE, 5, 0, w->again, w->norms);
    gwi_levels_decode(f, w->packed, w->norms, w->out, LARGE);
    gwi_levels_decode_add(f, w->packed, w->norms, w->acc, LARGE);
}

static void threads_agree(void **unused)
{
    static const uint32_t buckets[] = {512, 8, 24, 1 << 20};
    whole *one = calloc(1, sizeof *one), *many = calloc(1, sizeof *many);

    (void)unused;
    assert_true(one != NULL && many != NULL);
    values_fill(one->v, LARGE, VALUES_HEAVY);
    memcpy(many->v, one->v, sizeof one->v);
    for (unsigned trial = 0; trial < 8; trial++) {
        gwi_levels_format f = {2 + trial % 7, buckets[trial % 4],
                               (gwi_levels_norm)(trial % 2)};
        gwi_threads_set(1);
        encode_whole(one, &f, &kernels_tested[0]);
        gwi_threads_set(2 + trial % 3);
        encode_whole(many, &f, NULL);
        assert_memory_equal(one, many, sizeof *one);
        assert_memory_equal(one->packed, one->again, sizeof one->packed);
    }
    gwi_threads_set(0);
    free(one);
    free(many);
}

/* A part that begins on a bucket has the bytes it has in the whole; nothing at all
 * is a part too. */
static void parts_are_as_in_the_whole(void **unused)
{
    enum { N = 1000, BUCKET = 40, FIRST = 7 };
    const gwi_levels_format f = {5, BUCKET, GWI_NORM_L2};
    const size_t at = FIRST * BUCKET * 5 / 8, len = gwi_levels_packed_len(&f, N);
    float v[N], norms[N / BUCKET], part_norms[N / BUCKET];
    uint8_t packed[N], part[N];

    (void)unused;
    values_fill(v, N, VALUES_PLAIN);
    gwi_levels_encode(&f, v, N, 3, 100, packed, norms);
    gwi_levels_encode(&f, v + FIRST * BUCKET, N - FIRST * BUCKET, 3, 100 + FIRST, part,
                      part_norms);
    assert_memory_equal(packed + at, part, len - at);
    assert_memory_equal(norms + FIRST, part_norms,
                        (N / BUCKET - FIRST) * sizeof *norms);
    gwi_levels_encode(&f, NULL, 0, 3, 100, NULL, NULL);
    gwi_levels_decode_add(&f, NULL, NULL, NULL, 0);
}

/* ---- what probability promises ------------------------------------------------ */

/* Over many keys, the mean of what is decoded is what was encoded, and the mean
 * square error is below the bound of the QSGD paper. Keys are fixed, so that the
 * test says the same every time. */
static void rounding_is_unbiased(void **unused)
{
    enum { D = 128, ROUNDS = 2000 };
    float v[D], out[D], norms[1];
    uint8_t packed[D];

    (void)unused;
    for (size_t j = 0; j < D; j++)
        v[j] = sinf((float)(3 * j + 1)) * expf(-(float)(j % 16) / 4);
    for (unsigned trial = 0; trial < 14; trial++) {
        gwi_levels_format f = {2 + trial / 2, D, (gwi_levels_norm)(trial % 2)};
        double sum[D] = {0}, squares = 0.0, length = obvious_norm(v, D, GWI_NORM_L2);
        double s = (double)(1 << (f.bits - 1)) - 1;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            gwi_levels_encode(&f, v, D, gwi_random_key(1, round, trial), 0, packed,
                              norms);
            gwi_levels_decode(&f, packed, norms, out, D);
            for (size_t j = 0; j < D; j++) {
                double error = (double)out[j] - (double)v[j];
                sum[j] += error;
                squares += error * error / ROUNDS;
            }
        }
        for (size_t j = 0; j < D; j++) {
            double unit = (double)norms[0] / s, a = fabs((double)v[j]) / unit;
            double variance = (a - floor(a)) * (1 - a + floor(a)) * unit * unit;
            assert_true(fabs(sum[j]) <=
                        5 * sqrt(ROUNDS * variance) + ROUNDS * 1e-6 * unit);
        }
        if (f.norm == GWI_NORM_L2)
            assert_true(squares <= fmin(D / (s * s), sqrt(D) / s) * length * length);
        assert_true(squares <= D * pow((double)norms[0] / s, 2) / 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_is_as_specified),
        cmocka_unit_test(random_bytes_are_even),
        cmocka_unit_test(random_neighbours_are_unlike),
        cmocka_unit_test(bytes_are_as_specified),
        cmocka_unit_test(c_is_what_it_says),
        cmocka_unit_test(norms_are_guarded),
        cmocka_unit_test(extremes_survive),
        cmocka_unit_test(all_lengths_and_offsets),
        cmocka_unit_test(threads_agree),
        cmocka_unit_test(parts_are_as_in_the_whole),
        cmocka_unit_test(rounding_is_unbiased),
    };

    return cmocka_run_group_tests(tests, setup, kernels_teardown);
}
