/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_command.c - "gradwire plan": predicts which method pays, before anything is
 * trained. */
#define _GNU_SOURCE
#include "child.h"
#include "commands.h"
#include "common.h"
#include "compare/compare.h"
#include "flags.h"
#include "plan/plan.h"
#include "sync_list.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

typedef struct settings {
    const char *model, *data, *data_dir, *link, *sync;
    uint64_t params, batch;
    int workers, here, json;
    double compute;
} settings;

#define AT(field) offsetof(settings, field)

static const gwc_flag flags[] = {
    {"model", "NAME", NULL, "plan for this model [fnn3, unless --params is given]",
     GWC_TEXT, AT(model), 0, 0},
    {"data", "NAME", "fashion-mnist", "data set to measure the model with", GWC_TEXT,
     AT(data), 0, 0},
    {"data-dir", "DIR", NULL, "directory that has the data set's files", GWC_TEXT,
     AT(data_dir), 0, 0},
    {"batch", "N", "32", "samples per worker and step", GWC_COUNT, AT(batch), 1, 1e6},
    {"params", "N", NULL,
     "plan for N parameters instead of --model; needs\n"
     "--compute",
     GWC_COUNT, AT(params), 1, 1e12},
    {"compute", "MS", "0",
     "milliseconds of computation per step; 0: measure it\n"
     "here, which takes a few seconds",
     GWC_REAL, AT(compute), 0, 1e9},
    {"workers", "N", "4", "number of workers", GWC_INT, AT(workers), 1,
     GWC_PLAN_WORKERS_MAX},
    {"link", "RATE[,DELAY]", "1gbit,50us", "the link between the workers", GWC_TEXT,
     AT(link), 0, 0},
    {"here", NULL, NULL,
     "all workers share this machine's processors, as in\n"
     "'gradwire compare'; otherwise each has its own host",
     GWC_SWITCH, AT(here), 0, 0},
    {"sync", "SPECS", "all",
     "methods, separated by spaces; dense is always\n"
     "included; all: an example of each method in\n"
     "'gradwire list'",
     GWC_TEXT, AT(sync), 0, 0},
    {"json", NULL, NULL, "print each row as a line of JSON", GWC_SWITCH, AT(json), 0,
     0},
};

static void print_help(void)
{
    puts(
        "Usage: gradwire plan [FLAGS]\n"
        "\n"
        "Predicts the time of a step for each method, and shows which method pays on\n"
        "that link, by how much and below which rate, or that dense is best. gradwire\n"
        "measures computation and coding on this machine, sends the real messages, "
        "and\n"
        "calculates the time that they take on the link. Defaults are in brackets.\n"
        "\n"
        "Flags");
    gwc_flags_help(flags, COUNT(flags), stdout);
    puts("\n"
         "Examples\n"
         "  gradwire plan --link 100mbit,100us\n"
         "  gradwire plan --model resnet20 --data cifar10 --workers 8\n"
         "  gradwire plan --params 66000000 --compute 250 --link 10gbit,20us");
}

/* ---- how long computing takes ------------------------------------------------------
 */

/* Runs that many steps without exchange, in a directory of its own. */
static gw_status try_run(const settings *set, const char *folder, uint64_t steps,
                         gwc_plan *plan)
{
    char text[9][GWC_PATH_CAP / 4];
    gwc_case one = {.sync = "none"};
    gwc_run run;
    gw_status st;

    snprintf(text[0], sizeof text[0], "--model=%s", plan->model);
    snprintf(text[1], sizeof text[1], "--data=%s", set->data);
    snprintf(text[2], sizeof text[2], "--batch=%llu", (unsigned long long)set->batch);
    snprintf(text[3], sizeof text[3], "--workers=%d", set->here ? set->workers : 1);
    snprintf(text[4], sizeof text[4], "--steps=%llu", (unsigned long long)steps);
    snprintf(text[5], sizeof text[5], "--sync=none");
    snprintf(text[6], sizeof text[6], "--eval-every=0");
    /* The momentum of parameters that never change decays to denormal numbers, with
     * which processors are slow. */
    snprintf(text[7], sizeof text[7], "--momentum=0");
    snprintf(text[8], sizeof text[8], "--data-dir=%s",
             set->data_dir != NULL ? set->data_dir : "");
    for (int i = 0; i < (set->data_dir != NULL ? 9 : 8); i++)
        one.arg[one.args++] = text[i];
    snprintf(one.directory, sizeof one.directory, "%s/run-%llu", folder,
             (unsigned long long)steps);
    GWT_TRY(gwc_case_run(&one, "measuring the computation of a step"));
    if (one.state == GWC_CASE_FAILED)
        return gw_fail(GW_ERR_ARG, "cannot measure %s on %s: %s", plan->model,
                       set->data, one.why);
    st = gwc_run_read(&run, one.directory);
    if (st == GW_OK) {
        plan->job.compute = gwc_run_per_step(&run, "compute_s");
        plan->job.params = (size_t)gwc_run_number(&run, "params");
    }
    gwc_run_free(&run);
    return st;
}

/* Times a few steps to find out how many fill two seconds. */
static gw_status measure_compute(const settings *set, gwc_plan *plan)
{
    const uint64_t few = 8, most = 4000;
    const double seconds = 2.0;
    const char *base = getenv("TMPDIR");
    char folder[GWC_PATH_CAP];
    gw_status st;

    snprintf(folder, sizeof folder, "%s/gradwire-plan-XXXXXX",
             base != NULL && base[0] != '\0' ? base : "/tmp");
    if (mkdtemp(folder) == NULL)
        return gw_fail(GW_ERR_SYSTEM, "cannot create %s: %s", folder, strerror(errno));
    st = try_run(set, folder, few, plan);
    if (st == GW_OK && plan->job.compute > 0.0 &&
        (double)few * plan->job.compute < seconds) {
        uint64_t steps = (uint64_t)(seconds / plan->job.compute);
        st = try_run(set, folder, steps < most ? steps + few : most, plan);
    }
    gwc_remove_tree(folder);
    plan->compute_measured = 1;
    return st;
}

static gw_status find_job(const settings *set, gwc_plan *plan)
{
    plan->job.compute = set->compute / 1e3;
    plan->job.params = (size_t)set->params;
    if (set->params != 0 && set->model != NULL)
        return gw_fail(GW_ERR_ARG, "give --model or --params, not both");
    if (set->params != 0 && set->compute == 0.0)
        return gw_fail(
            GW_ERR_ARG,
            "--params needs --compute, the milliseconds of computation per step");
    if (set->params != 0)
        return GW_OK;
    plan->model = set->model != NULL ? set->model : "fnn3";
    GWT_TRY(measure_compute(set, plan));
    if (set->compute > 0.0) {
        plan->job.compute = set->compute / 1e3;
        plan->compute_measured = 0;
    }
    return GW_OK;
}

/* ---- trying methods ----------------------------------------------------------------
 */

static gw_status add_row(gwc_plan *plan, const char *sync)
{
    for (size_t i = 0; i < plan->rows; i++)
        if (strcmp(plan->row[i].sync, sync) == 0)
            return GW_OK;
    if (plan->rows == GWC_PLAN_ROWS_MAX)
        return gw_fail(GW_ERR_ARG, "--sync: the list has more than %d methods",
                       GWC_PLAN_ROWS_MAX);
    GWT_TRY(gw_spec_check(sync, NULL, 0));
    plan->row[plan->rows++].sync = sync;
    return GW_OK;
}

static gw_status try_all(gwc_plan *plan)
{
    for (size_t i = 0; i < plan->rows; i++) {
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\r\033[Ktrying %s (%zu of %zu)", plan->row[i].sync, i + 1,
                    plan->rows);
        gw_status st =
            gwc_plan_try(&plan->row[i].result, &plan->job, plan->row[i].sync);
        if (isatty(STDERR_FILENO))
            fputs("\r\033[K", stderr);
        GWT_TRY(st);
    }
    gwc_plan_judge(plan);
    return GW_OK;
}

static double processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n > 0 ? (double)n : 1.0;
}

static gw_status make_plan(const settings *set, gwc_plan *plan)
{
    GWT_TRY(gwc_plan_rates(plan, set->link));
    plan->here = set->here;
    plan->job.workers = set->workers;
    plan->job.share = set->here ? fmax(1.0, set->workers / processors()) : 1.0;
    GWT_TRY(add_row(plan, "dense"));
    GWT_TRY(gwc_sync_list(plan->syncs, sizeof plan->syncs, set->sync));
    for (char *at = strtok(plan->syncs, " "); at != NULL; at = strtok(NULL, " "))
        GWT_TRY(add_row(plan, at));
    GWT_TRY(find_job(set, plan));
    return try_all(plan);
}

static int run_plan(int argc, char **argv)
{
    settings set = {0};
    gwc_plan *plan;
    int help;

    if (gwc_flags_read(flags, COUNT(flags), "plan", argc, argv, &set, &help) != GW_OK)
        return GWC_USAGE;
    if (help) {
        print_help();
        return GWC_DONE;
    }
    plan = gwt_calloc(1, sizeof *plan, "a plan");
    gw_status st = plan == NULL ? GW_ERR_NOMEM : make_plan(&set, plan);
    if (st == GW_OK && set.json)
        gwc_plan_print_json(plan, stdout);
    else if (st == GW_OK)
        gwc_plan_print(plan, stdout);
    gwt_free(plan);
    return gwc_exit_code(st);
}

const gwc_command gwc_command_plan = {
    .name = "plan",
    .summary = "predict which method pays on which link, within seconds",
    .run = run_plan,
    .not_by_ranks = 1,
    .flags = flags,
    .flag_count = COUNT(flags),
};
