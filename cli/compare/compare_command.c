/* SPDX-License-Identifier: Apache-2.0
 *
 * compare_command.c - "gradwire compare": trains with several methods and shows a table
 * and a page. */
#define _GNU_SOURCE
#include "commands.h"
#include "common.h"
#include "compare/compare.h"
#include "flags.h"
#include "report/report_page.h"
#include "report/runs_list.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

enum { ARGS_MAX = 128, FILE_CAP = GWC_PATH_CAP + 32 };

typedef struct settings {
    const char *sync, *link, *workers, *out;
    double target;
    uint64_t seeds;
    int json;
} settings;

#define AT(field) offsetof(settings, field)

/* All run with the defaults of 'gradwire train', which suit dense (docs/comparing.md).
 * Only a2sgd has a setting of its own, since it diverges with momentum. */
#define ALL_METHODS                                         \
    "dense gtopk:0.01 drop:0.99 qsgd:4 local:8 pqasgd:8,4 " \
    "a2sgd@momentum=0 none"

static const gwc_flag flags[] = {
    {"sync", "SPECS", ALL_METHODS,
     "methods, separated by spaces; '@' adds settings of\n"
     "train to one of them",
     GWC_TEXT, AT(sync), 0, 0},
    {"link", "LINKS", "none", "links, separated by spaces: '1gbit,50us none'", GWC_TEXT,
     AT(link), 0, 0},
    {"workers", "NUMBERS", "4", "numbers of workers, separated by spaces: '4 8'",
     GWC_TEXT, AT(workers), 0, 0},
    {"seeds", "N", "1",
     "run each method N times and show the mean; tells\n"
     "ties from differences (docs/comparing.md)",
     GWC_COUNT, AT(seeds), 1, 100},
    {"target", "ACCURACY", "0",
     "show when each method reaches this accuracy, 0 to 1;\n"
     "the first one is the best",
     GWC_REAL, AT(target), 0, 1},
    {"out", "DIR", "runs/compare",
     "directory for the runs and report.html; finished\n"
     "runs there are not repeated",
     GWC_TEXT, AT(out), 0, 0},
    {"json", NULL, NULL, "print each row as a line of JSON", GWC_SWITCH, AT(json), 0,
     0},
};

static void print_help(void)
{
    puts("Usage: gradwire compare [FLAGS] [FLAGS OF TRAIN]\n"
         "\n"
         "Trains the same model with several methods, links and numbers of workers,\n"
         "one run after another, and shows which method pays here: as a table, and as\n"
         "a page with all curves. All other flags are those of 'gradwire train' and\n"
         "apply to every run. A run that fails becomes a row that says why. After\n"
         "Ctrl-C, the same command continues with the runs that are missing.\n"
         "\n"
         "Flags");
    gwc_flags_help(flags, COUNT(flags), stdout);
    puts("\n"
         "Examples\n"
         "  gradwire compare --link '1gbit,50us 100mbit,100us' --epochs 1\n"
         "  gradwire compare --sync 'dense gtopk:0.01' --target 0.85 --seeds 3\n"
         "  gradwire compare --sync 'dense local:8' --workers '4 8' --out runs/local");
}

/* ---- arguments ------------------------------------------------------------------- */

static int is_own(const char *arg)
{
    size_t len = strcspn(arg + 2, "=");

    for (size_t i = 0; i < COUNT(flags); i++)
        if (strlen(flags[i].name) == len && strncmp(flags[i].name, arg + 2, len) == 0)
            return 1;
    return strcmp(arg, "--help") == 0;
}

static int is_switch(const char *arg)
{
    return strcmp(arg, "--json") == 0 || strcmp(arg, "--help") == 0;
}

/* Separates this command's flags from those of 'gradwire train'. */
static void part(int argc, char **argv, char **own, int *own_count, char **rest,
                 int *rest_count)
{
    for (int i = 0; i < argc; i++) {
        int mine = strcmp(argv[i], "-h") == 0 ||
                   (strncmp(argv[i], "--", 2) == 0 && is_own(argv[i]));
        if (!mine) {
            rest[(*rest_count)++] = argv[i];
            continue;
        }
        own[(*own_count)++] = argv[i];
        if (strchr(argv[i], '=') == NULL && !is_switch(argv[i]) && i + 1 < argc)
            own[(*own_count)++] = argv[++i];
    }
}

static int names(char **args, int count, const char *flag)
{
    size_t len = strlen(flag);

    for (int i = 0; i < count; i++)
        if (strncmp(args[i], flag, len) == 0 &&
            (args[i][len] == '\0' || args[i][len] == '='))
            return 1;
    return 0;
}

/* ---- running --------------------------------------------------------------------- */

/* "[3/16] gtopk:0.01 on 1gbit, 4 workers, about 2 min left". */
static void headline(const gwc_compare *c, size_t i, double spent, size_t ran,
                     char *text, size_t cap)
{
    const gwc_case *one = &c->cases[i];
    int len = snprintf(text, cap, "[%zu/%zu] %s on %s, %s workers", i + 1, c->count,
                       one->sync, one->link != NULL ? one->link : "this machine",
                       one->workers);

    if (one->seed != 0 && len > 0 && (size_t)len < cap)
        len += snprintf(text + len, cap - (size_t)len, ", seed %d", (int)one->seed);
    if (ran > 0 && len > 0 && (size_t)len < cap) {
        double left = spent / (double)ran * (double)(c->count - i);
        snprintf(text + len, cap - (size_t)len,
                 left < 90 ? ", about %.0f s left in total"
                           : ", about %.0f min left in total",
                 left < 90 ? left : left / 60);
    }
}

static void tell(const gwc_case *one, const char *line, double seconds)
{
    fprintf(stderr, "%s: ", line);
    if (one->state == GWC_CASE_THERE)
        fputs("finished before\n", stderr);
    else if (one->state == GWC_CASE_FAILED)
        fprintf(stderr, "failed: %s\n", one->why);
    else
        fprintf(stderr, "done in %.1f s\n", seconds);
}

static gw_status run_all(gwc_compare *c)
{
    double spent = 0.0;
    size_t ran = 0;

    for (size_t i = 0; i < c->count; i++) {
        gwc_case *one = &c->cases[i];
        char line[1024], bare[1024];
        double began = gwt_now();
        if (one->state == GWC_CASE_WAITS) {
            headline(c, i, spent, ran, line, sizeof line);
            GWT_TRY(gwc_case_run(one, line));
            spent += gwt_now() - began;
            ran++;
        }
        headline(c, i, 0.0, 0, bare, sizeof bare);
        tell(one, bare, gwt_now() - began);
    }
    return GW_OK;
}

/* Checks all directories before the first run, so that an error does not come up after
 * hours. */
static gw_status look_around(gwc_compare *c)
{
    for (size_t i = 0; i < c->count; i++) {
        int there;
        GWT_TRY(gwc_case_there(&c->cases[i], &there));
        if (there)
            c->cases[i].state = GWC_CASE_THERE;
    }
    return GW_OK;
}

/* Writes the page of all finished runs. A build without pages continues without one,
 * but a page that cannot be written is a failure. */
static gw_status make_page(const gwc_compare *c)
{
    gwc_run_list list = {0};
    char path[FILE_CAP], *directory[GWC_CASES_MAX];
    size_t count = 0;
    gw_status st, written = GW_OK;

    for (size_t i = 0; i < c->count; i++)
        if (c->cases[i].state == GWC_CASE_THERE || c->cases[i].state == GWC_CASE_RUN)
            directory[count++] = c->cases[i].directory;
    if (count == 0)
        return GW_OK;
    snprintf(path, sizeof path, "%s/report.html", c->out);
    st = gwc_page_there();
    if (st == GW_OK)
        st = gwc_run_list_read(&list, directory, count);
    if (st == GW_OK) {
        gwc_page page = {"gradwire compare", list.run, list.count,
                         (const char *const *)list.note, list.notes};
        written = gwc_page_write(&page, path);
    }
    gwc_run_list_free(&list);
    if (st != GW_OK)
        fprintf(stderr, "no report page: %s\n", gw_error_message());
    else if (written == GW_OK)
        fprintf(stderr, "report page: %s\n", path);
    return written;
}

static int show(const gwc_compare *c, gw_status st, int json)
{
    size_t missing = gwc_table_print(c, stdout, json);

    fflush(stdout);
    gw_status page = make_page(c);
    if (st == GW_ERR_STOPPED) {
        fputs("stopped; run the same command again to continue\n", stderr);
        return GWC_STOPPED;
    }
    if (missing == 0)
        return page == GW_OK ? GWC_DONE : GWC_FAILED;
    (void)gw_fail(GW_ERR_SYSTEM, "%zu of %zu runs failed", missing, c->count);
    return GWC_FAILED;
}

static int compare(const settings *set, char **rest, int rest_count)
{
    gwc_compare c = {.sync = set->sync,
                     .link = set->link,
                     .workers = set->workers,
                     .out = set->out,
                     .seeds = set->seeds,
                     .target = set->target > 0.0 ? set->target : (double)NAN,
                     .rest = rest,
                     .rest_count = rest_count};
    gw_status st = gwc_cases_make(&c);
    int code;

    if (st == GW_OK)
        st = look_around(&c);
    if (st == GW_OK)
        st = run_all(&c);
    code = st == GW_OK || st == GW_ERR_STOPPED ? show(&c, st, set->json)
                                               : gwc_exit_code(st);
    gwc_cases_free(&c);
    return code;
}

static int run_compare(int argc, char **argv)
{
    char *own[ARGS_MAX + 2], *rest[ARGS_MAX + 2];
    int own_count = 0, rest_count = 0, help;
    settings set = {0};

    if (argc > ARGS_MAX) {
        (void)gw_fail(GW_ERR_ARG, "too many arguments: at most %d are allowed",
                      ARGS_MAX);
        return GWC_USAGE;
    }
    part(argc, argv, own, &own_count, rest, &rest_count);
    if (gwc_flags_read(flags, COUNT(flags), "compare", own_count, own, &set, &help) !=
        GW_OK)
        return GWC_USAGE;
    if (help) {
        print_help();
        return GWC_DONE;
    }
    if (set.seeds > 1 && names(rest, rest_count, "--seed")) {
        (void)gw_fail(GW_ERR_ARG, "--seeds %d starts at seed 1; leave out --seed",
                      (int)set.seeds);
        return GWC_USAGE;
    }
    return compare(&set, rest, rest_count);
}

const gwc_command gwc_command_compare = {
    .name = "compare",
    .summary = "train with several methods and show which one pays here",
    .run = run_compare,
    .not_by_ranks = 1,
    .flags = flags,
    .flag_count = COUNT(flags),
    .passes_to = &gwc_command_train,
};
