/* SPDX-License-Identifier: Apache-2.0
 *
 * test_kernels_crc32c.c - the check of messages against known values, against the
 * definition bit by bit, and for the errors that it must find. */
#include "kernels/crc32c.h"
#include "support_kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { LONGEST = 3 * 3072 + 67 };

/* The definition: one bit after the other. */
static uint32_t slow(uint32_t check, const uint8_t *p, size_t len)
{
    uint32_t c = ~check;

    for (size_t i = 0; i < 8 * len; i++) {
        uint32_t bit = (c ^ (uint32_t)p[i / 8] >> i % 8) & 1;
        c = c >> 1 ^ (bit ? 0x82f63b78u : 0);
    }
    return ~c;
}

static void fill(uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        p[i] = (uint8_t)values_below(256);
}

/* RFC 3720, appendix B.4, and the word that every table of checks has. */
static void known_values(void **state)
{
    uint8_t zeros[32] = {0}, ones[32], up[32];

    (void)state;
    memset(ones, 0xff, sizeof ones);
    for (int i = 0; i < 32; i++)
        up[i] = (uint8_t)i;
    for (size_t t = 0; t < kernels_tested_count; t++) {
        const gwi_crc_kernels *k = &kernels_tested[t].crc;
        assert_int_equal(k->crc32c(0, "123456789", 9), 0xe3069283u);
        assert_int_equal(k->crc32c(0, zeros, 32), 0x8a9136aau);
        assert_int_equal(k->crc32c(0, ones, 32), 0x62a8ab43u);
        assert_int_equal(k->crc32c(0, up, 32), 0x46dd794eu);
        assert_int_equal(k->crc32c(0, NULL, 0), 0);
    }
}

static void against_the_definition(void **state)
{
    (void)state;
    for (size_t len = 0; len <= LONGEST; len += len < 70 ? 1 : 61) {
        uint8_t *p = guard_place(&kernels_bytes, len, GUARD_END, len % 9);
        uint32_t start = (uint32_t)values_below(UINT32_MAX);
        fill(p, len);
        uint32_t want = slow(start, p, len);
        for (size_t t = 0; t < kernels_tested_count; t++)
            assert_int_equal(kernels_tested[t].crc.crc32c(start, p, len), want);
    }
}

/* What is checked in parts has the check of the whole. */
static void in_parts(void **state)
{
    uint8_t data[LONGEST];

    (void)state;
    fill(data, sizeof data);
    for (size_t t = 0; t < kernels_tested_count; t++)
        for (int trial = 0; trial < 50; trial++) {
            size_t cut = values_below(sizeof data + 1);
            const gwi_crc_kernels *k = &kernels_tested[t].crc;
            uint32_t first = k->crc32c(0, data, cut);
            assert_int_equal(k->crc32c(first, data + cut, sizeof data - cut),
                             gwi_crc32c(0, data, sizeof data));
        }
}

/* Every single bit, and every burst of up to 32 bits, changes the check. */
static void finds_errors(void **state)
{
    uint8_t data[600];

    (void)state;
    fill(data, sizeof data);
    uint32_t good = gwi_crc32c(0, data, sizeof data);
    for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
        uint64_t burst = values_below(UINT32_MAX) << 1 | 1;
        uint8_t bad[sizeof data + 8] = {0};
        memcpy(bad, data, sizeof data);
        for (int i = 0; i < 32 && bit + (size_t)i < 8 * sizeof data; i++)
            bad[(bit + (size_t)i) / 8] ^=
                (uint8_t)((burst >> i & 1) << (bit + (size_t)i) % 8);
        assert_int_not_equal(gwi_crc32c(0, bad, sizeof data), good);
    }
}

static int setup(void **unused)
{
    (void)unused;
    return kernels_setup(0, LONGEST + 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(against_the_definition),
        cmocka_unit_test(in_parts),
        cmocka_unit_test(finds_errors),
    };

    return cmocka_run_group_tests(tests, setup, kernels_teardown);
}
