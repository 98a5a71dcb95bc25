/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_kernels.c - the loops over n floats against what memory allows: one pass
 * that reads, one that reads and writes, or r += g.
 *
 * Selection is measured as it happens in training: the residual is carried from
 * step to step, every step brings another gradient, and the guess at the threshold
 * is the one that the last step left. */
#include "bench.h"
#include "lab.h"

#include "kernels/centres.h"
#include "kernels/cpu.h"
#include "kernels/kernels.h"
#include "kernels/signs.h"
#include "wire/index_coder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

enum {
    SMALL_FLOATS = 1000000,  /* n of a second row where size matters */
    NET_FLOATS = 199210,     /* parameters of FNN-3 */
    LARGE_FLOATS = 10000000, /* targets are for vectors beyond every cache */
    WARM_STEPS = 100,        /* of selection before it is timed */
    WARM_QUICK = 3
};

typedef struct kernel kernel;

/* One side of a race. */
typedef struct arm {
    gwb_lab *lab;
    const kernel *kernel;
    const gwi_kernels *with; /* the instruction set */
    unsigned step;
} arm;

/* Which vectors a kernel is measured on. */
enum { ON_N = 1, ON_SMALL = 2, ON_FNN3 = 4, ON_TILED = 8 };

typedef enum pass { READ, READ_WRITE, ADD, PRODUCTS } pass;

struct kernel {
    const char *name;
    double density; /* of a selection, or NaN */
    unsigned bits;
    unsigned on;
    pass limit;
    double bytes; /* per float, that the kernel must move */
    double target, small_target;
    void (*prepare)(arm *a); /* once; may be NULL */
    void (*run)(arm *a);
};

/* What is read must be used, or the compiler drops the reading. */
static volatile double sink;

static const float *gradient(const arm *a)
{
    return gwb_lab_gradient(a->lab, a->step);
}

/* ---- limits -------------------------------------------------------------------- */

/* Square matrices of as many rows, as many as fit into the vector; a vector that is
 * too short has one that is smaller. */
enum { MATRIX_ROWS = 2048, RANK = 4, BLOCK = 64 };

static gwi_lowrank_shape shape_of(const gwb_lab *lab)
{
    size_t rows = MATRIX_ROWS;

    while (rows * rows > lab->n || RANK * rows > lab->n / 8)
        rows /= 2;
    return (gwi_lowrank_shape){rows, rows, RANK};
}

/* P = M Q by blocks, in the plainest way. */
static void plain_project(const float *m, const float *q, float *p, size_t rows)
{
    for (size_t begin = 0; begin < rows; begin += BLOCK)
        for (size_t i = 0; i < rows; i++)
            for (size_t c = 0; c < RANK; c++) {
                float sum = begin > 0 ? p[c * rows + i] : 0;
                for (size_t j = begin; j < begin + BLOCK && j < rows; j++)
                    sum += m[i * rows + j] * q[c * rows + j];
                p[c * rows + i] = sum;
            }
}

/* Q = M^T P and then M = P Q^T, row by row, with rows of Q in the cache. */
static void plain_rest(float *m, const float *p, float *q, size_t rows)
{
    memset(q, 0, RANK * rows * sizeof *q);
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < RANK; c++)
            for (size_t j = 0; j < rows; j++)
                q[c * rows + j] += p[c * rows + i] * m[i * rows + j];
    for (size_t i = 0; i < rows; i++) {
        memset(m + i * rows, 0, rows * sizeof *m);
        for (size_t c = 0; c < RANK; c++)
            for (size_t j = 0; j < rows; j++)
                m[i * rows + j] += p[c * rows + i] * q[c * rows + j];
    }
}

/* The three products of one step of power iteration. */
static void products(gwb_lab *lab)
{
    size_t rows = shape_of(lab).rows;
    float *p = lab->scratch, *q = lab->norms;

    for (size_t at = 0; at + rows * rows <= lab->n; at += rows * rows) {
        plain_project(lab->limit_r + at, q, p, rows);
        plain_rest(lab->limit_r + at, p, q, rows);
    }
}

static void run_limit(void *arg)
{
    arm *a = arg;
    gwb_lab *lab = a->lab;

    switch (a->kernel->limit) {
    case READ:
        sink = (double)gwi_absmax(gradient(a), lab->n);
        break;
    case READ_WRITE:
        gwi_scale(lab->limit_r, -1.0f, lab->n);
        break;
    case ADD:
        gwi_add(lab->limit_r, gradient(a), lab->n);
        break;
    case PRODUCTS:
        products(lab);
        break;
    }
    a->step++;
}

static const char *limit_name(pass limit)
{
    return limit == READ       ? "one read pass"
           : limit == ADD      ? "r += g"
           : limit == PRODUCTS ? "three products"
                               : "read+write pass";
}

/* ---- kernels ------------------------------------------------------------------- */

static void topk(arm *a)
{
    gwb_lab_topk(a->lab, a->kernel->density, a->step);
}

/* What SparseLoCo encodes: of a residual that loses weight, the largest of each tile,
 * each in 2 bits, and their positions. */
static void tiles_encode(arm *a)
{
    gwb_lab *lab = a->lab;
    gwi_list *list = &lab->list;

    gwi_scale(lab->r, 0.95f, lab->n);
    gwb_lab_tiles(lab, a->kernel->density, a->step);
    gwi_centres c = gwi_centres_fit(GWI_CENTRE_TWO_BEST, list->value, list->n, 0, 0);
    gwi_centres_encode(&c, list->value, list->n, lab->packed);
    gwi_centres_subtract(&c, list->value, list->n);
    gwi_vector()->scatter_add(lab->r, list->index, list->value, list->n);
    size_t len;
    if (gwi_index_encode(list->index, (uint32_t)list->n, (uint32_t)lab->n,
                         lab->packed + lab->n, &len) == GW_OK)
        sink = (double)len;
}

static void tiles(arm *a)
{
    gwb_lab_tiles(a->lab, a->kernel->density, a->step);
}

static void threshold(arm *a)
{
    gwb_lab *lab = a->lab;
    const float *g = gradient(a);
    gwi_threshold t;

    gwi_select_sampled(&lab->guess, lab->r, g, lab->n, 1.0 - a->kernel->density,
                       lab->scratch, &t, &lab->list);
}

static void two_means(arm *a)
{
    gwi_two_sums sums = gwi_two_sums_of(gradient(a), a->lab->n);

    sink = sums.plus + sums.minus;
}

static void two_shift(arm *a)
{
    gwi_two_shift(a->lab->r, a->lab->n, 1e-3f, -1e-3f);
}

static gwi_levels_format levels_of(const arm *a)
{
    return (gwi_levels_format){a->kernel->bits, GWI_LEVELS_BUCKET, GWI_NORM_L2};
}

static void levels_encode(arm *a)
{
    gwi_levels_format f = levels_of(a);

    gwi_levels_encode(&f, gradient(a), a->lab->n, a->step, 0, a->lab->packed,
                      a->lab->norms);
}

static void levels_decode_add(arm *a)
{
    gwi_levels_format f = levels_of(a);

    gwi_levels_decode_add(&f, a->lab->packed, a->lab->norms, a->lab->r, a->lab->n);
}

static void sign_encode(arm *a)
{
    gwi_signs_encode_subtract(a->lab->r, a->lab->n, GWI_LEVELS_BUCKET, a->lab->packed,
                              a->lab->norms);
}

static void sign_decode_add(arm *a)
{
    gwi_signs_decode_add(a->lab->packed, a->lab->norms, a->lab->r, a->lab->n,
                         GWI_LEVELS_BUCKET);
}

static void bf16_encode(arm *a)
{
    gwi_bf16_encode(gradient(a), a->lab->n, a->lab->packed);
}

static void bf16_decode_add(arm *a)
{
    gwi_bf16_decode_add(a->lab->packed, a->lab->r, a->lab->n);
}

/* What DeMo does before it encodes: the cosines of a gradient in tiles of 64 x 64, and
 * the largest of each tile. */
enum { STRIP_COLS = 1024, STRIP = GWI_DCT_MOST * STRIP_COLS };

static gwi_dct_plan plans[GWI_DCT_MOST + 1];

static void make_cosines(arm *a)
{
    static float entries[2048];

    (void)a;
    if (gwi_dct_floats(GWI_DCT_MOST) <= COUNT(entries))
        gwi_dct_init(&plans[GWI_DCT_MOST], GWI_DCT_MOST, entries);
}

static void cosines(arm *a)
{
    gwb_lab *lab = a->lab;
    gwi_dct_strip strip = {plans, GWI_DCT_MOST,
                           gwi_dct_cut_of(STRIP_COLS, GWI_DCT_MOST)};
    const float *g = gradient(a);

    for (size_t at = 0; at + STRIP <= lab->n; at += STRIP) {
        memcpy(lab->scratch, g + at, STRIP * sizeof *g);
        gwi_dct_forward(&strip, lab->scratch, lab->limit_r + at);
    }
    gwb_lab_tiles_of(lab, a->kernel->density, lab->limit_r);
}

/* All that PowerSGD computes in a step, with the residual in lab->r and the result in
 * place of the gradient. */
static void low_rank(arm *a)
{
    gwb_lab *lab = a->lab;
    gwi_lowrank_shape s = shape_of(lab);
    float *p = lab->scratch, *q = lab->norms;
    uint64_t key = 1;

    gwi_add(lab->r, gradient(a), lab->n);
    for (size_t at = 0; at + s.rows * s.cols <= lab->n; at += s.rows * s.cols) {
        float *m = lab->r + at;
        gwi_orthonormalize(q, s.cols, s.rank, &key);
        gwi_project(m, q, p, s);
        gwi_orthonormalize(p, s.rows, s.rank, NULL);
        gwi_project_back(m, p, q, s);
        gwi_expand(p, q, lab->limit_r + at, m, s);
    }
}

#define NONE      ((double)NAN)
#define SELECT_ON (ON_N | ON_FNN3 | ON_TILED)

/* Encoders that a decoder needs come before it. */
static const kernel kernels[] = {
    {"add + top-k", 0.001, 0, SELECT_ON | ON_SMALL, ADD, 12, 1.3, 1.8, NULL, topk},
    {"add + top-k", 0.01, 0, SELECT_ON, ADD, 12, 1.6, NONE, NULL, topk},
    {"add + top-k of tiles", 1.0 / 64, 0, SELECT_ON, ADD, 12, 4, NONE, NULL, tiles},
    {"tiles in 2 bits: encode, keep error", 1.0 / 64, 2, SELECT_ON, ADD, 4, 6, NONE,
     NULL, tiles_encode},
    {"add + sampled threshold", 0.01, 0, SELECT_ON | ON_SMALL, ADD, 12, 1.4, 1.8, NULL,
     threshold},
    {"two means: reduction", NONE, 0, ON_N, READ, 4, 1.2, NONE, NULL, two_means},
    {"two means: application", NONE, 0, ON_N, READ_WRITE, 8, 1.2, NONE, NULL,
     two_shift},
    {"levels: encode", NONE, 8, ON_N, READ, 5, 3, NONE, NULL, levels_encode},
    {"levels: decode and add", NONE, 8, ON_N, ADD, 9, 2, NONE, levels_encode,
     levels_decode_add},
    {"levels: encode", NONE, 4, ON_N, READ, 4.5, 3, NONE, NULL, levels_encode},
    {"levels: decode and add", NONE, 4, ON_N, ADD, 8.5, 2, NONE, levels_encode,
     levels_decode_add},
    {"levels: encode", NONE, 2, ON_N, READ, 4.25, 3, NONE, NULL, levels_encode},
    {"levels: decode and add", NONE, 2, ON_N, ADD, 8.25, 2, NONE, levels_encode,
     levels_decode_add},
    {"sign and mean: encode, keep error", NONE, 1, ON_N, READ_WRITE, 8.125, 1.5, NONE,
     NULL, sign_encode},
    {"sign and mean: decode and add", NONE, 1, ON_N, ADD, 8.125, 2, NONE, sign_encode,
     sign_decode_add},
    {"bf16: encode", NONE, 16, ON_N, READ, 6, 1.5, NONE, NULL, bf16_encode},
    {"bf16: decode and add", NONE, 16, ON_N, ADD, 10, 2, NONE, bf16_encode,
     bf16_decode_add},
    {"cosines of tiles + top-k", 1.0 / 128, 0, ON_N, ADD, 20, 6, NONE, make_cosines,
     cosines},
    {"low rank: one step of rank 4", NONE, 0, ON_N, PRODUCTS, 28, 1.5, NONE, NULL,
     low_rank},
};

/* ---- rows ---------------------------------------------------------------------- */

static void run_kernel(void *arg)
{
    arm *a = arg;

    a->kernel->run(a);
    a->step++;
}

static void choose_kernels(void *arg)
{
    const arm *a = arg;

    gwi_kernels_use(a->with);
}

static void prepare(arm *a, int quick)
{
    if (!isnan(a->kernel->density))
        a->step =
            gwb_lab_warm(a->lab, a->kernel->density, quick ? WARM_QUICK : WARM_STEPS);
    if (a->kernel->prepare != NULL)
        a->kernel->prepare(a);
}

static double target_of(const kernel *k, size_t n, int threads)
{
    const double net_target = 2; /* of a selection from all in one pass */

    if (threads != 1)
        return NONE;
    if (n == NET_FLOATS)
        return k->run == topk || k->run == threshold ? net_target : NONE;
    if (n == SMALL_FLOATS)
        return k->small_target;
    return n >= LARGE_FLOATS ? k->target : NONE;
}

static gwb_row row_of(const kernel *k, const gwb_lab *lab, const char *between)
{
    int select = !isnan(k->density);
    gwb_row row = gwb_row_new("kernels", lab->n, "%s%s%s%s", k->name,
                              select ? ", " : "", select ? lab->label : "", between);

    row.density = k->density;
    row.bits = k->bits;
    return row;
}

static void measure(gwb_sheet *sheet, const kernel *k, gwb_lab *lab)
{
    arm a = {.lab = lab, .kernel = k}, b = a;
    gwb_contender one = {NULL, run_kernel, &a, 0}, limit = {NULL, run_limit, &b, 0};
    gwb_row row = row_of(k, lab, "");

    if (!gwb_wanted(sheet, row.name))
        return;
    prepare(&a, sheet->set->quick);
    /* Not the same gradient right after the kernel, out of its cache. */
    b.step = a.step + lab->steps / 2;
    gwb_race_result result = gwb_race(sheet->set, &one, &limit);
    gwb_row_race(&row, &result, k->bytes * (double)lab->n);
    row.limit = limit_name(k->limit);
    row.target = target_of(k, lab->n, sheet->set->threads);
    gwb_sheet_add(sheet, &row);
}

/* The same kernel without and with AVX-512, on a CPU that has it. */
static void measure_isa(gwb_sheet *sheet, const kernel *k, gwb_lab *lab)
{
    const unsigned all = gwi_cpu_flags(), without = all & ~(unsigned)GWI_CPU_AVX512;
    gwi_kernels less, more;
    arm a = {.lab = lab, .kernel = k, .with = &less}, b = a;
    gwb_contender one = {choose_kernels, run_kernel, &a, 0}, limit = one;
    gwb_row row = row_of(k, lab, ", by isa");

    if ((all & GWI_CPU_AVX512) == 0 || !gwb_wanted(sheet, row.name))
        return;
    gwi_kernels_for(without, &less);
    gwi_kernels_for(all, &more);
    prepare(&a, sheet->set->quick);
    b.with = &more;
    b.step = a.step + lab->steps / 2;
    limit.arg = &b;
    gwb_race_result result = gwb_race(sheet->set, &one, &limit);
    gwi_kernels_use(NULL);
    gwb_row_race(&row, &result, k->bytes * (double)lab->n);
    row.limit = gwi_cpu_name(all);
    row.isa = gwi_cpu_name(without);
    row.target = lab->n >= LARGE_FLOATS && sheet->set->threads == 1 ? 2.0 : NONE;
    gwb_sheet_add(sheet, &row);
}

/* Whether the filter leaves anything to do on vectors of that kind. Without a
 * network its label is not known; the words in front of it decide. */
static int any_wanted(const gwb_sheet *sheet, unsigned on, const char *label)
{
    char name[GWB_TEXT_CAP];

    for (size_t i = 0; i < COUNT(kernels); i++) {
        const kernel *k = &kernels[i];
        snprintf(name, sizeof name, "%s%s%s, by isa", k->name,
                 isnan(k->density) ? "" : ", ", isnan(k->density) ? "" : label);
        if ((k->on & on) != 0 && gwb_wanted(sheet, name))
            return 1;
    }
    return 0;
}

static gw_status run_on(gwb_sheet *sheet, unsigned on, gwb_origin origin, size_t n,
                        const char *label)
{
    gwb_lab *lab;

    if (!any_wanted(sheet, on, label))
        return GW_OK;
    GWI_TRY(gwb_lab_new(&lab, origin, n));
    for (size_t i = 0; i < COUNT(kernels); i++)
        if (kernels[i].on & on)
            measure(sheet, &kernels[i], lab);
    for (size_t i = 0; i < COUNT(kernels); i++)
        if (on == ON_N && (kernels[i].on & on))
            measure_isa(sheet, &kernels[i], lab);
    gwb_lab_free(lab);
    return GW_OK;
}

static gw_status run(gwb_sheet *sheet)
{
    size_t n = (size_t)sheet->set->n;

    GWI_TRY(run_on(sheet, ON_N, GWB_MADE_UP, n, "made-up gradients"));
    GWI_TRY(run_on(sheet, ON_TILED, GWB_FNN3_TILED, n,
                   "fnn3 gradients, tiled, made-up data"));
    GWI_TRY(run_on(sheet, ON_FNN3, GWB_FNN3, 0, "fnn3 gradients, made-up data"));
    if (n > SMALL_FLOATS)
        GWI_TRY(
            run_on(sheet, ON_SMALL, GWB_MADE_UP, SMALL_FLOATS, "made-up gradients"));
    return GW_OK;
}

const gwb_group gwb_group_kernels = {
    .name = "kernels",
    .summary = "loops over n floats, against what memory allows",
    .by_default = 1,
    .run = run,
};
