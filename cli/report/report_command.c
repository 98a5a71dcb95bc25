/* SPDX-License-Identifier: Apache-2.0
 *
 * report_command.c - "gradwire report": makes a page from run directories. */
#define _GNU_SOURCE
#include "commands.h"
#include "common.h"
#include "files/json.h"
#include "flags.h"
#include "report/report_page.h"
#include "report/runs_list.h"

#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

enum { ARGS_MAX = 1024 };

typedef struct settings {
    const char *out, *title;
    int json;
} settings;

#define AT(field) offsetof(settings, field)

static const gwc_flag flags[] = {
    {"out", "FILE", "report.html", "file to write; -o is short for --out", GWC_TEXT,
     AT(out), 0, 0},
    {"title", "TEXT", "gradwire runs", "title of the page", GWC_TEXT, AT(title), 0, 0},
    {"json", NULL, NULL, "say what was written, and what is missing, as JSON",
     GWC_SWITCH, AT(json), 0, 0},
};

static void print_help(void)
{
    puts(
        "Usage: gradwire report RUN... [-o FILE] [FLAGS]\n"
        "\n"
        "Makes one HTML page from run directories. The page says in words which "
        "method\n"
        "is best on which link, and shows accuracy and loss against time, bytes and\n"
        "steps, where the time went, and all settings. It needs no network and no "
        "other\n"
        "file. RUN may also be a directory that contains run directories, such as one\n"
        "from 'gradwire compare'. The page lists what could not be read. Defaults are\n"
        "in brackets.\n"
        "\n"
        "Flags");
    gwc_flags_help(flags, COUNT(flags), stdout);
    puts("\n"
         "Examples\n"
         "  gradwire report runs/* -o runs.html\n"
         "  gradwire report runs/dense-1 runs/gtopk-1 --title 'a first look'");
}

/* Whether the page itself went to standard output. */
static int is_stdout(const char *path)
{
    struct stat there, out;

    return stat(path, &there) == 0 && fstat(STDOUT_FILENO, &out) == 0 &&
           there.st_dev == out.st_dev && there.st_ino == out.st_ino;
}

static void say(const settings *set, const gwc_run_list *list)
{
    for (size_t i = 0; i < list->notes; i++)
        fprintf(stderr, "note: %s\n", list->note[i]);
    fprintf(is_stdout(set->out) ? stderr : stdout, "%s: %zu run%s\n", set->out,
            list->count, list->count == 1 ? "" : "s");
}

static void say_json(const settings *set, const gwc_run_list *list)
{
    gwt_json j = {.to = is_stdout(set->out) ? stderr : stdout, .indent = 2};

    gwt_json_open(&j, NULL, '{');
    gwt_json_text(&j, "page", set->out);
    gwt_json_count(&j, "runs", list->count);
    gwt_json_open(&j, "notes", '[');
    for (size_t i = 0; i < list->notes; i++)
        gwt_json_text(&j, NULL, list->note[i]);
    gwt_json_close(&j, ']');
    gwt_json_close(&j, '}');
    putc('\n', j.to);
}

static gw_status make_page(const settings *set, char **names, size_t count)
{
    gwc_run_list list = {0};
    gw_status st;

    if (count == 0)
        return gw_fail(GW_ERR_ARG,
                       "no run given; usage: gradwire report RUN... -o FILE");
    GWT_TRY(gwc_page_there());
    st = gwc_run_list_read(&list, names, count);
    if (st == GW_OK) {
        gwc_page page = {set->title, list.run, list.count,
                         (const char *const *)list.note, list.notes};
        st = gwc_page_write(&page, set->out);
    }
    if (st == GW_OK)
        (set->json ? say_json : say)(set, &list);
    gwc_run_list_free(&list);
    return st;
}

static int run_report(int argc, char **argv)
{
    char *names[ARGS_MAX], *rest[ARGS_MAX], out[] = "--out";
    settings set = {0};
    int help, left;
    gw_status st;

    if (argc > ARGS_MAX) {
        (void)gw_fail(GW_ERR_ARG, "too many arguments: at most %d are allowed",
                      ARGS_MAX);
        return GWC_USAGE;
    }
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "-o") == 0)
            argv[i] = out;
    size_t count = gwc_flags_part(flags, COUNT(flags), argc, argv, names, rest, &left);
    st = gwc_flags_read(flags, COUNT(flags), "report", left, rest, &set, &help);
    if (st != GW_OK)
        return GWC_USAGE;
    if (help) {
        print_help();
        return GWC_DONE;
    }
    st = make_page(&set, names, count);
    return gwc_exit_code(st);
}

/* Its arguments are directories. */
static const char *no_word(size_t i)
{
    (void)i;
    return NULL;
}

const gwc_command gwc_command_report = {
    .name = "report",
    .summary = "make an HTML page of runs: curves, time, bytes, settings",
    .run = run_report,
    .flags = flags,
    .flag_count = COUNT(flags),
    .word = no_word,
};
