/* SPDX-License-Identifier: Apache-2.0
 *
 * list_command.c - "gradwire list": lists methods, models, data sets and the rest, and
 * says which of them are available. */
#include "commands.h"
#include "flags.h"
#include "list_method.h"
#include "terminal.h"
#include "simulate/simulate.h"
#include "report/report_page.h"

#include "layers/compute.h"
#include "data/data.h"
#include "files/json.h"
#include "models/model.h"
#include "optim/optimizer.h"
#include "optim/lr_schedule.h"

#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* Where the second column begins. */
enum { SECOND = 17 };

typedef struct settings {
    const char *data_dir;
    int json;
} settings;

static const gwc_flag flags[] = {
    {"data-dir", "DIR", NULL, "directory in which to look for data sets", GWC_TEXT,
     offsetof(settings, data_dir), 0, 0},
    {"json", NULL, NULL, "print as JSON", GWC_SWITCH, offsetof(settings, json), 0, 0},
};

typedef struct named {
    const char *name, *summary;
    const char *example; /* of a method */
    const char *usage;   /* the name with its options; NULL: it has none */
} named;

static const named transports[] = {
    {.name = "local",
     .summary = "processes or threads of this machine over shared memory"},
#ifdef GRADWIRE_HAVE_GROUP
    {.name = "group",
     .summary = "processes on several machines that join a meeting, encrypted"},
#endif
#ifdef GRADWIRE_HAVE_MPI
    {.name = "mpi",
     .summary = "ranks of mpirun, mpiexec or srun, on one or several machines"},
#endif
    {.name = "link",
     .summary = "emulates a slower network on top of the others, with --link"},
};

/* What this build lacks, and the package that would provide it. */
static const named lacking[] = {
#ifndef GRADWIRE_HAVE_GROUP
    {.name = "group",
     .summary = "workers on several machines that join a meeting (libssl-dev)"},
#endif
#ifndef GRADWIRE_HAVE_MPI
    {.name = "mpi",
     .summary = "workers on several machines (libopenmpi-dev or libmpich-dev)"},
#endif
    {.name = NULL},
};

/* A section's rows: writes the i-th to *row and returns 1, or 0 past the end. */
typedef int row_of(size_t i, named *row);

static int sync_row(size_t i, named *row)
{
    *row = (named){.name = gw_recipe_name(i),
                   .summary = gw_recipe_summary(i),
                   .example = gw_recipe_example(i)};
    return row->name != NULL;
}

static int model_row(size_t i, named *row)
{
    const gwt_model_spec *m = gwt_model_at(i);

    if (m != NULL)
        *row = (named){.name = m->name, .summary = m->summary, .usage = m->usage};
    return m != NULL;
}

static int optimizer_row(size_t i, named *row)
{
    const gwt_optimizer *o = gwt_optimizer_at(i);

    if (o != NULL)
        *row = (named){.name = o->name, .summary = o->summary};
    return o != NULL;
}

static int schedule_row(size_t i, named *row)
{
    const gwt_schedule_type *s = gwt_schedule_at(i);

    if (s != NULL)
        *row = (named){.name = s->name, .summary = s->summary, .usage = s->usage};
    return s != NULL;
}

/* The rows of a table, and last after them if more is set. */
static int row_or(const named *rows, size_t count, size_t i, named *row, int more,
                  named last)
{
    if (i < count)
        *row = rows[i];
    else if (i == count && more)
        *row = last;
    else
        return 0;
    return 1;
}

static int transport_row(size_t i, named *row)
{
    named last = {.name = "simgrid",
                  .summary = "a simulated cluster, for 'gradwire simulate'"};

    return row_or(transports, COUNT(transports), i, row,
                  gwc_simulate_possible() == GW_OK, last);
}

static int lacking_row(size_t i, named *row)
{
    int missing = gwc_simulate_possible() != GW_OK;
    named last = {.name = "simulate", .summary = gw_error_message()};

    return row_or(lacking, COUNT(lacking) - 1, i, row, missing, last);
}

static const struct section {
    const char *title, *key;
    row_of *row;
} sections[] = {
    {"Methods (--sync); 'gradwire list NAME' describes one", "syncs", sync_row},
    {"Models (--model)", "models", model_row},
    {"Optimizers (--optimizer)", "optimizers", optimizer_row},
    {"Learning-rate schedules (--lr-schedule)", "schedules", schedule_row},
    {"Transports", "transports", transport_row},
    {"Not in this build", "lacking", lacking_row},
};

/* Whether the data set can be used, and where it is. */
static int locate(const gwt_data_source *source, const char *data_dir, char *path)
{
    path[0] = '\0';
    return source->locate == NULL || source->locate(NULL, data_dir, path) == GW_OK;
}

static void print_data(const char *data_dir)
{
    char path[GWT_PATH_CAP];
    const gwt_data_source *source;

    puts("Data sets (--data)");
    for (size_t i = 0; (source = gwt_data_source_at(i)) != NULL; i++) {
        gwc_printf(stdout, SECOND, "  %-14s %s\n", source->name, source->summary);
        if (strcmp(source->usage, source->name) != 0)
            gwc_printf(stdout, SECOND, "  %-14s usage: %s\n", "", source->usage);
        if (source->get == NULL)
            continue;
        if (locate(source, data_dir, path))
            gwc_printf(stdout, SECOND, "  %-14s found in %s\n", "", path);
        else
            gwc_printf(stdout, SECOND, "  %-14s not found; %s\n", "", source->get);
    }
    putchar('\n');
}

static void print_section(const struct section *s)
{
    named row;

    if (!s->row(0, &row))
        return;
    gwc_printf(stdout, 2, "%s\n", s->title);
    for (size_t i = 0; s->row(i, &row); i++) {
        const char *shown = row.usage != NULL ? row.usage : row.name;
        /* A name with settings is longer than its column. */
        if (strlen(shown) > 14)
            gwc_printf(stdout, SECOND, "  %s\n  %-14s %s\n", shown, "", row.summary);
        else
            gwc_printf(stdout, SECOND, "  %-14s %s\n", shown, row.summary);
    }
    putchar('\n');
}

void gwc_list_section(const char *key)
{
    for (size_t i = 0; i < COUNT(sections); i++)
        if (strcmp(sections[i].key, key) == 0)
            print_section(&sections[i]);
}

static void print_text(const settings *set)
{
    for (size_t i = 0; i < COUNT(sections); i++) {
        print_section(&sections[i]);
        if (strcmp(sections[i].key, "models") == 0)
            print_data(set->data_dir);
    }
    gwc_printf(
        stdout, SECOND,
        "This machine\n  %-14s %s\n  %-14s %s\n  %-14s %s\n  %-14s %s\n",
        "vector units", gw_isa(), "computing with", gwt_compute_name(), "report page",
        gwc_page_there() == GW_OK ? "yes" : "no; this build was made without npm",
        "version", gw_version());
}

static void json_data(gwt_json *j, const char *data_dir)
{
    char path[GWT_PATH_CAP];
    const gwt_data_source *source;

    gwt_json_open(j, "data", '[');
    for (size_t i = 0; (source = gwt_data_source_at(i)) != NULL; i++) {
        gwt_json_open(j, NULL, '{');
        gwt_json_text(j, "name", source->name);
        gwt_json_text(j, "usage", source->usage);
        gwt_json_text(j, "summary", source->summary);
        if (source->get == NULL) {
            gwt_json_null(j, "found");
        } else {
            gwt_json_bool(j, "found", locate(source, data_dir, path));
            gwt_json_text(j, "path", path[0] != '\0' ? path : NULL);
        }
        gwt_json_text(j, "get", source->get);
        gwt_json_close(j, '}');
    }
    gwt_json_close(j, ']');
}

static void json_section(gwt_json *j, const struct section *s)
{
    named row;

    gwt_json_open(j, s->key, '[');
    for (size_t i = 0; s->row(i, &row); i++) {
        gwt_json_open(j, NULL, '{');
        gwt_json_text(j, "name", row.name);
        gwt_json_text(j, "summary", row.summary);
        if (row.example != NULL)
            gwt_json_text(j, "example", row.example);
        if (row.usage != NULL)
            gwt_json_text(j, "usage", row.usage);
        gwt_json_close(j, '}');
    }
    gwt_json_close(j, ']');
}

static void print_json(const settings *set)
{
    gwt_json j = {.to = stdout, .indent = 2};

    gwt_json_open(&j, NULL, '{');
    for (size_t i = 0; i < COUNT(sections); i++)
        json_section(&j, &sections[i]);
    json_data(&j, set->data_dir);
    gwt_json_text(&j, "isa", gw_isa());
    gwt_json_text(&j, "compute", gwt_compute_name());
    gwt_json_bool(&j, "report", gwc_page_there() == GW_OK);
    gwt_json_text(&j, "version", gw_version());
    gwt_json_close(&j, '}');
    putchar('\n');
}

static void print_help(void)
{
    puts("Usage: gradwire list [METHOD] [FLAGS]\n\n"
         "Lists methods, models, optimizers, data sets and transports, and says which\n"
         "of them this machine has. With the name of a method or a spec, describes "
         "it.\n");
    gwc_flags_help(flags, COUNT(flags), stdout);
    puts("\nExamples\n  gradwire list\n  gradwire list --json\n  gradwire list gtopk\n"
         "  gradwire list local:16+gtopk:0.01+q:4");
}

enum { ARGS_MAX = 64 };

static int run_list(int argc, char **argv)
{
    char *names[ARGS_MAX], *rest[ARGS_MAX];
    settings set = {0};
    int help, left;

    if (argc > ARGS_MAX) {
        (void)gw_fail(GW_ERR_ARG, "too many arguments: at most %d are allowed",
                      ARGS_MAX);
        return GWC_USAGE;
    }
    size_t count = gwc_flags_part(flags, COUNT(flags), argc, argv, names, rest, &left);
    if (gwc_flags_read(flags, COUNT(flags), "list", left, rest, &set, &help) != GW_OK)
        return GWC_USAGE;
    if (count > 1) {
        (void)gw_fail(GW_ERR_ARG, "list takes one name at a time, not '%s' and '%s'",
                      names[0], names[1]);
        return GWC_USAGE;
    }
    if (help) {
        print_help();
    } else if (count == 1) {
        return gwc_exit_code(gwc_list_method(names[0], set.json));
    } else if (set.json) {
        print_json(&set);
    } else {
        print_text(&set);
    }
    return GWC_DONE;
}

const gwc_command gwc_command_list = {
    .name = "list",
    .summary = "list methods, models and data sets, and what this build supports",
    .run = run_list,
    .flags = flags,
    .flag_count = COUNT(flags),
    .word = gw_recipe_name,
};
