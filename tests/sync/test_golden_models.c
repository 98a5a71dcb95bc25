/* SPDX-License-Identifier: Apache-2.0
 *
 * test_golden_models.c - what every spec makes of a small model, and what it sends for
 * that, is what is checked in: no change of the library changes a bit of a result or a
 * byte on the wire unless somebody means it.
 *
 * tests/golden/models.txt has a line for each spec and number of workers: a digest of
 * all their models in the end, and the bytes that all have sent. GW_GOLDEN_WRITE=1
 * writes it anew. */
#define _GNU_SOURCE
#include "support_conform.h"
#include "support_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 7, N = MODEL_FLOATS, WORKERS_MAX = 5 };

typedef struct scene {
    const char *spec;
    uint64_t digests[WORKERS_MAX], bytes[WORKERS_MAX];
} scene;

static gw_status train(gw_sync *s, int rank, float *x, float *g)
{
    PASS_ON(gw_sync_start(s, x));
    for (int t = 1; t <= STEPS; t++) {
        model_gradient(g, x, rank, t);
        PASS_ON(gw_sync_gradient(s, g));
        for (size_t i = 0; i < N; i++)
            x[i] -= 0.1f * g[i];
        PASS_ON(gw_sync_model(s, x));
    }
    return gw_sync_finish(s, x);
}

static gw_status body(gw_comm *c, void *arg)
{
    scene *sc = arg;
    int rank = gw_comm_rank(c);
    float *x = calloc(2 * N, sizeof *x);
    gw_sync *s;

    PASS_ON(model_sync(&s, c, sc->spec, GW_NONFINITE_STOP));
    gw_status st = train(s, rank, x, x + N);
    sc->digests[rank] = model_digest(x);
    sc->bytes[rank] = gw_sync_stats(s).bytes_sent;
    gw_sync_free(s);
    free(x);
    return st;
}

static void make_line(char *line, size_t cap, const char *spec, int workers)
{
    scene sc = {.spec = spec};
    uint64_t digest = 0, bytes = 0;

    assert_run_ok(ranks_run(RANKS_THREADS, workers, body, &sc));
    for (int r = 0; r < workers; r++) {
        digest = test_random(digest, sc.digests[r]);
        bytes += sc.bytes[r];
    }
    snprintf(line, cap, "%s %d %016" PRIx64 " %" PRIu64 "\n", spec, workers, digest,
             bytes);
}

/* The folder of the source tree: tests are built from its absolute path. */
static FILE *open_table(const char *mode)
{
    const char *end = strstr(__FILE__, "test_golden_models.c");
    char path[1024];

    assert_non_null(end);
    snprintf(path, sizeof path, "%.*s../golden/models.txt", (int)(end - __FILE__),
             __FILE__);
    FILE *file = fopen(path, mode);
    if (file == NULL)
        fail_msg("cannot open %s", path);
    return file;
}

static void test_models_are_golden(void **state)
{
    static const int counts[] = {1, 2, 3, 5};
    bool writes = getenv("GW_GOLDEN_WRITE") != NULL;
    FILE *file = open_table(writes ? "w" : "r");
    char line[400], stored[400];

    (void)state;
    for (size_t i = 0; i < conform_spec_count; i++)
        for (size_t j = 0; j < sizeof counts / sizeof *counts; j++) {
            make_line(line, sizeof line, conform_specs[i], counts[j]);
            if (writes)
                fputs(line, file);
            else if (fgets(stored, sizeof stored, file) == NULL)
                fail_msg("the table ends before '%s'", line);
            else
                assert_string_equal(line, stored);
        }
    if (!writes && fgets(stored, sizeof stored, file) != NULL)
        fail_msg("the table goes on with '%s'", stored);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models_are_golden),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
