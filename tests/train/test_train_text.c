/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_text.c - text as data: files, vocabulary, rows and columns; and runs
 * that train on it. The models are in test_train_language.c. */
#define _GNU_SOURCE
#include "layers/compute.h"
#include "run/job.h"
#include "data/shuffle.h"
#include "data/words.h"
#include "support_training.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

static char out[80];

static int make_folder_and_out(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    snprintf(out, sizeof out, "%s/run", test_folder);
    return 0;
}

static void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static void write_gzip(const char *name, const char *text)
{
    gzFile file = gzopen(in_folder(name), "wb");

    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)strlen(text)), strlen(text));
    assert_int_equal(gzclose(file), Z_OK);
}

static gw_status load(gwt_data *data, const char *options)
{
    char name[128];

    snprintf(name, sizeof name, "text:%s%s", test_folder, options);
    return gwt_data_load(data, name, NULL);
}

/* The message of a failed load holds all of these words. */
static void load_fails(const char *options, gw_status want, const char *word,
                       const char *another)
{
    gwt_data data;

    assert_int_equal(load(&data, options), want);
    if (strstr(gw_error_message(), word) == NULL ||
        strstr(gw_error_message(), another) == NULL ||
        strchr(gw_error_message(), '\n') != NULL)
        fail_msg("%s", gw_error_message());
}

static void tokens_are(const gwt_split *split, const uint32_t *want, size_t n)
{
    assert_int_equal(split->tokens, n);
    assert_memory_equal(split->token, want, n * sizeof *want);
}

/* ---- reading ------------------------------------------------------------------- */

static void words_are_numbered_as_they_come(void **state)
{
    static const uint32_t train[] = {0, 1, 0, 2, 3, 4, 2, 2, 1, 2};
    static const uint32_t test[] = {4, 1, 2, 3, 2};
    gwt_data data;

    (void)state;
    write_text("train.txt", " a b a\n<unk>\tc \r\n\nb");
    write_text("test.txt", "c b\nnew\n");
    assert_int_equal(load(&data, ""), GW_OK);
    /* a=0 b=1 <eos>=2 <unk>=3 c=4; an empty line is an end mark, and the last line
     * gets its own. */
    tokens_are(&data.train, train, sizeof train / sizeof *train);
    tokens_are(&data.test, test, sizeof test / sizeof *test);
    assert_int_equal(data.classes, 5);
    assert_int_equal(data.valid.tokens, 0);
    gwt_data_free(&data);
}

static void bytes_are_their_own_numbers(void **state)
{
    static const uint32_t test[] = {'x', '\n', 255, 0};
    gwt_data data;

    (void)state;
    write_text("train.txt", "ab\n");
    write_file("test.txt", "x\n\377\0", 4);
    assert_int_equal(load(&data, ",by=byte"), GW_OK);
    assert_int_equal(data.classes, 256);
    assert_int_equal(data.train.tokens, 3);
    tokens_are(&data.test, test, 4);
    gwt_data_free(&data);
}

static void names_and_gzip_do_not_matter(void **state)
{
    gwt_data data;

    (void)state;
    write_gzip("my.train.txt.gz", "one two\nthree\n");
    write_gzip("my.valid.txt.gz", "two\n");
    assert_int_equal(load(&data, ""), GW_OK);
    assert_int_equal(data.classes, 4);
    /* Without a text to test with, the other one serves. */
    assert_int_equal(data.test.tokens, 2);
    assert_int_equal(data.valid.tokens, 0);
    gwt_data_free(&data);
    /* The plain name goes before, and a plain file before the same one gzipped. */
    write_text("my.train.txt", "one two three four\n");
    assert_int_equal(load(&data, ",by=word"), GW_OK);
    assert_int_equal(data.classes, 5);
    gwt_data_free(&data);
    write_text("train.txt", "two\n");
    assert_int_equal(load(&data, ""), GW_OK);
    assert_int_equal(data.classes, 2);
    gwt_data_free(&data);
}

static void bad_texts_are_told(void **state)
{
    (void)state;
    load_fails("", GW_ERR_SYSTEM, test_folder, "train.txt");
    write_text("train.txt", "");
    load_fails("", GW_ERR_DATA, "train.txt", "empty");
    write_text("train.txt", "a b\nc\n");
    load_fails("", GW_ERR_SYSTEM, "test.txt", "valid.txt");
    write_text("test.txt", "a\n\nb other a\n");
    load_fails("", GW_ERR_DATA, "test.txt, line 3: 'other'", "<unk>");
    write_text("test.txt", "");
    load_fails("", GW_ERR_DATA, "test.txt", "empty");
    load_fails(",by=letter", GW_ERR_ARG, "by=letter", "by=byte");
    write_text("a.valid.txt", "a\n");
    write_text("b.valid.txt", "a\n");
    load_fails("", GW_ERR_DATA, "a.valid.txt", "b.valid.txt");
    write_file("x.test.txt.gz", "\037\213\010\0\0\0", 6);
    assert_int_equal(unlink(in_folder("a.valid.txt")), 0);
    assert_int_equal(unlink(in_folder("test.txt")), 0);
    load_fails("", GW_ERR_DATA, "x.test.txt.gz", "cut short");
}

static void no_memory_is_an_error(void **state)
{
    gwt_data data;
    gw_status st = GW_ERR_NOMEM;

    (void)state;
    write_text("train.txt", "a b\nc\n");
    write_gzip("test.txt.gz", "a\n");
    for (size_t k = 0; st != GW_OK && k < 100; k++) {
        gwt_alloc_fail_at(k);
        st = load(&data, "");
        gwt_alloc_fail_at((size_t)-1);
        assert_true(st == GW_OK || st == GW_ERR_NOMEM);
    }
    assert_int_equal(st, GW_OK);
    gwt_data_free(&data);
}

static void large_vocabularies_grow(void **state)
{
    enum { WORDS = 50000 };
    static char text[WORDS][8];
    gwt_words words;
    uint32_t number;

    (void)state;
    assert_int_equal(gwt_words_init(&words), GW_OK);
    for (uint32_t i = 0; i < WORDS; i++) {
        int len = snprintf(text[i], sizeof text[i], "w%u", i);
        gwt_span span = {text[i], (size_t)len};
        assert_true(gwt_words_find(&words, span) == UINT32_MAX);
        assert_int_equal(gwt_words_add(&words, span, &number), GW_OK);
        assert_int_equal(number, i);
    }
    for (uint32_t i = 0; i < WORDS; i += 7) {
        gwt_span span = {text[i], strlen(text[i])};
        assert_int_equal(gwt_words_find(&words, span), i);
        assert_int_equal(gwt_words_add(&words, span, &number), GW_OK);
        assert_int_equal(number, i);
    }
    assert_int_equal(words.count, WORDS);
    gwt_words_free(&words);
}

/* ---- rows and columns ---------------------------------------------------------- */

static void rows_follow_one_another(void **state)
{
    enum { T = 3 };
    static const uint32_t pick[] = {2, 0};
    float x[2 * T];
    uint32_t y[2 * T];
    gwt_data data;

    (void)state;
    write_text("train.txt", "0123456789a"); /* by byte: 11 tokens, 3 whole rows */
    write_text("test.txt", "0123");
    assert_int_equal(load(&data, ",by=byte"), GW_OK);
    assert_int_equal(gwt_text_cut(&data, T), GW_OK);
    assert_int_equal(data.train.count, 3);
    assert_int_equal(data.test.count, 1);
    gwt_data_batch(&data, &data.train, pick, 0, 2, x, y);
    for (uint32_t t = 0; t < T; t++) {
        assert_true(x[t] == (float)('6' + t) && x[T + t] == (float)('0' + t));
        assert_int_equal(y[t], '6' + t + 1);
        assert_int_equal(y[T + t], '0' + t + 1);
    }
    assert_int_equal(gwt_text_cut(&data, 4), GW_ERR_DATA);
    assert_non_null(strstr(gw_error_message(), "has 4 tokens"));
    assert_int_equal(gwt_text_cut(&data, 11), GW_ERR_DATA);
    assert_non_null(strstr(gw_error_message(), "--sequence 11"));
    gwt_data_free(&data);
}

/* Whatever the numbers of workers and samples: no sample twice in an epoch, none left
 * out but those that fill no step, and each follows what was in its place before. */
static void columns_are_disjoint_and_complete(void **state)
{
    (void)state;
    for (size_t n = 24; n < 60; n += 5)
        for (int workers = 1; workers <= 4; workers++)
            for (size_t batch = 1; batch <= 5; batch += 2) {
                size_t columns = batch * (size_t)workers;
                size_t steps = gwt_epoch_steps(n, workers, batch);
                uint32_t order[64];
                int seen[64] = {0};
                gwt_columns(order, n, columns);
                for (size_t s = 0; s < steps; s++)
                    for (int r = 0; r < workers; r++)
                        for (size_t b = 0; b < batch; b++) {
                            size_t i = gwt_shard_first(s, workers, r, batch) + b;
                            assert_true(order[i] < n && !seen[order[i]]);
                            seen[order[i]] = 1;
                            if (s > 0)
                                assert_int_equal(order[i], order[i - columns] + 1);
                        }
                assert_true(n - steps * columns < columns);
            }
}

/* ---- runs ---------------------------------------------------------------------- */

/* A text in which a letter says which one follows, but for some noise. */
static void write_letters(const char *name, uint64_t seed, size_t n)
{
    char *text = calloc(n + 1, 1);
    unsigned letter = 0;

    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        uint64_t r = gwt_random(seed, 77, 0, i);
        letter = r % 10 == 0 ? (unsigned)(r >> 32) % 7 : (3 * letter + 1) % 7;
        text[i] = (char)('a' + letter);
    }
    write_file(name, text, n);
    free(text);
}

static char data_name[96];

static gwt_config small(const char *model)
{
    snprintf(out, sizeof out, "%s/run", test_folder);
    snprintf(data_name, sizeof data_name, "text:%s,by=byte", test_folder);
    return (gwt_config){
        .model = model,
        .data = data_name,
        .sync = "dense",
        .optimizer = "adam",
        .schedule = "constant",
        .warmup = "0",
        .out = out,
        .force = 1,
        .workers = 2,
        .spawn = GW_SPAWN_THREADS,
        .threads = 1,
        .timeout = 60,
        .epochs = 2,
        .batch = 4,
        .seed = 3,
        .eval_every = "1epochs",
        .lr = 0.01,
        .sequence = 8,
    };
}

static void write_split(void)
{
    write_letters("train.txt", 1, 6000);
    write_letters("valid.txt", 2, 700);
    write_letters("test.txt", 3, 900);
}

/* Of seven letters guessed blindly the perplexity would be 7 or more. */
static void a_run_learns(void **state)
{
    static const char *const models[] = {"lstm:16",
                                         "transformer:layers=1,heads=2,width=16"};

    (void)state;
    write_split();
    for (size_t i = 0; i < 2; i++) {
        gwt_config c = small(models[i]);
        c.dropout = i == 0 ? 0.1 : 0.0;
        c.clip = 5.0;
        c.epochs = 5;
        c.optimizer = i == 0 ? "sgd" : "adam";
        c.lr = i == 0 ? 1.0 : 0.01;
        gwt_summary s = run(&c);
        if (!(s.perplexity < 4.0 && s.perplexity > 1.0))
            fail_msg("%s: perplexity %g", c.model, s.perplexity);
        assert_true(fabs(s.perplexity - exp(s.test_loss)) < 1e-9);
        assert_true(s.test_accuracy > 0.5);
        assert_int_equal(s.steps, 5 * (5999 / 8 / 8));
        c.seed++;
        assert_true(run(&c).model_hash != s.model_hash);
        c.seed--;
        c.spawn = GW_SPAWN_PROCESSES;
        assert_true(run(&c).model_hash == s.model_hash);
    }
}

/* Workers that differ have a perplexity of their own, which is still that of before
 * when the end has brought them together: the last period is not a whole one. */
static void workers_have_a_perplexity(void **state)
{
    static const char *const sync[] = {"none", "local:4"};

    (void)state;
    write_split();
    for (size_t i = 0; i < 2; i++) {
        gwt_config c = small("lstm:8");
        c.sync = sync[i];
        gwt_summary s = run(&c);
        assert_true(s.perplexity_workers > 1.0);
        assert_true(s.perplexity_workers != s.perplexity);
        assert_true(fabs(s.perplexity_workers - exp(s.test_loss_workers)) < 1e-9);
    }
    gwt_config c = small("lstm:8");
    assert_true(isnan(run(&c).perplexity_workers));
}

/* The columns of the text are the same however many workers share them. */
static void workers_share_the_columns(void **state)
{
    (void)state;
    write_split();
    gwt_config c = small("lstm:8");
    c.optimizer = "sgd";
    c.lr = 1.0;
    gwt_summary two = run(&c);
    c.workers = 1;
    c.batch = 8;
    gwt_summary one = run(&c);
    assert_int_equal(one.steps, two.steps);
    assert_true(fabs(one.test_loss - two.test_loss) < 1e-3 * one.test_loss);
    assert_true(fabs(one.train_loss - two.train_loss) < 1e-3 * one.train_loss);
}

static int count_lines(const char *word)
{
    char path[160], line[4096];
    int count = 0;

    snprintf(path, sizeof path, "%s/metrics.jsonl", out);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        count += strstr(line, word) != NULL;
    fclose(file);
    return count;
}

/* How often it is evaluated changes nothing in what is learnt. */
static void evaluation_does_not_disturb(void **state)
{
    (void)state;
    write_split();
    for (size_t i = 0; i < 2; i++) {
        gwt_config c = small("lstm:8");
        c.sync = i == 0 ? "dense" : "local:3";
        c.epochs = 3;
        c.eval_every = "0";
        gwt_summary seldom = run(&c);
        assert_int_equal(count_lines("\"evaluated\": \"valid\""), 0);
        assert_int_equal(count_lines("\"evaluated\": \"test\""), 1);
        c.eval_every = "1epochs";
        gwt_summary often = run(&c);
        assert_int_equal(count_lines("\"evaluated\": \"valid\""), 2);
        assert_int_equal(count_lines("\"evaluated\": \"test\""), 1);
        assert_true(seldom.model_hash == often.model_hash);
        assert_true(seldom.perplexity == often.perplexity);
    }
}

/* What is evaluated does not depend on how many workers share it. */
static void evaluation_is_the_same_for_any_workers(void **state)
{
    gwt_data data;
    gwt_model *m;
    double loss = 0.0;

    (void)state;
    write_split();
    assert_int_equal(load(&data, ",by=byte"), GW_OK);
    assert_int_equal(gwt_text_cut(&data, 8), GW_OK);
    assert_int_equal(
        gwt_model_make(&m, "lstm:8", data.shape, data.classes, GWT_EVAL_COLUMNS),
        GW_OK);
    gwt_model_init(m, 1);
    for (int parts = 1; parts <= 24; parts += parts < 4 ? 1 : 10) {
        gwt_score sum = {0};
        for (int part = 0; part < parts; part++) {
            gwt_score s;
            assert_int_equal(gwt_score_text(&s, &data, &data.test, m, part, parts),
                             GW_OK);
            sum.loss += s.loss;
            sum.count += s.count;
        }
        assert_int_equal(sum.count, 899 / 8 * 8);
        if (parts == 1)
            loss = sum.loss;
        assert_true(fabs(sum.loss - loss) < 1e-5 * loss);
    }
    gwt_model_free(m);
    gwt_data_free(&data);
}

static void clipped_runs_stay_in_step(void **state)
{
    (void)state;
    write_split();
    gwt_config c = small("lstm:8");
    c.optimizer = "sgd";
    c.lr = 1.0;
    gwt_summary free_run = run(&c);
    c.clip = 0.01;
    gwt_summary clipped = run(&c);
    assert_true(clipped.model_hash != free_run.model_hash);
    c.workers = 3;
    c.batch = 2;
    c.sync = "gtopk:0.1";
    gwt_summary sparse = run(&c);
    assert_int_equal(sparse.equal, 1);
}

/* A run that goes on from a checkpoint in the middle of an epoch, states and all. */
static void a_run_can_be_resumed(void **state)
{
    static const char *const models[] = {"lstm:8",
                                         "transformer:layers=1,heads=2,width=8"};

    (void)state;
    write_split();
    for (size_t i = 0; i < 2; i++) {
        gwt_config c = small(models[i]);
        c.steps = 130; /* an epoch has 93 */
        c.dropout = 0.2;
        c.clip = 1.0;
        gwt_summary whole = run(&c);
        c.steps = 117;
        c.checkpoint_every = "39";
        c.keep = 1;
        run(&c);
        c.steps = 130;
        c.resume = 1;
        gwt_summary resumed = run(&c);
        assert_int_equal(resumed.steps, 130);
        assert_true(whole.model_hash == resumed.model_hash);
        assert_true(whole.perplexity == resumed.perplexity);
    }
}

static void job_fails(const gwt_config *c, const char *word)
{
    gwt_job *job;
    gw_status st = gwt_job_new(&job, c);

    assert_true(st == GW_ERR_ARG || st == GW_ERR_DATA);
    if (strstr(gw_error_message(), word) == NULL)
        fail_msg("%s", gw_error_message());
}

static void models_and_data_must_fit(void **state)
{
    gwt_config c;

    (void)state;
    write_split();
    c = small("fnn3");
    job_fails(&c, "needs images");
    c = small("lstm");
    c.data = "synthetic";
    job_fails(&c, "needs text");
    c = small("softmax");
    c.data = "synthetic";
    c.dropout = 0.1;
    job_fails(&c, "no dropout");
    c = small("lstm");
    c.sequence = 5000;
    job_fails(&c, "--sequence");
    c = small("lstm");
    c.batch = 1000;
    job_fails(&c, "--batch");
}

int main(void)
{
#define IN_DIRECTORY(f) \
    cmocka_unit_test_setup_teardown(f, make_folder_and_out, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(words_are_numbered_as_they_come),
        IN_DIRECTORY(bytes_are_their_own_numbers),
        IN_DIRECTORY(names_and_gzip_do_not_matter),
        IN_DIRECTORY(bad_texts_are_told),
        IN_DIRECTORY(no_memory_is_an_error),
        cmocka_unit_test(large_vocabularies_grow),
        IN_DIRECTORY(rows_follow_one_another),
        cmocka_unit_test(columns_are_disjoint_and_complete),
        IN_DIRECTORY(a_run_learns),
        IN_DIRECTORY(workers_have_a_perplexity),
        IN_DIRECTORY(workers_share_the_columns),
        IN_DIRECTORY(evaluation_does_not_disturb),
        IN_DIRECTORY(evaluation_is_the_same_for_any_workers),
        IN_DIRECTORY(clipped_runs_stay_in_step),
        IN_DIRECTORY(a_run_can_be_resumed),
        IN_DIRECTORY(models_and_data_must_fit),
    };

    gwt_compute_threads(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
