/* SPDX-License-Identifier: Apache-2.0
 *
 * test_spec.c - the text of a sync: what it means, what is refused and why. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "sync/parts.h"

static void test_canonical(void **state)
{
    static const char *const pairs[][2] = {
        {"dense", "dense"},
        {"none", "none"},
        {"topk:0.01", "topk:density=0.01,residual=on,warmup=0,ladder=0,dense_below=0"},
        {"gtopk:0.001,putback=paper", "gtopk:density=0.001,putback=paper,residual=on,"
                                      "warmup=0,ladder=0,dense_below=0"},
        {"gtopk:0.001,via=auto", "gtopk:density=0.001,putback=own,residual=on,"
                                 "warmup=0,ladder=0,dense_below=0"},
        {"gtopk:0.001,via=tree", "gtopk:density=0.001,putback=own,via=tree,residual=on,"
                                 "warmup=0,ladder=0,dense_below=0"},
        {"drop:0.99,threshold=tensor",
         "drop:rate=0.99,threshold=tensor,residual=on,warmup=0,ladder=0,dense_below=0"},
        {"qsgd:4",
         "qsgd:bits=4,bucket=512,norm=max,residual=off,via=auto,warmup=0,dense_below=0,"
         "seed=0"},
        {"a2sgd", "a2sgd:resync=0"},
        {"local:16", "local:every=16,grow=1,start=0,average=none"},
        {"local:grow,grow=2,average=polyak",
         "local:every=grow,grow=2,start=0,average=polyak"},
        {"oneshot", "oneshot:average=none"},
        {"spa:8", "spa:chunks=8"},
        {"pqasgd:8,4",
         "pqasgd:every=8,bits=4,bucket=512,norm=max,residual=off,via=auto,seed=0"},
        {"gtopk:0.001+q:8,norm=l2",
         "gtopk:density=0.001,putback=own,residual=on,warmup=0,ladder=0,dense_below=0+"
         "q:bits=8,bucket=512,norm=l2,seed=0"},
        {"local:16+topk:1e-2+bf16",
         "local:every=16,grow=1,start=0,average=none+topk:density=0.01,residual=on,"
         "warmup=0,ladder=0,dense_below=0+bf16"},
        {"drop:0.9+1bit",
         "drop:rate=0.9,threshold=global,residual=on,warmup=0,ladder=0,"
         "dense_below=0+1bit:centre=mean"},
        {"topk:0.1+2bit+momentum:0.9", "topk:density=0.1,residual=on,warmup=0,ladder=0,"
                                       "dense_below=0+2bit:centre=mean+"
                                       "momentum:momentum=0.9,clip=0,mask=on,velocity="
                                       "global,nesterov=off,dampening=0"},
    };
    char text[256], again[256];

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        assert_run_ok(gw_spec_check(pairs[i][0], text, sizeof text));
        assert_string_equal(text, pairs[i][1]);
        assert_run_ok(gw_spec_check(text, again, sizeof again));
        assert_string_equal(again, text);
    }
}

/* What is wrong, and the words that the message must hold. */
static void test_refused(void **state)
{
    static const char *const table[][3] = {
        {"", "''", "dense, none, topk"},
        {"gtpok:0.1", "'gtpok'", "did you mean 'gtopk'?"},
        {"topkk:0.1", "'topkk'", "did you mean 'topk'?"},
        {"topk:0.1+bf6", "'bf6'", "did you mean 'bf16'?"},
        {"sparsest", "'sparsest'", "dense, none, topk"},
        {"sign,code=entropy", "a colon: 'sign:code=entropy'",
         "not 'sign,code=entropy'"},
        {"topk:0.1+1bit,code=entropy", "'1bit:code=entropy'", "a colon"},
        {"dense,", "a colon", "'dense,'"},
        {"sing,code=entropy", "'sing,code=entropy'", "not a stage"},
        {"qsgd:4+code=entropy", "'code=entropy' is not a stage",
         "'qsgd:4,code=entropy'"},
        {"qsgd:4,cod=entropy", "'cod'", "did you mean 'code'? It takes bits, bucket"},
        {"topk", "density", "topk:0.001"},
        {"topk:", "''", "density"},
        {"topk:0", "'0'", "above 0, at most 1"},
        {"topk:1.5", "'1.5'", "above 0, at most 1"},
        {"topk:nan", "'nan'", "density"},
        {"topk:0x1", "'0x1'", "density"},
        {"topk:0.1,densty=2", "'densty'", "density, residual"},
        {"topk:0.1,density=0.2", "density", "twice"},
        {"topk:density=0.1,0.2", "'0.2'", "too many"},
        {"topk:0.1,residual=maybe", "'maybe'", "off|on"},
        {"dense:1", "'1'", "too many"},
        {"qsgd:9", "'9'", "2 to 8, or 32"},
        {"qsgd:1", "'1'", "2 to 8, or 32"},
        {"qsgd:4.5", "'4.5'", "2 to 8, or 32"},
        {"qsgd:4,bucket=12", "'12'", "multiple of 8"},
        {"local:0", "'0'", "from 1, or grow"},
        {"local:shrink", "'shrink'", "grow"},
        {"local:-3", "'-3'", "grow"},
        {"q:4", "'q'", "cannot begin with"},
        {"topk:0.1+local:4", "'local' must come before 'topk'", ""},
        {"topk:0.1+drop:0.9", "'topk' and 'drop'", "do the same job"},
        {"a2sgd+q:4", "'a2sgd' must stand alone", "'q'"},
        {"local:4+a2sgd", "'a2sgd' must stand alone", ""},
        {"local:4+sparta:0.1", "'local' cannot come before 'sparta'", "resync=30"},
        {"sparta:0.1+topk:0.1", "do the same job", ""},
        {"sparta:0.1+q:4", "'q' cannot follow 'sparta'", ""},
        {"sparta:0.1+momentum:0.9", "'momentum' cannot follow 'sparta'", ""},
        {"sparta:0.1+outer", "'sparta' averages these", "resync=30+outer"},
        {"sparta:1,resync=30+outer", "in every step", "'local:1+outer'"},
        {"dense+1bit", "'1bit'", "topk, gtopk or drop"},
        {"dense+2bit", "'topk:0.01+2bit'", "q or bf16"},
        {"local:4+1bit", "'topk:0.01+1bit'", "q or bf16"},
        {"topk:1+1bit", "'topk:0.01+1bit'", "leaves entries out"},
        {"drop:0+2bit", "'topk:0.01+2bit'", "leaves entries out"},
        {"local:4+topk:0.1+momentum:0.9", "'momentum'", "of gradients"},
        {"topk:1+momentum:0.9", "'momentum'", "no effect"},
        {"drop:0+momentum:0.9", "'momentum'", "no effect"},
        {"topk:0.1,residual=off+momentum:0.9", "'momentum'", "residual=on"},
        {"topk:0.1,residual=off+ef21", "'ef21'", "residual=on of 'topk'"},
        {"qsgd:4+ef21", "'qsgd'", "stand alone"},
        {"topk:1+ef21:0.1", "'ef21'", "no effect"},
        {"dense+q:2+ef21", "bits=2", "bits=3"},
        {"topk:0.1+ef21+momentum:0.9", "'momentum'", "same job"},
        {"topk:0.1+ef21:0", "eta", "above 0"},
        {"qsgd:2,residual=on", "bits=2", "residual=off"},
        {"topk:0.1+q:4,norm=l2", "bits=4", "norm=l2"},
        {"topk:0.1+", "''", "topk"},
        {"+topk:0.1", "''", "topk"},
        {"local:2+topk:0.1+q:4+momentum:0.9+check:5+q:4", "'q'", "too many"},
        {"topk:0.1 ", "'0.1 '", "density"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (gw_spec_check(table[i][0], NULL, 0) != GW_ERR_SPEC)
            fail_msg("'%s' was accepted", table[i][0]);
        for (int part = 1; part < 3; part++)
            if (strstr(gw_error_message(), table[i][part]) == NULL)
                fail_msg("'%s': '%s' lacks '%s'", table[i][0], gw_error_message(),
                         table[i][part]);
    }
    assert_int_equal(gw_spec_check(NULL, NULL, 0), GW_ERR_SPEC);
}

/* Checks what a refused rounding is advised, but for residual=off: each must fit. */
static void check_advice(const char *begin, int bits, int bucket, bool l2)
{
    char spec[128], advice[256];
    const char *at;
    int more = 0, max_bits = bits;

    snprintf(advice, sizeof advice, "%s", strstr(gw_error_message(), "; use "));
    if ((at = strstr(advice, "; use bits=")) != NULL)
        assert_int_equal(sscanf(at, "; use bits=%d or more", &more), 1);
    for (int b = more > 0 ? more - 1 : 8; b <= 8; b++) {
        snprintf(spec, sizeof spec, "%sbits=%d,bucket=%d,norm=%s", begin, b, bucket,
                 l2 ? "l2" : "max");
        bool fits = gw_spec_check(spec, NULL, 0) == GW_OK;
        if (fits != (more > 0 && b >= more))
            fail_msg("'%s'%s fits: %s", spec, fits ? "" : " hardly", advice);
    }
    if ((at = strstr(advice, "norm=max")) == NULL)
        return;
    assert_true(l2);
    sscanf(at, "norm=max with bits=%d", &max_bits);
    snprintf(spec, sizeof spec, "%sbits=%d,bucket=%d,norm=max", begin, max_bits,
             bucket);
    assert_run_ok(gw_spec_check(spec, NULL, 0));
}

/* Advice that was followed already, or that does not help, is none. */
static void test_advice_about_rounding(void **state)
{
    static const char *const begins[] = {
        "topk:0.05+q:", "gtopk:0.01+q:", "qsgd:residual=on,",
        "pqasgd:every=4,residual=on,"};
    static const int buckets[] = {8, 64, 512, 65536};
    char spec[128];

    (void)state;
    for (size_t i = 0; i < 4 * 4 * 2 * 7; i++) {
        const char *begin = begins[i % 4];
        int bucket = buckets[i / 4 % 4], bits = 2 + (int)(i / 32);
        bool l2 = i / 16 % 2;
        snprintf(spec, sizeof spec, "%sbits=%d,bucket=%d,norm=%s", begin, bits, bucket,
                 l2 ? "l2" : "max");
        if (gw_spec_check(spec, NULL, 0) != GW_OK)
            check_advice(begin, bits, bucket, l2);
    }
    assert_int_equal(gw_spec_check("topk:0.05+q:2", NULL, 0), GW_ERR_SPEC);
    assert_non_null(strstr(gw_error_message(), "use bits=3 or more, or residual=off"));
    assert_non_null(strstr(gw_error_message(), "'topk'"));
    assert_run_ok(gw_spec_check("topk:0.05+q:3", NULL, 0));
    assert_run_ok(gw_spec_check("topk:0.05,residual=off+q:2", NULL, 0));
}

static void test_off_is_dense(void **state)
{
    static const char *const off[] = {"dense",         "topk:1",
                                      "gtopk:1",       "drop:0",
                                      "qsgd:32",       "local:1",
                                      "pqasgd:1,32",   "spa:1",
                                      "topk:1+q:32",   "local:1+topk:1+q:32",
                                      "local:1+dense", "local:1+outer:1,0"};
    static const char *const on[] = {
        "none",       "topk:0.5",    "qsgd:8",     "local:2",
        "oneshot",    "a2sgd",       "pqasgd:1,8", "spa:2",
        "dense+bf16", "local:1+q:4", "local:grow", "local:1+outer:0.9,0"};
    gwi_spec spec;

    (void)state;
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        assert_run_ok(gwi_spec_parse(off[i], &spec));
        if (!gwi_spec_is_dense(&spec))
            fail_msg("'%s' is not dense", off[i]);
    }
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        assert_run_ok(gwi_spec_parse(on[i], &spec));
        if (gwi_spec_is_dense(&spec))
            fail_msg("'%s' is dense", on[i]);
    }
}

static void test_answers(void **state)
{
    gwi_spec spec;

    (void)state;
    assert_run_ok(gwi_spec_parse("gtopk:0.01", &spec));
    assert_ptr_equal(gwi_exchange_of(&spec), &gwi_exchange_pairs);
    assert_run_ok(gwi_spec_parse("gtopk:0.01,via=pairs+q:4", &spec));
    assert_ptr_equal(gwi_exchange_of(&spec), &gwi_exchange_pairs);
    assert_run_ok(gwi_spec_parse("local:16+gtopk:0.01+q:4", &spec));
    assert_int_equal(spec.subject, GWI_CHANGE);
    assert_ptr_equal(gwi_selector_of(&spec), &gwi_selector_topk);
    assert_ptr_equal(gwi_coder_of(&spec), &gwi_coder_levels);
    assert_ptr_equal(gwi_exchange_of(&spec), &gwi_exchange_tree);
    assert_int_equal(gwi_schedule_of(&spec)->period(&spec, 100, 4), 16);
    assert_run_ok(gwi_spec_parse("gtopk:0.01,via=tree", &spec));
    assert_ptr_equal(gwi_exchange_of(&spec), &gwi_exchange_tree);
    assert_run_ok(gwi_spec_parse("local:8", &spec));
    assert_int_equal(spec.subject, GWI_MODEL);
    assert_run_ok(gwi_spec_parse("drop:0.75", &spec));
    assert_true(gwi_selector_of(&spec)->density(&spec) == 0.25);
    assert_true(gwi_keeps_residual(&spec));
    assert_run_ok(gwi_spec_parse("qsgd:4", &spec));
    assert_false(gwi_keeps_residual(&spec));
    assert_true(gwi_coder_of(&spec)->bucket(&spec) == 512);
}

/* Any text gives a status and a message, and no text a crash. */
static void test_random_text(void **state)
{
    static const char *const parts[] = {
        "topk",  "local",   "q",    ":",    "+", ",",   "=",    "0.1",  "4",
        "every", "density", "grow", "1bit", "-", "1e9", "bits", "\xff", " "};
    uint64_t seed = test_seed();

    (void)state;
    for (uint64_t trial = 0; trial < 20000; trial++) {
        char text[200] = "";
        uint64_t pieces = test_random(seed, trial) % 12;
        for (uint64_t i = 0; i < pieces; i++)
            strcat(text, parts[test_random(seed + trial, i) % 18]);
        gw_status st = gw_spec_check(text, NULL, 0);
        assert_true(st == GW_OK || st == GW_ERR_SPEC);
    }
}

/* A canonical text that does not fit is cut and ended. */
static void test_cut(void **state)
{
    char text[8];

    (void)state;
    memset(text, 'x', sizeof text);
    assert_run_ok(gw_spec_check("topk:0.01", text, 5));
    assert_string_equal(text, "topk");
    assert_int_equal(text[5], 'x');
    assert_run_ok(gw_spec_check("topk:0.01", text, 0));
}

static void test_recipes(void **state)
{
    char text[64];

    (void)state;
    for (size_t i = 0; gw_recipe_name(i) != NULL; i++) {
        assert_non_null(gw_recipe_summary(i));
        assert_run_ok(gw_spec_check(gw_recipe_example(i), NULL, 0));
        snprintf(text, sizeof text, "%s", gw_recipe_example(i));
        assert_int_equal(strncmp(text, gw_recipe_name(i), strlen(gw_recipe_name(i))),
                         0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_advice_about_rounding),
        cmocka_unit_test(test_off_is_dense),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_random_text),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_recipes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
