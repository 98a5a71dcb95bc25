/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_layers.c - every kind of layer: its derivatives against finite
 * differences, its results for smaller batches and in evaluation. To add a layer:
 * one row in the table.
 *
 * The loss is a sum of the outputs with random factors, in double precision. Along
 * the derivative itself, tensor by tensor and for the input, its slope is the square
 * of the derivative's length; the largest entries are also looked at one by one. */
#include "layers/compute.h"
#include "layers/layer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* Along the derivative: of the slope. Single entries: of the largest entry, and with
 * steps so short that few cross a corner of ReLU; the rounding of the outputs is then
 * up to 1 % of an entry. */
static const double along_tolerance = 0.02, entry_tolerance = 0.03;
static const double along_step = 4e-3, entry_step = 2e-4;
enum { ENTRIES = 12 };

typedef struct row {
    gwt_layer_spec spec;
    gwt_shape in;
    int blocked;  /* the input is, where this CPU likes that */
    uint32_t ids; /* the input holds whole numbers below it, and has no derivative */
} row;

static const row rows[] = {
    {.spec = {.type = &gwt_layer_dense, .name = "dense", .units = 7}, .in = {2, 3, 5}},
    {.spec = {.type = &gwt_layer_dense, .name = "dense relu", .units = 33, .relu = 1},
     .in = {50, 1, 1}},
    {.spec = {.type = &gwt_layer_conv, .name = "conv", .units = 5, .kernel = 3},
     .in = {3, 6, 5}},
    {.spec = {.type = &gwt_layer_conv, .name = "conv first", .units = 16, .kernel = 3},
     .in = {3, 8, 8}},
    {.spec = {.type = &gwt_layer_conv,
              .name = "conv relu",
              .units = 16,
              .kernel = 3,
              .relu = 1},
     .in = {1, 7, 7}},
    {.spec = {.type = &gwt_layer_conv, .name = "conv 5x5", .units = 32, .kernel = 5},
     .in = {16, 8, 8},
     .blocked = 1},
    {.spec = {.type = &gwt_layer_conv,
              .name = "conv 1x1",
              .units = 32,
              .kernel = 1,
              .no_bias = 1},
     .in = {16, 4, 4},
     .blocked = 1},
    {.spec = {.type = &gwt_layer_conv,
              .name = "conv stride",
              .units = 32,
              .kernel = 3,
              .stride = 2},
     .in = {16, 9, 8},
     .blocked = 1},
    {.spec =
         {.type = &gwt_layer_conv, .name = "conv to plain", .units = 10, .kernel = 3},
     .in = {16, 4, 4},
     .blocked = 1},
    {.spec = {.type = &gwt_layer_batchnorm, .name = "batchnorm"}, .in = {5, 3, 3}},
    {.spec = {.type = &gwt_layer_batchnorm, .name = "batchnorm relu", .relu = 1},
     .in = {5, 4, 3}},
    {.spec = {.type = &gwt_layer_batchnorm, .name = "batchnorm blocked"},
     .in = {32, 5, 5},
     .blocked = 1},
    {.spec = {.type = &gwt_layer_batchnorm,
              .name = "batchnorm blocked relu",
              .relu = 1},
     .in = {16, 4, 4},
     .blocked = 1},
    {.spec = {.type = &gwt_layer_residual, .name = "residual", .units = 16},
     .in = {16, 6, 6},
     .blocked = 1},
    {.spec = {.type = &gwt_layer_residual,
              .name = "residual stride",
              .units = 32,
              .stride = 2},
     .in = {16, 8, 7},
     .blocked = 1},
    {.spec = {.type = &gwt_layer_residual,
              .name = "residual plain",
              .units = 7,
              .stride = 2},
     .in = {5, 6, 5}},
    {.spec = {.type = &gwt_layer_residual, .name = "residual mixed", .units = 16},
     .in = {3, 5, 4}},
    {.spec = {.type = &gwt_layer_maxpool, .name = "maxpool", .kernel = 2},
     .in = {3, 4, 6}},
    {.spec = {.type = &gwt_layer_maxpool, .name = "maxpool 3x3", .kernel = 3},
     .in = {16, 6, 9},
     .blocked = 1},
    {.spec = {.type = &gwt_layer_average, .name = "average"}, .in = {3, 4, 5}},
    {.spec = {.type = &gwt_layer_average, .name = "average blocked"},
     .in = {32, 3, 3},
     .blocked = 1},
    {.spec = {.type = &gwt_layer_flatten, .name = "flatten"},
     .in = {32, 3, 2},
     .blocked = 1},
    {.spec = {.type = &gwt_layer_dense,
              .name = "dense per token",
              .units = 7,
              .per_token = 1},
     .in = {4, 1, 6}},
    {.spec = {.type = &gwt_layer_embedding, .name = "embedding", .units = 6},
     .in = {7, 1, 1},
     .ids = 5},
    {.spec = {.type = &gwt_layer_embedding,
              .name = "embedding, positions",
              .units = 6,
              .positions = 1},
     .in = {7, 1, 1},
     .ids = 5},
    {.spec = {.type = &gwt_layer_dropout, .name = "dropout"}, .in = {3, 1, 7}},
    {.spec = {.type = &gwt_layer_lstm, .name = "lstm", .units = 5}, .in = {7, 1, 6}},
    {.spec = {.type = &gwt_layer_lstm, .name = "lstm, two steps", .units = 17},
     .in = {2, 1, 3}},
    {.spec = {.type = &gwt_layer_norm, .name = "norm"}, .in = {4, 1, 19}},
    {.spec = {.type = &gwt_layer_attention, .name = "attention", .heads = 3},
     .in = {6, 1, 12}},
    {.spec = {.type = &gwt_layer_attention, .name = "attention, long", .heads = 1},
     .in = {37, 1, 8}},
    {.spec = {.type = &gwt_layer_mlp, .name = "mlp", .units = 16}, .in = {5, 1, 6}},
};

/* ---- a layer by itself -------------------------------------------------------------
 */

enum { BATCH = 6, MAX_BATCH = 8 };

typedef struct bed {
    gwt_layer layer;
    size_t in, out, params;
    float *x, *y, *dy, *dx, *factor;
} bed;

static const gwt_pass training = {
    .batch = BATCH, .training = 1, .seed = 7, .dropout = 0.25};

static float *floats(size_t n)
{
    float *x = gwt_calloc(n + 1, sizeof *x, "a test");

    assert_non_null(x);
    return x;
}

/* Uniform in -1..1, by the counter alone. */
static float noise(uint64_t stream, uint64_t i)
{
    return (float)(gwt_random(11, 1000 + stream, 0, i) >> 40) * 0x1p-23f - 1.0f;
}

/* Where the i-th float of a plain batch lies in one with blocks of B. All CPUs test
 * the same numbers, whatever their blocks. */
static size_t place(gwt_shape s, size_t B, size_t i)
{
    size_t pixels = s.height * s.width, floats = gwt_shape_floats(s);
    size_t c = i % floats / pixels, p = i % pixels;

    return i / floats * floats + (c / B * pixels + p) * B + c % B;
}

static void fill(bed *b, const row *r)
{
    const gwt_layer *l = &b->layer;
    size_t at = 0;

    for (size_t i = 0; i < MAX_BATCH * b->in; i++)
        b->x[place(l->in, l->in_block, i)] =
            r->ids != 0 ? (float)(gwt_random(11, 1, 1, i) % r->ids) : noise(1, i);
    for (size_t i = 0; i < MAX_BATCH * b->out; i++)
        b->factor[place(l->out, l->out_block, i)] =
            noise(2, i) / sqrtf((float)(BATCH * b->out));
    /* Away from where they begin, so that none is 0 or 1 by chance. */
    for (size_t t = 0; t < b->layer.params; t++) {
        const gwt_param *p = &b->layer.tensor[t];
        double scale = p->bound != 0.0 ? p->bound : 0.3;
        for (size_t i = 0; i < p->rows * p->cols; i++, at++)
            b->layer.param[at] = (float)(p->value + scale * (double)noise(3 + t, i));
    }
}

static void set_up(bed *b, const row *r)
{
    gwt_layer *l = &b->layer;
    size_t block = r->blocked ? gwt_compute_block() : 1;

    *b = (bed){.layer = {.spec = &r->spec,
                         .in = r->in,
                         .in_block = block,
                         .out_block = 1,
                         .classes = 5,
                         .max_batch = MAX_BATCH}};
    assert_int_equal(r->spec.type->plan(l), GW_OK);
    for (size_t t = 0; t < l->params; t++)
        b->params += l->tensor[t].rows * l->tensor[t].cols;
    b->in = gwt_shape_floats(l->in);
    b->out = gwt_shape_floats(l->out);
    l->param = floats(b->params);
    l->grad = floats(b->params);
    l->work = floats(l->work_floats);
    l->stats = floats(l->stats_floats);
    l->carry = floats(l->carry_floats);
    b->x = floats(MAX_BATCH * b->in);
    b->dx = floats(MAX_BATCH * b->in);
    b->y = floats(MAX_BATCH * b->out);
    b->dy = floats(MAX_BATCH * b->out);
    b->factor = floats(MAX_BATCH * b->out);
    if (r->spec.type->open != NULL)
        assert_int_equal(r->spec.type->open(l), GW_OK);
    if (r->spec.type->begin != NULL)
        r->spec.type->begin(l);
    fill(b, r);
}

static void tear_down(bed *b)
{
    gwt_layer *l = &b->layer;
    float *all[] = {l->param, l->grad, l->work, l->stats, l->carry,
                    b->x,     b->dx,   b->y,    b->dy,    b->factor};

    if (l->spec->type->close != NULL)
        l->spec->type->close(l);
    for (size_t i = 0; i < COUNT(all); i++)
        gwt_free(all[i]);
}

static void forward(bed *b, const gwt_pass *pass)
{
    gwt_layer *l = &b->layer;

    memset(l->carry, 0, l->carry_floats * sizeof(float));
    assert_int_equal(l->spec->type->forward(l, pass, b->x, b->y), GW_OK);
}

static double loss(bed *b)
{
    double sum = 0.0;

    forward(b, &training);
    for (size_t i = 0; i < BATCH * b->out; i++)
        sum += (double)b->y[i] * (double)b->factor[i];
    return sum;
}

static void backward(bed *b, int with_input)
{
    gwt_layer *l = &b->layer;

    (void)loss(b);
    memcpy(b->dy, b->factor, MAX_BATCH * b->out * sizeof(float));
    assert_int_equal(l->spec->type->backward(l, &training, b->x, b->y, b->dy,
                                             with_input ? b->dx : NULL),
                     GW_OK);
}

/* ---- derivatives --------------------------------------------------------------------
 */

/* The slope of the loss along d, at x; both have n floats. The step counts as what
 * it is after rounding. */
static double slope(bed *b, float *x, const float *d, size_t n, double h)
{
    float *saved = floats(n);
    double value[2], moved = 0.0, length = 0.0;

    memcpy(saved, x, n * sizeof *x);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < n; i++)
            x[i] = saved[i] + (float)((side ? h : -h) * (double)d[i]);
        value[side] = loss(b);
        for (size_t i = 0; i < n; i++)
            moved += fabs((double)x[i] - (double)saved[i]) * fabs((double)d[i]);
    }
    for (size_t i = 0; i < n; i++)
        length += (double)d[i] * (double)d[i];
    memcpy(x, saved, n * sizeof *x);
    gwt_free(saved);
    return (value[1] - value[0]) * length / moved;
}

static double square_of(const float *x, size_t n)
{
    double sum = 0.0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

/* The k-th of a few entries: spread over the tensor, each the largest around. */
static size_t pick(const float *g, size_t n, size_t k)
{
    size_t begin = n * k / ENTRIES, end = n * (k + 1) / ENTRIES, best = begin;

    for (size_t i = begin; i < end; i++)
        best = fabsf(g[i]) > fabsf(g[best]) ? i : best;
    return best;
}

/* A step may cross a corner of ReLU or a change of maximum, where slope and
 * derivative differ rightly: one entry of the few may miss. */
static void check_entries(bed *b, float *x, const float *g, size_t n, const char *what)
{
    double largest = 0.0;
    size_t missed = 0;
    const float one = 1.0f;

    for (size_t i = 0; i < n; i++)
        largest = fabs((double)g[i]) > largest ? fabs((double)g[i]) : largest;
    for (size_t k = 0; k < ENTRIES && n >= ENTRIES; k++) {
        size_t i = pick(g, n, k);
        double got = slope(b, x + i, &one, 1, entry_step);
        missed += fabs(got - (double)g[i]) > entry_tolerance * largest;
    }
    if (missed > 1)
        fail_msg("%s, %s: %zu of %d entries are not the slope", b->layer.spec->name,
                 what, missed, ENTRIES);
}

static void check(bed *b, float *x, const float *g, size_t n, const char *what)
{
    double square = square_of(g, n), size = sqrt(square_of(x, n));

    if (square < 1e-12)
        fail_msg("%s, %s: no derivative", b->layer.spec->name, what);
    double got =
        slope(b, x, g, n,
              along_step * (size > 0.1 ? size : 0.1) / sqrt(square) / sqrt((double)n));
    if (fabs(got - square) > along_tolerance * square)
        fail_msg("%s, %s: slope %g, derivative says %g", b->layer.spec->name, what, got,
                 square);
    check_entries(b, x, g, n, what);
}

static float *copy_of(const float *x, size_t n)
{
    float *copy = floats(n);

    memcpy(copy, x, n * sizeof *x);
    return copy;
}

static void derivatives_are_slopes(void **state)
{
    (void)state;
    for (size_t r = 0; r < COUNT(rows); r++) {
        bed b;
        size_t at = 0;
        set_up(&b, &rows[r]);
        backward(&b, rows[r].ids == 0);
        float *grad = copy_of(b.layer.grad, b.params);
        float *dx = copy_of(b.dx, BATCH * b.in);
        for (size_t t = 0; t < b.layer.params; t++) {
            const gwt_param *p = &b.layer.tensor[t];
            check(&b, b.layer.param + at, grad + at, p->rows * p->cols, p->name);
            at += p->rows * p->cols;
        }
        if (rows[r].ids == 0)
            check(&b, b.x, dx, BATCH * b.in, "input");
        gwt_free(grad);
        gwt_free(dx);
        tear_down(&b);
    }
}

/* A first layer is asked for no derivative by its input; nothing else changes, and
 * the same pass gives the same bits. */
static void the_first_layer_is_no_different(void **state)
{
    (void)state;
    for (size_t r = 0; r < COUNT(rows); r++) {
        bed a, b;
        set_up(&a, &rows[r]);
        set_up(&b, &rows[r]);
        backward(&a, rows[r].ids == 0);
        backward(&b, 0);
        assert_memory_equal(a.layer.grad, b.layer.grad, a.params * sizeof(float));
        assert_memory_equal(a.y, b.y, BATCH * a.out * sizeof(float));
        assert_memory_equal(a.layer.stats, b.layer.stats,
                            a.layer.stats_floats * sizeof(float));
        tear_down(&a);
        tear_down(&b);
    }
}

/* ---- evaluation
 * ----------------------------------------------------------------------- */

/* In evaluation a sample's result does not depend on those beside it, nothing is
 * remembered, and batches may be of any size in any order. */
static void samples_are_evaluated_by_themselves(void **state)
{
    const size_t batches[] = {MAX_BATCH, 1, 3, 2, 5, 7, MAX_BATCH, 1};

    (void)state;
    for (size_t r = 0; r < COUNT(rows); r++) {
        bed b;
        set_up(&b, &rows[r]);
        forward(&b, &training);
        float *stats = copy_of(b.layer.stats, b.layer.stats_floats);
        forward(&b, &(gwt_pass){.batch = MAX_BATCH});
        float *whole = copy_of(b.y, MAX_BATCH * b.out);
        for (size_t i = 0; i < COUNT(batches); i++) {
            memset(b.y, 0, MAX_BATCH * b.out * sizeof(float));
            forward(&b, &(gwt_pass){.batch = batches[i]});
            for (size_t j = 0; j < batches[i] * b.out; j++)
                if (fabsf(b.y[j] - whole[j]) > 1e-5f * (1.0f + fabsf(whole[j])))
                    fail_msg("%s: batch of %zu differs", rows[r].spec.name, batches[i]);
        }
        assert_memory_equal(stats, b.layer.stats, b.layer.stats_floats * sizeof(float));
        gwt_free(stats);
        gwt_free(whole);
        tear_down(&b);
    }
}

/* Channel c of pixel p of sample i, in a plain or a blocked batch. */
static double value(const bed *b, size_t i, size_t c, size_t p)
{
    size_t B = b->layer.in_block, pixels = b->layer.in.height * b->layer.in.width;

    return (double)b->x[i * b->in + (c / B * pixels + p) * B + c % B];
}

static void check_channel(const bed *b, size_t c)
{
    size_t pixels = b->layer.in.height * b->layer.in.width, n = BATCH * pixels;
    double mean = 0.0, var = 0.0;

    for (size_t i = 0; i < n; i++)
        mean += value(b, i / pixels, c, i % pixels) / (double)n;
    for (size_t i = 0; i < n; i++)
        var += pow(value(b, i / pixels, c, i % pixels) - mean, 2.0) / (double)(n - 1);
    double got = (double)b->layer.stats[c];
    double got_var = (double)b->layer.stats[b->layer.in.channels + c];
    assert_true(fabs(got - 0.1 * mean) < 1e-6 * (1.0 + fabs(mean)));
    assert_true(fabs(got_var - (0.9 + 0.1 * var)) < 1e-5 * (1.0 + var));
}

/* Also where the mean is far from 0 and the variance small beside it. */
static void running_statistics_are_those_of_the_batch(void **state)
{
    (void)state;
    for (size_t r = 0; r < COUNT(rows); r++) {
        bed b;
        if (rows[r].spec.type != &gwt_layer_batchnorm)
            continue;
        for (int far = 0; far < 2; far++) {
            set_up(&b, &rows[r]);
            for (size_t i = 0; far && i < MAX_BATCH * b.in; i++)
                b.x[i] = 1000.0f + b.x[i];
            forward(&b, &training);
            for (size_t c = 0; c < b.layer.in.channels; c++)
                check_channel(&b, c);
            tear_down(&b);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derivatives_are_slopes),
        cmocka_unit_test(the_first_layer_is_no_different),
        cmocka_unit_test(samples_are_evaluated_by_themselves),
        cmocka_unit_test(running_statistics_are_those_of_the_batch),
    };

    gwt_compute_threads(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
