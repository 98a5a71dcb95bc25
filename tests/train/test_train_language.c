/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_language.c - what is special about language models: states that go on
 * from batch to batch, causal attention, dropout, clipping, exp and its kin. */
#include "optim/clip.h"
#include "layers/compute.h"
#include "layers/dropout.h"
#include "models/model.h"
#include "layers/smooth.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- models -------------------------------------------------------------------- */

enum { V = 11, T = 6, B = 3 };

static gwt_model *model_of(const char *name, size_t tokens)
{
    gwt_model *m;

    if (gwt_model_make(&m, name, (gwt_shape){tokens, 1, 1}, V, B) != GW_OK)
        fail_msg("%s", gw_error_message());
    gwt_model_init(m, 5);
    return m;
}

/* Scores tokens [begin, begin + n) of a made-up text, in each sample another one. */
static double score(gwt_model *m, size_t begin, size_t n)
{
    uint32_t labels[B * 2 * T];
    gwt_score s;

    for (size_t b = 0; b < B; b++)
        for (size_t t = 0; t < n; t++) {
            gwt_model_input(m)[b * n + t] = (float)(gwt_random(1, b, 0, begin + t) % V);
            labels[b * n + t] = (uint32_t)(gwt_random(1, b, 0, begin + t + 1) % V);
        }
    assert_int_equal(gwt_model_score(m, labels, B, &s), GW_OK);
    return s.loss;
}

/* Two batches of T tokens are one of 2 T; forgetting between them is not. */
static void states_go_on_from_batch_to_batch(void **state)
{
    gwt_model *half = model_of("lstm:8", T), *whole = model_of("lstm:8", 2 * T);

    (void)state;
    double first = score(half, 0, T), second = score(half, T, T);
    double together = score(whole, 0, 2 * T);
    assert_true(fabs(first + second - together) < 1e-5 * together);
    gwt_model_forget(half);
    assert_true(score(half, 0, T) == first);
    gwt_model_forget(half);
    assert_true(fabs(score(half, T, T) - second) > 1e-5);
    gwt_model_free(half);
    gwt_model_free(whole);
}

/* All that goes on is in the kept floats: restored, they give the same bits. */
static void nothing_is_hidden(void **state)
{
    gwt_model *m = model_of("lstm:8", T);
    size_t floats;
    float *kept = gwt_model_kept(m, &floats), *saved = calloc(floats, sizeof *saved);

    (void)state;
    assert_non_null(saved);
    score(m, 0, T);
    memcpy(saved, kept, floats * sizeof *kept);
    double next = score(m, T, T);
    gwt_model *other = model_of("lstm:8", T);
    memcpy(gwt_model_kept(other, &floats), saved, floats * sizeof *kept);
    assert_true(score(other, T, T) == next);
    free(saved);
    gwt_model_free(m);
    gwt_model_free(other);
}

/* The Transformer sees what came before in the row, and nothing of what follows. */
static void attention_looks_back_alone(void **state)
{
    gwt_model *m = model_of("transformer:layers=2,heads=2,width=8", T);
    uint32_t labels[B * T] = {0};
    gwt_score s;

    (void)state;
    score(m, 0, T);
    for (size_t change = 0; change < T; change++) {
        double loss[2][T];
        for (int side = 0; side < 2; side++) {
            gwt_model_input(m)[change] = (float)side;
            for (size_t t = 0; t < T; t++) {
                /* The derivative of the sum by one label tells one token's loss. */
                labels[t] = 1;
                assert_int_equal(gwt_model_score(m, labels, 1, &s), GW_OK);
                loss[side][t] = s.loss;
                labels[t] = 0;
                assert_int_equal(gwt_model_score(m, labels, 1, &s), GW_OK);
                loss[side][t] -= s.loss;
            }
        }
        for (size_t t = 0; t < T; t++)
            assert_true((fabs(loss[0][t] - loss[1][t]) > 1e-6) == (t >= change));
    }
    gwt_model_free(m);
}

static void sizes_are_as_published(void **state)
{
    static const struct {
        const char *name;
        size_t params;
    } want[] = {
        {"lstm", 4653200},
        {"lstm:650", 19780400},
        {"lstm:1500", 66034000},
        /* 10,000 x 128 + 35 x 128, 4 x (12 x 128^2 + 13 x 128), 2 x 128, 10,000 x 129
         */
        {"transformer", 3367824},
        {"transformer-10m", 18350992},
        {"transformer-30m", 41792784},
    };

    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        gwt_model *m;
        assert_int_equal(
            gwt_model_make(&m, want[i].name, (gwt_shape){35, 1, 1}, 10000, 1), GW_OK);
        assert_int_equal(gwt_model_floats(m), want[i].params);
        gwt_model_free(m);
    }
}

static void wrong_options_are_told(void **state)
{
    static const char *const wrong[][2] = {
        {"lstm:big", "'big'"},
        {"lstm:0", "0 is not between"},
        {"transformer:depth=3", "'depth'"},
        {"transformer:layers", "layers"},
        {"transformer:width=10,heads=4", "4 heads"},
        {"fnn3:9", "':9' was given"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const gwt_model_spec *spec;
        assert_int_equal(gwt_model_find(wrong[i][0], &spec), GW_ERR_ARG);
        if (strstr(gw_error_message(), wrong[i][1]) == NULL)
            fail_msg("%s: %s", wrong[i][0], gw_error_message());
    }
}

/* ---- functions ----------------------------------------------------------------- */

static void smooth_functions_are_close(void **state)
{
    (void)state;
    for (int i = -86000; i <= 87000; i++) {
        float x = (float)i * 1e-3f;
        double d = (double)x;
        assert_true(fabs((double)gwt_exp(x) / exp(d) - 1.0) < 3e-7);
        assert_true(fabs((double)gwt_sigmoid(x) * (1.0 + exp(-d)) - 1.0) < 3e-7);
        assert_true(fabs((double)gwt_tanh(x * 0.1f) - tanh((double)(x * 0.1f))) <=
                    3e-7 * fabs(tanh((double)(x * 0.1f))));
    }
    assert_true(gwt_exp(0.0f) == 1.0f && gwt_exp(-1000.0f) == 0.0f);
    assert_true(gwt_tanh(0.0f) == 0.0f && gwt_tanh(50.0f) == 1.0f);
    assert_true(isnan(gwt_exp(NAN)) && isnan(gwt_tanh(NAN)) && isnan(gwt_sigmoid(NAN)));
}

GWT_VECTOR static void smooth_row(const float *restrict x, float (*restrict y)[64])
{
    for (size_t i = 0; i < 64; i++)
        y[0][i] = gwt_exp(x[i]);
    for (size_t i = 0; i < 64; i++)
        y[1][i] = gwt_sigmoid(x[i]);
    for (size_t i = 0; i < 64; i++)
        y[2][i] = gwt_tanh(x[i]);
}

/* A million floats of all sizes and both zeros, in vector code: runs of earlier
 * versions are to be repeated, on any CPU, so the digest must never change. */
static void smooth_functions_keep_their_bits(void **state)
{
    uint64_t digest = UINT64_C(14695981039346656037);

    (void)state;
    for (uint32_t i = 0; i < 1 << 20; i += 64) {
        float x[64], y[3][64];
        for (uint32_t l = 0; l < 64; l++) {
            x[l] = gwt_float((int32_t)((i + l) * 4096u));
            x[l] = x[l] == x[l] ? x[l] : 1.0f;
        }
        smooth_row(x, y);
        for (size_t l = 0; l < 3 * 64; l++) {
            uint64_t bits = (uint32_t)gwt_bits(y[l / 64][l % 64]);
            digest = (digest ^ bits) * UINT64_C(1099511628211);
        }
    }
    assert_true(digest == UINT64_C(0x0367e61450148a52));
}

static void long_gradients_are_shortened(void **state)
{
    enum { N = 10007 };
    static float g[N], before[N];
    double square = 0.0;

    (void)state;
    for (size_t i = 0; i < N; i++)
        before[i] = g[i] = (float)(gwt_random(1, 2, 3, i) >> 40) * 0x1p-24f - 0.5f;
    gwt_clip(g, N, 1e6);
    assert_memory_equal(g, before, sizeof g);
    gwt_clip(g, N, 0.25);
    for (size_t i = 0; i < N; i++) {
        square += (double)g[i] * (double)g[i];
        assert_true(fabsf(g[i] * before[0] - g[0] * before[i]) < 1e-6f);
    }
    assert_true(fabs(sqrt(square) - 0.25) < 1e-6);
    g[7] = NAN;
    memcpy(before, g, sizeof g);
    gwt_clip(g, N, 0.1);
    assert_memory_equal(g, before, sizeof g);
}

/* About the share that was asked for, another choice for every step, worker, layer
 * and seed, the same for the same. */
static void dropout_depends_on_counters(void **state)
{
    enum { N = 40000 };
    static float mask[6][N];
    gwt_layer layer[2] = {{.index = 1}, {.index = 2}};
    const gwt_pass pass[5] = {
        {.batch = 1, .training = 1, .seed = 1, .step = 3, .dropout = 0.3},
        {.batch = 1, .training = 1, .seed = 1, .step = 4, .dropout = 0.3},
        {.batch = 1, .training = 1, .seed = 1, .step = 3, .worker = 1, .dropout = 0.3},
        {.batch = 1, .training = 1, .seed = 2, .step = 3, .dropout = 0.3},
        {.batch = 1, .training = 1, .seed = 1, .step = 3, .dropout = 0.3},
    };

    (void)state;
    for (size_t i = 0; i < 5; i++)
        gwt_dropout_mask(&layer[0], &pass[i], N, mask[i]);
    gwt_dropout_mask(&layer[1], &pass[0], N, mask[5]);
    assert_memory_equal(mask[0], mask[4], sizeof mask[0]);
    for (size_t i = 0; i < 6; i++) {
        size_t dropped = 0, same = 0;
        for (size_t j = 0; j < N; j++) {
            assert_true(mask[i][j] == 0.0f || fabsf(mask[i][j] - 1 / 0.7f) < 1e-6f);
            dropped += mask[i][j] == 0.0f;
            same += mask[i][j] == mask[0][j];
        }
        assert_true(fabs((double)dropped / N - 0.3) < 0.01);
        if (i != 0 && i != 4)
            assert_true(fabs((double)same / N - 0.58) < 0.02);
    }
    assert_false(gwt_dropout_on(&(gwt_pass){.dropout = 0.3}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_go_on_from_batch_to_batch),
        cmocka_unit_test(nothing_is_hidden),
        cmocka_unit_test(attention_looks_back_alone),
        cmocka_unit_test(sizes_are_as_published),
        cmocka_unit_test(wrong_options_are_told),
        cmocka_unit_test(smooth_functions_are_close),
        cmocka_unit_test(smooth_functions_keep_their_bits),
        cmocka_unit_test(long_gradients_are_shortened),
        cmocka_unit_test(dropout_depends_on_counters),
    };

    gwt_compute_threads(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
