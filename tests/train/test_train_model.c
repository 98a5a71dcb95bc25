/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_model.c - every model in the table: its gradient against finite
 * differences, its first weights, its memory. */
#include "layers/compute.h"
#include "models/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 9, CLASSES = 5, TOKENS = 21 };

static uint32_t labels[BATCH * TOKENS] = {0, 1, 2, 3, 4, 0, 2, 4, 1};
static const gwt_pass training = {.batch = BATCH, .training = 1};

/* The i-th model of which this file looks at each. Those of a fixed, larger size have
 * the layers of the one whose size can be chosen, and would take minutes. */
static const gwt_model_spec *model_at(size_t i)
{
    const gwt_model_spec *spec;

    for (size_t at = 0; (spec = gwt_model_at(at)) != NULL; at++)
        if ((spec->make == NULL || spec->usage != NULL) && i-- == 0)
            break;
    return spec;
}

/* Samples for models that take any are as small as they can be. */
static gwt_shape shape_of(const gwt_model_spec *spec)
{
    if (spec->text)
        return (gwt_shape){TOKENS, 1, 1};
    if (spec->in.height != 0)
        return (gwt_shape){3, spec->in.height, spec->in.width};
    if (strcmp(spec->name, "cnn") == 0)
        return (gwt_shape){1, 4, 8};
    return (gwt_shape){1, 3, 7};
}

/* As many classes as the model can have; 0 where it predicts numbers. */
static size_t classes_of(const gwt_model_spec *spec)
{
    if (spec->loss == GWT_LOSS_SQUARES)
        return 0;
    return spec->loss == GWT_LOSS_LOGISTIC ? 2 : CLASSES;
}

/* Models of text get tokens, others numbers in 0..1. */
static gwt_model *make(const gwt_model_spec *spec, uint64_t seed)
{
    static const char *const small[] = {"lstm:6",
                                        "transformer:layers=2,heads=3,width=12"};
    const char *name = spec->name;
    gwt_model *m;

    for (size_t i = 0; i < 2; i++)
        if (strncmp(small[i], spec->name, strlen(spec->name)) == 0)
            name = small[i];
    assert_int_equal(gwt_model_make(&m, name, shape_of(spec), classes_of(spec), BATCH),
                     GW_OK);
    gwt_model_init(m, seed);
    for (size_t i = 0; i < BATCH * gwt_shape_floats(shape_of(spec)); i++) {
        uint64_t bits = gwt_random(seed, 99, 0, i) >> 40;
        gwt_model_input(m)[i] =
            spec->text ? (float)(bits % CLASSES) : (float)bits * 0x1p-24f;
    }
    for (size_t i = BATCH; i < BATCH * TOKENS; i++)
        labels[i] = (uint32_t)(i % 3 == 0 ? i % CLASSES : 1);
    /* An LSTM begins with weights so small that slopes are hard to tell, and a
     * Transformer with embeddings so small that they bend under the norm. */
    size_t first = (CLASSES + TOKENS) * 12;
    for (size_t i = 0; spec->text && i < gwt_model_floats(m); i++)
        gwt_model_params(m)[i] *= name == small[0] ? 4.0f : i < first ? 10.0f : 1.0f;
    return m;
}

static double mean_loss(gwt_model *m)
{
    size_t count = BATCH * gwt_model_outputs(m);
    gwt_score s;

    gwt_model_forget(m);
    /* The loss that is differentiated: batch normalisation knows another one too. */
    assert_int_equal(gwt_model_train(m, labels, &training, &s), GW_OK);
    assert_int_equal(s.count, count);
    return s.loss / (double)count;
}

/* The slope of the loss along `along`, which lies over n parameters at x. */
static double slope(gwt_model *m, float *x, const float *along, size_t n, double h)
{
    float *saved = calloc(n, sizeof *saved);
    double loss[2];

    assert_non_null(saved);
    memcpy(saved, x, n * sizeof *x);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < n; i++)
            x[i] = saved[i] + (float)((side ? h : -h) * (double)along[i]);
        loss[side] = mean_loss(m);
    }
    memcpy(x, saved, n * sizeof *x);
    free(saved);
    return (loss[1] - loss[0]) / (2 * h);
}

/* Along the gradient itself, tensor by tensor, the slope is the square of its
 * length; steps are short enough not to cross many corners of ReLU. */
static void check_tensors(gwt_model *m, const float *grad)
{
    size_t count;
    const gw_tensor *t = gwt_model_tensors(m, &count);

    for (size_t i = 0; i < count; i++) {
        const float *g = grad + t[i].offset;
        size_t n = t[i].rows * t[i].cols;
        double square = 0.0, got;
        for (size_t j = 0; j < n; j++)
            square += (double)g[j] * (double)g[j];
        if (square <= 1e-6)
            fail_msg("%s: no gradient, %g", t[i].name, square);
        got = slope(m, gwt_model_params(m) + t[i].offset, g, n, 5e-3 / sqrt(square));
        if (fabs(got - square) > 0.01 * square)
            fail_msg("%s: slope %g, gradient says %g", t[i].name, got, square);
    }
}

/* Where in a row the gradient is largest. */
static size_t largest(const float *g, size_t n)
{
    size_t best = 0;

    for (size_t c = 1; c < n; c++)
        best = fabsf(g[c]) > fabsf(g[best]) ? c : best;
    return best;
}

/* The largest entry of every row of every tensor, by itself. A step may cross a
 * corner of ReLU, where slope and gradient differ rightly, so a few may miss. */
static void check_entries(gwt_model *m, const float *grad)
{
    size_t count, missed = 0, seen = 0;
    const gw_tensor *t = gwt_model_tensors(m, &count);
    const float one = 1.0f;

    for (size_t i = 0; i < count; i++)
        for (size_t r = 0; r < t[i].rows; r++) {
            size_t row = t[i].offset + r * t[i].cols;
            size_t at = row + largest(grad + row, t[i].cols);
            double want = (double)grad[at];
            double got = slope(m, gwt_model_params(m) + at, &one, 1, 2e-3);
            missed += fabs(got - want) > 2e-4 + 0.02 * fabs(want);
            seen++;
        }
    if (missed > seen / 20)
        fail_msg("%zu of %zu entries are not the slope", missed, seen);
}

/* Where many corners of ReLU lie one behind the other, differences say little: deep
 * networks are compared with PyTorch, and their layers have a test of their own. */
static int is_small(const gwt_model_spec *spec)
{
    return spec->count < 4;
}

static float *gradient_of(gwt_model *m)
{
    size_t len = gwt_model_floats(m) * sizeof(float);
    float *copy = malloc(len);

    assert_non_null(copy);
    (void)mean_loss(m);
    memcpy(copy, gwt_model_grad(m), len);
    return copy;
}

static void gradients_are_slopes(void **state)
{
    const gwt_model_spec *spec;

    (void)state;
    for (size_t i = 0; (spec = model_at(i)) != NULL; i++)
        for (uint64_t seed = 1; seed <= 3 && is_small(spec); seed++) {
            gwt_model *m = make(spec, seed);
            float *grad = gradient_of(m);
            check_tensors(m, grad);
            check_entries(m, grad);
            free(grad);
            gwt_model_free(m);
        }
}

static void fnn3_has_six_tensors(void **state)
{
    const gwt_model_spec *spec;
    gwt_model *m;
    gw_layout *layout;
    size_t count;

    (void)state;
    assert_int_equal(gwt_model_find("fnn3", &spec), GW_OK);
    assert_int_equal(gwt_model_new(&m, spec, (gwt_shape){1, 28, 28}, 10, 64), GW_OK);
    const gw_tensor *t = gwt_model_tensors(m, &count);
    assert_int_equal(count, 6);
    assert_string_equal(t[0].name, "fc1.weight");
    assert_int_equal(t[0].rows, 200);
    assert_int_equal(t[0].cols, 784);
    assert_string_equal(t[5].name, "fc3.bias");
    assert_int_equal(t[5].rows, 1);
    assert_int_equal(gw_layout_new(&layout, t, count), GW_OK);
    assert_int_equal(gw_layout_floats(layout), 199210);
    gw_layout_free(layout);
    gwt_model_free(m);
    assert_int_equal(gwt_model_find("fnn4", &spec), GW_ERR_ARG);
    assert_non_null(strstr(gw_error_message(), "did you mean fnn3"));
}

/* Counts that papers and other implementations give for the same networks. */
static void sizes_are_as_published(void **state)
{
    const struct {
        const char *name;
        gwt_shape in;
        size_t floats;
    } rows[] = {
        {"softmax", {1, 28, 28}, 7850},      {"fnn3", {1, 28, 28}, 199210},
        {"wide-mlp", {1, 28, 28}, 36818954}, {"cnn", {1, 28, 28}, 421642},
        {"cnn", {3, 32, 32}, 545098},        {"resnet20", {3, 32, 32}, 269722},
        {"vgg16", {3, 32, 32}, 14728266},    {"mlp", {1, 28, 28}, 10020874},
    };
    const gwt_model_spec *spec;
    gwt_model *m;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(gwt_model_find(rows[i].name, &spec), GW_OK);
        assert_int_equal(gwt_model_new(&m, spec, rows[i].in, 10, 1), GW_OK);
        assert_int_equal(gwt_model_floats(m), rows[i].floats);
        gwt_model_free(m);
    }
}

static void samples_that_do_not_fit_are_named(void **state)
{
    const gwt_model_spec *spec;

    (void)state;
    assert_int_equal(gwt_model_find("vgg16", &spec), GW_OK);
    assert_int_equal(gwt_model_check(spec, (gwt_shape){3, 32, 32}, 10), GW_OK);
    assert_int_equal(gwt_model_check(spec, (gwt_shape){1, 28, 28}, 10), GW_ERR_ARG);
    assert_string_equal(
        gw_error_message(),
        "model vgg16 needs samples of 32 x 32 pixels, but these have 28 x 28");
    assert_int_equal(gwt_model_find("cnn", &spec), GW_OK);
    assert_int_equal(gwt_model_check(spec, (gwt_shape){1, 27, 28}, 10), GW_ERR_ARG);
    assert_non_null(strstr(gw_error_message(), "pool1"));
}

static void first_weights_depend_on_the_seed_alone(void **state)
{
    const gwt_model_spec *spec;

    (void)state;
    for (size_t i = 0; (spec = model_at(i)) != NULL; i++) {
        gwt_model *a = make(spec, 7), *b = make(spec, 7), *c = make(spec, 8);
        size_t len = gwt_model_floats(a) * sizeof(float);
        double sum = 0.0, square = 0.0, n = 0.0;
        assert_memory_equal(gwt_model_params(a), gwt_model_params(b), len);
        assert_memory_not_equal(gwt_model_params(a), gwt_model_params(c), len);
        /* The first tensor is a weight matrix: about centred, not constant. */
        size_t count;
        const gw_tensor *t = gwt_model_tensors(a, &count);
        for (size_t j = 0; j < t[0].rows * t[0].cols; j++, n += 1.0) {
            double x = (double)gwt_model_params(a)[j];
            sum += x;
            square += x * x;
        }
        assert_true(square / n > 1e-4);
        assert_true(fabs(sum / n) < 4.0 * sqrt(square / n / n));
        gwt_model_free(a);
        gwt_model_free(b);
        gwt_model_free(c);
    }
}

/* No two tensors begin with the same numbers on different scales. */
static void tensors_begin_differently(void **state)
{
    gwt_model *m = make(gwt_model_at(1), 7);
    size_t count, n = 16;
    const gw_tensor *t = gwt_model_tensors(m, &count);
    const float *a = gwt_model_params(m) + t[0].offset;
    const float *b = gwt_model_params(m) + t[2].offset;
    double ab = 0.0, aa = 0.0, bb = 0.0;

    (void)state;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    assert_true(fabs(ab) < 0.9 * sqrt(aa * bb));
    gwt_model_free(m);
}

/* Once both sizes of batch have been seen. */
static void a_step_allocates_nothing(void **state)
{
    const gwt_model_spec *spec;
    gwt_score s;

    (void)state;
    for (size_t i = 0; (spec = model_at(i)) != NULL; i++) {
        gwt_model *m = make(spec, 1);
        size_t before = gwt_alloc_count();
        for (int round = 0; round < 2; round++) {
            before = gwt_alloc_count();
            assert_int_equal(gwt_model_train(m, labels, &training, &s), GW_OK);
            assert_int_equal(gwt_model_score(m, labels, BATCH - 3, &s), GW_OK);
        }
        assert_int_equal(gwt_alloc_count(), before);
        gwt_model_free(m);
    }
}

static void no_memory_is_an_error(void **state)
{
    const gwt_model_spec *spec;

    (void)state;
    for (size_t i = 0; (spec = model_at(i)) != NULL; i++) {
        gwt_model *m = NULL;
        for (size_t k = 0; m == NULL; k++) {
            gwt_alloc_fail_at(k);
            gw_status st =
                gwt_model_new(&m, spec, shape_of(spec), classes_of(spec), BATCH);
            assert_int_equal(st, m != NULL ? GW_OK : GW_ERR_NOMEM);
        }
        gwt_alloc_fail_at((size_t)-1);
        gwt_model_free(m);
    }
    gwt_model_free(NULL);
}

/* NaN in the input is not lost on the way, and no such sample counts as right. */
static void nan_is_noticed(void **state)
{
    const gwt_model_spec *spec;

    (void)state;
    for (size_t i = 0; (spec = model_at(i)) != NULL; i++) {
        gwt_model *m = make(spec, 1);
        gwt_score s;
        int nans = 0;
        for (size_t j = 0; j < BATCH * gwt_shape_floats(shape_of(spec)); j++)
            gwt_model_input(m)[j] = NAN;
        assert_int_equal(gwt_model_train(m, labels, &training, &s), GW_OK);
        assert_true(isnan(s.loss));
        assert_int_equal(s.correct, 0);
        for (size_t j = 0; j < gwt_model_floats(m); j++)
            nans += isnan(gwt_model_grad(m)[j]) != 0;
        assert_true(nans > 0);
        gwt_model_free(m);
    }
}

static void loss_of_known_logits(void **state)
{
    const float logits[2 * 3] = {0.0f, 0.0f, 0.0f, 1000.0f, -1000.0f, 0.0f};
    const uint32_t y[2] = {2, 0};
    float delta[6];

    (void)state;
    gwt_score s = gwt_softmax_loss(logits, y, 2, 3, delta);
    assert_true(fabs(s.loss - log(3.0)) < 1e-6);
    assert_int_equal(s.correct, 1);
    assert_true(fabsf(delta[0] - 1.0f / 6) < 1e-6f);
    assert_true(fabsf(delta[2] + 2.0f / 6) < 1e-6f);
    assert_true(delta[3] == 0.0f && delta[4] == 0.0f && delta[5] == 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(fnn3_has_six_tensors),
        cmocka_unit_test(sizes_are_as_published),
        cmocka_unit_test(samples_that_do_not_fit_are_named),
        cmocka_unit_test(first_weights_depend_on_the_seed_alone),
        cmocka_unit_test(tensors_begin_differently),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(no_memory_is_an_error),
        cmocka_unit_test(nan_is_noticed),
        cmocka_unit_test(loss_of_known_logits),
    };

    gwt_compute_threads(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
