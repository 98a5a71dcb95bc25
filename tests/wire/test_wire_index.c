/* SPDX-License-Identifier: Apache-2.0
 *
 * test_wire_index.c - positions as bits: what goes in comes out, in as few bits
 * as promised, and any bytes at all are survived. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support_guard.h"
#include "support_wire.h"

enum { BIG = 25000000 };

/* ---- a slow, obvious version ----------------------------------------------- */

static unsigned bit_at(const uint8_t *bytes, uint64_t bit)
{
    return bytes[bit / 8] >> bit % 8 & 1;
}

static uint64_t slow_bits(const uint8_t *bytes, uint64_t *bit, unsigned count)
{
    uint64_t x = 0;

    for (unsigned i = 0; i < count; i++)
        x |= (uint64_t)bit_at(bytes, (*bit)++) << i;
    return x;
}

/* The gaps of a block of a well-formed stream, as docs/format.md tells it. */
static void slow_block(const uint8_t *bytes, uint64_t *bit, uint32_t count,
                       uint64_t *gaps)
{
    unsigned r = (unsigned)slow_bits(bytes, bit, 5);
    unsigned flag = (unsigned)slow_bits(bytes, bit, 1);

    for (uint32_t i = 0; i < count; i++)
        gaps[i] = slow_bits(bytes, bit, r);
    for (uint32_t i = 0; i < count; i++)
        while (slow_bits(bytes, bit, 1) == 0)
            gaps[i] += (uint64_t)1 << r;
    if (flag == 0)
        return;
    for (uint64_t left = slow_bits(bytes, bit, 7) + 1; left > 0; left--) {
        uint64_t place = slow_bits(bytes, bit, 7);
        unsigned width = (unsigned)slow_bits(bytes, bit, 5) + 1;

        gaps[place] += slow_bits(bytes, bit, width);
    }
}

/* Decodes a well-formed stream. Returns its bits. */
static uint64_t slow_decode(const uint8_t *bytes, uint32_t k, uint32_t *out)
{
    uint64_t bit = 0, next = 0, gaps[128];

    for (uint32_t done = 0; done < k; done += 128) {
        uint32_t count = k - done < 128 ? k - done : 128;

        slow_block(bytes, &bit, count, gaps);
        for (uint32_t i = 0; i < count; i++) {
            next += gaps[i];
            out[done + i] = (uint32_t)next++;
        }
    }
    return bit;
}

/* The fewest bits of any choice of parameters, all of them tried, without lists of
 * long gaps. */
static uint64_t fewest_bits(const uint32_t *positions, uint32_t k)
{
    uint64_t bits = 0, next = 0;

    for (uint32_t done = 0; done < k; done += 128) {
        uint32_t count = k - done < 128 ? k - done : 128;
        uint64_t best = UINT64_MAX, begin = next;

        for (unsigned r = 0; r < 32; r++) {
            uint64_t here = 6 + (uint64_t)count * (r + 1);

            next = begin;
            for (uint32_t i = done; i < done + count; i++) {
                here += (positions[i] - next) >> r;
                next = (uint64_t)positions[i] + 1;
            }
            best = here < best ? here : best;
        }
        bits += best;
    }
    return bits;
}

/* ---- round trips ----------------------------------------------------------- */

static gw_status read_all(const uint8_t *bytes, size_t len, uint32_t n, uint32_t k,
                          uint32_t *out)
{
    gwi_index_reader reader;
    size_t count, done = 0;

    gwi_index_start(&reader, bytes, len, n, k);
    do {
        GWI_TRY(gwi_index_next(&reader, out + done, &count));
        done += count;
    } while (count > 0);
    assert_int_equal(done, k);
    return GW_OK;
}

/* Encodes into exactly the bound, between guard pages, and decodes from exactly
 * the bytes used, flush against one. Returns the bits used. */
static uint64_t round_trip(const uint32_t *positions, uint32_t k, uint32_t n)
{
    size_t bound = (size_t)gwi_index_bound(n, k), len = 0;
    uint32_t *out = malloc(4 * ((size_t)k + 1));
    guard to, from;

    assert_non_null(out);
    guard_init(&to, bound + 1);
    uint8_t *bytes = guard_place(&to, bound, GUARD_END, 0);
    assert_int_equal(gwi_index_encode(positions, k, n, bytes, &len), GW_OK);
    assert_true(guard_intact(&to));
    assert_true(k == 0 ? len == 0 : len <= bound - GWI_INDEX_SPARE_BYTES);

    guard_init(&from, len + 1);
    uint8_t *sent = guard_place(&from, len, GUARD_END, 0);
    if (len > 0)
        memcpy(sent, bytes, len);
    assert_int_equal(read_all(sent, len, n, k, out), GW_OK);
    if (k > 0)
        assert_memory_equal(out, positions, 4 * (size_t)k);
    uint64_t bits = slow_decode(sent, k, out);
    assert_int_equal((bits + 7) / 8, len);
    if (k > 0)
        assert_memory_equal(out, positions, 4 * (size_t)k);
    assert_true(bits <= fewest_bits(positions, k));
    guard_fini(&from);
    guard_fini(&to);
    free(out);
    return bits;
}

/* k neighbours from `first` on. */
static void neighbours(uint32_t first, uint32_t k, uint32_t n)
{
    uint32_t *positions = malloc(4 * ((size_t)k + 1));

    assert_non_null(positions);
    for (uint32_t i = 0; i < k; i++)
        positions[i] = first + i;
    round_trip(positions, k, n);
    free(positions);
}

static void corners(void **unused)
{
    static const uint32_t counts[] = {0, 1, 2, 127, 128, 129, 255, 256, 257, 1000};
    (void)unused;

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        uint32_t k = counts[i];

        neighbours(0, k, k);
        neighbours(0, k, k + 1);
        neighbours(1, k, k + 1);
        neighbours(0, k, UINT32_MAX);
        neighbours(UINT32_MAX - k, k, UINT32_MAX);
        neighbours(UINT32_MAX / 2, k, UINT32_MAX);
    }
}

static void far_apart(void **unused)
{
    static const uint32_t ends[] = {0, UINT32_MAX - 1};
    static const uint32_t three[] = {0, 0x80000000u, UINT32_MAX - 1};
    uint32_t lone[200];
    (void)unused;

    round_trip(ends, 2, UINT32_MAX);
    round_trip(ends + 1, 1, UINT32_MAX);
    round_trip(three, 3, UINT32_MAX);
    /* One huge gap at each place of a block of neighbours. */
    for (uint32_t at = 0; at < 200; at++) {
        for (uint32_t i = 0; i < 200; i++)
            lone[i] = i + (i >= at ? UINT32_MAX - 200 : 0);
        round_trip(lone, 200, UINT32_MAX);
    }
}

static void random_positions(void **unused)
{
    uint32_t *positions = malloc(4 * 5000);
    (void)unused;

    assert_non_null(positions);
    for (int trial = 0; trial < 400; trial++) {
        uint32_t k = (uint32_t)wire_below(trial % 10 == 0 ? 5000 : 400);
        uint32_t n = k + (uint32_t)(wire_random() >> 32 >> wire_below(33));

        /* The sum may have wrapped. */
        n = n < k ? k : n;
        wire_positions(positions, k, n);
        round_trip(positions, k, n);
    }
    free(positions);
}

/* Gaps of wildly different sizes, within blocks and between them. */
static void clustered_positions(void **unused)
{
    uint32_t *positions = malloc(4 * 4000);
    (void)unused;

    assert_non_null(positions);
    for (int trial = 0; trial < 200; trial++) {
        uint64_t next = 0;
        uint32_t k = 0;

        while (k < 4000) {
            next += wire_random() >> (40 + wire_below(24));
            if (next >= UINT32_MAX)
                break;
            positions[k++] = (uint32_t)next++;
        }
        round_trip(positions, k, (uint32_t)next);
    }
    free(positions);
}

/* ---- how many bits --------------------------------------------------------- */

static double entropy(double n, double k)
{
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2.0);
}

static void near_entropy(void **unused)
{
    static const double densities[] = {1e-4, 1e-3, 1e-2, 1e-1};
    uint32_t *positions = malloc(4 * (BIG / 8));
    (void)unused;

    assert_non_null(positions);
    for (size_t i = 0; i < 4; i++) {
        uint32_t k = wire_bernoulli(positions, BIG / 8, BIG, densities[i]);
        double bits = (double)round_trip(positions, k, BIG);
        double ratio = bits / entropy(BIG, k);

        printf("density %-6g %8u positions, %6.3f bits each, %.4f of log2 C(n,k)\n",
               densities[i], k, bits / k, ratio);
        assert_true(ratio <= 1.03);
    }
    free(positions);
}

/* Where every 50th row of 500 has all the positions, they cost less than if they
 * were anywhere. */
static void clusters_cost_less(void **unused)
{
    uint32_t *positions = malloc(4 * (BIG / 50));
    uint32_t k = 0;
    (void)unused;

    assert_non_null(positions);
    for (uint32_t row = 0; row < BIG / 500; row += 50)
        for (uint32_t i = 0; i < 500; i++)
            if (wire_below(5) == 0)
                positions[k++] = row * 500 + i;
    double ratio = (double)round_trip(positions, k, BIG) / entropy(BIG, k);
    printf("clustered: %.4f of log2 C(n,k)\n", ratio);
    assert_true(ratio < 0.5);
    free(positions);
}

/* Equal gaps of 2^r cost what the bound says, but for what rounds. */
static void bound_is_tight(void **unused)
{
    uint32_t k = 128 * 64, n = 33 * k, *positions = malloc(4 * (size_t)k);
    (void)unused;

    assert_non_null(positions);
    for (uint32_t i = 0; i < k; i++)
        positions[i] = 33 * i + 32;
    uint64_t bits = round_trip(positions, k, n);
    uint64_t bound = 8 * (gwi_index_bound(n, k) - GWI_INDEX_SPARE_BYTES);
    assert_true(bits <= bound && bits + 8 > bound);
    free(positions);
}

/* ---- what is refused ------------------------------------------------------- */

static void disorder_is_refused(void **unused)
{
    uint32_t positions[300];
    uint8_t out[2000];
    size_t len;
    (void)unused;

    for (uint32_t at = 1; at < 300; at++) {
        for (uint32_t i = 0; i < 300; i++)
            positions[i] = 2 * i;
        positions[at] = positions[at - 1];
        if (at < 299)
            assert_int_equal(gwi_index_encode(positions, 300, 600, out, &len),
                             GW_ERR_ARG);
        positions[at] = 0;
        assert_int_equal(gwi_index_encode(positions, 300, 600, out, &len), GW_ERR_ARG);
    }
    positions[0] = 600;
    assert_int_equal(gwi_index_encode(positions, 1, 600, out, &len), GW_ERR_ARG);
    assert_non_null(strstr(gw_error_message(), "not below n=600"));
}

/* Positions that rise above n and come down later are refused before what they take is
 * written: out has no more room than k positions below n need. */
static void detours_are_refused(void **unused)
{
    enum { K = 2 * GWI_INDEX_BLOCK, N = 1000 };
    uint32_t positions[K];
    uint8_t *out = malloc(gwi_index_bound(N, K));
    size_t len;
    (void)unused;

    assert_non_null(out);
    for (uint32_t i = 0; i < K; i++)
        positions[i] = i < GWI_INDEX_BLOCK ? 30000000 * (i + 1) : i;
    assert_int_equal(gwi_index_encode(positions, K, N, out, &len), GW_ERR_ARG);
    assert_non_null(strstr(gw_error_message(), "not below n=1000"));
    free(out);
}

/* What a damaged stream decodes to, if it decodes, is still in order. */
static void check_damaged(const uint8_t *bytes, size_t len, uint32_t n, uint32_t k)
{
    uint32_t *out = malloc(4 * ((size_t)k + 1));
    guard g;

    assert_non_null(out);
    guard_init(&g, len + 1);
    uint8_t *flush = guard_place(&g, len, GUARD_END, 0);
    if (len > 0)
        memcpy(flush, bytes, len);
    gw_status st = read_all(flush, len, n, k, out);
    assert_true(st == GW_OK || st == GW_ERR_DATA);
    for (uint32_t i = 0; st == GW_OK && i < k; i++)
        assert_true(out[i] < n && (i == 0 || out[i - 1] < out[i]));
    guard_fini(&g);
    free(out);
}

static void damage_is_survived(void **unused)
{
    uint32_t positions[300], out[301];
    uint8_t bytes[2000];
    size_t len;
    (void)unused;

    wire_positions(positions, 300, 5000);
    assert_int_equal(gwi_index_encode(positions, 300, 5000, bytes, &len), GW_OK);
    for (size_t cut = 0; cut < len; cut++) {
        assert_int_equal(read_all(bytes, cut, 5000, 300, out), GW_ERR_DATA);
        check_damaged(bytes, cut, 5000, 300);
    }
    bytes[len] = 0;
    assert_int_equal(read_all(bytes, len + 1, 5000, 300, out), GW_ERR_DATA);
    assert_int_equal(read_all(bytes, len, positions[299], 300, out), GW_ERR_DATA);
    assert_int_equal(read_all(bytes, len, 5000, 301, out), GW_ERR_DATA);
    assert_int_equal(read_all(bytes, len, 5000, 0, out), GW_ERR_DATA);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        check_damaged(bytes, len, 5000, 300);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void garbage_is_survived(void **unused)
{
    uint8_t junk[256];
    (void)unused;

    for (int trial = 0; trial < 5000; trial++) {
        size_t len = wire_below(sizeof junk);
        /* Sparse, even and dense bits: the first make long unary parts. */
        for (size_t i = 0; i < len; i++)
            junk[i] = (uint8_t)(trial % 3 == 0 ? wire_random() & wire_random() &
                                                     wire_random() & wire_random()
                                : trial % 3 == 1 ? wire_random()
                                                 : wire_random() | wire_random());
        check_damaged(junk, len, (uint32_t)(wire_random() >> 32 >> wire_below(33)),
                      (uint32_t)wire_below(400));
    }
}

/* The last bits of a byte have one spelling. */
static void padding_is_zero(void **unused)
{
    uint32_t position = 0, out[2];
    uint8_t bytes[16];
    size_t len;
    (void)unused;

    assert_int_equal(gwi_index_encode(&position, 1, 10, bytes, &len), GW_OK);
    assert_int_equal(len, 1);
    assert_int_equal(bytes[0], 0x40);
    bytes[0] = 0xc0;
    assert_int_equal(read_all(bytes, 1, 10, 1, out), GW_ERR_DATA);
    assert_non_null(strstr(gw_error_message(), "are not 0"));
}

/* Zeros beyond what n allows are given up on before the end. */
static void long_zeros_are_cut_short(void **unused)
{
    uint8_t bytes[100] = {0};
    uint32_t out[2];
    (void)unused;

    assert_int_equal(read_all(bytes, sizeof bytes, 10, 1, out), GW_ERR_DATA);
    assert_non_null(strstr(gw_error_message(), "not below n=10"));
    assert_int_equal(read_all(bytes, sizeof bytes, 1000, 1, out), GW_ERR_DATA);
    assert_non_null(strstr(gw_error_message(), "end after 100 bytes"));
}

/* Every input is read once: were it read again for every block, 16 MiB of the worst
 * bytes would take hours and not a moment. */
static void long_input_is_fast(void **unused)
{
    static const uint8_t worst[] = {0x00, 0x20, 0x1f, 0xff};
    const size_t len = (size_t)16 << 20;
    uint8_t *bytes = malloc(len);
    uint32_t out[GWI_INDEX_BLOCK];
    (void)unused;

    assert_non_null(bytes);
    for (size_t i = 0; i < sizeof worst; i++) {
        gwi_index_reader reader;
        size_t count;

        memset(bytes, worst[i], len);
        gwi_index_start(&reader, bytes, len, UINT32_MAX, UINT32_MAX);
        while (gwi_index_next(&reader, out, &count) == GW_OK && count > 0)
            ;
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corners),
        cmocka_unit_test(far_apart),
        cmocka_unit_test(random_positions),
        cmocka_unit_test(clustered_positions),
        cmocka_unit_test(near_entropy),
        cmocka_unit_test(clusters_cost_less),
        cmocka_unit_test(bound_is_tight),
        cmocka_unit_test(disorder_is_refused),
        cmocka_unit_test(detours_are_refused),
        cmocka_unit_test(damage_is_survived),
        cmocka_unit_test(garbage_is_survived),
        cmocka_unit_test(padding_is_zero),
        cmocka_unit_test(long_zeros_are_cut_short),
        cmocka_unit_test(long_input_is_fast),
    };

    wire_seed();
    return cmocka_run_group_tests_name("wire index", tests, NULL, NULL);
}
