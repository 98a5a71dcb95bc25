/* SPDX-License-Identifier: Apache-2.0
 *
 * status_command.c - "gradwire status": the workers of a job that meets somewhere. */
#define _GNU_SOURCE
#include "commands.h"
#include "group/join.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/json.h"
#include "gradwire_group.h"

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
         "tcp://HOST:7077: who runs, who waits, and what each has reported last.\n");
    gwc_flags_help(flags, COUNT(flags), stdout);
    puts("\nExamples\n"
         "  gradwire status tcp://HOST:7077 --key-file job.key\n"
         "  gradwire status tcp://HOST:7077 --key-file job.key --json");
}

/* ---- what a meeting tells ---------------------------------------------------------
 */

typedef struct worker {
    unsigned long long id;
    char name[64], at[300], state[8], report[256];
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

static void hear(void *arg, const char *line)
{
    table *t = arg;
    worker w = {0};
    int at = 0;

    if (t->status != GW_OK)
        return;
    if (sscanf(line, "job view=%llu running=%d waiting=%d min=%d max=%d", &t->view,
               &t->running, &t->waiting, &t->min, &t->max) == 5)
        return;
    if (sscanf(line, "member %llu %63s %299s %7s%n", &w.id, w.name, w.at, w.state,
               &at) != 4) {
        t->status = gw_fail(GW_ERR_DATA, "the meeting says '%.60s'", line);
        return;
    }
    snprintf(w.report, sizeof w.report, "%.255s", line + at + strspn(line + at, " "));
    t->status = add_worker(t, &w);
}

/* ---- printing ----------------------------------------------------------------------
 */

static void print_table(const table *t)
{
    printf("view %llu: %d running, %d waiting", t->view, t->running, t->waiting);
    if (t->max > 0)
        printf("; %d to %d workers", t->min, t->max);
    putchar('\n');
    for (size_t i = 0; i < t->count; i++) {
        const worker *w = &t->workers[i];
        printf("  %-4llu %-16s %-21s %-6s%s%s\n", w->id, w->name, w->at, w->state,
               w->report[0] != '\0' ? " " : "", w->report);
    }
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
        gwt_json_text(&json, "report", w->report[0] != '\0' ? w->report : NULL);
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
