/* SPDX-License-Identifier: Apache-2.0
 *
 * test_wire_entropy.c - values that are coded by how often each occurs: what goes in
 * comes out, coded is never longer, and damage is an error or harmless. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/pool.h"
#include "support_guard.h"
#include "support_wire.h"

enum { MAX_BITS = 8, LONG = 3 * GWI_ENTROPY_BLOCK + 77 };

static size_t packed_len(uint64_t k, unsigned bits)
{
    return (size_t)((k * bits + 7) / 8);
}

/* k values of which about one in `rare` is not 0; rare = 1: all are random. */
static uint8_t *make_values(uint64_t k, unsigned bits, unsigned rare)
{
    uint8_t *values = calloc(packed_len(k, bits) + 8, 1);

    assert_non_null(values);
    for (uint64_t i = 0; i < k; i++) {
        uint64_t x = wire_below(rare) == 0 ? wire_below(1u << bits) : 0;
        uint64_t bit = i * bits;
        values[bit / 8] |= (uint8_t)(x << bit % 8);
        values[bit / 8 + 1] |= (uint8_t)(x << bit % 8 >> 8);
    }
    return values;
}

/* Coded values in a buffer of their length, or NULL. */
static uint8_t *encode(const uint8_t *values, uint64_t k, unsigned bits, size_t *len)
{
    size_t cap = gwi_entropy_room(k, bits), raw = packed_len(k, bits);
    guard room;

    guard_init(&room, cap);
    uint8_t *at = guard_place(&room, cap, GUARD_END, 0), *out = NULL;
    *len = gwi_entropy_encode(values, k, bits, at);
    assert_true(20 * *len <= 19 * raw);
    if (*len > 0) {
        out = malloc(*len);
        assert_non_null(out);
        gwi_entropy_store(at, k, bits, out);
    }
    assert_true(guard_intact(&room));
    guard_fini(&room);
    return out;
}

static void check_decodes(const uint8_t *coded, size_t len, uint64_t k, unsigned bits,
                          const uint8_t *values)
{
    size_t raw = packed_len(k, bits), found;
    guard from, to;

    guard_init(&from, len);
    guard_init(&to, raw);
    uint8_t *in = guard_place(&from, len, GUARD_END, 0);
    uint8_t *out = guard_place(&to, raw, GUARD_END, 0);
    memcpy(in, coded, len);
    assert_int_equal(gwi_entropy_length(in, len, k, bits, &found), GW_OK);
    assert_int_equal(found, len);
    assert_int_equal(gwi_entropy_check(in, k, bits), GW_OK);
    assert_int_equal(gwi_entropy_decode(in, k, bits, out), GW_OK);
    assert_memory_equal(out, values, raw);
    guard_fini(&to);
    guard_fini(&from);
}

static bool round_trip(uint64_t k, unsigned bits, unsigned rare)
{
    uint8_t *values = make_values(k, bits, rare);
    size_t len;
    uint8_t *coded = encode(values, k, bits, &len);

    if (coded != NULL)
        check_decodes(coded, len, k, bits, values);
    free(coded);
    free(values);
    return len > 0;
}

static void values_come_back(void **unused)
{
    static const unsigned rare[] = {1, 2, 3, 20, 1000};
    (void)unused;

    for (unsigned bits = 1; bits <= MAX_BITS; bits++)
        for (size_t i = 0; i < sizeof rare / sizeof *rare; i++) {
            for (uint64_t k = 0; k < 70; k++)
                round_trip(k, bits, rare[i]);
            for (int trial = 0; trial < 20; trial++)
                round_trip(wire_below(5000), bits, rare[i]);
            round_trip(GWI_ENTROPY_BLOCK, bits, rare[i]);
            bool coded = round_trip(LONG * (8 / bits), bits, rare[i]);
            if (rare[i] != 2 && rare[i] != 3)
                assert_int_equal(coded, rare[i] > 1);
        }
}

/* The shortest length: that of nothing but zeros, in which one symbol has all shares.
 */
static void one_symbol_takes_next_to_nothing(void **unused)
{
    const uint64_t k = 4 * GWI_ENTROPY_BLOCK;
    uint8_t *values = calloc(packed_len(k, 2), 1);
    size_t len;
    (void)unused;

    uint8_t *coded = encode(values, k, 2, &len);
    assert_int_equal(len, 2 + 4 + 32);
    check_decodes(coded, len, k, 2, values);
    free(coded);
    free(values);
}

/* A message takes what the entropy of its symbols says, and little more. */
static void length_is_near_the_entropy(void **unused)
{
    const uint64_t k = LONG * 4;
    uint8_t *values = make_values(k, 2, 12);
    size_t len;
    (void)unused;

    /* One in 12 is drawn from four: 1/16 are not 0, 0.436 bits each. */
    free(encode(values, k, 2, &len));
    double bits = 8.0 * (double)len / (double)k;
    printf("%.4f bits for each value of 2, entropy 0.4364\n", bits);
    assert_true(bits > 0.42 && bits < 0.455);
    free(values);
}

static void threads_change_nothing(void **unused)
{
    const uint64_t k = LONG;
    uint8_t *values = make_values(k, 5, 3), *coded[2];
    size_t len[2];
    (void)unused;

    for (unsigned i = 0; i < 2; i++) {
        gwi_threads_set(1 + 3 * i);
        coded[i] = encode(values, k, 5, &len[i]);
        assert_non_null(coded[i]);
        check_decodes(coded[i], len[i], k, 5, values);
    }
    gwi_threads_set(0);
    assert_int_equal(len[0], len[1]);
    assert_memory_equal(coded[0], coded[1], len[0]);
    free(coded[0]);
    free(coded[1]);
    free(values);
}

/* ---- damage ------------------------------------------------------------------ */

/* Bytes that may be anything: refused, or they decode to something. */
static gw_status try_bytes(const uint8_t *bytes, size_t len, uint64_t k, unsigned bits)
{
    uint8_t *copy = malloc(len > 0 ? len : 1), *out = malloc(packed_len(k, bits) + 1);
    size_t found;

    assert_true(copy != NULL && out != NULL);
    memcpy(copy, bytes, len);
    gw_status st = gwi_entropy_length(copy, len, k, bits, &found);
    if (st == GW_OK) {
        assert_true(found <= len && found < packed_len(k, bits));
        st = gwi_entropy_check(copy, k, bits);
        assert_int_equal(gwi_entropy_decode(copy, k, bits, out), st);
    }
    assert_true(st == GW_OK || st == GW_ERR_DATA);
    free(out);
    free(copy);
    return st;
}

static void damage_is_survived(void **unused)
{
    (void)unused;
    for (unsigned bits = 1; bits <= MAX_BITS; bits++) {
        uint64_t k = 900 + wire_below(8);
        uint8_t *values = make_values(k, bits, 12);
        size_t len;
        uint8_t *coded = encode(values, k, bits, &len);
        assert_non_null(coded);
        for (size_t cut = 0; cut < len; cut++)
            assert_int_equal(try_bytes(coded, cut, k, bits), GW_ERR_DATA);
        for (size_t bit = 0; bit < 8 * len; bit++) {
            coded[bit / 8] ^= (uint8_t)(1u << bit % 8);
            try_bytes(coded, len, k, bits);
            coded[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        free(coded);
        free(values);
    }
}

/* No other words decode to the same values, and hardly any to others: the states end
 * where they began. */
static void words_are_all_looked_at(void **unused)
{
    const uint64_t k = 3000;
    uint8_t *values = make_values(k, 4, 4), out[1500];
    size_t len, good = 0;
    uint8_t *coded = encode(values, k, 4, &len);
    (void)unused;

    assert_non_null(coded);
    for (size_t bit = 8 * (len - 40); bit < 8 * len; bit++) {
        coded[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (try_bytes(coded, len, k, 4) == GW_OK) {
            assert_int_equal(gwi_entropy_decode(coded, k, 4, out), GW_OK);
            assert_memory_not_equal(out, values, sizeof out);
            good++;
        }
        coded[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(good < 20);
    free(coded);
    free(values);
}

static void garbage_is_survived(void **unused)
{
    uint8_t junk[300];
    (void)unused;

    for (int trial = 0; trial < 20000; trial++) {
        size_t len = 2 + wire_below(sizeof junk - 2);
        for (size_t i = 0; i < len; i++)
            junk[i] = (uint8_t)(wire_below(3) == 0 ? 0xff : wire_random());
        junk[0] = (uint8_t)(len - 2);
        junk[1] = (uint8_t)((len - 2) >> 8);
        try_bytes(junk, len, 1 + wire_below(4000), 1 + (unsigned)wire_below(8));
    }
}

/* ---- messages ---------------------------------------------------------------- */

static gwi_wire_form form_of(gwi_wire_kind kind, uint32_t n, uint32_t k, unsigned bits)
{
    return (gwi_wire_form){.kind = kind,
                           .coding = GWI_WIRE_LEVELS,
                           .bits = bits,
                           .group = 64,
                           .n = n,
                           .k = k,
                           .step = 5};
}

/* A message of these values, which may be shortened; NULL where they are not. */
static uint8_t *write_message(const gwi_wire_form *form, const uint8_t *values,
                              const uint32_t *positions, size_t *len)
{
    size_t cap = gwi_wire_bound(form);
    uint8_t *msg = calloc(cap, 1), *room = malloc(gwi_wire_values_room(form));
    gwi_wire_writer w;

    assert_true(msg != NULL && room != NULL);
    assert_int_equal(gwi_wire_begin(&w, form, msg, cap), GW_OK);
    memcpy(w.values, values, w.values_len);
    size_t before = w.len;
    gwi_wire_shorten_values(&w, room);
    assert_true(w.len <= before);
    if (form->kind == GWI_WIRE_SPARSE)
        assert_int_equal(gwi_wire_put_positions(&w, positions), GW_OK);
    gwi_wire_seal(msg, w.len);
    *len = w.len;
    free(room);
    return msg;
}

static void check_message(const gwi_wire_form *form, const uint32_t *positions,
                          unsigned rare)
{
    uint8_t *values = make_values(form->k, form->bits, rare);
    uint8_t *room = malloc(gwi_wire_values_room(form));
    uint32_t *back = malloc(4 * ((size_t)form->k + 1));
    gwi_wire_form want = *form;
    gwi_wire_view v;
    size_t len;

    uint8_t *msg = write_message(form, values, positions, &len);
    assert_int_equal(gwi_wire_check(msg, len), GW_OK);
    assert_int_equal(gwi_wire_open(&v, msg, len), GW_OK);
    assert_int_equal(v.form.entropy, rare > 1);
    assert_int_equal(gwi_wire_expect(&v, &want), rare > 1 ? GW_ERR_DATA : GW_OK);
    want.entropy = true;
    assert_int_equal(gwi_wire_expect(&v, &want), GW_OK);
    assert_int_equal(gwi_wire_restore_values(&v, room), GW_OK);
    assert_int_equal(v.values_len, packed_len(form->k, form->bits));
    assert_memory_equal(v.values, values, v.values_len);
    if (form->kind == GWI_WIRE_SPARSE) {
        assert_int_equal(gwi_wire_get_positions(&v, back, form->k), GW_OK);
        assert_memory_equal(back, positions, 4 * (size_t)form->k);
    }
    free(msg);
    free(back);
    free(room);
    free(values);
}

static void messages_come_back(void **unused)
{
    uint32_t positions[2000];
    (void)unused;

    wire_positions(positions, 2000, 60000);
    for (unsigned bits = 2; bits <= MAX_BITS; bits++)
        for (unsigned rare = 1; rare < 13; rare += 11) {
            gwi_wire_form dense = form_of(GWI_WIRE_DENSE, 9001, 9001, bits);
            gwi_wire_form sparse = form_of(GWI_WIRE_SPARSE, 60000, 2000, bits);
            check_message(&dense, NULL, rare);
            check_message(&sparse, positions, rare);
        }
}

/* What says that it is coded, and cannot be. */
static void false_claims_are_refused(void **unused)
{
    gwi_wire_form form = form_of(GWI_WIRE_DENSE, 64, 64, 4);
    gwi_wire_form plain = {.kind = GWI_WIRE_DENSE, .n = 40, .k = 40};
    gwi_wire_form none = form_of(GWI_WIRE_DENSE, 0, 0, 4);
    const gwi_wire_form *forms[] = {&form, &plain, &none};
    size_t len;
    (void)unused;

    for (size_t i = 0; i < 3; i++) {
        uint8_t *msg = wire_message(forms[i], NULL, &len);
        msg[GWI_WIRE_BITS_AT] |= 0x80;
        gwi_wire_seal(msg, len);
        assert_int_equal(gwi_wire_check(msg, len), GW_ERR_DATA);
        free(msg);
    }
}

static int seed(void **state)
{
    (void)state;
    wire_seed();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back),
        cmocka_unit_test(one_symbol_takes_next_to_nothing),
        cmocka_unit_test(length_is_near_the_entropy),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(damage_is_survived),
        cmocka_unit_test(words_are_all_looked_at),
        cmocka_unit_test(garbage_is_survived),
        cmocka_unit_test(messages_come_back),
        cmocka_unit_test(false_claims_are_refused),
    };

    return cmocka_run_group_tests_name("wire entropy", tests, seed, NULL);
}
