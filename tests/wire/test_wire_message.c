/* SPDX-License-Identifier: Apache-2.0
 *
 * test_wire_message.c - messages of every form: what goes in comes out, lengths
 * stay within the bound, and damage is named or harmless. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support_guard.h"
#include "support_wire.h"
#include "wire/wire_bytes.h"

enum { MAX_K = 700 };

/* One of each coding; n, k and step are filled in by those who use them. */
static const gwi_wire_form codings[] = {
    {.coding = GWI_WIRE_F32},
    {.coding = GWI_WIRE_BF16},
    {.coding = GWI_WIRE_LEVELS, .bits = 2, .group = 8},
    {.coding = GWI_WIRE_LEVELS, .bits = 3, .group = 64},
    {.coding = GWI_WIRE_LEVELS, .bits = 4, .group = 512},
    {.coding = GWI_WIRE_LEVELS, .bits = 8, .group = 1 << 30},
    {.coding = GWI_WIRE_CENTRES, .bits = 1, .group = 1},
    {.coding = GWI_WIRE_CENTRES, .bits = 1, .group = 37},
    {.coding = GWI_WIRE_CENTRES, .bits = 2, .group = 2},
    {.coding = GWI_WIRE_CENTRES, .bits = 2, .group = 4},
    {.coding = GWI_WIRE_SIGNS, .bits = 1, .group = 8},
    {.coding = GWI_WIRE_SIGNS, .bits = 1, .group = 512},
};
enum { CODINGS = sizeof codings / sizeof *codings };

static gwi_wire_form form_of(size_t coding, gwi_wire_kind kind, uint32_t n, uint32_t k)
{
    gwi_wire_form form = codings[coding];

    form.kind = kind;
    form.n = n;
    form.k = k;
    form.step = 0x01020304u;
    /* There are no more centres than values. */
    if (form.coding == GWI_WIRE_CENTRES && form.bits == 1 && form.group > k)
        form.group = k > 0 ? k : 1;
    return form;
}

/* ---- round trips ----------------------------------------------------------- */

static void check_form_equal(const gwi_wire_form *a, const gwi_wire_form *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->coding, b->coding);
    assert_int_equal(a->bits, b->bits);
    assert_int_equal(a->group, b->group);
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->k, b->k);
    assert_int_equal(a->step, b->step);
}

/* Writes a message between guard pages in exactly its bound, opens it where it
 * ends at one, and compares every part. */
static void round_trip(const gwi_wire_form *form, const uint32_t *positions)
{
    uint32_t out[MAX_K + 1];
    gwi_wire_writer w;
    gwi_wire_view v;
    guard to, from;
    size_t bound = gwi_wire_bound(form);

    guard_init(&to, bound);
    uint8_t *msg = guard_place(&to, bound, GUARD_END, 0);
    assert_int_equal(gwi_wire_begin(&w, form, msg, bound), GW_OK);
    wire_fill(&w);
    if (form->kind == GWI_WIRE_SPARSE)
        assert_int_equal(gwi_wire_put_positions(&w, positions), GW_OK);
    gwi_wire_seal(msg, w.len);
    assert_true(guard_intact(&to));
    assert_true(w.len + (form->kind == GWI_WIRE_SPARSE && form->k > 0 ? 8 : 0) <=
                bound);

    guard_init(&from, w.len);
    uint8_t *sent = guard_place(&from, w.len, GUARD_END, 0);
    memcpy(sent, msg, w.len);
    assert_int_equal(gwi_wire_check(sent, w.len), GW_OK);
    assert_int_equal(gwi_wire_open(&v, sent, w.len), GW_OK);
    check_form_equal(&v.form, form);
    assert_int_equal(v.scale_count, w.scale_count);
    assert_int_equal(v.values_len, w.values_len);
    assert_memory_equal(v.scales, w.scales, 4 * w.scale_count);
    assert_memory_equal(v.values, w.values, w.values_len);
    if (form->kind == GWI_WIRE_SPARSE) {
        assert_int_equal(gwi_wire_get_positions(&v, out, MAX_K), GW_OK);
        assert_memory_equal(out, positions, 4 * (size_t)form->k);
    }
    guard_fini(&from);
    guard_fini(&to);
}

static void dense_round_trips(void **unused)
{
    static const uint32_t counts[] = {0, 1, 7, 8, 9, 64, 65, 513, 10000};
    (void)unused;

    for (size_t c = 0; c < CODINGS; c++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            gwi_wire_form form = form_of(c, GWI_WIRE_DENSE, counts[i], counts[i]);
            round_trip(&form, NULL);
        }
}

static void notes_round_trip(void **unused)
{
    static const uint32_t words[] = {0, 1, 77, UINT32_MAX};
    enum { WORDS = sizeof words / sizeof *words };
    uint8_t msg[GWI_WIRE_NOTE_LEN];
    gwi_wire_view v;
    (void)unused;

    for (size_t i = 0; i < WORDS; i++) {
        gwi_wire_form form = {.kind = GWI_WIRE_NOTE, .n = words[i], .step = 9};
        gwi_wire_trouble said = {words[i], words[WORDS - 1 - i]};
        assert_int_equal(gwi_wire_bound(&form), GWI_WIRE_NOTE_LEN);
        gwi_wire_put_note(msg, form.n, form.step, said);
        assert_int_equal(gwi_wire_check(msg, sizeof msg), GW_OK);
        assert_int_equal(gwi_wire_open(&v, msg, sizeof msg), GW_OK);
        check_form_equal(&v.form, &form);
        assert_true(gwi_wire_looks_like_note(msg, sizeof msg));
        assert_int_equal(gwi_wire_get_note(&v).worker, said.worker);
        assert_int_equal(gwi_wire_get_note(&v).tensor, said.tensor);
        for (size_t cut = 0; cut < sizeof msg; cut++)
            assert_int_equal(gwi_wire_check(msg, cut), GW_ERR_DATA);
    }
}

static void sparse_round_trips(void **unused)
{
    static const uint32_t pairs[][2] = {
        {0, 0},          {1, 0},          {1, 1},          {2, 1},
        {UINT32_MAX, 0}, {UINT32_MAX, 1}, {UINT32_MAX, 9}, {UINT32_MAX, 700},
        {128, 128},      {129, 129},      {700, 699},      {100000, 257},
    };
    uint32_t positions[MAX_K];
    (void)unused;

    for (size_t c = 0; c < CODINGS; c++)
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
            gwi_wire_form form = form_of(c, GWI_WIRE_SPARSE, pairs[i][0], pairs[i][1]);

            wire_positions(positions, form.k, form.n);
            round_trip(&form, positions);
            if (form.k == 0)
                continue;
            positions[form.k - 1] = form.n - 1;
            round_trip(&form, positions);
        }
}

static void bound_is_demanded(void **unused)
{
    gwi_wire_form form = form_of(4, GWI_WIRE_SPARSE, 1000, 10);
    uint8_t msg[256];
    gwi_wire_writer w;
    (void)unused;

    assert_true(gwi_wire_bound(&form) <= sizeof msg);
    assert_int_equal(gwi_wire_begin(&w, &form, msg, gwi_wire_bound(&form) - 1),
                     GW_ERR_SPACE);
    assert_int_equal(gwi_wire_begin(&w, &form, msg, gwi_wire_bound(&form)), GW_OK);
}

/* A quantized entry of a sparse message takes 0.26 of the 64 bits that a position
 * and a float would, header and norms included. */
static void sparse_message_is_small(void **unused)
{
    const uint32_t n = 25000000;
    uint32_t *positions = malloc(4 * 30000);
    size_t len;
    (void)unused;

    assert_non_null(positions);
    gwi_wire_form form = form_of(4, GWI_WIRE_SPARSE, n, 0);
    form.k = wire_bernoulli(positions, 30000, n, 1e-3);
    free(wire_message(&form, positions, &len));
    double ratio = (double)len / (8.0 * form.k);
    printf("n=%u k=%u, 4 bits: %zu bytes, %.4f of 8 per entry\n", n, form.k, len,
           ratio);
    assert_true(ratio <= 0.26);
    free(positions);
}

/* ---- what is refused ------------------------------------------------------- */

static void impossible_forms_are_refused(void **unused)
{
    static const gwi_wire_form forms[] = {
        {.kind = GWI_WIRE_DENSE, .n = 5, .k = 4},
        {.kind = GWI_WIRE_SPARSE, .n = 5, .k = 6},
        {.kind = GWI_WIRE_NOTE, .n = 5, .k = 5},
        {.kind = GWI_WIRE_NOTE, .coding = GWI_WIRE_BF16, .n = 5},
        {.kind = GWI_WIRE_DENSE, .bits = 1},
        {.kind = GWI_WIRE_DENSE, .group = 1},
        {.kind = GWI_WIRE_DENSE, .coding = GWI_WIRE_LEVELS, .bits = 1, .group = 8},
        {.kind = GWI_WIRE_DENSE, .coding = GWI_WIRE_LEVELS, .bits = 9, .group = 8},
        {.kind = GWI_WIRE_DENSE, .coding = GWI_WIRE_SIGNS, .bits = 2, .group = 8},
        {.kind = GWI_WIRE_DENSE, .coding = GWI_WIRE_SIGNS, .bits = 1, .group = 4},
        {.kind = GWI_WIRE_DENSE, .coding = GWI_WIRE_LEVELS, .bits = 4, .group = 0},
        {.kind = GWI_WIRE_DENSE, .coding = GWI_WIRE_LEVELS, .bits = 4, .group = 12},
        {.kind = GWI_WIRE_DENSE,
         .coding = GWI_WIRE_LEVELS,
         .bits = 4,
         .group = 0x80000000u},
        {.kind = GWI_WIRE_DENSE, .coding = GWI_WIRE_CENTRES, .bits = 0, .group = 1},
        {.kind = GWI_WIRE_DENSE, .coding = GWI_WIRE_CENTRES, .bits = 3, .group = 1},
        {.kind = GWI_WIRE_DENSE, .coding = GWI_WIRE_CENTRES, .bits = 2, .group = 1},
        {.kind = GWI_WIRE_DENSE, .coding = GWI_WIRE_CENTRES, .bits = 2, .group = 3},
        {.kind = GWI_WIRE_DENSE, .coding = GWI_WIRE_CENTRES, .bits = 2, .group = 5},
        {.kind = GWI_WIRE_DENSE, .coding = GWI_WIRE_CENTRES, .bits = 1, .group = 4},
        {.kind = GWI_WIRE_DENSE, .coding = GWI_WIRE_CENTRES, .bits = 1, .group = 2},
        {GWI_WIRE_DENSE, GWI_WIRE_CENTRES, 1, 0, 5, 5, 0, false},
        {GWI_WIRE_DENSE, GWI_WIRE_CENTRES, 1, 6, 5, 5, 0, false},
        {.kind = GWI_WIRE_DENSE, .coding = (gwi_wire_coding)4},
        {.kind = (gwi_wire_kind)0},
        {.kind = (gwi_wire_kind)4},
    };
    uint8_t msg[64];
    gwi_wire_writer w;
    (void)unused;

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        assert_int_equal(gwi_wire_bound(&forms[i]), 0);
        assert_int_equal(gwi_wire_begin(&w, &forms[i], msg, sizeof msg), GW_ERR_ARG);
    }
}

/* Changes a byte of a good message, seals it again, and checks what is said. */
static void expect_refused(const uint8_t *msg, size_t len, size_t at, uint8_t value,
                           const char *words)
{
    uint8_t bad[64];

    assert_true(len <= sizeof bad && at < len);
    memcpy(bad, msg, len);
    bad[at] = value;
    assert_int_equal(gwi_wire_check(bad, len), GW_ERR_DATA);
    gwi_wire_seal(bad, len);
    assert_int_equal(gwi_wire_check(bad, len), GW_ERR_DATA);
    if (strstr(gw_error_message(), words) == NULL)
        fail_msg("'%s' does not say '%s'", gw_error_message(), words);
}

static void damage_is_named(void **unused)
{
    gwi_wire_form form = form_of(3, GWI_WIRE_SPARSE, 1000, 5);
    uint32_t positions[] = {1, 2, 30, 500, 999};
    size_t len;
    (void)unused;

    uint8_t *msg = wire_message(&form, positions, &len);
    expect_refused(msg, len, 0, 0x51, "begins with 0x51");
    expect_refused(msg, len, 0, 0xd1, "version 1");
    expect_refused(msg, len, 1, 9, "kind 9");
    expect_refused(msg, len, 1, GWI_WIRE_DENSE, "dense message of n=1000 has 5");
    expect_refused(msg, len, 2, 9, "coding 9");
    expect_refused(msg, len, 3, 9, "levels of 9 bits");
    expect_refused(msg, len, 8, 0, "not below n=768");
    expect_refused(msg, len, 12, 200, "expected at least");
    expect_refused(msg, len, 13, 200, "sparse message of n=1000 has 51205");
    expect_refused(msg, len, 20, 65, "bucket of 65");
    expect_refused(msg, len, 27, 0x80, "scale of bucket 0");
    expect_refused(msg, len, 27, 0xff, "scale of bucket 0");
    expect_refused(msg, len, 29, 0xff, "bits after the last value");
    gwi_write_u32le(msg + 24, 0x7f800000);
    expect_refused(msg, len, 4, 0, "scale of bucket 0 is 0x7f800000");
    gwi_write_u32le(msg + 24, 0x7f7fffff);
    gwi_wire_seal(msg, len);
    assert_int_equal(gwi_wire_check(msg, len), GW_OK);
    expect_refused(msg, len, len - 1, 0xff, "after the last position");
    free(msg);
}

/* Anything may have happened to msg: it is refused, or all it says is in order. */
static void check_any(const uint8_t *msg, size_t len)
{
    uint32_t out[MAX_K];
    char text[256];
    gwi_wire_view v;
    gw_status st = gwi_wire_open(&v, msg, len);

    assert_true(st == GW_OK || st == GW_ERR_DATA);
    gwi_wire_describe(msg, len, text, sizeof text);
    assert_true(strlen(text) > 10);
    if (st != GW_OK)
        return;
    assert_true(v.scales >= msg + GWI_WIRE_HEADER_LEN);
    assert_ptr_equal(v.values, v.scales + 4 * v.scale_count);
    assert_ptr_equal(v.positions, v.values + v.values_len);
    assert_ptr_equal(msg + len, v.positions + v.positions_len);
    if (v.form.kind != GWI_WIRE_SPARSE)
        return;
    st = gwi_wire_get_positions(&v, out, MAX_K);
    assert_true(st == GW_OK || st == GW_ERR_DATA);
    for (uint32_t i = 0; st == GW_OK && i < v.form.k; i++)
        assert_true(out[i] < v.form.n && (i == 0 || out[i - 1] < out[i]));
}

/* Every truncation, an appended byte and every flipped bit are errors; if somebody
 * seals what is damaged, it is harmless. */
static void damage_one(const gwi_wire_form *form, const uint32_t *positions)
{
    size_t len;
    uint8_t *msg = wire_message(form, positions, &len);

    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *part = malloc(cut > 0 ? cut : 1);

        assert_non_null(part);
        memcpy(part, msg, cut);
        assert_int_equal(gwi_wire_check(part, cut), GW_ERR_DATA);
        check_any(part, cut);
        free(part);
    }
    for (size_t bit = 0; bit < 8 * len; bit++) {
        msg[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(gwi_wire_check(msg, len), GW_ERR_DATA);
        gwi_wire_seal(msg, len);
        check_any(msg, len);
        msg[bit / 8] ^= (uint8_t)(1u << bit % 8);
        gwi_wire_seal(msg, len);
    }
    uint8_t *longer = malloc(len + 1);
    assert_non_null(longer);
    memcpy(longer, msg, len);
    longer[len] = 0;
    assert_int_equal(gwi_wire_check(longer, len + 1), GW_ERR_DATA);
    free(longer);
    free(msg);
}

static void damage_is_survived(void **unused)
{
    uint32_t positions[150];
    (void)unused;

    for (size_t c = 0; c < CODINGS; c++) {
        gwi_wire_form dense = form_of(c, GWI_WIRE_DENSE, 21, 21);
        gwi_wire_form sparse = form_of(c, GWI_WIRE_SPARSE, 3000, 150);

        damage_one(&dense, NULL);
        wire_positions(positions, 150, 3000);
        damage_one(&sparse, positions);
        sparse = form_of(c, GWI_WIRE_SPARSE, 3000, 1);
        damage_one(&sparse, positions);
        sparse = form_of(c, GWI_WIRE_SPARSE, 3000, 0);
        damage_one(&sparse, positions);
    }
}

static void garbage_is_survived(void **unused)
{
    uint8_t junk[200];
    (void)unused;

    for (int trial = 0; trial < 20000; trial++) {
        size_t len = wire_below(sizeof junk);

        for (size_t i = 0; i < len; i++)
            junk[i] = (uint8_t)wire_random();
        /* Three times in four the header is plausible, so that the rest is read. */
        if (len >= GWI_WIRE_HEADER_LEN && trial % 4 != 0) {
            gwi_wire_form form = form_of(wire_below(CODINGS), GWI_WIRE_DENSE, 0, 0);

            junk[0] = 0xd2;
            junk[1] = (uint8_t)(1 + wire_below(3));
            junk[2] = (uint8_t)form.coding;
            junk[3] = (uint8_t)form.bits;
            gwi_write_u32le(junk + 12, (uint32_t)wire_below(len));
            if (len >= GWI_WIRE_HEADER_LEN + 4 && form.group != 0)
                gwi_write_u32le(junk + GWI_WIRE_HEADER_LEN, form.group);
            gwi_wire_seal(junk, len);
        }
        check_any(junk, len);
    }
}

/* ---- the rest -------------------------------------------------------------- */

static void the_unexpected_is_named(void **unused)
{
    gwi_wire_form form = form_of(4, GWI_WIRE_SPARSE, 1000, 2), want;
    uint32_t positions[] = {4, 5};
    gwi_wire_view v;
    size_t len;
    (void)unused;

    uint8_t *msg = wire_message(&form, positions, &len);
    assert_int_equal(gwi_wire_open(&v, msg, len), GW_OK);
    assert_int_equal(gwi_wire_expect(&v, &form), GW_OK);
    want = form, want.k = 3;
    assert_int_equal(gwi_wire_expect(&v, &want), GW_OK);
    want = form, want.k = 1;
    assert_int_equal(gwi_wire_expect(&v, &want), GW_ERR_DATA);
    want = form, want.kind = GWI_WIRE_DENSE;
    assert_int_equal(gwi_wire_expect(&v, &want), GW_ERR_DATA);
    want = form, want.n = 1001;
    assert_int_equal(gwi_wire_expect(&v, &want), GW_ERR_DATA);
    want = form, want.bits = 5;
    assert_int_equal(gwi_wire_expect(&v, &want), GW_ERR_DATA);
    want = form, want.group = 8;
    assert_int_equal(gwi_wire_expect(&v, &want), GW_ERR_DATA);
    want = form, want.coding = GWI_WIRE_F32;
    assert_int_equal(gwi_wire_expect(&v, &want), GW_ERR_DATA);
    want = form, want.step++;
    assert_int_equal(gwi_wire_expect(&v, &want), GW_ERR_DATA);
    assert_non_null(
        strstr(gw_error_message(), "step 16909060, expected step 16909061"));
    free(msg);
}

static void room_is_checked(void **unused)
{
    gwi_wire_form form = form_of(0, GWI_WIRE_SPARSE, 10, 3);
    uint32_t positions[] = {4, 5, 6}, out[3];
    gwi_wire_view v;
    size_t len;
    (void)unused;

    uint8_t *msg = wire_message(&form, positions, &len);
    assert_int_equal(gwi_wire_open(&v, msg, len), GW_OK);
    assert_int_equal(gwi_wire_get_positions(&v, out, 2), GW_ERR_DATA);
    assert_int_equal(gwi_wire_get_positions(&v, out, 3), GW_OK);
    assert_memory_equal(out, positions, sizeof out);
    free(msg);
}

static void described(void **unused)
{
    gwi_wire_form form = form_of(3, GWI_WIRE_SPARSE, 1000, 2);
    uint32_t positions[] = {4, 5};
    char text[200], few[8];
    size_t len;
    (void)unused;

    uint8_t *msg = wire_message(&form, positions, &len);
    assert_string_equal(gwi_wire_describe(msg, len, text, sizeof text),
                        "sparse levels bits=3 bucket=64 n=1000 k=2 step=16909060: 31 "
                        "bytes (scales 4, values 1, positions 2)");
    assert_string_equal(gwi_wire_describe(msg, len, few, sizeof few), "sparse ");
    assert_string_equal(gwi_wire_describe(msg, 3, text, sizeof text),
                        "malformed, 3 bytes: message of 3 bytes is shorter than its "
                        "header of 20");
    free(msg);
}

static void floats_are_little_endian(void **unused)
{
    static const uint8_t bytes[] = {0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x20, 0xc1};
    float x[2] = {0, 0};
    uint8_t back[8];
    (void)unused;

    gwi_wire_get_f32(x, bytes, 2);
    assert_true(x[0] == 1.0f && x[1] == -10.0f);
    gwi_wire_put_f32(back, x, 2);
    assert_memory_equal(back, bytes, sizeof bytes);
}

static void nothing_is_allocated(void **unused)
{
    size_t before = gwi_alloc_count();
    (void)unused;

    sparse_round_trips(NULL);
    assert_int_equal(gwi_alloc_count(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_round_trips),
        cmocka_unit_test(notes_round_trip),
        cmocka_unit_test(sparse_round_trips),
        cmocka_unit_test(bound_is_demanded),
        cmocka_unit_test(sparse_message_is_small),
        cmocka_unit_test(impossible_forms_are_refused),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(damage_is_survived),
        cmocka_unit_test(garbage_is_survived),
        cmocka_unit_test(the_unexpected_is_named),
        cmocka_unit_test(room_is_checked),
        cmocka_unit_test(described),
        cmocka_unit_test(floats_are_little_endian),
        cmocka_unit_test(nothing_is_allocated),
    };

    wire_seed();
    return cmocka_run_group_tests_name("wire messages", tests, NULL, NULL);
}
