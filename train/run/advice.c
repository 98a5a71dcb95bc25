/* SPDX-License-Identifier: Apache-2.0
 *
 * advice.c - asks the library which spec to take with the optimizer of the run. */
#include "run/advice.h"

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
    };
}

gw_status gwt_advise(gwt_job *job)
{
    const gwt_config *c = &job->config;
    gw_optimizer_info optimizer = optimizer_of(job);
    gw_advice advice = {.struct_size = sizeof advice};
    size_t len = strlen(job->warnings);

    if (strlen(c->sync) >= sizeof job->used.sync)
        return gw_fail(GW_ERR_SPEC, "the spec '%.40s...' is too long", c->sync);
    GWT_TRY(gw_spec_advise(c->sync, &optimizer, &advice));
    if (advice.warning[0] != '\0')
        snprintf(job->warnings + len, sizeof job->warnings - len, "%s: %s\n", c->sync,
                 advice.warning);
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
