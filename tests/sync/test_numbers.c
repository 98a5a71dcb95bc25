/* SPDX-License-Identifier: Apache-2.0
 *
 * test_numbers.c - NaN and infinity wherever they can get in: in a model, in a sum of
 * finite numbers, in a residual, in a state, in a message. All workers learn of it. */
#define _GNU_SOURCE
#include "support_model.h"
#include "support_ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sync/notes.h"

enum { WORKERS = 3, N = MODEL_FLOATS, PLACE = 1215 }; /* in the second tensor */

typedef struct scene {
    const char *spec;
    gw_nonfinite nonfinite;
    float gradient; /* of all workers at PLACE in step 2 */
    float model;    /* what worker 1's model gets there before gw_sync_model() */
    int steps;
    const char *words[3]; /* that the message has */
    gw_status due;        /* of every worker, in some step */
} scene;

static gw_status one_step(const scene *sc, gw_sync *s, int rank, int t, float *x,
                          float *g)
{
    model_gradient(g, x, rank, t);
    if (t == 2 && sc->gradient != 0)
        g[PLACE] = sc->gradient;
    gw_status st = gw_sync_gradient(s, g);
    if (st != GW_OK)
        return st;
    for (size_t i = 0; i < N; i++)
        x[i] -= 0.01f * g[i];
    if (t == 2 && rank == 1 && sc->model != 0)
        x[PLACE] = sc->model;
    return gw_sync_model(s, x);
}

static gw_status check_words(const scene *sc)
{
    for (int i = 0; i < 3 && sc->words[i] != NULL; i++)
        REQUIRE(strstr(gw_error_message(), sc->words[i]) != NULL,
                "%s: '%.300s' does not say '%s'", sc->spec, gw_error_message(),
                sc->words[i]);
    return GW_OK;
}

static gw_status scene_body(gw_comm *c, void *arg)
{
    const scene *sc = arg;
    float *x = calloc(2 * N, sizeof *x);
    gw_sync *s;
    gw_status st = GW_OK, found = GW_OK;

    PASS_ON(model_sync(&s, c, sc->spec, sc->nonfinite));
    PASS_ON(gw_sync_start(s, x));
    for (int t = 1; st >= GW_OK && t <= sc->steps; t++) {
        st = one_step(sc, s, gw_comm_rank(c), t, x, x + N);
        found = st != GW_OK ? st : found;
    }
    gw_sync_free(s);
    free(x);
    REQUIRE(found == sc->due, "%s: %s on worker %d, not %s (%.200s)", sc->spec,
            gw_status_name(found), gw_comm_rank(c), gw_status_name(sc->due),
            gw_error_message());
    return found < GW_OK ? check_words(sc) : GW_OK;
}

static void play(const scene *scenes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_run_ok(ranks_run(RANKS_THREADS, WORKERS, scene_body,
                                (void *)(uintptr_t)&scenes[i]));
}

#define MODEL_SCENE(text)                                                        \
    {                                                                            \
        .spec = text, .model = NAN, .steps = 6, .due = GW_ERR_NUMBER, .words = { \
            "model of worker 1",                                                 \
            "'bias'",                                                            \
            "step "                                                              \
        }                                                                        \
    }

static void test_a_model_with_nan(void **state)
{
    static const scene scenes[] = {
        MODEL_SCENE("local:2"),          MODEL_SCENE("spa:3"),
        MODEL_SCENE("pqasgd:2,8"),       MODEL_SCENE("pqasgd:2,4,via=gather"),
        MODEL_SCENE("local:2+topk:0.1"), MODEL_SCENE("local:2+gtopk:0.1"),
        MODEL_SCENE("local:2+q:4"),      MODEL_SCENE("local:2+bf16"),
        MODEL_SCENE("local:2+drop:0.9"),
    };

    (void)state;
    play(scenes, sizeof scenes / sizeof *scenes);
}

/* What worker 0 hands out at the beginning is looked at by all who get it. */
static gw_status start_body(gw_comm *c, void *arg)
{
    const scene *sc = arg;
    float *x = calloc(N, sizeof *x);
    gw_sync *s;

    PASS_ON(model_sync(&s, c, sc->spec, sc->nonfinite));
    if (gw_comm_rank(c) == 0)
        x[PLACE] = sc->model;
    gw_status st = gw_sync_start(s, x);
    gw_sync_free(s);
    free(x);
    REQUIRE(st == sc->due, "%s: %s on worker %d (%.200s)", sc->spec, gw_status_name(st),
            gw_comm_rank(c), gw_error_message());
    return st < GW_OK ? check_words(sc) : GW_OK;
}

static void test_a_start_with_nan(void **state)
{
    static const scene scenes[] = {
        {.spec = "dense",
         .nonfinite = GW_NONFINITE_STOP,
         .model = NAN,
         .words = {"model of worker 0", "'bias'", "step 0"},
         .due = GW_ERR_NUMBER},
        {.spec = "pqasgd:2,8",
         .nonfinite = GW_NONFINITE_SKIP,
         .model = -INFINITY,
         .words = {"model of worker 0", "'bias'", "step 0"},
         .due = GW_ERR_NUMBER},
        {.spec = "topk:0.1", .nonfinite = GW_NONFINITE_IGNORE, .model = NAN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        assert_run_ok(ranks_run(RANKS_THREADS, WORKERS, start_body,
                                (void *)(uintptr_t)&scenes[i]));
}

#define SUM_SCENE(text, policy, status)                                   \
    {                                                                     \
        .spec = text, .nonfinite = policy, .gradient = 3e38f, .steps = 3, \
        .due = status, .words = {                                         \
            "sum of the workers' gradients",                              \
            "'bias'"                                                      \
        }                                                                 \
    }

static void test_a_sum_that_overflows(void **state)
{
    static const scene scenes[] = {
        SUM_SCENE("dense", GW_NONFINITE_STOP, GW_ERR_NUMBER),
        SUM_SCENE("dense", GW_NONFINITE_SKIP, GW_SKIPPED),
        SUM_SCENE("dense+bf16", GW_NONFINITE_STOP, GW_ERR_NUMBER),
        SUM_SCENE("qsgd:4,via=gather", GW_NONFINITE_STOP, GW_ERR_NUMBER),
        SUM_SCENE("qsgd:4,via=scatter", GW_NONFINITE_STOP, GW_ERR_NUMBER),
        SUM_SCENE("qsgd:4,via=scatter", GW_NONFINITE_SKIP, GW_SKIPPED),
        SUM_SCENE("qsgd:4,dense_below=31", GW_NONFINITE_STOP, GW_ERR_NUMBER),
        SUM_SCENE("gtopk:0.02", GW_NONFINITE_STOP, GW_ERR_NUMBER),
        SUM_SCENE("gtopk:0.02", GW_NONFINITE_SKIP, GW_SKIPPED),
        SUM_SCENE("gtopk:0.02", GW_NONFINITE_END, GW_ERR_NUMBER),
        SUM_SCENE("gtopk:0.02,dense_below=100", GW_NONFINITE_STOP, GW_ERR_NUMBER),
        /* Each is divided before it is added. */
        SUM_SCENE("topk:0.02", GW_NONFINITE_STOP, GW_OK),
    };

    (void)state;
    play(scenes, sizeof scenes / sizeof *scenes);
}

/* ---- states ------------------------------------------------------------- */

static gw_status state_body(gw_comm *c, void *arg)
{
    gw_sync *s;

    (void)arg;
    PASS_ON(model_sync(&s, c, "topk:0.02", GW_NONFINITE_STOP));
    size_t len = gw_sync_state_len(s);
    uint8_t *state = malloc(len);
    const float nan = NAN;
    PASS_ON(gw_sync_save(s, state, len));
    memcpy(state + 376 + 4 * PLACE, &nan, sizeof nan);
    PASS_ON(gw_state_seal(state, len));
    gw_status st = gw_sync_load(s, (const void *const[]){state}, &len, 1);
    free(state);
    gw_sync_free(s);
    REQUIRE(st == GW_ERR_DATA, "a NaN residual gives %s", gw_status_name(st));
    REQUIRE(strstr(gw_error_message(), "residual, tensor 'bias'") != NULL, "%.300s",
            gw_error_message());
    return GW_OK;
}

static void test_a_state_with_nan(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 1, state_body, NULL));
}

/* ---- messages ----------------------------------------------------------- */

/* Worker 1 sends a message of its own making to worker 0, in place of taking part. */
typedef struct stranger {
    gw_nonfinite nonfinite;
    uint32_t step, worker, tensor;
    size_t cut; /* bytes of the note that are sent */
    const char *words;
} stranger;

static gw_status stranger_body(gw_comm *c, void *arg)
{
    const stranger *e = arg;
    uint8_t note[GWI_WIRE_NOTE_LEN];
    float *g = calloc(N, sizeof *g);
    gw_sync *s;
    gw_status st = GW_OK;

    PASS_ON(model_sync(&s, c, "topk:0.02", e->nonfinite));
    g[5] = 1;
    if (gw_comm_rank(c) == 1) {
        gwi_wire_put_note(note, N, e->step, (gwi_wire_trouble){e->worker, e->tensor});
        PASS_ON(gwi_send(c, &c->ops[0], 0, note, e->cut));
        PASS_ON(gwi_wait(c, &c->ops[0]));
    } else {
        st = gw_sync_gradient(s, g);
        REQUIRE(st == GW_ERR_DATA, "%s, not GW_ERR_DATA (%s)", gw_status_name(st),
                e->words);
        REQUIRE(strstr(gw_error_message(), e->words) != NULL &&
                    strstr(gw_error_message(), "worker 1") != NULL,
                "'%.300s' does not say '%s'", gw_error_message(), e->words);
    }
    gw_sync_free(s);
    free(g);
    return GW_OK;
}

static void test_notes_are_looked_at(void **state)
{
    static const stranger strangers[] = {
        {GW_NONFINITE_STOP, 1, 7, 1, GWI_WIRE_NOTE_LEN, "worker 7"},
        {GW_NONFINITE_STOP, 1, UINT32_MAX, 1, GWI_WIRE_NOTE_LEN, "there are 3 tensors"},
        {GW_NONFINITE_STOP, 1, 1, 3, GWI_WIRE_NOTE_LEN, "tensor 3"},
        {GW_NONFINITE_STOP, 2, 1, 1, GWI_WIRE_NOTE_LEN, "step 2"},
        {GW_NONFINITE_STOP, 1, 1, 1, 8, "shorter than its header"},
        {GW_NONFINITE_STOP, 1, 1, 1, 24, "damaged"},
        {GW_NONFINITE_IGNORE, 1, 1, 1, GWI_WIRE_NOTE_LEN, "does not check for"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++)
        assert_run_ok(ranks_run(RANKS_THREADS, 2, stranger_body,
                                (void *)(uintptr_t)&strangers[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_model_with_nan),
        cmocka_unit_test(test_a_start_with_nan),
        cmocka_unit_test(test_a_sum_that_overflows),
        cmocka_unit_test(test_a_state_with_nan),
        cmocka_unit_test(test_notes_are_looked_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
