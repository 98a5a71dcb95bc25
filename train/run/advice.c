/* SPDX-License-Identifier: Apache-2.0
 *
 * advice.c - asks the library which spec to take with the optimizer of the run. */
#include "run/advice.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int gwt_momentum_moved(const gwt_job *job)
{
    return job->used.momentum != job->config.hyper.momentum;
}

gwt_hyper gwt_hyper_used(const gwt_job *job)
{
    gwt_hyper hyper = job->config.hyper;

    hyper.momentum = job->used.momentum;
    if (gwt_momentum_moved(job)) {
        hyper.weight_decay = 0.0;
        hyper.nesterov = 0;
    }
    return hyper;
}

static gw_optimizer_info optimizer_of(const gwt_job *job)
{
    const gwt_config *c = &job->config;
    int takes_momentum = gwt_optimizer_takes(job->optimizer, "momentum");

    return (gw_optimizer_info){
        .struct_size = sizeof(gw_optimizer_info),
        .adaptive = job->optimizer->adaptive,
        .momentum = takes_momentum ? c->hyper.momentum : 0.0,
        .nesterov = c->hyper.nesterov,
        .workers = c->workers > 0 ? c->workers : 1,
        .beta1 = job->optimizer->beta1,
        /* Without advice a run begins as its spec says. */
        .steps = c->advice ? job->total_steps : 0,
    };
}

gw_status gwt_advise(gwt_job *job)
{
    const gwt_config *c = &job->config;
    gw_optimizer_info optimizer = optimizer_of(job);
    gw_advice advice = {.struct_size = sizeof advice};

    if (strlen(c->sync) >= sizeof job->used.sync)
        return gw_fail(GW_ERR_SPEC, "the spec '%.40s...' is too long", c->sync);
    GWT_TRY(gw_spec_advise(c->sync, &optimizer, &advice));
    snprintf(job->used.sync, sizeof job->used.sync, "%s", c->sync);
    job->used.momentum = c->hyper.momentum;
    job->notes[0] = '\0';
    if (!c->advice || strcmp(advice.spec, c->sync) == 0)
        return GW_OK;
    memcpy(job->used.sync, advice.spec, sizeof job->used.sync);
    if (advice.takes_momentum)
        job->used.momentum = 0.0;
    snprintf(job->notes, sizeof job->notes,
             "%s runs as %s: %s; use --advice off to run it unchanged", c->sync,
             advice.spec, advice.reason);
    return GW_OK;
}

/* Models that had only begun to learn after so many steps, with 4 workers, and what
 * entries that wait cost them (docs/results-optimizers.md). */
static const struct {
    const char *model;
    uint64_t steps;
    const char *lost;
} begun[] = {
    {"resnet20", 781, "lost 1.4 points of accuracy with 'topk:0.01'"},
    {"lstm", 664, "had a perplexity 7 % higher with 'topk:0.01'"},
};

/* Runs of up to so many times these steps are warned of: none was measured between
 * them and runs that lose nothing. */
#define LITTLE_MORE 1.5

static int has_only_begun(const gwt_job *job, size_t i)
{
    size_t len = strlen(begun[i].model);
    const char *model = job->config.model;

    return strncmp(model, begun[i].model, len) == 0 &&
           (model[len] == '\0' || model[len] == ':') &&
           (double)job->total_steps <= LITTLE_MORE * (double)begun[i].steps;
}

static void warn_of_beginners(const gwt_job *job, gw_advice *advice)
{
    for (size_t i = 0; i < sizeof begun / sizeof *begun; i++)
        if (has_only_begun(job, i))
            snprintf(advice->warning, sizeof advice->warning,
                     "in a run of %" PRIu64 " steps this model %s: take 'qsgd:4', or "
                     "train for longer (docs/choosing.md)",
                     begun[i].steps, begun[i].lost);
}

gw_status gwt_warn(gwt_job *job)
{
    gw_optimizer_info optimizer = optimizer_of(job);
    gw_advice advice = {.struct_size = sizeof advice};
    size_t len = strlen(job->warnings);

    GWT_TRY(gw_spec_advise(job->config.sync, &optimizer, &advice));
    if (advice.takes_momentum && advice.warning[0] == '\0')
        warn_of_beginners(job, &advice);
    if (advice.warning[0] != '\0')
        snprintf(job->warnings + len, sizeof job->warnings - len, "%s: %s\n",
                 job->config.sync, advice.warning);
    return GW_OK;
}

gw_status gwt_advise_as_before(gwt_job *job, const char *name, const char *sync,
                               double momentum)
{
    if (strlen(sync) >= sizeof job->used.sync || gw_spec_check(sync, NULL, 0) != GW_OK)
        return gw_fail(GW_ERR_DATA, "%s has an invalid spec '%.40s'", name, sync);
    if (!(momentum == job->config.hyper.momentum || momentum == 0.0))
        return gw_fail(GW_ERR_DATA, "%s has an invalid momentum %g", name, momentum);
    snprintf(job->used.sync, sizeof job->used.sync, "%s", sync);
    job->used.momentum = momentum;
    snprintf(job->notes, sizeof job->notes,
             "%s continues as %s, as before the checkpoint", job->config.sync, sync);
    return GW_OK;
}
