/* SPDX-License-Identifier: Apache-2.0
 *
 * status_command.c - "gradwire status": the workers of a job that meets somewhere. */
#define _GNU_SOURCE
#include "commands.h"
#include "group/join.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/json.h"
#include "gradwire_group.h"
#include "progress.h"
#include "text_table.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

typedef struct settings {
    const char *job, *key_file;
    double timeout;
    int json;
} settings;

#define AT(field) offsetof(settings, field)

static const gwc_flag flags[] = {
    {"job", "NAME", "job", "the job's name", GWC_TEXT, AT(job), 0, 0},
    {"key-file", "FILE", NULL,
     "file with the job's key [the environment variable\n"
     "GRADWIRE_KEY]",
     GWC_TEXT, AT(key_file), 0, 0},
    {"timeout", "SECONDS", "10", "give up when the meeting is silent for this long",
     GWC_REAL, AT(timeout), 0.1, 1e6},
    {"json", NULL, NULL, "print the status as JSON", GWC_SWITCH, AT(json), 0, 0},
};

static void print_help(void)
{
    puts("Usage: gradwire status MEETING [FLAGS]\n"
         "\n"
         "Shows the workers of the job that meets at MEETING, such as\n"
         "tcp://HOST:7077 or etcd://HOST:2379/JOB: who runs, who waits, and what each\n"
         "has reported last.\n");
    gwc_flags_help(flags, COUNT(flags), stdout);
    puts("\nExamples\n"
         "  gradwire status tcp://HOST:7077 --key-file job.key\n"
         "  gradwire status tcp://HOST:7077 --key-file job.key --json");
}

/* ---- what a meeting tells ---------------------------------------------------------
 */

typedef struct worker {
    unsigned long long id;
    char name[64], at[300], state[8];
    int out_only; /* others cannot call it */
    int reported;
    gw_group_progress progress;
} worker;

typedef struct table {
    unsigned long long view;
    int running, waiting, min, max;
    size_t count, cap;
    worker *workers;
    gw_status status;
} table;

static gw_status add_worker(table *t, const worker *w)
{
    if (t->count == t->cap) {
        size_t cap = t->cap > 0 ? 2 * t->cap : 16;
        worker *more = realloc(t->workers, cap * sizeof *more);
        if (more == NULL)
            return gw_fail(GW_ERR_NOMEM, "not enough memory for %zu workers", cap);
        t->workers = more;
        t->cap = cap;
    }
    t->workers[t->count++] = *w;
    return GW_OK;
}

/* The port of a worker that only calls out is 0. */
static void take_out_only(worker *w)
{
    size_t len = strlen(w->at);

    w->out_only = len > 2 && strcmp(w->at + len - 2, ":0") == 0;
    if (w->out_only)
        w->at[len - 2] = '\0';
}

static void hear(void *arg, const char *line)
{
    table *t = arg;
    worker w = {0};
    gw_group_progress *p = &w.progress;

    if (t->status != GW_OK)
        return;
    if (sscanf(line, "job view=%llu running=%d waiting=%d min=%d max=%d", &t->view,
               &t->running, &t->waiting, &t->min, &t->max) == 5)
        return;
    int n = sscanf(
        line, "member %llu %63s %299s %7s %" SCNu64 " %" SCNu64 " %lf %lf %" SCNu64,
        &w.id, w.name, w.at, w.state, &p->step, &p->steps, &p->loss, &p->samples,
        &p->bytes_sent);
    w.reported = n == 9;
    take_out_only(&w);
    if (n != 4 && n != 9)
        t->status = gw_fail(GW_ERR_DATA, "the meeting says '%.60s'", line);
    else
        t->status = add_worker(t, &w);
}

/* ---- printing ----------------------------------------------------------------------
 */

static const gwc_column columns[] = {
    {"worker", -20, 0},   {"state", -5, 1}, {"step", 13, 1},     {"loss", 9, 1},
    {"samples/s", 10, 1}, {"sent", 10, 1},  {"address", -21, 2},
};

/* A number that is not known is a dash. */
static void write_real(char *to, size_t cap, const char *format, double value)
{
    if (isfinite(value))
        snprintf(to, cap, format, value);
    else
        snprintf(to, cap, "-");
}

static void print_worker(const worker *w)
{
    const gw_group_progress *p = &w->progress;
    char name[96], at[320], step[48] = "-", loss[32] = "-", speed[32] = "-",
                            sent[32] = "-";

    snprintf(name, sizeof name, "%llu %s", w->id, w->name);
    if (w->reported) {
        snprintf(step, sizeof step, p->steps > 0 ? "%" PRIu64 "/%" PRIu64 : "%" PRIu64,
                 p->step, p->steps);
        write_real(loss, sizeof loss, "%.4g", p->loss);
        write_real(speed, sizeof speed, "%.0f", p->samples);
        gwc_bytes((double)p->bytes_sent, sent);
    }
    snprintf(at, sizeof at, w->out_only ? "%s, only calls out" : "%s", w->at);
    gwc_print_cells(stdout, columns, COUNT(columns),
                    (const char *const[]){name, w->state, step, loss, speed, sent, at});
}

/* Says through whom those talk that only call out; one alone needs nobody. */
static void print_hub(const table *t)
{
    const worker *hub = NULL;
    int count = 0;

    for (size_t i = 0; i < t->count; i++) {
        const worker *w = &t->workers[i];
        count += w->out_only && strcmp(w->state, "runs") == 0;
        if (strcmp(w->state, "hub") == 0)
            hub = w;
    }
    if (count > 1 && hub != NULL)
        printf("%d workers only call out and talk to each other through %llu %s\n",
               count, hub->id, hub->name);
    else if (count > 1)
        printf("%d workers only call out and talk to each other through the meeting\n",
               count);
}

static void print_table(const table *t)
{
    printf("view %llu: %d running, %d waiting", t->view, t->running, t->waiting);
    if (t->max > t->min)
        printf("; %d to %d workers", t->min, t->max);
    else if (t->max > 0)
        printf("; of %d worker%s", t->max, t->max == 1 ? "" : "s");
    putchar('\n');
    if (t->count > 0)
        gwc_print_cells(stdout, columns, COUNT(columns), NULL);
    for (size_t i = 0; i < t->count; i++)
        print_worker(&t->workers[i]);
    print_hub(t);
}

static void add_progress(gwt_json *json, const gw_group_progress *p)
{
    gwt_json_count(json, "step", p->step);
    gwt_json_count(json, "steps", p->steps);
    gwt_json_real(json, "loss", p->loss);
    gwt_json_real(json, "samples_per_second", p->samples);
    gwt_json_count(json, "bytes_sent", p->bytes_sent);
}

static void print_json(const table *t)
{
    gwt_json json = {.to = stdout, .indent = 2};

    gwt_json_open(&json, NULL, '{');
    gwt_json_count(&json, "view", t->view);
    gwt_json_count(&json, "running", (uint64_t)t->running);
    gwt_json_count(&json, "waiting", (uint64_t)t->waiting);
    gwt_json_count(&json, "min_workers", (uint64_t)t->min);
    gwt_json_count(&json, "max_workers", (uint64_t)t->max);
    gwt_json_open(&json, "workers", '[');
    for (size_t i = 0; i < t->count; i++) {
        const worker *w = &t->workers[i];
        gwt_json_open(&json, NULL, '{');
        gwt_json_count(&json, "id", w->id);
        gwt_json_text(&json, "name", w->name);
        gwt_json_text(&json, "address", w->at);
        gwt_json_text(&json, "state", w->state);
        gwt_json_bool(&json, "out_only", w->out_only);
        if (w->reported)
            add_progress(&json, &w->progress);
        gwt_json_close(&json, '}');
    }
    gwt_json_close(&json, ']');
    gwt_json_close(&json, '}');
    putchar('\n');
}

/* ---- the command --------------------------------------------------------------------
 */

static gw_status show(const char *meeting, const settings *set)
{
    gw_group_options opt = {.struct_size = sizeof opt,
                            .meeting = meeting,
                            .job = set->job,
                            .timeout_seconds = set->timeout};
    table t = {.status = GW_OK};
    char *key;
    gw_status st;

    GWT_TRY(gwc_key_read(set->key_file, &key));
    opt.key = key;
    st = gw_meeting_status(&opt, hear, &t);
    free(key);
    if (st == GW_OK)
        st = t.status;
    if (st == GW_OK)
        (set->json ? print_json : print_table)(&t);
    free(t.workers);
    return st;
}

static int run_status(int argc, char **argv)
{
    settings set = {0};
    char *names[16], *rest[16];
    int help, left;
    size_t count;

    if (argc > (int)COUNT(names)) {
        (void)gw_fail(GW_ERR_ARG, "status: too many arguments");
        return GWC_USAGE;
    }
    count = gwc_flags_part(flags, COUNT(flags), argc, argv, names, rest, &left);
    if (gwc_flags_read(flags, COUNT(flags), "status", left, rest, &set, &help) != GW_OK)
        return GWC_USAGE;
    if (help) {
        print_help();
        return GWC_DONE;
    }
    if (count != 1) {
        (void)gw_fail(GW_ERR_ARG,
                      "usage: gradwire status MEETING, such as tcp://HOST:7077");
        return GWC_USAGE;
    }
    return gwc_exit_code(show(names[0], &set));
}

const gwc_command gwc_command_status = {
    .name = "status",
    .summary = "show the workers of a job that meets somewhere",
    .run = run_status,
    .flags = flags,
    .flag_count = COUNT(flags),
};
