/* SPDX-License-Identifier: Apache-2.0
 *
 * test_kernels_means.c - two means, sign and mean: C against obvious loops, every
 * instruction set against C, any number of threads against one. */
#include "kernels/means.h"
#include "kernels/pool.h"
#include "kernels/signs.h"
#include "support_kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CAP = 5000 };

static const gwi_means_kernels *const portable = &kernels_tested[0].means;

static int setup(void **unused)
{
    (void)unused;
    return kernels_setup(CAP, CAP / 8 + 1);
}

/* ---- C against obvious loops -------------------------------------------------- */

static void c_two_means(void **unused)
{
    enum { N = 3000 };
    float v[N], shifted[N];

    (void)unused;
    for (size_t n = 0; n <= N; n += 1 + n / 20) {
        long double plus = 0.0L, minus = 0.0L;
        uint64_t below = 0;
        gwi_two_sums sums;
        values_fill(v, n, VALUES_HEAVY);
        for (size_t j = 0; j < n; j++) {
            *(v[j] < 0 ? &minus : &plus) += (long double)v[j];
            below += v[j] < 0;
        }
        portable->two_sums(v, n, &sums);
        assert_true(fabsl((long double)sums.plus - plus) <= 1e-14L * plus);
        assert_true(fabsl((long double)sums.minus - minus) <= -1e-14L * minus);
        assert_true(sums.minus_count == below && sums.plus_count == n - below);
        memcpy(shifted, v, sizeof v);
        portable->two_shift(shifted, n, 0.125f, -3.0f);
        for (size_t j = 0; j < n; j++)
            assert_true(shifted[j] == v[j] + (v[j] < 0 ? -3.0f : 0.125f));
    }
}

/* Zeros of both signs count with the positive ones and are shifted with them. */
static void zeros_are_not_negative(void **unused)
{
    for (size_t t = 0; t < kernels_tested_count; t++) {
        const gwi_means_kernels *k = &kernels_tested[t].means;
        float v[] = {-0.0f, 0.0f, -1.0f, 3.0f, -0x1p-149f};
        gwi_two_sums sums;
        k->two_sums(v, 5, &sums);
        assert_true(sums.plus == 3.0 && sums.plus_count == 3);
        assert_true(sums.minus == -1.0 - 0x1p-149 && sums.minus_count == 2);
        k->two_shift(v, 5, 2.0f, -2.0f);
        assert_true(v[0] == 2.0f && v[1] == 2.0f && v[2] == -3.0f && v[3] == 5.0f &&
                    v[4] == -2.0f);
    }
    (void)unused;
}

static void c_signs(void **unused)
{
    enum { N = 1000 };
    float v[N], out[N], acc[N], error[N];
    uint8_t signs[N / 8 + 1];

    (void)unused;
    for (size_t n = 0; n < N; n += 1 + n / 20) {
        long double sum = 0.0L;
        values_fill(v, n, n % 2 ? VALUES_HEAVY : VALUES_FEW);
        memset(signs, 0xff, sizeof signs);
        double got = portable->sign_encode(v, n, signs);
        memcpy(acc, v, sizeof v);
        memcpy(error, v, sizeof v);
        portable->sign_decode(signs, 0.3f, out, n);
        portable->sign_decode_add(signs, 0.3f, acc, n);
        portable->sign_subtract(error, n, 0.3f);
        for (size_t j = 0; j < n; j++) {
            sum += fabsl((long double)v[j]);
            assert_int_equal(signs[j / 8] >> j % 8 & 1, signbit(v[j]) != 0);
            assert_true(out[j] == copysignf(0.3f, v[j]));
            assert_true(acc[j] == v[j] + out[j] && error[j] == v[j] - out[j]);
        }
        assert_true(fabsl((long double)got - sum) <= 1e-14L * sum);
        if (n % 8 != 0)
            assert_int_equal(signs[n / 8] >> n % 8, 0);
        assert_int_equal(signs[(n + 7) / 8], 0xff);
    }
}

static void means_of(void **unused)
{
    (void)unused;
    assert_true(gwi_mean_of(7.5, 3) == 2.5f);
    assert_true(gwi_mean_of(0.0, 0) == 0.0f);
    assert_true(gwi_mean_of(-1.0, 3) == (float)(-1.0 / 3.0));
}

/* ---- every instruction set against C ------------------------------------------ */

static void same_means(const gwi_means_kernels *k, float *v, const float *start,
                       size_t n)
{
    gwi_two_sums got, want;
    float expected[CAP];

    memcpy(v, start, n * sizeof *v);
    memcpy(expected, start, n * sizeof *v);
    portable->two_sums(start, n, &want);
    k->two_sums(v, n, &got);
    kernels_same_double(got.plus, want.plus);
    kernels_same_double(got.minus, want.minus);
    assert_true(got.plus_count == want.plus_count);
    assert_true(got.minus_count == want.minus_count);
    portable->two_shift(expected, n, -0.25f, 1e-3f);
    k->two_shift(v, n, -0.25f, 1e-3f);
    kernels_same_floats(k->isa, "two_shift", v, expected, n);
}

static void same_signs(const gwi_means_kernels *k, float *v, uint8_t *signs,
                       const float *start, size_t n)
{
    const float mean = 0.7f;
    float expected[CAP];
    uint8_t want[CAP / 8 + 1];

    memcpy(v, start, n * sizeof *v);
    memcpy(expected, start, n * sizeof *v);
    kernels_same_double(k->sign_encode(v, n, signs),
                        portable->sign_encode(start, n, want));
    assert_memory_equal(signs, want, (n + 7) / 8);
    assert_true(guard_intact(&kernels_bytes));
    portable->sign_subtract(expected, n, mean);
    k->sign_subtract(v, n, mean);
    kernels_same_floats(k->isa, "sign_subtract", v, expected, n);

    for (size_t i = 0; i < (n + 7) / 8; i++)
        signs[i] = (uint8_t)values_random();
    portable->sign_decode(signs, mean, expected, n);
    k->sign_decode(signs, mean, v, n);
    kernels_same_floats(k->isa, "sign_decode", v, expected, n);
    memcpy(v, start, n * sizeof *v);
    memcpy(expected, start, n * sizeof *v);
    portable->sign_decode_add(signs, mean, expected, n);
    k->sign_decode_add(signs, mean, v, n);
    kernels_same_floats(k->isa, "sign_decode_add", v, expected, n);
}

static void same_as_c(const gwi_kernels *k, const kernels_place *p)
{
    const size_t n = p->n, gap = p->offset;
    float *v = guard_place(&kernels_floats, n * sizeof *v, p->side, gap * sizeof *v);
    uint8_t *signs = guard_place(&kernels_bytes, (n + 7) / 8, p->side, gap);
    float start[CAP];

    values_fill(start, n, p->kind);
    same_means(&k->means, v, start, n);
    same_signs(&k->means, v, signs, start, n);
}

/* Finite floats of any size: unlike those of similar size, their sums in double
 * tell in which order they were added. */
static void fill_wide(float *v, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        int exponent = (int)values_below(200) - 100;
        v[j] = ldexpf((float)values_random() * 0x1p-64f, exponent);
        v[j] = values_random() & 1 ? v[j] : -v[j];
    }
}

static void order_is_fixed(void **unused)
{
    float start[CAP], v[CAP];
    uint8_t signs[CAP / 8 + 1];

    (void)unused;
    guard_place(&kernels_floats, 0, GUARD_END, 0);
    guard_place(&kernels_bytes, 0, GUARD_END, 0);
    for (size_t t = 0; t < kernels_tested_count; t++)
        for (size_t n = 0; n < 400; n++) {
            fill_wide(start, n);
            same_means(&kernels_tested[t].means, v, start, n);
            same_signs(&kernels_tested[t].means, v, signs, start, n);
        }
}

static void all_lengths_and_offsets(void **unused)
{
    (void)unused;
    kernels_everywhere(same_as_c, 4983, 1);
}

/* ---- whole vectors ------------------------------------------------------------ */

static void stripes_fit(void **unused)
{
    (void)unused;
    for (size_t n = 0; n < (size_t)1 << 40; n = n * 3 + 1) {
        size_t stripe = gwi_means_stripe(n);
        assert_true(stripe % 64 == 0 && stripe >= 4096 && n / stripe < 64);
    }
    for (size_t n = 64 * 4096 - 3; n < 64 * 4096 + 3; n++)
        assert_true((n + gwi_means_stripe(n) - 1) / gwi_means_stripe(n) <= 64);
}

enum { LARGE = 600003, BUCKET = 5000 };

typedef struct whole {
    float v[LARGE], shifted[LARGE], error[LARGE], out[LARGE], acc[LARGE];
    uint8_t signs[LARGE / 8 + 1];
    gwi_two_sums sums;
    float means[LARGE / BUCKET + 1];
} whole;

static void run_whole(whole *w, const gwi_kernels *k)
{
    gwi_kernels_use(k);
    memcpy(w->shifted, w->v, sizeof w->v);
    memcpy(w->error, w->v, sizeof w->v);
    memcpy(w->acc, w->v, sizeof w->v);
    w->sums = gwi_two_sums_of(w->v, LARGE);
    gwi_two_shift(w->shifted, LARGE, 0.1f, -0.2f);
    gwi_signs_encode_subtract(w->error, LARGE, BUCKET, w->signs, w->means);
    gwi_signs_decode(w->signs, w->means, w->out, LARGE, BUCKET);
    gwi_signs_decode_add(w->signs, w->means, w->acc, LARGE, BUCKET);
}

/* Every bucket has its signs, and the mean of its magnitudes. */
static void check_signs(const whole *w)
{
    uint8_t signs[BUCKET / 8 + 1];

    for (size_t at = 0; at < LARGE; at += BUCKET) {
        size_t m = LARGE - at < BUCKET ? LARGE - at : BUCKET;
        double sum = portable->sign_encode(w->v + at, m, signs);
        assert_true(w->means[at / BUCKET] == (float)(sum / (double)m));
        assert_memory_equal(w->signs + at / 8, signs, (m + 7) / 8);
    }
}

/* The sums of a whole vector are those of its stripes, added in order. */
static void check_whole(const whole *w)
{
    const size_t stripe = gwi_means_stripe(LARGE);
    gwi_two_sums one, total = {0};
    for (size_t at = 0; at < LARGE; at += stripe) {
        size_t m = LARGE - at < stripe ? LARGE - at : stripe;
        portable->two_sums(w->v + at, m, &one);
        total.plus += one.plus;
        total.minus += one.minus;
        total.minus_count += one.minus_count;
    }
    assert_true(w->sums.plus == total.plus && w->sums.minus == total.minus);
    assert_true(w->sums.minus_count == total.minus_count);
    assert_true(w->sums.plus_count + w->sums.minus_count == LARGE);
    check_signs(w);
    for (size_t j = 0; j < LARGE; j++) {
        assert_true(w->shifted[j] == w->v[j] + (w->v[j] < 0 ? -0.2f : 0.1f));
        assert_true(w->out[j] == copysignf(w->means[j / BUCKET], w->v[j]));
        assert_true(w->error[j] == w->v[j] - w->out[j]);
        assert_true(w->acc[j] == w->v[j] + w->out[j]);
    }
}

static void threads_agree(void **unused)
{
    whole *one = calloc(1, sizeof *one), *many = calloc(1, sizeof *many);

    (void)unused;
    assert_true(one != NULL && many != NULL);
    values_fill(one->v, LARGE, VALUES_HEAVY);
    memcpy(many->v, one->v, sizeof one->v);
    gwi_threads_set(1);
    run_whole(one, &kernels_tested[0]);
    check_whole(one);
    for (unsigned threads = 1; threads < 5; threads++) {
        gwi_threads_set(threads);
        run_whole(many, NULL);
        assert_memory_equal(one, many, sizeof *one);
    }
    gwi_threads_set(0);
    free(one);
    free(many);
}

static void nothing_at_all(void **unused)
{
    (void)unused;
    gwi_two_sums sums = gwi_two_sums_of(NULL, 0);
    assert_true(sums.plus == 0.0 && sums.minus == 0.0);
    assert_true(sums.plus_count == 0 && sums.minus_count == 0);
    gwi_two_shift(NULL, 0, 1.0f, 1.0f);
    gwi_signs_encode_subtract(NULL, 0, 8, NULL, NULL);
    gwi_signs_decode_add(NULL, NULL, NULL, 0, 8);
}

/* A message holds finite means whatever there was: NaN adds nothing to two means, and
 * the mean of a bucket becomes the largest there is. */
static void nan_stays_out_of_messages(void **unused)
{
    const float bad[] = {NAN, INFINITY, 3e38f};

    (void)unused;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        float v[3] = {1.0f, bad[i], -2.0f}, mean, out[3];
        uint8_t signs[1];
        gwi_signs_encode_subtract(v, 3, 8, signs, &mean);
        assert_true(isfinite(mean) && mean > 0);
        assert_true(i == 2 || mean == GWI_SIGNS_MEAN_MAX);
        gwi_signs_decode(signs, &mean, out, 3, 8);
        assert_true(out[0] == mean && out[2] == -mean);
    }
    float v[3] = {1.0f, NAN, 2.0f};
    assert_int_equal(gwi_two_sums_of(v, 3).plus_count, 3);
    assert_true(gwi_two_sums_of(v, 3).plus == 3.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c_two_means),    cmocka_unit_test(zeros_are_not_negative),
        cmocka_unit_test(c_signs),        cmocka_unit_test(means_of),
        cmocka_unit_test(order_is_fixed), cmocka_unit_test(all_lengths_and_offsets),
        cmocka_unit_test(stripes_fit),    cmocka_unit_test(threads_agree),
        cmocka_unit_test(nothing_at_all), cmocka_unit_test(nan_stays_out_of_messages),
    };

    return cmocka_run_group_tests(tests, setup, kernels_teardown);
}
