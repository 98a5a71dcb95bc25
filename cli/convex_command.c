/* SPDX-License-Identifier: Apache-2.0
 *
 * convex_command.c - "gradwire convex": shows how far from the optimum methods that
 * average models end, on problems whose optimum is known. */
#define _GNU_SOURCE
#include "commands.h"
#include "convex/convex.h"
#include "flags.h"
#include "text_table.h"
#include "files/json.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

enum { SPEC_CAP = 256 };

typedef struct settings {
    int kind, workers, dim, spawn, json;
    uint64_t gradients, seed;
    double rate, alpha, signal;
    const char *sync;
} settings;

#define AT(field) offsetof(settings, field)
#define PROBLEMS  "logistic|least-squares|quadratic"

/* Lists of words must be in the order of gwt_convex_kind and of `ways`. */
static const gwc_flag flags[] = {
    {"problem", PROBLEMS, "logistic",
     "the problem to minimise; quadratic: least squares\n"
     "whose noise does not depend on the model",
     GWC_CHOICE, AT(kind), 0, 0},
    {"dim", "N", "10", "number of parameters", GWC_INT, AT(dim), 1, GWT_CONVEX_DIM_MAX},
    {"signal", "S", "2", "standard deviation of x . optimum", GWC_REAL, AT(signal), 0,
     100},
    {"workers", "N", "8", "number of workers", GWC_INT, AT(workers), 1, 1024},
    {"gradients", "N", "100000", "gradients of all workers, one sample each", GWC_COUNT,
     AT(gradients), 1, 1e9},
    {"sync", "SPECS", "oneshot:average=polyak local:1,average=polyak",
     "methods to compare, separated by spaces", GWC_TEXT, AT(sync), 0, 0},
    {"rate", "C", "1", "the step size is C s^-A in step s", GWC_REAL, AT(rate), 0, 1e6},
    {"alpha", "A", "0.5", "the exponent A in --rate", GWC_REAL, AT(alpha), 0, 10},
    {"seed", "N", "1", "seed of the samples", GWC_COUNT, AT(seed), 0, 1e19},
    {"spawn", "simulated|threads", "simulated",
     "simulated workers are fast because they exchange\n"
     "nothing; they average whole models",
     GWC_CHOICE, AT(spawn), 0, 0},
    {"json", NULL, NULL, "print one JSON object per method", GWC_SWITCH, AT(json), 0,
     0},
};

static void print_help(void)
{
    puts(
        "Usage: gradwire convex [FLAGS]\n"
        "\n"
        "Minimises a convex problem of Gaussian samples, whose optimum is known, with\n"
        "several workers, and shows how far above the least risk each method ends.\n"
        "Defaults are in brackets.\n");
    gwc_flags_help(flags, COUNT(flags), stdout);
    puts("\n"
         "Examples\n"
         "  gradwire convex\n"
         "  gradwire convex --gradients 1000000 --sync local:44,average=polyak\n"
         "  gradwire convex --spawn threads --sync 'dense topk:0.1'");
}

typedef gw_status way(const gwt_study *study, const char *sync, gwt_study_result *out);

static way *const ways[] = {gwt_study_simulate, gwt_study_threads};

/* The i-th word of a list that is separated by '|'. */
static const char *word(const char *list, int i, char *text, size_t cap)
{
    for (; i > 0; i--)
        list += strcspn(list, "|") + 1;
    snprintf(text, cap, "%.*s", (int)strcspn(list, "|"), list);
    return text;
}

static void print_json(const settings *set, const char *sync, const gwt_study *study,
                       const gwt_study_result *r)
{
    gwt_json json = {.to = stdout};
    char text[32];

    gwt_json_open(&json, NULL, '{');
    gwt_json_text(&json, "problem", word(PROBLEMS, set->kind, text, sizeof text));
    gwt_json_count(&json, "dim", (uint64_t)set->dim);
    gwt_json_real(&json, "signal", set->signal);
    gwt_json_count(&json, "workers", (uint64_t)set->workers);
    gwt_json_count(&json, "gradients", study->steps * (uint64_t)set->workers);
    gwt_json_real(&json, "rate", set->rate);
    gwt_json_real(&json, "alpha", set->alpha);
    gwt_json_count(&json, "seed", set->seed);
    gwt_json_text(&json, "sync", sync);
    if (r->rounds > 0)
        gwt_json_count(&json, "rounds", r->rounds);
    else
        gwt_json_null(&json, "rounds");
    gwt_json_real(&json, "excess_risk",
                  gwt_convex_excess(&study->config.problem, r->w));
    gwt_json_real(&json, "seconds", r->seconds);
    gwt_json_close(&json, '}');
    putchar('\n');
}

static const gwc_column table[] = {
    {"sync", -40, 0}, {"rounds", 8, 1}, {"excess risk", 12, 1}, {"seconds", 8, 1}};

static void print_row(const char *sync, const gwt_study *study,
                      const gwt_study_result *r)
{
    char rounds[24] = "-", risk[24], seconds[24];

    if (r->rounds > 0)
        snprintf(rounds, sizeof rounds, "%" PRIu64, r->rounds);
    snprintf(risk, sizeof risk, "%.4g",
             gwt_convex_excess(&study->config.problem, r->w));
    snprintf(seconds, sizeof seconds, "%.3f", r->seconds);
    gwc_print_cells(stdout, table, COUNT(table),
                    (const char *const[]){sync, rounds, risk, seconds});
}

/* Calls each for every spec in the list and stops at the first failure. */
static gw_status for_each(const settings *set, const gwt_study *study,
                          gw_status (*each)(const settings *set, const gwt_study *study,
                                            const char *sync))
{
    const char *at = set->sync + strspn(set->sync, " ");
    char sync[SPEC_CAP];

    if (*at == '\0')
        return gw_fail(GW_ERR_ARG, "--sync: the list is empty");
    while (*at != '\0') {
        size_t len = strcspn(at, " ");
        if (len >= sizeof sync)
            return gw_fail(
                GW_ERR_ARG,
                "--sync: a method has %zu characters; at most %d are allowed", len,
                SPEC_CAP - 1);
        snprintf(sync, sizeof sync, "%.*s", (int)len, at);
        GWT_TRY(each(set, study, sync));
        at += len + strspn(at + len, " ");
    }
    return GW_OK;
}

static gw_status check_one(const settings *set, const gwt_study *study,
                           const char *sync)
{
    (void)set, (void)study;
    return gw_spec_check(sync, NULL, 0);
}

static gw_status run_one(const settings *set, const gwt_study *study, const char *sync)
{
    gwt_study_result result;

    GWT_TRY(ways[set->spawn](study, sync, &result));
    if (set->json)
        print_json(set, sync, study, &result);
    else
        print_row(sync, study, &result);
    return GW_OK;
}

static gw_status run_study(const settings *set)
{
    gwt_study_config config = {.gradients = set->gradients,
                               .workers = set->workers,
                               .rate = set->rate,
                               .alpha = set->alpha};
    gwt_study study;
    gw_status st;

    GWT_TRY(for_each(set, NULL, check_one));
    gwt_convex_init(&config.problem, (gwt_convex_kind)set->kind, (size_t)set->dim,
                    set->signal, set->seed);
    st = gwt_study_init(&study, &config);
    if (st == GW_OK && !set->json)
        gwc_print_cells(stdout, table, COUNT(table), NULL);
    if (st == GW_OK)
        st = for_each(set, &study, run_one);
    gwt_study_free(&study);
    return st;
}

static int run_convex(int argc, char **argv)
{
    settings set;
    int help;
    gw_status st;

    memset(&set, 0, sizeof set);
    st = gwc_flags_read(flags, COUNT(flags), "convex", argc, argv, &set, &help);
    if (st != GW_OK)
        return GWC_USAGE;
    if (help) {
        print_help();
        return GWC_DONE;
    }
    st = run_study(&set);
    return gwc_exit_code(st);
}

const gwc_command gwc_command_convex = {
    .name = "convex",
    .summary = "show how close model averaging gets to a known optimum",
    .run = run_convex,
    .flags = flags,
    .flag_count = COUNT(flags),
};
