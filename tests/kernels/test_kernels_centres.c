/* SPDX-License-Identifier: Apache-2.0
 *
 * test_kernels_centres.c - values in one or two bits: against obvious versions,
 * within their buffers, and on values that make no sense. */
#include "kernels/centres.h"
#include "support_kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CAP = 600 };

static int setup(void **unused)
{
    (void)unused;
    return kernels_setup(CAP, CAP);
}

/* Values as gradient dropping leaves them: all magnitudes above the threshold. */
static float kept_values(float *v, size_t k, float threshold)
{
    float largest = threshold;

    values_fill(v, k, VALUES_PLAIN);
    for (size_t i = 0; i < k; i++) {
        v[i] = copysignf(threshold + 0.001f + fabsf(v[i]), v[i]);
        largest = fmaxf(largest, fabsf(v[i]));
    }
    return largest;
}

/* ---- against the table of gradient dropping ------------------------------------ */

/* The rule of each kind, as the paper's code has it. */
static double obvious_value(gwi_centre_kind kind, const float *v, size_t k, size_t i,
                            double threshold, double largest)
{
    double w = (largest - threshold) / 2, sum = 0.0, count = 0.0, value;
    double bucket = fmin(1.0, floor((fabs((double)v[i]) - threshold) / w));

    for (size_t j = 0; j < k; j++) {
        double other = fmin(1.0, floor((fabs((double)v[j]) - threshold) / w));
        if (kind == GWI_CENTRE_ONE_MEAN || other == bucket) {
            sum += fabs((double)v[j]);
            count++;
        }
    }
    value = kind == GWI_CENTRE_ONE_THRESHOLD   ? threshold
            : kind == GWI_CENTRE_TWO_THRESHOLD ? threshold + bucket * w
                                               : sum / count;
    return v[i] < 0 ? -value : value;
}

static void check_kind(gwi_centre_kind kind, size_t k)
{
    const float threshold = 0.3f;
    float v[CAP], out[CAP], error[CAP];
    uint8_t codes[CAP];
    float largest = kept_values(v, k, threshold);
    gwi_centres c = gwi_centres_fit(kind, v, k, threshold, largest);

    assert_int_equal(c.bits, kind < GWI_CENTRE_TWO_THRESHOLD ? 1 : 2);
    gwi_centres_encode(&c, v, k, codes);
    memcpy(error, v, sizeof v);
    gwi_centres_subtract(&c, error, k);
    /* The receiver knows the bits and the centres, nothing else. */
    gwi_centres received = {.bits = c.bits, .centre = {c.centre[0], c.centre[1]}};
    gwi_centres_decode(&received, codes, k, out);
    for (size_t i = 0; i < k; i++) {
        double w = (double)(largest - threshold) / 2;
        double border = fabs(fabs((double)v[i]) - (double)threshold - w);
        double want = obvious_value(kind, v, k, i, (double)threshold, (double)largest);
        assert_true(border < 1e-6 || fabs((double)out[i] - want) <= 1e-6);
        assert_true(error[i] == v[i] - out[i]);
    }
}

static void kinds_are_as_published(void **unused)
{
    static const size_t counts[] = {1, 2, 3, 7, 8, 9, 31, 100, 500};

    (void)unused;
    for (int kind = 0; kind < 4; kind++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            for (int trial = 0; trial < 10; trial++)
                check_kind((gwi_centre_kind)kind, counts[i]);
}

static void codes_are_as_specified(void **unused)
{
    const float v[] = {1.0f, -1.0f, 3.0f, -3.0f, 1.5f, 2.0f, -1.9f};
    float out[7];
    uint8_t codes[2];
    gwi_centres c = gwi_centres_fit(GWI_CENTRE_TWO_THRESHOLD, v, 7, 1.0f, 3.0f);

    (void)unused;
    assert_true(c.centre[0] == 1.0f && c.centre[1] == 2.0f && c.width == 1.0f);
    gwi_centres_encode(&c, v, 7, codes);
    assert_int_equal(codes[0], 0 | 1 << 2 | 2 << 4 | 3 << 6);
    assert_int_equal(codes[1], 0 | 2 << 2 | 1 << 4);
    gwi_centres_decode(&c, codes, 7, out);
    assert_true(out[0] == 1.0f && out[1] == -1.0f && out[2] == 2.0f &&
                out[3] == -2.0f && out[4] == 1.0f && out[5] == 2.0f && out[6] == -1.0f);
    c = gwi_centres_fit(GWI_CENTRE_TWO_MEAN, v, 7, 1.0f, 3.0f);
    assert_true(c.centre[0] == (float)((1.0 + 1.0 + 1.5 + (double)1.9f) / 4));
    assert_true(c.centre[1] == (float)(8.0 / 3.0));
    c = gwi_centres_fit(GWI_CENTRE_ONE_MEAN, v, 7, 1.0f, 3.0f);
    gwi_centres_encode(&c, v, 7, codes);
    assert_int_equal(codes[0], 1 << 1 | 1 << 3 | 1 << 6);
    assert_int_equal(gwi_centres_len(1, 8), 1);
    assert_int_equal(gwi_centres_len(1, 9), 2);
    assert_int_equal(gwi_centres_len(2, 8), 2);
    assert_int_equal(gwi_centres_len(2, 9), 3);
    assert_int_equal(gwi_centres_len(2, 0), 0);
}

static double squared_error(gwi_centre_kind kind, const float *v, size_t k)
{
    float error[CAP], least = INFINITY, most = 0;
    double sum = 0;

    memcpy(error, v, k * sizeof *v);
    for (size_t i = 0; i < k; i++) {
        least = fminf(least, fabsf(v[i]));
        most = fmaxf(most, fabsf(v[i]));
    }
    gwi_centres c = gwi_centres_fit(kind, v, k, least, most);
    gwi_centres_subtract(&c, error, k);
    for (size_t i = 0; i < k; i++)
        sum += (double)error[i] * (double)error[i];
    return sum;
}

/* What Hivemind's quantizer makes of values if it has four bins instead of 256, as
 * SparseLoCo's code has it, in plain arithmetic. */
static void four_bins(const float *v, size_t k, unsigned *codes, double *out)
{
    double mean = 0, squares = 0, sum[4] = {0}, count[4] = {0};

    for (size_t i = 0; i < k; i++)
        mean += (double)v[i] / (double)k;
    for (size_t i = 0; i < k; i++)
        squares += ((double)v[i] - mean) * ((double)v[i] - mean);
    double scale = 6 * sqrt(squares) / sqrt((double)k - 1) / 4;
    for (size_t i = 0; i < k; i++) {
        double c = (double)v[i] - mean;
        codes[i] = (unsigned)fmin(3, fmax(0, nearbyint(c / scale + 2)));
        sum[codes[i]] += c;
        count[codes[i]]++;
    }
    for (size_t i = 0; i < k; i++)
        out[i] = mean + sum[codes[i]] / count[codes[i]];
}

/* Theirs has three bins for four codes, and one of them is worth nothing. */
static void four_bins_are_lopsided(void **unused)
{
    const float v[] = {3, -3, 1, -1};
    const unsigned want[] = {3, 1, 2, 2};
    const double value[] = {3, -3, 0, 0};
    unsigned codes[4];
    double out[4];

    (void)unused;
    four_bins(v, 4, codes, out);
    for (size_t i = 0; i < 4; i++)
        assert_true(codes[i] == want[i] && fabs(out[i] - value[i]) < 1e-12);
    assert_true(squared_error(GWI_CENTRE_TWO_BEST, v, 4) == 0);
    assert_true(squared_error(GWI_CENTRE_FOUR_BINS, v, 4) == 2);
}

static unsigned stored_code(const uint8_t *codes, size_t i)
{
    return (unsigned)codes[i / 4] >> 2 * (i % 4) & 3;
}

/* The kernel against plain arithmetic. */
static void check_four_bins(const float *v, size_t k)
{
    unsigned want[CAP];
    uint8_t codes[CAP];
    double value[CAP];
    float out[CAP], error[CAP];

    four_bins(v, k, want, value);
    gwi_centres c = gwi_centres_fit(GWI_CENTRE_FOUR_BINS, v, k, 0, 0);
    gwi_centres_encode(&c, v, k, codes);
    memcpy(error, v, k * sizeof *v);
    gwi_centres_subtract(&c, error, k);
    gwi_centres received = {.bits = 2, .four = true};
    assert_int_equal(gwi_centres_count(&received), 4);
    memcpy(received.centre, c.centre, sizeof c.centre);
    gwi_centres_decode(&received, codes, k, out);
    for (size_t i = 0; i < k; i++) {
        assert_int_equal(stored_code(codes, i), want[i]);
        assert_true(fabs((double)out[i] - value[i]) <= 1e-6 * (1 + fabs(value[i])));
        assert_true(error[i] == v[i] - out[i]);
    }
}

static void four_bins_are_theirs(void **unused)
{
    const float v[] = {3, -3, 1, -1};
    float many[CAP];

    (void)unused;
    check_four_bins(v, 4);
    for (int trial = 0; trial < 50; trial++) {
        kept_values(many, CAP, 0.5f);
        check_four_bins(many, 2 + (size_t)trial);
        check_four_bins(many, CAP);
    }
}

/* Bins of values that are all equal have width 1, and the third has them all; so it is
 * with one value. Bins without values stand for the mean. */
static void four_bins_of_equal_values(void **unused)
{
    const float same[] = {-5, -5, -5};
    float none[1];

    (void)unused;
    for (size_t k = 1; k <= 3; k++) {
        gwi_centres c = gwi_centres_fit(GWI_CENTRE_FOUR_BINS, same, k, 0, 0);
        for (size_t b = 0; b < 4; b++)
            assert_true(c.centre[b] == -5);
        assert_true(c.bin == 1 && squared_error(GWI_CENTRE_FOUR_BINS, same, k) == 0);
    }
    gwi_centres c = gwi_centres_fit(GWI_CENTRE_FOUR_BINS, none, 0, 0, 0);
    assert_true(c.centre[0] == 0 && c.centre[3] == 0);
}

/* The largest of heavy-tailed values, such as a selection leaves. Rounds may end beside
 * the least error: by 0.6 per cent at most in 300,000 draws. */
static void best_is_best(void **unused)
{
    float v[CAP];

    (void)unused;
    for (int trial = 0; trial < 50; trial++) {
        kept_values(v, CAP, 0.5f);
        for (size_t i = 0; i < CAP; i++)
            v[i] *= fabsf(v[i]);
        double best = squared_error(GWI_CENTRE_TWO_BEST, v, CAP);
        assert_true(best <= 1.01 * squared_error(GWI_CENTRE_TWO_MEAN, v, CAP));
        assert_true(best <= squared_error(GWI_CENTRE_ONE_MEAN, v, CAP));
        assert_true(best < 0.7 * squared_error(GWI_CENTRE_FOUR_BINS, v, CAP));
    }
}

/* A bucket without values keeps its lower end; equal values all lie in one. */
static void empty_buckets(void **unused)
{
    float low[] = {1.1f, -1.2f}, same[] = {2.0f, -2.0f};
    gwi_centres c = gwi_centres_fit(GWI_CENTRE_TWO_MEAN, low, 2, 1.0f, 5.0f);

    (void)unused;
    assert_true(c.centre[1] == 3.0f);
    c = gwi_centres_fit(GWI_CENTRE_TWO_MEAN, same, 2, 2.0f, 2.0f);
    gwi_centres_subtract(&c, same, 2);
    assert_true(same[0] == 0.0f && same[1] == 0.0f);
    c = gwi_centres_fit(GWI_CENTRE_ONE_MEAN, NULL, 0, 0.5f, 0.5f);
    assert_true(c.centre[0] == 0.5f);
    gwi_centres_decode(&c, NULL, 0, NULL);
}

/* ---- columns -------------------------------------------------------------------- */

static void check_columns(uint32_t first, uint32_t rows, uint32_t cols)
{
    enum { MOST = 40 };
    const gwi_columns c = {first, cols};
    const gwi_centres signs = {.bits = 1, .centre = {1, 1}};
    float v[CAP], out[CAP], error[CAP], means[MOST];
    uint32_t index[CAP], slot[MOST];
    uint8_t codes[CAP];
    gwi_column_sum sums[MOST];
    size_t k = 0, present = 0, got;

    for (uint32_t i = 0; i < rows * cols; i++)
        if (values_below(4) == 0)
            index[k++] = first + i;
    values_fill(v, k, VALUES_PLAIN);
    got = gwi_columns_map(&c, index, k, slot);
    gwi_columns_fit(&c, v, index, k, slot, sums, got, means);
    for (uint32_t col = 0; col < cols; col++) {
        double sum = 0.0, count = 0.0;
        for (size_t i = 0; i < k; i++)
            if ((index[i] - first) % cols == col) {
                sum += fabs((double)v[i]);
                count++;
            }
        if (count > 0)
            assert_true(fabs((double)means[present] - sum / count) <= 1e-7);
        assert_int_equal(slot[col], count > 0 ? present : UINT32_MAX);
        present += count > 0;
    }
    assert_int_equal(got, present);
    memcpy(error, v, sizeof v);
    gwi_columns_encode(v, k, codes);
    gwi_centres_decode(&signs, codes, k, out);
    gwi_columns_subtract(&c, error, index, k, slot, means);
    for (size_t i = 0; i < k; i++) {
        assert_true(out[i] == copysignf(1.0f, v[i]));
        out[i] *= means[slot[(index[i] - first) % cols]];
        assert_true(error[i] == v[i] - out[i]);
    }
}

static void columns_have_their_own_means(void **unused)
{
    (void)unused;
    for (int trial = 0; trial < 300; trial++)
        check_columns((uint32_t)values_below(1000), 1 + (uint32_t)values_below(15),
                      1 + (uint32_t)values_below(40));
}

/* ---- buffers and nonsense ---------------------------------------------------------
 */

static void stays_inside(size_t k, guard_side side, size_t offset, gwi_centre_kind kind)
{
    const unsigned bits = kind == GWI_CENTRE_ONE_MEAN ? 1 : 2;
    const size_t len = gwi_centres_len(bits, k);
    float *v = guard_place(&kernels_floats, k * sizeof *v, side, offset * sizeof *v);
    uint8_t *codes = guard_place(&kernels_bytes, len, side, offset);
    float again[CAP];

    values_fill(v, k, VALUES_HOSTILE);
    gwi_centres c = gwi_centres_fit(kind, v, k, k > 0 ? v[0] : 0.0f, NAN);
    memset(codes, 0xff, len);
    gwi_centres_encode(&c, v, k, codes);
    if (k * bits % 8 != 0)
        assert_int_equal(codes[len - 1] >> (k * bits % 8), 0);
    gwi_centres_decode(&c, codes, k, again);
    for (size_t i = 0; i < k; i++)
        assert_true(c.four || isnan(again[i]) || signbit(again[i]) == signbit(v[i]) ||
                    c.centre[0] < 0 || c.centre[1] < 0);
    gwi_centres_subtract(&c, v, k);
    for (size_t i = 0; i < len; i++)
        codes[i] = (uint8_t)values_random();
    gwi_centres_decode(&c, codes, k, v);
    assert_true(guard_intact(&kernels_floats) && guard_intact(&kernels_bytes));
}

static void all_lengths_and_offsets(void **unused)
{
    static const gwi_centre_kind kinds[] = {GWI_CENTRE_ONE_MEAN, GWI_CENTRE_TWO_MEAN,
                                            GWI_CENTRE_FOUR_BINS};

    (void)unused;
    for (size_t kind = 0; kind < 3; kind++)
        for (size_t offset = 0; offset < 9; offset++)
            for (size_t k = 0; k < 68; k++) {
                stays_inside(k, GUARD_END, offset, kinds[kind]);
                stays_inside(k, GUARD_START, offset, kinds[kind]);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_as_published),
        cmocka_unit_test(codes_are_as_specified),
        cmocka_unit_test(four_bins_are_lopsided),
        cmocka_unit_test(four_bins_are_theirs),
        cmocka_unit_test(four_bins_of_equal_values),
        cmocka_unit_test(best_is_best),
        cmocka_unit_test(empty_buckets),
        cmocka_unit_test(columns_have_their_own_means),
        cmocka_unit_test(all_lengths_and_offsets),
    };

    return cmocka_run_group_tests(tests, setup, kernels_teardown);
}
