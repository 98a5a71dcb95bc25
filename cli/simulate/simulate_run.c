/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate_run.c - one simulation: files in a directory of its own, smpirun in it.
 *
 * Every host has a full-duplex cable to its switch; its latency is halved on both
 * cables of a path, so that a message of S bytes takes latency + S / rate. SimGrid's
 * own corrections for TCP are switched off, or a message would take something else.
 * smpirun splits its arguments at spaces, so no name here contains one. */
#define _GNU_SOURCE
#include "simulate/simulate.h"

#include "child.h"
#include "common.h"
#include "json_read.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Simulations that need more memory than this are folded by default. */
#define UNFOLDED_BYTES 1e9

enum {
    PATH_CAP = 4096,
    DIRECTORY_CAP = 3072,
    NAME_CAP = 64,
    ARGS_MAX = 80,
    LINE_CAP = 4096
};

#define PROGRAM "gradwire-rank.so"

/* Settings of SimGrid. A message costs exactly what the platform says. Computation
 * takes the time that the ranks sleep. Nothing is sent before both sides are ready.
 * Memory is shared by place of allocation. SimGrid's own collectives, which only run
 * between steps, do not take a million messages for a thousand ranks. */
static const char *const simgrid_settings[] = {
    "--cfg=network/model:CM02",
    "--cfg=network/TCP-gamma:0",
    "--cfg=network/crosstraffic:0",
    "--cfg=network/weight-S:0",
    "--cfg=smpi/simulate-computation:no",
    "--cfg=smpi/wtime:0",
    "--cfg=smpi/test:0",
    "--cfg=smpi/iprobe:0",
    "--cfg=smpi/send-is-detached-thresh:0",
    "--cfg=smpi/async-small-thresh:0",
    "--cfg=smpi/shared-malloc:local",
    "--cfg=smpi/bcast:binomial_tree",
    "--cfg=smpi/allgather:bruck",
    "--cfg=smpi/allreduce:rdb",
    "--cfg=smpi/barrier:ompi_bruck",
    "--log=root.thres:warning",
};

enum { SETTINGS = sizeof simgrid_settings / sizeof simgrid_settings[0] };

/* With many workers, a hundred thousand messages of almost the same length are under
 * way, and SimGrid recomputes all rates whenever one ends. A tick lets it treat ends
 * that are this close as one, which changes a step by a few times this much. */
enum { MANY_WORKERS = 128, TICK_WORKERS = 256 };
static const double least_tick = 1e-5; /* seconds */

static double tick_for(const gwc_sim *sim, int workers)
{
    if (sim->tick > 0 || workers <= MANY_WORKERS)
        return sim->tick;
    return least_tick * (workers > TICK_WORKERS ? (double)workers / TICK_WORKERS : 1);
}

/* ---- what is needed ----------------------------------------------------------- */

static int in_path(const char *program)
{
    char file[PATH_CAP];
    const char *path = getenv("PATH");

    for (; path != NULL && *path != '\0'; path += *path == ':') {
        int len = (int)strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", len, path, program);
        if (access(file, X_OK) == 0)
            return 1;
        path += len;
    }
    return 0;
}

/* The rank program is next to the command, or where it is installed. */
static int find_program(char path[PATH_CAP])
{
    static const char *const places[] = {"", "../" GRADWIRE_LIBDIR "/gradwire/"};
    char here[PATH_CAP / 2];
    ssize_t len = readlink("/proc/self/exe", here, sizeof here - 1);

    if (len < 0)
        return 0;
    here[len] = '\0';
    *(strrchr(here, '/') + 1) = '\0';
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, PATH_CAP, "%s%s" PROGRAM, here, places[i]);
        if (access(path, R_OK) == 0)
            return 1;
    }
    return 0;
}

gw_status gwc_simulate_possible(void)
{
    char path[PATH_CAP];

    if (!find_program(path))
        return gw_fail(GW_ERR_ABSENT,
                       "this build cannot simulate because SimGrid was missing; "
                       "install Debian's libsimgrid-dev and build again");
    if (!in_path("smpirun"))
        return gw_fail(
            GW_ERR_ABSENT,
            "smpirun is not in PATH; it is part of SimGrid (Debian's libsimgrid-dev)");
    return GW_OK;
}

/* ---- the files ------------------------------------------------------------------ */

static FILE *create(const char *directory, const char *name)
{
    char path[PATH_CAP];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "w");
    if (file == NULL)
        gw_fail(GW_ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    return file;
}

static gw_status finished(FILE *file, const char *name)
{
    int bad = ferror(file);

    if (fclose(file) != 0 || bad)
        return gw_fail(GW_ERR_SYSTEM, "cannot write %s: %s", name, strerror(errno));
    return GW_OK;
}

static void write_switch(FILE *file, const gwc_sim *sim, int number, int first,
                         int last)
{
    fprintf(file,
            "    <cluster id=\"switch%d\" prefix=\"h\" suffix=\"\" "
            "radical=\"%d-%d\" speed=\"1Gf\" bw=\"%.12gBps\" lat=\"%.12gs\" "
            "sharing_policy=\"SPLITDUPLEX\" router_id=\"router%d\"/>\n",
            number, first, last, sim->rate, sim->latency / 2, number);
}

/* Each switch has a cable to a core that is never busy. */
static void write_uplinks(FILE *file, const gwc_sim *sim, int switches)
{
    for (int i = 0; switches > 1 && i < switches; i++)
        fprintf(file,
                "    <link id=\"up%d\" bandwidth=\"%.12gBps\" latency=\"%.12gs\" "
                "sharing_policy=\"SPLITDUPLEX\"/>\n",
                i, sim->up_rate, sim->up_latency / 2);
    for (int i = 0; i < switches; i++)
        for (int j = i + 1; j < switches; j++)
            fprintf(file,
                    "    <zoneRoute src=\"switch%d\" dst=\"switch%d\" "
                    "gw_src=\"router%d\" gw_dst=\"router%d\">"
                    "<link_ctn id=\"up%d\" direction=\"UP\"/>"
                    "<link_ctn id=\"up%d\" direction=\"DOWN\"/></zoneRoute>\n",
                    i, j, i, j, i, j);
}

static gw_status write_platform(const gwc_sim *sim, const char *directory, int workers)
{
    FILE *file = create(directory, "platform.xml");
    int each = sim->hosts_per_switch > 0 ? sim->hosts_per_switch : workers;
    int switches = (workers + each - 1) / each;

    if (file == NULL)
        return GW_ERR_SYSTEM;
    fputs("<?xml version=\"1.0\"?>\n"
          "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\">\n"
          "  <zone id=\"all\" routing=\"Full\">\n",
          file);
    for (int i = 0; i < switches; i++) {
        int last = (i + 1) * each - 1;
        write_switch(file, sim, i, i * each, last < workers ? last : workers - 1);
    }
    write_uplinks(file, sim, switches);
    fputs("  </zone>\n</platform>\n", file);
    return finished(file, "platform.xml");
}

static gw_status write_hosts(const char *directory, int workers)
{
    FILE *file = create(directory, "hosts");

    if (file == NULL)
        return GW_ERR_SYSTEM;
    for (int i = 0; i < workers; i++)
        fprintf(file, "h%d\n", i);
    return finished(file, "hosts");
}

static gw_status link_to(const char *directory, const char *name, const char *target)
{
    char path[PATH_CAP], whole[PATH_MAX];

    if (realpath(target, whole) == NULL)
        return gw_fail(GW_ERR_SYSTEM, "cannot open %s: %s", target, strerror(errno));
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (symlink(whole, path) != 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot create %s: %s", path, strerror(errno));
    return GW_OK;
}

static gw_status write_files(const gwc_sim *sim, const char *directory, int workers)
{
    char program[PATH_CAP];

    GWT_TRY(gwc_simulate_possible());
    (void)find_program(program);
    GWT_TRY(link_to(directory, "rank.so", program));
    if (sim->gradients != NULL)
        GWT_TRY(link_to(directory, "gradients", sim->gradients));
    GWT_TRY(write_platform(sim, directory, workers));
    return write_hosts(directory, workers);
}

/* ---- the arguments ----------------------------------------------------------------
 */

typedef struct arguments {
    char *word[ARGS_MAX];
    int count;
    char text[16][NAME_CAP]; /* of numbers */
    int texts;
} arguments;

static void add(arguments *a, const char *word)
{
    a->word[a->count++] = (char *)(uintptr_t)word;
    a->word[a->count] = NULL;
}

static void add_number(arguments *a, const char *flag, double value)
{
    char *text = a->text[a->texts++];

    snprintf(text, NAME_CAP, "%.17g", value);
    add(a, flag);
    add(a, text);
}

static void add_tick(arguments *a, double seconds)
{
    char *text = a->text[a->texts++];

    snprintf(text, NAME_CAP, "--cfg=surf/precision:%g", seconds);
    add(a, text);
}

/* A rank holds its gradient, the source of that, its parameters, the state of the
 * method and a message or two. */
static int folds(const gwc_sim *sim, int workers)
{
    if (sim->fold != GWC_FOLD_AUTO)
        return sim->fold == GWC_FOLD_ON;
    return 5.0 * 4.0 * (double)sim->params * workers > UNFOLDED_BYTES || workers > 128;
}

static void make_arguments(arguments *a, const gwc_sim *sim, const char *sync,
                           int workers, int folded)
{
    static const char *const begin[] = {"smpirun",   "-quiet",       "-no-privatize",
                                        "-platform", "platform.xml", "-hostfile",
                                        "hosts"};

    for (size_t i = 0; i < sizeof begin / sizeof begin[0]; i++)
        add(a, begin[i]);
    add_number(a, "-np", workers);
    for (size_t i = 0; i < SETTINGS; i++)
        add(a, simgrid_settings[i]);
    if (tick_for(sim, workers) > 0)
        add_tick(a, tick_for(sim, workers));
    add(a, "./rank.so");
    add(a, "--sync");
    add(a, sync);
    add_number(a, "--params", (double)sim->params);
    add_number(a, "--tensors", (double)sim->tensors);
    add_number(a, "--steps", (double)sim->steps);
    add_number(a, "--warmup", (double)sim->warmup);
    add_number(a, "--rounds", (double)sim->rounds);
    add_number(a, "--seed", (double)sim->seed);
    add_number(a, "--compute", sim->compute);
    if (sim->gradients != NULL) {
        add(a, "--gradients");
        add(a, "gradients");
    }
    if (folded)
        add(a, "--folded");
}

/* ---- the result -------------------------------------------------------------------
 */

static gw_status take(void *arg, const char *key, const gwc_json_value *value)
{
    gwc_point *p = arg;
    const struct {
        const char *key;
        double *to;
    } places[] = {
        {"step_s", &p->step},
        {"step_min_s", &p->step_min},
        {"compute_s", &p->compute},
        {"encode_s", &p->encode},
        {"wait_s", &p->wire},
        {"decode_s", &p->decode},
        {"bytes_sent", &p->bytes_sent},
        {"bytes_received", &p->bytes_received},
        {"messages_sent", &p->messages_sent},
        {"bytes_sent_all", &p->bytes_sent_all},
    };

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (strcmp(key, places[i].key) == 0 && value->kind == GWC_JSON_NUMBER)
            *places[i].to = value->number;
    if (strcmp(key, "spec") == 0 && value->kind == GWC_JSON_TEXT)
        snprintf(p->spec, sizeof p->spec, "%s", value->text);
    return GW_OK;
}

/* Reads the line of JSON in the program's output. A rank that fails prints why and ends
 * the simulation, but SimGrid still reports success. */
static gw_status read_result(const char *directory, gwc_point *point)
{
    char path[PATH_CAP], line[LINE_CAP];
    gw_status st = gw_fail(GW_ERR_SYSTEM, "smpirun ended without a result");
    FILE *file;

    snprintf(path, sizeof path, "%s/" GWC_CHILD_LOG, directory);
    file = fopen(path, "r");
    if (file == NULL)
        return st;
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '{')
            st = gwc_json_object(line, strlen(line), take, point);
        else if (strstr(line, "error on rank") != NULL)
            st = gw_fail(GW_ERR_SYSTEM, "%s", line);
    }
    fclose(file);
    return st;
}

static gw_status run_in(const char *directory, const gwc_sim *sim, const char *sync,
                        gwc_point *point)
{
    arguments a = {.count = 0};
    char title[NAME_CAP * 5];

    snprintf(title, sizeof title, "simulating %s on %d worker%s", sync, point->workers,
             point->workers == 1 ? "" : "s");
    GWT_TRY(write_files(sim, directory, point->workers));
    make_arguments(&a, sim, sync, point->workers, point->folded);
    GWT_TRY(gwc_child_run(directory, title, a.word));
    return read_result(directory, point);
}

/* Methods whose results are late exchange beside computing: beside `delay` steps for
 * each of the exchanges of a period. */
static double predicted_step(const char *sync, double compute, double exchange)
{
    gw_spec_info info = {.struct_size = sizeof info};
    double beside = 0;

    if (gw_spec_describe(sync, &info) == GW_OK && (info.traits & GW_TRAIT_LATE))
        beside = (double)(info.fragments * info.delay) / (double)info.period * compute;
    return compute + (exchange > beside ? exchange - beside : 0);
}

gw_status gwc_simulate_point(const gwc_sim *sim, const char *sync, int workers,
                             gwc_point *point)
{
    const char *base = getenv("TMPDIR");
    char directory[DIRECTORY_CAP];
    gw_status st;

    memset(point, 0, sizeof *point);
    snprintf(point->sync, sizeof point->sync, "%s", sync);
    point->workers = workers;
    point->folded = folds(sim, workers);
    snprintf(directory, sizeof directory, "%s/gradwire-simulate-XXXXXX",
             base != NULL && *base != '\0' ? base : "/tmp");
    if (mkdtemp(directory) == NULL)
        return gw_fail(GW_ERR_SYSTEM, "cannot create the directory %s: %s", directory,
                       strerror(errno));
    st = run_in(directory, sim, sync, point);
    gwc_remove_tree(directory);
    if (st == GW_OK)
        point->predicted = predicted_step(sync, point->compute,
                                          point->encode + point->decode +
                                              gwc_predict_wire(sim, point));
    return st;
}
