/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_trace.c - a timeline keeps its nanoseconds however late in a run its
 * stretches lie: neighbours neither overlap nor leave a gap. */
#include "common.h"
#include "run/trace_file.h"
#include "support_folder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STRETCHES = 1000 };

/* Stretches of about 1.7 microseconds, each from where the one before it ended, the
 * first *arg seconds after the timeline's beginning. */
static gw_status body(gw_comm *comm, void *arg)
{
    const double *after = arg;
    gwt_config config = {.trace = in_folder("trace.json"), .trace_steps = 2};
    gwt_trace *trace;
    gw_status st = gwt_trace_open(&trace, &config, comm);
    double begin = gwt_now() + *after;

    for (int i = 0; st == GW_OK && i < STRETCHES; i++) {
        double end = begin + 1.7013e-6;
        gwt_trace_compute(trace, begin, end);
        begin = end;
    }
    if (st == GW_OK)
        st = gwt_trace_end(trace, comm);
    gwt_trace_free(trace);
    return st;
}

static char *text_of(const char *name)
{
    FILE *f = fopen(in_folder(name), "r");
    char *text = calloc(1, 1 << 20);

    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    assert_int_equal(fclose(f), 0);
    return text;
}

/* Reads the number behind the next `key`, moves *at past it; 0 if there is none. */
static int next_number(char **at, const char *key, double *value)
{
    char *found = strstr(*at, key);

    if (found == NULL)
        return 0;
    *value = strtod(found + strlen(key), at);
    return 1;
}

static void check_stretches(char *text)
{
    double ts, dur = 0, end = 0;
    int count = 0;

    while (next_number(&text, "\"ts\":", &ts)) {
        assert_true(next_number(&text, "\"dur\":", &dur));
        if (count > 0)
            assert_true(fabs(ts - end) < 0.003);
        end = ts + dur;
        count++;
    }
    assert_int_equal(count, STRETCHES);
}

static void neighbours_touch(void **state)
{
    static double after[] = {0, 11, 3600, 86400};
    gw_local_options one = {
        .struct_size = sizeof one, .workers = 1, .spawn = GW_SPAWN_THREADS};

    (void)state;
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) {
        assert_int_equal(gw_local_run(&one, body, &after[i]), GW_OK);
        char *text = text_of("trace.json");
        check_stretches(text);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_touch),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
