/* SPDX-License-Identifier: Apache-2.0
 *
 * test_describe.c - what the library tells about specs, beside what syncs really do. */
#define _GNU_SOURCE
#include "support_conform.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support_model.h"
#include "sync/beside/stream.h"
#include "sync/sync.h"

static gw_spec_info info_of(const char *spec)
{
    gw_spec_info info = {.struct_size = sizeof info};

    if (gw_spec_describe(spec, &info) != GW_OK)
        fail_msg("%s: %s", spec, gw_error_message());
    return info;
}

/* ---- beside a sync ------------------------------------------------------- */

enum { N = MODEL_FLOATS, STEPS = 12 };

/* What was seen of a sync in a few steps. */
typedef struct seen {
    uint64_t by_gradient, by_model, by_finish; /* bytes sent in these calls */
    bool due;                                  /* gw_sync_model() was */
    int equal;                                 /* steps that left the models equal */
} seen;

static uint64_t sent(const gw_comm *c)
{
    return gw_comm_traffic(c).bytes_sent;
}

static gw_status watch_equal(gw_comm *c, const float *x, seen *out)
{
    uint64_t own = model_digest(x), digests[2];
    size_t lens[2];

    PASS_ON(gw_allgather(c, &own, sizeof own, digests, sizeof own, lens));
    out->equal += digests[0] == digests[1];
    return GW_OK;
}

static gw_status watch_step(gw_comm *c, gw_sync *s, float *x, int t, seen *out)
{
    float *g = x + N;
    uint64_t before;

    model_gradient(g, x, gw_comm_rank(c), t);
    before = sent(c);
    PASS_ON(gw_sync_gradient(s, g));
    out->by_gradient += sent(c) - before;
    for (size_t i = 0; i < N; i++)
        x[i] -= 0.1f * g[i];
    before = sent(c);
    out->due |= gw_sync_model_due(s) != 0;
    PASS_ON(gw_sync_model(s, x));
    out->by_model += sent(c) - before;
    return watch_equal(c, x, out);
}

static gw_status watch(gw_comm *c, gw_sync *s, float *x, seen *out)
{
    uint64_t before;

    PASS_ON(gw_sync_start(s, x));
    for (int t = 1; t <= STEPS; t++)
        PASS_ON(watch_step(c, s, x, t, out));
    before = sent(c);
    PASS_ON(gw_sync_finish(s, x));
    out->by_finish = sent(c) - before;
    return GW_OK;
}

static gw_status compare(const char *spec, const gw_sync *s, const seen *seen)
{
    gw_spec_info info = info_of(spec);
    unsigned t = info.traits;
    int vectors = 0;

    for (int tag = 0; tag < GWI_TAGS; tag++)
        vectors += s->kept[tag] != NULL && tag != GWI_RATE && tag != GWI_SCALE &&
                   tag != GWI_FACTOR && tag != GWI_WAITING;

#define SAME(trait, fact) \
    REQUIRE(!(t & (trait)) == !(fact), "%s: %s", spec, gw_trait_text(trait))
    SAME(GW_TRAIT_SENDS_GRADIENTS, seen->by_gradient > 0);
    SAME(GW_TRAIT_KEEPS_EQUAL, gw_sync_keeps_equal(s));
    SAME(GW_TRAIT_MEETS, seen->equal > 0 && !gw_sync_keeps_equal(s));
    SAME(GW_TRAIT_OVERLAPS, gw_sync_overlaps(s));
    SAME(GW_TRAIT_RESIDUAL, s->kept[GWI_RESIDUAL] != NULL);
    SAME(GW_TRAIT_LATE, s->late != NULL || gwi_streams_late(&s->spec));
    SAME(GW_TRAIT_POLYAK, s->kept[GWI_MEAN] != NULL);
#undef SAME
    /* Models that are averaged in every step are equal as well. */
    REQUIRE(!(t & GW_TRAIT_KEEPS_EQUAL) || seen->equal == STEPS, "%s: models differ",
            spec);
    REQUIRE(info.bytes_per_param == 4.0 * vectors, "%s: %g bytes for %d vectors", spec,
            info.bytes_per_param, vectors);
    REQUIRE(info.memories == (size_t)vectors + (s->kept[GWI_RATE] != NULL) +
                                 (s->kept[GWI_SCALE] != NULL) +
                                 (s->kept[GWI_FACTOR] != NULL) +
                                 (s->kept[GWI_WAITING] != NULL),
            "%s: %zu memories for %d vectors", spec, info.memories, vectors);
    for (size_t i = 0; i < info.memories; i++) {
        gw_memory_info memory = {.struct_size = sizeof memory};
        PASS_ON(gw_memory_describe(spec, i, &memory));
        REQUIRE(s->kept[memory.bit] != NULL, "%s has no %s", spec, memory.name);
    }
    REQUIRE((info.period > 0) == (seen->by_gradient + seen->by_model > 0),
            "%s: the period is wrong", spec);
    REQUIRE(!seen->due || (t & GW_TRAIT_NEEDS_MODEL), "%s needs models", spec);
    REQUIRE(seen->by_model == 0 ||
                (t & (GW_TRAIT_SENDS_MODELS | GW_TRAIT_SENDS_CHANGES)),
            "%s sends models", spec);
    return GW_OK;
}

static gw_status compare_body(gw_comm *c, void *arg)
{
    float *x = calloc(2 * N, sizeof *x);
    char spec[256];
    seen seen = {0};
    gw_sync *s = NULL;

    /* Comparisons of models are no part of the method. */
    snprintf(spec, sizeof spec, "%s+check:0", (const char *)arg);
    if (gw_spec_check(spec, NULL, 0) != GW_OK)
        snprintf(spec, sizeof spec, "%s", (const char *)arg);
    gw_status st = model_sync(&s, c, spec, GW_NONFINITE_STOP);
    if (st == GW_OK)
        st = watch(c, s, x, &seen);
    if (st == GW_OK)
        st = compare(spec, s, &seen);
    gw_sync_free(s);
    free(x);
    return st;
}

static void test_told_is_done(void **state)
{
    const char *spec;

    (void)state;
    for (size_t i = 0; (spec = conform_spec(i)) != NULL; i++)
        assert_run_ok(
            ranks_run(RANKS_THREADS, 2, compare_body, (void *)(uintptr_t)spec));
}

/* ---- by hand ------------------------------------------------------------- */

#define GRADIENTS GW_TRAIT_SENDS_GRADIENTS
#define MODELS    GW_TRAIT_SENDS_MODELS
#define CHANGES   GW_TRAIT_SENDS_CHANGES
#define EQUAL     GW_TRAIT_KEEPS_EQUAL
#define SAME      GW_TRAIT_SAME_COORDINATES
#define LATE      (GW_TRAIT_RESIDUAL | GW_TRAIT_LIKE_MOMENTUM)
#define BY_MODEL  (GW_TRAIT_NEEDS_MODEL | GW_TRAIT_ENDS_AVERAGED)
#define DENSE     (GRADIENTS | EQUAL | SAME | GW_TRAIT_OVERLAPS)
#define LISTS     (GRADIENTS | EQUAL | GW_TRAIT_SPARSE)

static const struct told {
    const char *spec;
    unsigned traits;
    double bytes;
    uint64_t period;
} told[] = {
    {"dense", DENSE, 0, 1},
    {"topk:1", DENSE, 0, 1},
    {"local:1", DENSE, 0, 1},
    {"none", GW_TRAIT_DRIFTS, 0, 0},
    {"topk:0.1", LISTS | LATE | GW_TRAIT_GATHERS, 4, 1},
    {"topk:0.1,residual=off", LISTS | GW_TRAIT_GATHERS, 0, 1},
    {"drop:0.9+momentum:0.9", LISTS | GW_TRAIT_GATHERS | GW_TRAIT_RESIDUAL, 8, 1},
    {"gtopk:0.1+q:4", LISTS | LATE | GW_TRAIT_CODED, 4, 1},
    {"qsgd:4", GRADIENTS | EQUAL | SAME | GW_TRAIT_CODED, 0, 1},
    {"qsgd:8,residual=on,via=gather",
     GRADIENTS | EQUAL | SAME | GW_TRAIT_CODED | GW_TRAIT_RESIDUAL | GW_TRAIT_GATHERS,
     4, 1},
    {"a2sgd", GRADIENTS | SAME | GW_TRAIT_CODED | GW_TRAIT_DRIFTS, 0, 1},
    {"a2sgd:resync=3",
     GRADIENTS | MODELS | SAME | GW_TRAIT_CODED | GW_TRAIT_MEETS | GW_TRAIT_NEEDS_MODEL,
     0, 1},
    {"local:8", MODELS | SAME | BY_MODEL | GW_TRAIT_MEETS, 0, 8},
    {"local:8,start=3", GRADIENTS | MODELS | SAME | BY_MODEL | GW_TRAIT_MEETS, 0, 8},
    {"local:grow,grow=2,average=polyak",
     MODELS | SAME | BY_MODEL | GW_TRAIT_MEETS | GW_TRAIT_POLYAK, 4, 1},
    {"oneshot", MODELS | SAME | BY_MODEL | GW_TRAIT_DRIFTS, 0, 0},
    {"spa:4", MODELS | SAME | BY_MODEL | GW_TRAIT_SPARSE, 0, 1},
    {"pqasgd:4,8", CHANGES | SAME | BY_MODEL | GW_TRAIT_MEETS | GW_TRAIT_CODED, 4, 4},
    {"local:4+topk:0.1",
     CHANGES | BY_MODEL | GW_TRAIT_MEETS | GW_TRAIT_SPARSE | GW_TRAIT_GATHERS |
         GW_TRAIT_RESIDUAL,
     8, 4},
    {"topk:0.1+ef21", LISTS | GW_TRAIT_GATHERS | GW_TRAIT_RESIDUAL, 12, 1},
    {"topk:0.1,via=owner", LISTS | LATE, 4, 1},
    {"topk:0.1,via=auto", LISTS | LATE, 4, 1},
    {"local:4+outer:1,0", MODELS | SAME | BY_MODEL | GW_TRAIT_MEETS, 0, 4},
    {"local:4+outer:0.4,0",
     CHANGES | SAME | BY_MODEL | GW_TRAIT_MEETS | GW_TRAIT_OUTER_STEP, 4, 4},
    {"diloco:4", CHANGES | SAME | BY_MODEL | GW_TRAIT_MEETS | GW_TRAIT_OUTER_STEP, 8,
     4},
    {"sparta:0.1,resync=4+outer",
     MODELS | SAME | BY_MODEL | GW_TRAIT_SPARSE | GW_TRAIT_MEETS | GW_TRAIT_OUTER_STEP,
     8, 1},
};

static void test_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        gw_spec_info info = info_of(told[i].spec);
        unsigned other = info.traits ^ told[i].traits;
        if (other != 0)
            fail_msg("%s: '%s' is wrong", told[i].spec,
                     gw_trait_text((gw_trait)(other & -other)));
        if (info.bytes_per_param != told[i].bytes || info.period != told[i].period)
            fail_msg("%s: %g bytes, period %d", told[i].spec, info.bytes_per_param,
                     (int)info.period);
        assert_true((info.growth == 2) == (i == 14));
    }
}

static void test_resync(void **state)
{
    (void)state;
    assert_int_equal(info_of("sparta:0.1").resync, 0);
    assert_int_equal(info_of("sparta:0.1,resync=30+outer").resync, 30);
    assert_int_equal(info_of("a2sgd:resync=7").resync, 7);
    assert_int_equal(info_of("local:4").resync, 0);
}

static void test_stages_of_a_spec(void **state)
{
    gw_spec_info info = info_of("local:4+topk:0.1+q:4");

    (void)state;
    assert_string_equal(info.stages[0], "local");
    assert_string_equal(info.stages[1], "topk");
    assert_string_equal(info.stages[2], "q");
    assert_null(info.stages[3]);
}

/* ---- stages and keys ------------------------------------------------------ */

static gw_stage_info stage_of(const char *name)
{
    gw_stage_info stage = {.struct_size = sizeof stage};

    if (gw_stage_describe(name, &stage) != GW_OK)
        fail_msg("%s: %s", name, gw_error_message());
    return stage;
}

static void is_one_line(const char *text)
{
    assert_non_null(text);
    assert_in_range(strlen(text), 1, 80);
    assert_null(strchr(text, '\n'));
}

/* A default, written out, fits and changes nothing; what has none is required. */
static void check_key(const gw_stage_info *stage, const gw_key_info *key)
{
    char base[128], with[256], one[256], other[256];
    bool outer = strcmp(stage->name, "outer") == 0;
    const char *before = stage->recipe ? "" : outer ? "local:2+" : "topk:0.01+";

    is_one_line(key->name);
    is_one_line(key->range);
    is_one_line(key->meaning);
    snprintf(base, sizeof base, "%s%s", before, stage->example);
    assert_run_ok(gw_spec_check(base, one, sizeof one));
    if (key->fallback == NULL) {
        snprintf(with, sizeof with, "%s%s", before, stage->name);
        assert_int_equal(gw_spec_check(with, NULL, 0), GW_ERR_SPEC);
        assert_non_null(strchr(stage->example, ':'));
        return;
    }
    snprintf(with, sizeof with, "%s%c%s=%s", base,
             strchr(stage->example, ':') != NULL ? ',' : ':', key->name, key->fallback);
    assert_run_ok(gw_spec_check(with, other, sizeof other));
    assert_string_equal(one, other);
}

static void test_every_stage(void **state)
{
    const gwi_stage *s;
    gw_key_info key = {.struct_size = sizeof key};

    (void)state;
    for (size_t i = 0; (s = gwi_stage_at(i)) != NULL; i++) {
        gw_stage_info stage = stage_of(s->name);
        is_one_line(stage.summary);
        is_one_line(stage.cost);
        if (stage.recipe || stage.expect != NULL)
            is_one_line(stage.expect);
        assert_true(stage.recipe == (gw_recipe_name(i) != NULL));
        for (size_t k = 0; k < stage.keys; k++) {
            key.struct_size = sizeof key;
            assert_run_ok(gw_key_describe(s->name, k, &key));
            check_key(&stage, &key);
        }
        assert_int_equal(gw_key_describe(s->name, stage.keys, &key), GW_ERR_ARG);
    }
}

static void test_recipes(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; gw_recipe_name(i) != NULL; i++) {
        gw_spec_info info = info_of(gw_recipe_example(i));
        assert_string_equal(info.stages[0], gw_recipe_name(i));
        assert_null(info.stages[1]);
        assert_string_equal(gw_recipe_summary(i), stage_of(info.stages[0]).summary);
    }
    assert_in_range(i, 11, 100);
    assert_null(gw_recipe_example(i));
    assert_null(gw_recipe_example(1000));
}

/* ---- structs of other versions, and mistakes -------------------------------- */

static void test_sizes(void **state)
{
    struct {
        gw_spec_info info;
        char later[32];
    } larger;
    gw_spec_info info;
    const char zeros[32] = {0};

    (void)state;
    memset(&larger, 0xff, sizeof larger);
    larger.info.struct_size = sizeof larger;
    assert_run_ok(gw_spec_describe("topk:0.1", &larger.info));
    assert_int_equal(larger.info.struct_size, sizeof(gw_spec_info));
    assert_memory_equal(larger.later, zeros, sizeof zeros);
    memset(&info, 0x55, sizeof info);
    /* Programs of before `memories` was there. */
    info.struct_size = offsetof(gw_spec_info, memories);
    assert_run_ok(gw_spec_describe("topk:0.1", &info));
    assert_int_equal(info.struct_size, offsetof(gw_spec_info, memories));
    memset(&info, 0x55, sizeof info);
    info.struct_size = offsetof(gw_spec_info, memories) - 1;
    assert_int_equal(gw_spec_describe("topk:0.1", &info), GW_ERR_ARG);
    assert_non_null(strstr(gw_error_message(), "struct_size"));
    assert_int_equal(info.traits, 0x55555555);
    info.struct_size = sizeof info;
    assert_int_equal(gw_spec_describe("topk", &info), GW_ERR_SPEC);
    assert_int_equal(info.traits, 0x55555555);
    assert_int_equal(gw_spec_describe("topk:0.1", NULL), GW_ERR_ARG);
    assert_int_equal(gw_spec_describe(NULL, &info), GW_ERR_SPEC);
}

static void test_unknown_names(void **state)
{
    gw_stage_info stage = {.struct_size = sizeof stage};
    gw_key_info key = {.struct_size = sizeof key};

    (void)state;
    assert_int_equal(gw_stage_describe("gtopkk", &stage), GW_ERR_SPEC);
    assert_non_null(strstr(gw_error_message(), "did you mean 'gtopk'?"));
    assert_int_equal(gw_stage_describe(NULL, &stage), GW_ERR_ARG);
    assert_int_equal(gw_stage_describe("topk", NULL), GW_ERR_ARG);
    assert_int_equal(gw_key_describe("topkk", 0, &key), GW_ERR_SPEC);
    assert_int_equal(gw_key_describe(NULL, 0, &key), GW_ERR_ARG);
    assert_string_equal(gw_trait_text((gw_trait)3), "unknown trait");
    assert_string_equal(gw_trait_text(GW_TRAIT_SPARSE),
                        "sends only some of the coordinates");
}

static void test_link(void **state)
{
    double rate = -1, latency = -1;

    (void)state;
    assert_run_ok(gw_link_parse("8mbit,50us", &rate, &latency));
    assert_true(rate == 1e6 && fabs(latency - 50e-6) < 1e-12);
    assert_run_ok(gw_link_parse("1gbit", &rate, &latency));
    assert_true(rate == 1.25e8 && latency == 0);
    assert_run_ok(gw_link_parse("1gbit", NULL, NULL));
    assert_int_equal(gw_link_parse("1gbitt", &rate, &latency), GW_ERR_ARG);
    assert_non_null(strstr(gw_error_message(), "1gbitt"));
    assert_int_equal(gw_link_parse("2gbit,3", &rate, &latency), GW_ERR_ARG);
    assert_int_equal(gw_link_parse(NULL, &rate, &latency), GW_ERR_ARG);
    assert_true(rate == 1.25e8 && latency == 0);
}

/* ---- how messages wait ------------------------------------------------------- */

static void check_path(const char *spec, const gw_layout *layout, gw_traffic t,
                       double rounds, double bytes)
{
    double found[2];

    assert_run_ok(gw_spec_path(spec, layout, 4, &t, &found[0], &found[1]));
    if (fabs(found[0] - rounds) > 1e-9 || fabs(found[1] - bytes) > 1e-6)
        fail_msg("%s: %g rounds, %g bytes", spec, found[0], found[1]);
}

static void test_path(void **state)
{
    const gw_tensor tensors[] = {{"a", 0, 1, 1 << 20}, {"b", 1 << 20, 1, 1 << 20}};
    const double n = 2 << 20;
    gw_traffic dense = {.bytes_sent = (uint64_t)(6 * n) + 100, .messages_sent = 99};
    gw_traffic twice = {.bytes_sent = (uint64_t)(12 * n) + 100, .messages_sent = 99};
    gw_traffic share = {.bytes_sent = (uint64_t)(9 * n) + 100, .messages_sent = 99};
    gw_traffic lists = {.bytes_sent = 300, .bytes_received = 330, .messages_sent = 6};
    double found[2];
    gw_layout *layout;

    (void)state;
    assert_run_ok(gw_layout_new(&layout, tensors, 2));
    check_path("dense", layout, dense, 2 * 6, 6 * n); /* two buckets of one ring */
    check_path("local:8", layout, dense, 6, 6 * n);
    check_path("local:8", layout, twice, 12, 12 * n);
    check_path("diloco:8", layout, dense, 2 * 6, 6 * n);
    check_path("diloco:8,fragments=4", layout, dense, 4 * 6, 6 * n);
    check_path("diloco:8,fragments=2,cut=tensors,delay=1", layout, twice, 4 * 6,
               12 * n);
    check_path("spa:2", layout, dense, 12, 6 * n);
    check_path("sparta:0.5,resync=2", layout, share, 6 + 6, 9 * n);
    check_path("topk:0.1", layout, lists, 2, 330);
    check_path("qsgd:4", layout, lists, 2, 330);
    check_path("gtopk:0.1", layout, lists, 6, 300);
    check_path("gtopk:0.1,via=tree", layout, lists, 12, 600);
    check_path("a2sgd", layout, lists, 6, 300);
    check_path("none", layout, (gw_traffic){0}, 0, 0);
    assert_run_ok(gw_spec_path("dense", layout, 1, &dense, &found[0], &found[1]));
    assert_true(found[0] == 0 && found[1] == 0);
    assert_int_equal(gw_spec_path("dens", layout, 4, &dense, &found[0], &found[1]),
                     GW_ERR_SPEC);
    assert_int_equal(gw_spec_path("diloco:8,fragments=3,cut=tensors", layout, 4, &dense,
                                  &found[0], &found[1]),
                     GW_ERR_ARG);
    assert_int_equal(gw_spec_path("dense", NULL, 4, &dense, &found[0], &found[1]),
                     GW_ERR_ARG);
    assert_int_equal(gw_spec_path("dense", layout, 0, &dense, &found[0], &found[1]),
                     GW_ERR_ARG);
    gw_layout_free(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_told_is_done), cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_resync),       cmocka_unit_test(test_stages_of_a_spec),
        cmocka_unit_test(test_every_stage),  cmocka_unit_test(test_recipes),
        cmocka_unit_test(test_sizes),        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_link),         cmocka_unit_test(test_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
