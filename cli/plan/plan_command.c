/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_command.c - "gradwire plan": advises which method to take, before anything is
 * trained. */
#define _GNU_SOURCE
#include "commands.h"
#include "common.h"
#include "flags.h"
#include "launch.h"
#include "optim/optimizer.h"
#include "plan/link_probe.h"
#include "plan/plan.h"
#include "sync_list.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

typedef struct settings {
    const char *model, *data, *data_dir, *link, *sync, *params, *compute, *optimizer,
        *measure;
    uint64_t batch;
    int workers, here, json, listen;
    double momentum;
} settings;

#define AT(field) offsetof(settings, field)

static const gwc_flag flags[] = {
    {NULL, NULL, NULL, "The job", GWC_TEXT, 0, 0, 0},
    {"model", "NAME", NULL,
     "a model of the trainer, which is measured here, or\n"
     "resnet50, gpt2-124m, llama-7b, alexnet, lstm-ptb\n"
     "with --compute [fnn3, unless --params is given]",
     GWC_TEXT, AT(model), 0, 0},
    {"params", "N", NULL,
     "number of parameters, instead of --model: 124m,\n"
     "25.6M, 7b, 1e9; needs --compute",
     GWC_TEXT, AT(params), 0, 0},
    {"compute", "TIME", "0",
     "time of computation per step: 0.2s, 200ms, or 200\n"
     "(milliseconds); 0: measure it here for a few seconds",
     GWC_TEXT, AT(compute), 0, 0},
    {"data", "NAME", NULL, "data set to measure the model with [fashion-mnist]",
     GWC_TEXT, AT(data), 0, 0},
    {"data-dir", "DIR", NULL, "directory that has the data set's files", GWC_TEXT,
     AT(data_dir), 0, 0},
    {"batch", "N", "32", "samples per worker and step, to measure with", GWC_COUNT,
     AT(batch), 1, 1e6},
    {"optimizer", "NAME", "sgd", "sgd, adagrad, adam or adamw, as in 'gradwire train'",
     GWC_TEXT, AT(optimizer), 0, 0},
    {"momentum", "M", "0.9", "momentum of sgd", GWC_REAL, AT(momentum), 0, 0.99999},

    {NULL, NULL, NULL, "The machines", GWC_TEXT, 0, 0, 0},
    {"workers", "N", "4", "number of workers", GWC_INT, AT(workers), 1,
     GWC_PLAN_WORKERS_MAX},
    {"link", "LINKS", NULL,
     "the link between workers, RATE[,DELAY], or several\n"
     "separated by spaces [1gbit,50us]",
     GWC_TEXT, AT(link), 0, 0},
    {"measure", "HOST:PORT|mpi", NULL,
     "measure the link to a host that runs this command\n"
     "with --measure-listen; mpi: between the two ranks\n"
     "that mpirun has started",
     GWC_TEXT, AT(measure), 0, 0},
    {"measure-listen", "PORT", NULL,
     "only wait until another host has measured the link\n"
     "to this one; 0: any free port",
     GWC_INT, AT(listen), 0, 65535},
    {"here", NULL, NULL,
     "all workers share this machine's processors, as in\n"
     "'gradwire compare'; otherwise each has its own host",
     GWC_SWITCH, AT(here), 0, 0},

    {NULL, NULL, NULL, "The methods and the output", GWC_TEXT, 0, 0, 0},
    {"sync", "SPECS", "all",
     "methods, separated by spaces; dense is always\n"
     "included; all: an example of each method in\n"
     "'gradwire list', and what docs/choosing.md advises",
     GWC_TEXT, AT(sync), 0, 0},
    {"json", NULL, NULL, "print one JSON object per link", GWC_SWITCH, AT(json), 0, 0},
};

/* What "all" has besides an example of every recipe. */
#define CHOSEN "dense+bf16 topk:0.01 gtopk:0.01 qsgd:4,code=entropy local:16+gtopk:0.01"

static void print_help(void)
{
    puts(
        "Usage: gradwire plan [FLAGS]\n"
        "\n"
        "Advises which method to take: how long a step will take, what is gained over\n"
        "one machine, what it cost in accuracy in our own runs, and from which rate "
        "of\n"
        "the link on dense is better. gradwire measures computation and coding on "
        "this\n"
        "machine, sends the real messages, and calculates the time that they take on\n"
        "the link. Defaults are in brackets; docs/plan.md has more.");
    gwc_flags_help(flags, COUNT(flags), stdout);
    puts("\n"
         "Examples\n"
         "  gradwire plan --link 100mbit,100us\n"
         "  gradwire plan --model resnet50 --compute 0.25s --workers 8 --link 1gbit\n"
         "  gradwire plan --params 124m --compute 0.5s --optimizer adamw\n"
         "  gradwire plan --model resnet20 --data cifar10 --workers 8\n"
         "  gradwire plan --params 124m --compute 0.5s --measure otherhost:7000");
}

/* ---- reading -----------------------------------------------------------------------
 */

static gw_status read_optimizer(const settings *set, gwc_plan *plan)
{
    const gwt_optimizer *optimizer;

    GWT_TRY(gwt_optimizer_find(set->optimizer, &optimizer));
    plan->optimizer = optimizer->name;
    plan->adaptive = optimizer->adaptive;
    plan->beta1 = optimizer->beta1;
    plan->momentum = gwt_optimizer_takes(optimizer, "momentum") ? set->momentum : 0.0;
    return GW_OK;
}

static gw_status read_syncs(const settings *set, gwc_plan *plan)
{
    char list[sizeof plan->syncs];
    int all = 0;

    GWT_TRY(gwc_plan_add(plan, "dense"));
    GWT_TRY(gwc_sync_list(plan->syncs, sizeof plan->syncs, set->sync));
    snprintf(list, sizeof list, "%s", set->sync);
    for (char *at = strtok(list, " "); at != NULL; at = strtok(NULL, " "))
        all |= strcmp(at, "all") == 0;
    if (all && strlen(plan->syncs) + sizeof " " CHOSEN <= sizeof plan->syncs)
        strcat(plan->syncs, " " CHOSEN);
    for (char *at = strtok(plan->syncs, " "); at != NULL; at = strtok(NULL, " "))
        GWT_TRY(gwc_plan_add(plan, at));
    return GW_OK;
}

static double processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n > 0 ? (double)n : 1.0;
}

/* All but the link. What is wrong is found before anything is measured. */
static gw_status read_plan(const settings *set, gwc_plan *plan)
{
    plan->here = set->here;
    plan->data_dir = set->data_dir;
    plan->batch = set->batch;
    plan->job.workers = set->workers;
    plan->job.share = set->here ? fmax(1.0, set->workers / processors()) : 1.0;
    GWT_TRY(read_optimizer(set, plan));
    GWT_TRY(read_syncs(set, plan));
    return gwc_plan_find_job(plan, set->model, set->params, set->compute, set->data);
}

/* ---- planning ----------------------------------------------------------------------
 */

enum { LINKS_CAP = 512 };

static gw_status check_links(const char *links)
{
    char list[LINKS_CAP];
    gwc_link link;

    if (strlen(links) >= sizeof list || links[strspn(links, " ")] == '\0')
        return gw_fail(GW_ERR_ARG,
                       "--link: give a link, such as 1gbit,50us, or up to "
                       "%d characters of them",
                       LINKS_CAP - 1);
    snprintf(list, sizeof list, "%s", links);
    for (char *at = strtok(list, " "); at != NULL; at = strtok(NULL, " "))
        GWT_TRY(gwc_plan_link(&link, at));
    return GW_OK;
}

/* Plans for one link after another. */
static gw_status plan_links(const settings *set, gwc_plan *plan, const char *links)
{
    char list[LINKS_CAP];
    int first = 1;

    snprintf(list, sizeof list, "%s", links);
    for (char *at = strtok(list, " "); at != NULL; at = strtok(NULL, " ")) {
        for (size_t i = 0; i < plan->rows; i++)
            plan->row[i].best = 0;
        GWT_TRY(gwc_plan_rates(plan, at));
        GWT_TRY(gwc_plan_try_all(plan));
        if (!first && !set->json)
            putchar('\n');
        GWT_TRY((set->json ? gwc_plan_print_json : gwc_plan_print)(plan, stdout));
        first = 0;
    }
    return GW_OK;
}

/* A measured link as a user would write it. */
static void link_text(const gwc_link *link, char text[LINKS_CAP])
{
    double mbit = 8e-6 * link->bytes_per_second;
    int fast = mbit >= 999.5;

    snprintf(text, LINKS_CAP, "%.3g%s,%.0fus", fast ? mbit / 1e3 : mbit,
             fast ? "gbit" : "mbit", fmax(1.0, 1e6 * link->delay));
}

/* The link is measured last, so that whatever is wrong is said before. */
static gw_status make_plan(const settings *set, gwc_plan *plan, const gwc_link *ranks)
{
    char measured[LINKS_CAP];
    const char *links = set->link != NULL ? set->link : "1gbit,50us";
    gwc_link link;

    GWT_TRY(check_links(links));
    GWT_TRY(read_plan(set, plan));
    if (set->measure == NULL)
        return plan_links(set, plan, links);
    if (ranks != NULL)
        link = *ranks;
    else
        GWT_TRY(gwc_probe_host(&link, set->measure));
    link_text(&link, measured);
    plan->measured_with = ranks != NULL ? "the other rank" : set->measure;
    return plan_links(set, plan, measured);
}

static int plan_with(const settings *set, const gwc_link *ranks)
{
    gwc_plan *plan = gwt_calloc(1, sizeof *plan, "a plan");
    gw_status st = plan == NULL ? GW_ERR_NOMEM : make_plan(set, plan, ranks);

    gwt_free(plan);
    return gwc_exit_code(st);
}

/* ---- under mpirun ------------------------------------------------------------------
 */

/* Both ranks measure, and rank 0 plans. The programs that measure the computation would
 * take themselves for ranks. */
static int run_as_rank(const settings *set, const gwc_launch *launch)
{
    gwc_link link;
    int code;

    if (set->measure == NULL || strcmp(set->measure, "mpi") != 0) {
        if (launch->rank != 0)
            return GWC_DONE;
        (void)gw_fail(GW_ERR_ARG,
                      "'gradwire plan' starts its own workers; run it without %s, or "
                      "measure the link between two ranks with --measure mpi",
                      launch->by);
        return GWC_USAGE;
    }
    if (strtod(set->compute, NULL) == 0.0) {
        if (launch->rank != 0)
            return GWC_DONE;
        (void)gw_fail(GW_ERR_ARG,
                      "under %s the computation cannot be measured; give its time, as "
                      "in --compute 0.2s",
                      launch->by);
        return GWC_USAGE;
    }
    if (gwc_probe_ranks(&link, launch, &code) != GW_OK || launch->rank != 0)
        return code;
    return plan_with(set, &link);
}

/* ---- the command -------------------------------------------------------------------
 */

enum { NOT_GIVEN = -1 };

static gw_status check_settings(const settings *set, const gwc_launch *launch)
{
    if (set->measure != NULL && set->link != NULL)
        return gw_fail(GW_ERR_ARG, "give --link or --measure, not both");
    if (set->measure != NULL && set->listen != NOT_GIVEN)
        return gw_fail(GW_ERR_ARG,
                       "one host listens and the other measures: give --measure or "
                       "--measure-listen, not both");
    if (set->measure != NULL && strcmp(set->measure, "mpi") == 0 && launch->by == NULL)
        return gw_fail(GW_ERR_ARG, "--measure mpi needs two ranks; start it with "
                                   "mpirun -n 2 --host HOST,HOST");
    return GW_OK;
}

static int run_plan(int argc, char **argv)
{
    gwc_launch launch = gwc_launch_look();
    settings set = {.listen = NOT_GIVEN};
    int help;
    gw_status st = gwc_flags_read(flags, COUNT(flags), "plan", argc, argv, &set, &help);

    if (st == GW_OK && help && launch.rank == 0)
        print_help();
    if (st == GW_OK && help)
        return GWC_DONE;
    if (st == GW_OK)
        st = check_settings(&set, &launch);
    if (st != GW_OK)
        return launch.by == NULL || launch.rank == 0 ? GWC_USAGE : GWC_DONE;
    if (launch.by != NULL)
        return run_as_rank(&set, &launch);
    if (set.listen != NOT_GIVEN)
        return gwc_exit_code(gwc_probe_serve(set.listen));
    return plan_with(&set, NULL);
}

const gwc_command gwc_command_plan = {
    .name = "plan",
    .summary = "advise which method to take on which link",
    .run = run_plan,
    .by_ranks = 1,
    .flags = flags,
    .flag_count = COUNT(flags),
};
