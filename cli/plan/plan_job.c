/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_job.c - what is planned for: the parameters of a model and the time that a step
 * computes, as given or measured here. */
#define _GNU_SOURCE
#include "child.h"
#include "common.h"
#include "compare/compare.h"
#include "model_shapes.h"
#include "models/model.h"
#include "plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t params_most = 1000000000000;

enum { NAMES_MAX = 64 };

/* ---- how long computing takes ------------------------------------------------------
 */

/* Runs that many steps without exchange, in a directory of its own. */
static gw_status try_run(gwc_plan *plan, const char *folder, uint64_t steps)
{
    char text[9][GWC_PATH_CAP / 4];
    gwc_case one = {.sync = "none"};
    gwc_run run;
    gw_status st;

    snprintf(text[0], sizeof text[0], "--model=%s", plan->model);
    snprintf(text[1], sizeof text[1], "--data=%s", plan->data);
    snprintf(text[2], sizeof text[2], "--batch=%llu", (unsigned long long)plan->batch);
    snprintf(text[3], sizeof text[3], "--workers=%d",
             plan->here ? plan->job.workers : 1);
    snprintf(text[4], sizeof text[4], "--steps=%llu", (unsigned long long)steps);
    snprintf(text[5], sizeof text[5], "--sync=none");
    snprintf(text[6], sizeof text[6], "--eval-every=0");
    /* With a constant model, momentum decays to denormal numbers, which are slow. */
    snprintf(text[7], sizeof text[7], "--momentum=0");
    snprintf(text[8], sizeof text[8], "--data-dir=%s",
             plan->data_dir != NULL ? plan->data_dir : "");
    for (int i = 0; i < (plan->data_dir != NULL ? 9 : 8); i++)
        one.arg[one.args++] = text[i];
    snprintf(one.directory, sizeof one.directory, "%s/run-%llu", folder,
             (unsigned long long)steps);
    GWT_TRY(gwc_case_run(&one, "measuring the computation of a step"));
    if (one.state == GWC_CASE_FAILED)
        return gw_fail(GW_ERR_ARG, "cannot measure %s on %s: %s", plan->model,
                       plan->data, one.why);
    st = gwc_run_read(&run, one.directory);
    if (st == GW_OK) {
        plan->job.compute = gwc_run_per_step(&run, "compute_s");
        plan->job.params = (size_t)gwc_run_number(&run, "params");
    }
    gwc_run_free(&run);
    return st;
}

/* Times a few steps to find out how many fill two seconds. */
static gw_status measure_compute(gwc_plan *plan)
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
    st = try_run(plan, folder, few);
    if (st == GW_OK && plan->job.compute > 0.0 &&
        (double)few * plan->job.compute < seconds) {
        uint64_t steps = (uint64_t)(seconds / plan->job.compute);
        st = try_run(plan, folder, steps < most ? steps + few : most);
    }
    gwc_remove_tree(folder);
    plan->compute_measured = 1;
    return st;
}

/* Reads "0.2s", "200ms" or "200" as seconds; 0 stands for measuring. */
static gw_status read_compute(const char *text, double *seconds)
{
    static const struct unit {
        const char *name;
        double seconds;
    } units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}};
    const double most = 1e6;
    char number[64];
    size_t len = strlen(text);
    double unit = 1e-3;

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t name = strlen(units[i].name);
        if (len > name && strcmp(text + len - name, units[i].name) == 0) {
            unit = units[i].seconds;
            len -= name;
            break;
        }
    }
    snprintf(number, sizeof number, "%.*s", len < 63 ? (int)len : 63, text);
    if (gwt_parse_real("--compute", number, 0.0, most / unit, seconds) != GW_OK)
        return gw_fail(GW_ERR_ARG,
                       "--compute: '%s' is not the time of a step; write it like 0.2s, "
                       "200ms or 200 (milliseconds)",
                       text);
    *seconds *= unit;
    return GW_OK;
}

/* ---- which model -------------------------------------------------------------------
 */

static gw_status unknown_model(const char *name)
{
    const char *names[NAMES_MAX];
    size_t count = gwc_shape_names(names);

    for (size_t i = 0; gwt_model_at(i) != NULL && count < NAMES_MAX; i++)
        if (gwc_shape_find(gwt_model_at(i)->name) == NULL)
            names[count++] = gwt_model_at(i)->name;
    return gwt_fail_name("model", name, names, count, NULL);
}

static gw_status of_params(gwc_plan *plan, const char *params)
{
    uint64_t count;

    GWT_TRY(gwc_parse_params("--params", params, params_most, &count));
    plan->job.params = (size_t)count;
    if (plan->job.compute == 0.0)
        return gw_fail(GW_ERR_ARG, "--params needs --compute, the time of a step's "
                                   "computation, such as 0.2s");
    return GW_OK;
}

/* A model of the trainer is run, unless all that is needed is known of it. */
static gw_status of_model(gwc_plan *plan, const char *data)
{
    const gwc_shape *shape = gwc_shape_find(plan->model);
    const gwt_model_spec *spec;
    double compute = plan->job.compute;

    plan->trainer_has_it = gwt_model_find(plan->model, &spec) == GW_OK;
    if (shape == NULL && !plan->trainer_has_it)
        return unknown_model(plan->model);
    if (shape != NULL && compute > 0.0 && data == NULL) {
        plan->job.params = (size_t)shape->params;
        return GW_OK;
    }
    if (!plan->trainer_has_it)
        return gw_fail(GW_ERR_ARG,
                       "%s is not one of the trainer's models, so a step of it cannot "
                       "be measured here; give its time, as in --compute 0.2s",
                       plan->model);
    plan->data = data != NULL ? data : "fashion-mnist";
    GWT_TRY(measure_compute(plan));
    if (compute > 0.0) {
        plan->job.compute = compute;
        plan->compute_measured = 0;
    }
    return GW_OK;
}

gw_status gwc_plan_find_job(gwc_plan *plan, const char *model, const char *params,
                            const char *compute, const char *data)
{
    GWT_TRY(read_compute(compute, &plan->job.compute));
    if (params != NULL && model != NULL)
        return gw_fail(GW_ERR_ARG, "give --model or --params, not both");
    if (params != NULL)
        return of_params(plan, params);
    plan->model = model != NULL ? model : "fnn3";
    return of_model(plan, data);
}
