/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate_command.c - "gradwire simulate": shows what methods cost on a simulated
 * cluster. */
#define _GNU_SOURCE
#include "child.h"
#include "commands.h"
#include "common.h"
#include "flags.h"
#include "model_shapes.h"
#include "simulate/simulate.h"
#include "sync_list.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

enum { LIST_MAX = 64, LIST_CAP = 4096, WORKERS_MAX = 1024, STEPS_MAX = 1000000 };

static const uint64_t params_most = 4000000000;

typedef struct settings {
    gwc_sim sim;
    const char *sync, *workers, *model, *params;
    double compute_ms, tick_us;
    int codec, json;
} settings;

#define AT(field) offsetof(settings, field)

static const gwc_flag flags[] = {
    {NULL, NULL, NULL, "Model and method", GWC_TEXT, 0, 0, 0},
    {"sync", "SPECS", "dense topk:0.001 gtopk:0.001",
     "methods, separated by spaces; may be repeated;\n"
     "all: an example of each method in 'gradwire list'",
     GWC_TEXT, AT(sync), 0, 0},
    {"params", "N", "1000000", "number of parameters of the model: 1000000 or 1m",
     GWC_TEXT, AT(params), 0, 0},
    {"model", "NAME", NULL,
     "use the number of parameters of a known model:\n"
     "fnn3, resnet20, resnet50, vgg16, alexnet, lstm-ptb,\n"
     "gpt2-124m",
     GWC_TEXT, AT(model), 0, 0},
    {"tensors", "N", "1", "number of tensors in the model", GWC_COUNT, AT(sim.tensors),
     1, 1e6},
    {"gradients", "FILE", NULL,
     "use a gradient from train --record-gradient;\n"
     "without it, gradients are made up",
     GWC_TEXT, AT(sim.gradients), 0, 0},
    {"seed", "N", "1", "seed of made-up gradients", GWC_COUNT, AT(sim.seed), 0, 1e15},
    {NULL, NULL, NULL, "Cluster", GWC_TEXT, 0, 0, 0},
    {"workers", "NUMBERS", "4 8 16 32",
     "numbers of workers, separated by spaces; at most\n"
     "1024",
     GWC_TEXT, AT(workers), 0, 0},
    {"link", "LINK", "1gbit,50us", "link between a worker and its switch", GWC_TEXT,
     AT(sim.link_text), 0, 0},
    {"hosts-per-switch", "N", "0", "hosts on each switch; 0: all hosts on one switch",
     GWC_INT, AT(sim.hosts_per_switch), 0, WORKERS_MAX},
    {"uplink", "LINK", NULL, "link between switches [same as --link]", GWC_TEXT,
     AT(sim.uplink_text), 0, 0},
    {NULL, NULL, NULL, "Steps", GWC_TEXT, 0, 0, 0},
    {"compute", "MS", "0", "milliseconds of computation before each exchange", GWC_REAL,
     AT(compute_ms), 0, 1e9},
    {"batch", "N", "0", "samples per worker and step, to show samples/s", GWC_REAL,
     AT(sim.batch), 0, 1e9},
    {"steps", "N", "4",
     "number of simulated steps; more if a method needs\n"
     "them for whole periods",
     GWC_COUNT, AT(sim.steps), 1, STEPS_MAX},
    {"warmup", "N", "1", "number of steps before those", GWC_COUNT, AT(sim.warmup), 0,
     1e6},
    {"codec", "measured|free", "measured",
     "count the time that encoding and decoding take\n"
     "here, or no time",
     GWC_CHOICE, AT(codec), 0, 0},
    {"rounds", "N", "3",
     "measurements of encoding and decoding; the least\n"
     "counts",
     GWC_COUNT, AT(sim.rounds), 1, 1000},
    {"fold", "auto|on|off", "auto", "let workers share the memory of vectors",
     GWC_CHOICE, AT(sim.fold), 0, 0},
    {"tick", "US", "0",
     "microseconds: messages that end this close end\n"
     "together; 0: exact, and with over 128 workers 10\n"
     "and more",
     GWC_REAL, AT(tick_us), 0, 1e6},
    {"json", NULL, NULL, "print each row as a line of JSON", GWC_SWITCH, AT(json), 0,
     0},
};

static void print_help(void)
{
    puts(
        "Usage: gradwire simulate [FLAGS]\n"
        "\n"
        "Runs the real exchange of gradients, message by message, between workers on\n"
        "a simulated network (SimGrid), and shows how long a step takes there.\n"
        "Simulated time does not depend on this machine, except for encoding and\n"
        "decoding, which are measured here. The column 'predicted' is computed from\n"
        "latencies and bytes alone; 'eff.' is the share of computation in a step. See\n"
        "docs/simulate.md.");
    gwc_flags_help(flags, COUNT(flags), stdout);
    puts("\n"
         "Examples\n"
         "  gradwire simulate\n"
         "  gradwire simulate --model vgg16 --compute 97 --link 1gbit,400us\n"
         "  gradwire simulate --sync gtopk:0.001 --workers '256 1024' --codec free");
}

/* ---- reading -------------------------------------------------------------------- */

static gw_status append(char *list, size_t cap, const char *text)
{
    size_t len = strlen(list);
    int more = snprintf(list + len, cap - len, "%s%s", len > 0 ? " " : "", text);

    if (more < 0 || (size_t)more >= cap - len)
        return gw_fail(GW_ERR_ARG, "--sync: the list is longer than %zu characters",
                       cap);
    return GW_OK;
}

/* Of most flags the last one counts; the lists of all --sync flags are joined. */
static gw_status all_syncs(int argc, char **argv, char *list, size_t cap)
{
    list[0] = '\0';
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--sync") == 0 && i + 1 < argc)
            GWT_TRY(append(list, cap, argv[++i]));
        else if (strncmp(argv[i], "--sync=", 7) == 0)
            GWT_TRY(append(list, cap, argv[i] + 7));
    }
    return GW_OK;
}

static gw_status read_model(settings *set)
{
    const char *names[GWC_SHAPES_MAX];
    const gwc_shape *shape;

    if (set->model == NULL)
        return gwc_parse_params("--params", set->params, params_most, &set->sim.params);
    shape = gwc_shape_find(set->model);
    if (shape == NULL)
        return gwt_fail_name("model", set->model, names, gwc_shape_names(names), NULL);
    if (shape->params > params_most)
        return gw_fail(GW_ERR_ARG,
                       "%s has too many parameters to simulate; 'gradwire plan --model "
                       "%s' takes it",
                       shape->name, shape->name);
    set->sim.params = shape->params;
    return GW_OK;
}

static gw_status read_links(gwc_sim *sim)
{
    const char *up = sim->uplink_text != NULL ? sim->uplink_text : sim->link_text;

    GWT_TRY(gw_link_parse(sim->link_text, &sim->rate, &sim->latency));
    return gw_link_parse(up, &sim->up_rate, &sim->up_latency);
}

static gw_status read_workers(const char *text, int *list, size_t *count)
{
    char word[24];

    *count = 0;
    text += strspn(text, " ,");
    while (*text != '\0') {
        uint64_t x;
        size_t len = strcspn(text, " ,");
        snprintf(word, sizeof word, "%.*s", len < sizeof word ? (int)len : 23, text);
        GWT_TRY(gwt_parse_count("--workers", word, 1, WORKERS_MAX, &x));
        if (*count == LIST_MAX)
            return gw_fail(GW_ERR_ARG, "--workers: the list has more than %d numbers",
                           LIST_MAX);
        list[(*count)++] = (int)x;
        text += len + strspn(text + len, " ,");
    }
    if (*count == 0)
        return gw_fail(GW_ERR_ARG, "--workers: the list is empty");
    return GW_OK;
}

static gw_status check_syncs(char *list, const char **sync, size_t *count)
{
    *count = 0;
    for (char *at = strtok(list, " "); at != NULL; at = strtok(NULL, " ")) {
        if (*count == LIST_MAX)
            return gw_fail(GW_ERR_ARG, "--sync: the list has more than %d methods",
                           LIST_MAX);
        GWT_TRY(gw_spec_check(at, NULL, 0));
        sync[(*count)++] = at;
    }
    if (*count == 0)
        return gw_fail(GW_ERR_ARG, "--sync: the list is empty");
    return GW_OK;
}

/* ---- running -------------------------------------------------------------------- */

/* Steps within a period may send nothing, so only whole periods tell what a step costs.
 * Periods that grow have no whole multiple. */
static gw_status count_steps(gwc_sim *sim, const char *sync)
{
    gw_spec_info info = {.struct_size = sizeof info};

    GWT_TRY(gw_spec_describe(sync, &info));
    if (info.resync > 0)
        info.period = info.resync; /* each has all that steps do */
    if (info.growth == 0.0 && info.period > 1 && info.period <= STEPS_MAX)
        sim->steps = (sim->steps + info.period - 1) / info.period * info.period;
    return GW_OK;
}

static gw_status run_one(const settings *set, const char *sync, int workers)
{
    gwc_sim sim = set->sim;
    gwc_point point;

    GWT_TRY(count_steps(&sim, sync));
    GWT_TRY(gwc_simulate_point(&sim, sync, workers, &point));
    (set->json ? gwc_simulate_json : gwc_simulate_row)(&sim, &point);
    return GW_OK;
}

static gw_status run_all(settings *set, const char *syncs_text)
{
    char list[LIST_CAP];
    const char *sync[LIST_MAX];
    int workers[LIST_MAX];
    size_t syncs, counts;

    GWT_TRY(read_model(set));
    GWT_TRY(read_links(&set->sim));
    GWT_TRY(gwc_sync_list(list, sizeof list, syncs_text));
    GWT_TRY(check_syncs(list, sync, &syncs));
    GWT_TRY(read_workers(set->workers, workers, &counts));
    if (set->sim.tensors > set->sim.params)
        return gw_fail(GW_ERR_ARG,
                       "--tensors must not be larger than the number of parameters");
    GWT_TRY(gwc_simulate_possible());
    set->sim.compute = set->compute_ms / 1000;
    set->sim.tick = set->tick_us / 1e6;
    if (set->codec == 1)
        set->sim.rounds = 0;
    for (size_t i = 0; i < syncs; i++)
        if (set->sim.longest < (int)strlen(sync[i]))
            set->sim.longest = (int)strlen(sync[i]);
    gwc_catch_stop();
    if (!set->json)
        gwc_simulate_header(&set->sim);
    for (size_t i = 0; i < syncs; i++)
        for (size_t k = 0; k < counts; k++)
            GWT_TRY(run_one(set, sync[i], workers[k]));
    return GW_OK;
}

static int run_simulate(int argc, char **argv)
{
    settings set;
    char list[LIST_CAP];
    int help;
    gw_status st;

    memset(&set, 0, sizeof set);
    st = gwc_flags_read(flags, COUNT(flags), "simulate", argc, argv, &set, &help);
    if (st == GW_OK && help) {
        print_help();
        return GWC_DONE;
    }
    if (st == GW_OK)
        st = all_syncs(argc, argv, list, sizeof list);
    if (st == GW_OK && list[0] == '\0')
        st = append(list, sizeof list, set.sync);
    if (st == GW_OK)
        st = run_all(&set, list);
    if (gwc_stopped())
        return GWC_STOPPED;
    return gwc_exit_code(st);
}

const gwc_command gwc_command_simulate = {
    .name = "simulate",
    .summary = "show what methods cost on a simulated cluster",
    .run = run_simulate,
    .not_by_ranks = 1,
    .flags = flags,
    .flag_count = COUNT(flags),
};
