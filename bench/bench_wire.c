/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_wire.c - how long messages are and how fast they are written and read.
 *
 * A set of k positions out of n cannot take less than log2(n choose k) bits on
 * average if all sets are equally likely; those that a training chooses are not. */
#include "bench.h"
#include "lab.h"
#include "plan/heavy_gradient.h"

#include "kernels/centres.h"
#include "kernels/levels.h"
#include "kernels/random.h"
#include "kernels/vector.h"
#include "wire/wire.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

enum { BITS = 4, TILE_BITS = 2, PLAIN_BITS = 64, WARM_STEPS = 100, WARM_QUICK = 3 };

static const double densities[] = {1e-4, 1e-3, 1e-2, 1e-1};
static const double message_density = 1e-3;
static const double index_target = 1.03, message_target = 0.26;

/* Of encoding positions: 300 million in the time in which 430 are decoded. */
static const double encode_target = 430.0 / 300;

/* Positions, and room to write and read them. */
typedef struct desk {
    uint32_t n, k;
    double density;
    const char *label;
    uint32_t *positions, *back; /* k each */
    float *values, *values_back;
    uint8_t *bytes; /* cap of them */
    size_t cap, len;
    gw_status status; /* the first that was not OK */
} desk;

/* ---- what is timed ------------------------------------------------------------- */

static void note(desk *d, gw_status st)
{
    if (d->status == GW_OK)
        d->status = st;
}

static void index_encode(void *arg)
{
    desk *d = arg;

    note(d, gwi_index_encode(d->positions, d->k, d->n, d->bytes, &d->len));
}

static void index_decode(void *arg)
{
    desk *d = arg;
    gwi_index_reader reader;
    size_t count = 1;
    gw_status st = GW_OK;

    gwi_index_start(&reader, d->bytes, d->len, d->n, d->k);
    for (uint32_t *at = d->back; st == GW_OK && count > 0; at += count)
        st = gwi_index_next(&reader, at, &count);
    note(d, st);
}

/* What a message is compared with: positions and values as they are in memory. */
static void copy(void *arg)
{
    desk *d = arg;

    memcpy(d->back, d->positions, d->k * sizeof *d->back);
    memcpy(d->values_back, d->values, d->k * sizeof *d->values);
}

static gwi_wire_form form_of(const desk *d)
{
    return (gwi_wire_form){.kind = GWI_WIRE_SPARSE,
                           .coding = GWI_WIRE_LEVELS,
                           .bits = BITS,
                           .group = GWI_LEVELS_BUCKET,
                           .n = d->n,
                           .k = d->k};
}

static const gwi_levels_format levels = {BITS, GWI_LEVELS_BUCKET, GWI_NORM_L2};

/* The norms pass through values_back, which has room for them. */
static void message_write(void *arg)
{
    desk *d = arg;
    gwi_wire_form form = form_of(d);
    gwi_wire_writer w;
    gw_status st = gwi_wire_begin(&w, &form, d->bytes, d->cap);

    if (st == GW_OK) {
        gwi_levels_encode(&levels, d->values, d->k, 1, 0, w.values, d->values_back);
        gwi_wire_put_f32(w.scales, d->values_back, w.scale_count);
        st = gwi_wire_put_positions(&w, d->positions);
        d->len = w.len;
        gwi_wire_seal(d->bytes, d->len);
    }
    note(d, st);
}

static void message_read(void *arg)
{
    desk *d = arg;
    float norms[GWI_LEVELS_BUCKET];
    gwi_wire_view v;
    gw_status st = gwi_wire_open(&v, d->bytes, d->len);

    if (st == GW_OK)
        st = gwi_wire_get_positions(&v, d->back, d->k);
    for (size_t at = 0; st == GW_OK && at < v.scale_count; at += GWI_LEVELS_BUCKET) {
        size_t left = v.scale_count - at, first = at * GWI_LEVELS_BUCKET;
        size_t some = left < GWI_LEVELS_BUCKET ? left : GWI_LEVELS_BUCKET;
        size_t floats = some * GWI_LEVELS_BUCKET;
        gwi_wire_get_f32(norms, v.scales + 4 * at, some);
        gwi_levels_decode(&levels, v.values + first * BITS / 8, norms,
                          d->values_back + first,
                          d->k - first < floats ? d->k - first : floats);
    }
    note(d, st);
}

/* ---- rows ---------------------------------------------------------------------- */

/* log2(n choose k). */
static double entropy_bits(double n, double k)
{
    return (lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)) / log(2.0);
}

static gwb_row row_of(const desk *d, const char *what, unsigned bits)
{
    gwb_row row = gwb_row_new("wire", d->n, "%s, %s", what, d->label);

    row.density = d->density;
    row.bits = bits;
    return row;
}

static void size_row(gwb_sheet *sheet, const desk *d, const char *what, unsigned bits,
                     const char *limit, double limit_bits, double target)
{
    gwb_row row = row_of(d, what, bits);

    row.rate = 8.0 * (double)d->len / d->k;
    row.unit = "bit/entry";
    row.limit = limit;
    row.ratio = 8.0 * (double)d->len / limit_bits;
    row.target = target;
    gwb_sheet_add(sheet, &row);
}

/* The speed of run beside that of limit. */
static void race_row(gwb_sheet *sheet, desk *d, gwb_row row, void (*run)(void *),
                     void (*limit)(void *))
{
    gwb_contender a = {NULL, run, d, 0}, b = {NULL, limit, d, 0};

    if (!gwb_wanted(sheet, row.name))
        return;
    gwb_race_result result = gwb_race(sheet->set, &a, &b);
    gwb_row_race(&row, &result, 0.0);
    row.rate = 1e-6 * d->k / row.seconds;
    row.unit = "M/s";
    gwb_sheet_add(sheet, &row);
}

static void speed_row(gwb_sheet *sheet, desk *d, const char *what, unsigned bits,
                      void (*run)(void *))
{
    gwb_row row = row_of(d, what, bits);

    row.limit = "copying the entries";
    race_row(sheet, d, row, run, copy);
}

static void encode_row(gwb_sheet *sheet, desk *d)
{
    gwb_row row = row_of(d, "index encode", 0);

    row.limit = "decoding them";
    row.target = encode_target;
    race_row(sheet, d, row, index_encode, index_decode);
}

static gw_status check(desk *d, const char *what)
{
    if (d->status == GW_OK &&
        memcmp(d->back, d->positions, d->k * sizeof *d->back) != 0)
        return gw_fail(GW_ERR_DATA, "%s: the decoder did not return what was encoded",
                       what);
    return d->status;
}

static gw_status index_rows(gwb_sheet *sheet, desk *d)
{
    index_encode(d);
    index_decode(d);
    GWI_TRY(check(d, "the index coder"));
    size_row(sheet, d, "index size", 0, "log2(n choose k)", entropy_bits(d->n, d->k),
             index_target);
    encode_row(sheet, d);
    speed_row(sheet, d, "index decode", 0, index_decode);
    return d->status;
}

static gw_status message_rows(gwb_sheet *sheet, desk *d)
{
    message_write(d);
    message_read(d);
    GWI_TRY(check(d, "a message"));
    size_row(sheet, d, "message size", BITS, "64 bits per entry",
             (double)PLAIN_BITS * d->k, message_target);
    speed_row(sheet, d, "message write", BITS, message_write);
    speed_row(sheet, d, "message read", BITS, message_read);
    return d->status;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Rows for k positions below n and their values; the index alone, and for one
 * density the whole message. */
static gw_status rows(gwb_sheet *sheet, desk *d)
{
    gwi_wire_form form = form_of(d);
    gw_status st;

    d->cap = larger(gwi_wire_bound(&form), (size_t)gwi_index_bound(d->n, d->k));
    d->bytes = gwi_calloc(d->cap, 1);
    d->back = gwi_calloc(d->k, sizeof *d->back);
    d->values_back = gwi_calloc(d->k, sizeof *d->values_back);
    if (d->bytes == NULL || d->back == NULL || d->values_back == NULL)
        st = gw_fail(GW_ERR_NOMEM, "no memory for %u positions", (unsigned)d->k);
    else
        st = index_rows(sheet, d);
    if (st == GW_OK && d->density == message_density)
        st = message_rows(sheet, d);
    gwi_free(d->bytes);
    gwi_free(d->back);
    gwi_free(d->values_back);
    return st;
}

/* ---- values coded once more ---------------------------------------------------- */

/* The levels of a gradient, and room to code them and restore them. */
typedef struct shelf {
    gwi_levels_format format;
    gwb_lab *lab;
    size_t n, len, coded_len;
    uint8_t *packed, *room, *coded, *back; /* packed: of the lab */
    gw_status status;
} shelf;

static void values_encode(void *arg)
{
    shelf *s = arg;

    s->coded_len = gwi_entropy_encode(s->packed, s->n, s->format.bits, s->room);
    if (s->coded_len > 0)
        gwi_entropy_store(s->room, s->n, s->format.bits, s->coded);
}

static void values_decode(void *arg)
{
    shelf *s = arg;
    gw_status st = gwi_entropy_decode(s->coded, s->n, s->format.bits, s->back);

    if (s->status == GW_OK)
        s->status = st;
}

/* What they are compared with: rounding to the levels, and back to floats. */
static void levels_encode(void *arg)
{
    shelf *s = arg;

    gwi_levels_encode(&s->format, gwb_lab_gradient(s->lab, 0), s->n, 1, 0, s->packed,
                      s->lab->norms);
}

static void levels_decode(void *arg)
{
    shelf *s = arg;

    gwi_levels_decode(&s->format, s->packed, s->lab->norms, s->lab->limit_r, s->n);
}

/* "values size, l2 norms, fnn3 gradients, tiled". */
static gwb_row values_row(const shelf *s, const char *what, const char *label)
{
    gwb_row row = gwb_row_new("wire", s->n, "values %s, %s norms, %s", what,
                              s->format.norm == GWI_NORM_L2 ? "l2" : "max", label);

    row.bits = s->format.bits;
    return row;
}

static void values_speed(gwb_sheet *sheet, shelf *s, const char *what,
                         void (*run)(void *), const char *limit, void (*levels)(void *))
{
    gwb_contender a = {NULL, run, s, 0}, b = {NULL, levels, s, 0};
    gwb_row row = values_row(s, what, s->lab->label);

    if (!gwb_wanted(sheet, row.name))
        return;
    gwb_race_result result = gwb_race(sheet->set, &a, &b);
    gwb_row_race(&row, &result, 0.0);
    row.rate = 1e-6 * (double)s->n / row.seconds;
    row.unit = "M/s";
    row.limit = limit;
    gwb_sheet_add(sheet, &row);
}

static gw_status values_rows(gwb_sheet *sheet, gwb_lab *lab, shelf *s)
{
    gwb_row row = values_row(s, "size", lab->label);

    levels_encode(s);
    values_encode(s);
    if (s->coded_len == 0)
        return gw_fail(GW_ERR_DATA, "the levels of %s do not become shorter",
                       lab->label);
    values_decode(s);
    if (s->status == GW_OK && memcmp(s->back, s->packed, s->len) != 0)
        return gw_fail(GW_ERR_DATA, "the values did not come back");
    row.rate = 8.0 * (double)s->coded_len / (double)s->n;
    row.unit = "bit/entry";
    row.limit = "the levels as they are";
    row.ratio = (double)s->coded_len / (double)s->len;
    gwb_sheet_add(sheet, &row);
    values_speed(sheet, s, "encode", values_encode, "rounding to levels",
                 levels_encode);
    values_speed(sheet, s, "decode", values_decode, "levels to floats", levels_decode);
    return s->status;
}

/* The levels of one gradient with so many bits. */
static gw_status values_of(gwb_sheet *sheet, gwb_lab *lab, unsigned bits,
                           gwi_levels_norm norm)
{
    shelf s = {.format = {bits, GWI_LEVELS_BUCKET, norm}, .lab = lab, .n = lab->n};
    gw_status st = GW_OK;

    s.packed = lab->packed;
    s.len = gwi_levels_packed_len(&s.format, s.n);
    s.room = gwi_calloc(gwi_entropy_room(s.n, bits), 1);
    s.coded = gwi_calloc(s.len, 1);
    s.back = gwi_calloc(s.len, 1);
    if (s.room == NULL || s.coded == NULL || s.back == NULL)
        st = gw_fail(GW_ERR_NOMEM, "no memory for %zu levels", s.n);
    if (st == GW_OK)
        st = values_rows(sheet, lab, &s);
    gwi_free(s.room);
    gwi_free(s.coded);
    gwi_free(s.back);
    return st;
}

static gw_status all_values(gwb_sheet *sheet, gwb_lab *lab)
{
    static const gwi_levels_norm norms[] = {GWI_NORM_L2, GWI_NORM_MAX};
    static const unsigned bits[] = {2, 3, 4, 8};

    for (size_t i = 0; i < COUNT(norms); i++)
        for (size_t j = 0; j < COUNT(bits); j++)
            GWI_TRY(values_of(sheet, lab, bits[j], norms[i]));
    return GW_OK;
}

/* ---- positions ----------------------------------------------------------------- */

static const char *const random_label = "random positions";

/* A random set of exactly k of n: goes through all and takes each with the chance
 * that leaves the right number for the rest. */
static void random_positions(uint32_t *positions, uint32_t n, uint32_t k)
{
    uint64_t key = gwi_random_key(3, 0, 0);
    uint32_t have = 0;

    for (uint32_t i = 0; have < k; i++)
        if ((gwi_random64(key, i) >> 32) * (uint64_t)(n - i) < (uint64_t)(k - have)
                                                                   << 32)
            positions[have++] = i;
}

static gw_status random_rows(gwb_sheet *sheet, double density)
{
    uint32_t n = (uint32_t)sheet->set->n, k = (uint32_t)gwb_chosen(n, density);
    desk d = {.n = n, .k = k, .density = density, .label = random_label};
    gw_status st;

    d.positions = gwi_calloc(k, sizeof *d.positions);
    d.values = gwi_calloc(k, sizeof *d.values);
    if (d.positions == NULL || d.values == NULL) {
        st = gw_fail(GW_ERR_NOMEM, "no memory for %u positions", (unsigned)k);
    } else {
        random_positions(d.positions, n, k);
        gwc_heavy_gradient(d.values, k);
        st = rows(sheet, &d);
    }
    gwi_free(d.positions);
    gwi_free(d.values);
    return st;
}

/* The positions that top-k chooses in training, after some steps. */
static gw_status chosen_rows(gwb_sheet *sheet, gwb_lab *lab, double density)
{
    gwb_lab_warm(lab, density, sheet->set->quick ? WARM_QUICK : WARM_STEPS);
    desk d = {.n = (uint32_t)lab->n,
              .k = (uint32_t)lab->list.n,
              .density = density,
              .label = lab->label,
              .positions = lab->list.index,
              .values = lab->list.value};
    return rows(sheet, &d);
}

/* Whether any of the rows with that label is asked for. */
static int any_wanted(const gwb_sheet *sheet, const char *label)
{
    static const char *const what[] = {"index size",
                                       "index encode",
                                       "index decode",
                                       "message size",
                                       "message write",
                                       "message read",
                                       "values size, l2 norms",
                                       "values encode, l2 norms",
                                       "values decode, l2 norms",
                                       "values size, max norms",
                                       "values encode, max norms",
                                       "values decode, max norms"};
    char name[GWB_TEXT_CAP];

    for (size_t i = 0; i < COUNT(what); i++) {
        snprintf(name, sizeof name, "%s, %s", what[i], label);
        if (gwb_wanted(sheet, name))
            return 1;
    }
    return 0;
}

static gw_status lab_rows(gwb_sheet *sheet, gwb_origin origin, const char *label)
{
    gwb_lab *lab;
    gw_status st = GW_OK;

    if (!any_wanted(sheet, label))
        return GW_OK;
    GWI_TRY(gwb_lab_new(&lab, origin, (size_t)sheet->set->n));
    for (size_t i = 1; st == GW_OK && i < COUNT(densities); i++)
        st = chosen_rows(sheet, lab, densities[i]);
    if (st == GW_OK)
        st = all_values(sheet, lab);
    gwb_lab_free(lab);
    return st;
}

/* ---- SparseLoCo's setting ------------------------------------------------------ */

static const char *const tiles_label = "64 of each tile of 4096, 2 bits";

static void tiles_write(desk *d)
{
    gwi_wire_form form = {.kind = GWI_WIRE_SPARSE,
                          .coding = GWI_WIRE_CENTRES,
                          .bits = TILE_BITS,
                          .group = TILE_BITS,
                          .n = d->n,
                          .k = d->k};
    gwi_centres c = gwi_centres_fit(GWI_CENTRE_TWO_BEST, d->values, d->k, 0, 0);
    gwi_wire_writer w;
    gw_status st = gwi_wire_begin(&w, &form, d->bytes, d->cap);

    if (st == GW_OK) {
        gwi_centres_encode(&c, d->values, d->k, w.values);
        gwi_wire_put_f32(w.scales, c.centre, w.scale_count);
        st = gwi_wire_put_positions(&w, d->positions);
        d->len = w.len;
        gwi_wire_seal(d->bytes, d->len);
    }
    note(d, st);
}

/* Its authors' code sends 12 bits of a position and 8 of a value; they count 2 of the
 * 8. */
static gw_status tiles_rows(gwb_sheet *sheet, gwb_lab *lab)
{
    desk d = {.n = (uint32_t)lab->n, .density = 1.0 / 64, .label = tiles_label};

    for (unsigned i = 0; i < (sheet->set->quick ? WARM_QUICK : WARM_STEPS); i++) {
        gwi_scale(lab->r, 0.95f, lab->n);
        gwb_lab_tiles(lab, d.density, i);
    }
    d.k = (uint32_t)lab->list.n;
    d.positions = lab->list.index;
    d.values = lab->list.value;
    d.cap = 8 * (size_t)d.k + 1024;
    d.bytes = gwi_calloc(d.cap, 1);
    if (d.bytes == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for %u positions", (unsigned)d.k);
    tiles_write(&d);
    if (d.status == GW_OK) {
        size_row(sheet, &d, "message size", TILE_BITS, "20 bits, its code", 20.0 * d.k,
                 10.0 / 20);
        size_row(sheet, &d, "message size", TILE_BITS, "14 bits, as published",
                 14.0 * d.k, 10.0 / 14);
    }
    gwi_free(d.bytes);
    return d.status;
}

static gw_status tiles(gwb_sheet *sheet)
{
    gwb_lab *lab;
    gw_status st;

    if (!any_wanted(sheet, tiles_label))
        return GW_OK;
    GWI_TRY(gwb_lab_new(&lab, GWB_MADE_UP, (size_t)sheet->set->n));
    gwb_lab_warm(lab, 1.0 / 64, 0);
    st = tiles_rows(sheet, lab);
    gwb_lab_free(lab);
    return st;
}

static gw_status run(gwb_sheet *sheet)
{
    for (size_t i = 0; i < COUNT(densities); i++)
        if (any_wanted(sheet, random_label))
            GWI_TRY(random_rows(sheet, densities[i]));
    GWI_TRY(lab_rows(sheet, GWB_FNN3_TILED, "fnn3 gradients, tiled, made-up data"));
    GWI_TRY(lab_rows(sheet, GWB_FNN3, "fnn3 gradients, made-up data"));
    return tiles(sheet);
}

const gwb_group gwb_group_wire = {
    .name = "wire",
    .summary = "length and speed of messages, against their entropy",
    .by_default = 1,
    .run = run,
};
