/* SPDX-License-Identifier: Apache-2.0
 *
 * test_wire_golden.c - the bytes of today's messages are those checked in.
 *
 * tests/golden/NAME.gwm is a message, NAME.json what it means: the decoder in
 * tests/oracle reads the one and is compared with the other. A change of either
 * is a change of the format. GW_GOLDEN_WRITE=1 writes them anew, and the seeds of
 * the fuzz targets, made of the same messages. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/bf16.h"
#include "kernels/centres.h"
#include "kernels/levels.h"
#include "kernels/signs.h"
#include "wire/wire.h"
#include "wire/wire_bytes.h"

/* The matrix of sparse_columns has COLS columns. */
enum { MAX_K = 400, MAX_LEN = 4096, MAX_TEXT = 1 << 16, COLS = 8 };

typedef struct golden {
    const char *name;
    gwi_wire_form form;
    /* The i-th position of a sparse message. */
    uint32_t (*position)(uint32_t i);
} golden;

static uint32_t few(uint32_t i)
{
    static const uint32_t positions[] = {3, 10, 11, 17, 30, 31, 38, 44, 51, 63};

    return positions[i];
}

static uint32_t neighbours(uint32_t i)
{
    return i;
}

/* Three blocks, of different densities. */
static uint32_t blocks(uint32_t i)
{
    return i < 128   ? 3 * i
           : i < 256 ? 1000 + 100 * i
                     : 60000 + 5000 * (i - 256) + i % 7;
}

/* Clusters of 40 neighbours, far from each other. */
static uint32_t clusters(uint32_t i)
{
    return i / 40 * 1000000 + 17 + i % 40 * 2;
}

static uint32_t far(uint32_t i)
{
    static const uint32_t positions[] = {0, 0x80000000u, UINT32_MAX - 1};

    return positions[i];
}

#define FORM_OF(kind_, coding_, bits_, group_, n_, k_, entropy_)                   \
    {                                                                              \
        GWI_WIRE_##kind_, GWI_WIRE_##coding_, bits_, group_, n_, k_, 7 * (n_) + 1, \
            entropy_                                                               \
    }
#define FORM(kind, coding, bits, group, n, k) \
    FORM_OF(kind, coding, bits, group, n, k, false)
/* Most values are 0, and are coded by how often each occurs. */
#define RARE(kind, coding, bits, group, n, k) \
    FORM_OF(kind, coding, bits, group, n, k, true)

static const golden table[] = {
    {"dense_f32", FORM(DENSE, F32, 0, 0, 5, 5), NULL},
    {"dense_bf16", FORM(DENSE, BF16, 0, 0, 4, 4), NULL},
    {"dense_levels2", FORM(DENSE, LEVELS, 2, 8, 19, 19), NULL},
    {"dense_levels3", FORM(DENSE, LEVELS, 3, 16, 21, 21), NULL},
    {"dense_levels8", FORM(DENSE, LEVELS, 8, 512, 6, 6), NULL},
    {"dense_entropy2", RARE(DENSE, LEVELS, 2, 64, 397, 397), NULL},
    {"dense_entropy3", RARE(DENSE, LEVELS, 3, 512, 395, 395), NULL},
    {"dense_entropy5", RARE(DENSE, LEVELS, 5, 512, 393, 393), NULL},
    {"dense_signs", FORM(DENSE, SIGNS, 1, 8, 19, 19), NULL},
    {"dense_empty", FORM(DENSE, LEVELS, 4, 512, 0, 0), NULL},
    {"dense_sign", FORM(DENSE, CENTRES, 1, 1, 11, 11), NULL},
    {"sparse_f32", FORM(SPARSE, F32, 0, 0, 64, 3), few},
    {"sparse_entropy4", RARE(SPARSE, LEVELS, 4, 64, 500000, 300), blocks},
    {"sparse_bf16", FORM(SPARSE, BF16, 0, 0, 64, 4), few},
    {"sparse_levels4", FORM(SPARSE, LEVELS, 4, 8, 64, 10), few},
    {"sparse_centres1", FORM(SPARSE, CENTRES, 1, 1, 64, 10), few},
    {"sparse_centres2", FORM(SPARSE, CENTRES, 2, 2, 64, 9), few},
    {"sparse_centres4", FORM(SPARSE, CENTRES, 2, 4, 64, 9), few},
    {"sparse_columns", FORM(SPARSE, CENTRES, 1, 6, 64, 10), few},
    {"sparse_empty", FORM(SPARSE, F32, 0, 0, 64, 0), few},
    {"sparse_all", FORM(SPARSE, LEVELS, 2, 64, 130, 130), neighbours},
    {"sparse_blocks", FORM(SPARSE, LEVELS, 2, 512, 500000, 300), blocks},
    {"sparse_clusters", FORM(SPARSE, LEVELS, 2, 512, 25000000, 400), clusters},
    {"sparse_far", FORM(SPARSE, BF16, 0, 0, UINT32_MAX, 3), far},
    {"note", FORM(NOTE, F32, 0, 0, 1000, 0), NULL},
};
enum { GOLDEN = sizeof table / sizeof *table };

/* ---- making them ----------------------------------------------------------- */

static float number(size_t i)
{
    return ((float)(i * 37 % 23) - 11.0f) * 0.375f;
}

static void fill(const gwi_wire_writer *w, bool rare)
{
    unsigned used = (unsigned)((uint64_t)w->form.k * w->form.bits % 8);
    float values[MAX_K];

    for (size_t i = 0; i < w->scale_count; i++)
        gwi_write_f32le(w->scales + 4 * i, 0.1f * (float)(i + 1));
    for (size_t i = 0; i < w->form.k; i++)
        values[i] = number(i);
    if (w->form.coding == GWI_WIRE_F32) {
        gwi_wire_put_f32(w->values, values, w->form.k);
    } else if (w->form.coding == GWI_WIRE_BF16) {
        gwi_bf16_encode(values, w->form.k, w->values);
    }
    if (w->form.kind == GWI_WIRE_NOTE || w->form.bits > 0) {
        for (size_t i = 0; i < w->values_len; i++)
            w->values[i] = (uint8_t)(rare && i % 9 > 0 ? 0 : i * 73 + 0x2e);
        if (used != 0)
            w->values[w->values_len - 1] &= (uint8_t)((1u << used) - 1);
    }
}

static size_t make_message(const golden *g, uint8_t *msg, uint32_t *positions)
{
    uint8_t room[MAX_LEN];
    gwi_wire_writer w;

    assert_int_equal(gwi_wire_begin(&w, &g->form, msg, MAX_LEN), GW_OK);
    fill(&w, g->form.entropy);
    if (g->form.entropy)
        gwi_wire_shorten_values(&w, room);
    assert_int_equal(w.form.entropy, g->form.entropy);
    if (g->form.kind == GWI_WIRE_SPARSE) {
        for (uint32_t i = 0; i < g->form.k; i++)
            positions[i] = g->position(i);
        assert_int_equal(gwi_wire_put_positions(&w, positions), GW_OK);
    }
    gwi_wire_seal(msg, w.len);
    return w.len;
}

/* ---- saying what they mean ------------------------------------------------- */

static void decode_centres(const gwi_wire_view *v, const float *scales,
                           const uint32_t *positions, float *out)
{
    gwi_centres centres = {.bits = v->form.bits, .four = v->scale_count == 4};
    gwi_centres signs = {.bits = 1, .centre = {1, 1}};
    gwi_columns columns = {0, COLS};
    uint32_t slot[COLS];

    if (v->form.bits == 2 || v->scale_count == 1) {
        memcpy(centres.centre, scales, v->scale_count * sizeof *scales);
        gwi_centres_decode(&centres, v->values, v->form.k, out);
        return;
    }
    assert_int_equal(gwi_columns_map(&columns, positions, v->form.k, slot),
                     v->scale_count);
    gwi_centres_decode(&signs, v->values, v->form.k, out);
    for (size_t i = 0; i < v->form.k; i++)
        out[i] *= scales[slot[positions[i] % COLS]];
}

static void decode_values(const gwi_wire_view *v, const uint32_t *positions, float *out)
{
    gwi_levels_format format = {v->form.bits, v->form.group, GWI_NORM_L2};
    float scales[MAX_K] = {0};

    gwi_wire_get_f32(scales, v->scales, v->scale_count);
    switch (v->form.coding) {
    case GWI_WIRE_F32:
        gwi_wire_get_f32(out, v->values, v->form.k);
        break;
    case GWI_WIRE_BF16:
        gwi_bf16_decode(v->values, out, v->form.k);
        break;
    case GWI_WIRE_LEVELS:
        gwi_levels_decode(&format, v->values, scales, out, v->form.k);
        break;
    case GWI_WIRE_CENTRES:
        decode_centres(v, scales, positions, out);
        break;
    case GWI_WIRE_SIGNS:
        gwi_signs_decode(v->values, scales, out, v->form.k, v->form.group);
        break;
    }
}

/* As JSON; floats in hexadecimal, which keeps every bit. */
static void make_text(const uint8_t *msg, size_t len, char *text)
{
    static const char *const kinds[] = {"", "dense", "sparse", "note"};
    static const char *const codings[] = {"f32", "bf16", "levels", "centres", "signs"};
    uint32_t positions[MAX_K] = {0};
    float values[MAX_K];
    uint8_t room[MAX_LEN];
    gwi_wire_view v;
    FILE *out = fmemopen(text, MAX_TEXT, "w");

    assert_non_null(out);
    assert_int_equal(gwi_wire_open(&v, msg, len), GW_OK);
    fprintf(out,
            "{\"kind\": \"%s\", \"coding\": \"%s\", \"bits\": %u, \"group\": %u,\n",
            kinds[v.form.kind], codings[v.form.coding], v.form.bits, v.form.group);
    fprintf(out, " \"n\": %u, \"k\": %u, \"step\": %u,\n \"positions\": [", v.form.n,
            v.form.k, v.form.step);
    if (v.form.kind == GWI_WIRE_SPARSE) {
        assert_int_equal(gwi_wire_get_positions(&v, positions, MAX_K), GW_OK);
        for (uint32_t i = 0; i < v.form.k; i++)
            fprintf(out, "%s%u", i > 0 ? ", " : "", positions[i]);
    }
    fprintf(out, "],\n \"values\": [");
    assert_int_equal(gwi_wire_restore_values(&v, room), GW_OK);
    decode_values(&v, positions, values);
    for (uint32_t i = 0; i < v.form.k; i++)
        fprintf(out, "%s\"%a\"", i > 0 ? ", " : "", (double)values[i]);
    gwi_wire_trouble said = {0, 0};
    if (v.form.kind == GWI_WIRE_NOTE)
        said = gwi_wire_get_note(&v);
    fprintf(out, "], \"note\": [%u, %u]}\n", said.worker, said.tensor);
    assert_true(ftell(out) < MAX_TEXT - 1);
    fclose(out);
}

/* ---- comparing ------------------------------------------------------------- */

/* The folder of the source tree: tests are built from its absolute path. */
static void open_path(FILE **file, const char *mode, const char *folder,
                      const char *name, const char *suffix)
{
    const char *end = strstr(__FILE__, "tests/wire/test_wire_golden.c");
    char path[1024];

    assert_non_null(end);
    snprintf(path, sizeof path, "%.*s%s/%s%s", (int)(end - __FILE__), __FILE__, folder,
             name, suffix);
    *file = fopen(path, mode);
    if (*file == NULL)
        fail_msg("cannot open %s", path);
}

static void write_file(const char *folder, const char *name, const char *suffix,
                       const void *bytes, size_t len)
{
    FILE *file;

    open_path(&file, "wb", folder, name, suffix);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    fclose(file);
}

static void compare_file(const char *name, const char *suffix, const void *bytes,
                         size_t len)
{
    static char stored[MAX_TEXT];
    FILE *file;

    open_path(&file, "rb", "tests/golden", name, suffix);
    size_t got = fread(stored, 1, sizeof stored, file);
    fclose(file);
    if (got != len || memcmp(stored, bytes, len) != 0)
        fail_msg("%s%s is not what is made today; see the top of this file", name,
                 suffix);
}

/* A seed for the positions alone: n, k and the stream. */
static void write_seeds(const golden *g, const uint8_t *msg, size_t len)
{
    uint8_t seed[MAX_LEN];
    gwi_wire_view v;

    write_file("fuzz/corpus/wire", g->name, "", msg, len);
    write_file("fuzz/corpus/values", g->name, "", msg, len);
    assert_int_equal(gwi_wire_open(&v, msg, len), GW_OK);
    if (v.form.entropy) {
        seed[0] = (uint8_t)v.form.bits;
        memcpy(seed + 1, msg + 12, 4);
        memcpy(seed + 5, v.values, v.values_len);
        write_file("fuzz/corpus/entropy", g->name, "", seed, 5 + v.values_len);
    }
    if (g->form.kind != GWI_WIRE_SPARSE)
        return;
    memcpy(seed, msg + 8, 8);
    memcpy(seed + 8, v.positions, v.positions_len);
    write_file("fuzz/corpus/index_decode", g->name, "", seed, 8 + v.positions_len);
    write_file("fuzz/corpus/index_encode", g->name, "", v.positions, v.positions_len);
}

static void messages_are_golden(void **unused)
{
    static char text[MAX_TEXT];
    uint8_t msg[MAX_LEN];
    uint32_t positions[MAX_K];
    (void)unused;

    for (size_t i = 0; i < GOLDEN; i++) {
        const golden *g = &table[i];
        size_t len = make_message(g, msg, positions);

        make_text(msg, len, text);
        if (getenv("GW_GOLDEN_WRITE") != NULL) {
            write_file("tests/golden", g->name, ".gwm", msg, len);
            write_file("tests/golden", g->name, ".json", text, strlen(text));
            write_seeds(g, msg, len);
        }
        compare_file(g->name, ".gwm", msg, len);
        compare_file(g->name, ".json", text, strlen(text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_golden),
    };

    return cmocka_run_group_tests_name("wire golden", tests, NULL, NULL);
}
