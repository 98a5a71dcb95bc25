/* SPDX-License-Identifier: Apache-2.0
 *
 * uneven.c - rounds of local steps in which slower workers make fewer steps. */
#define _GNU_SOURCE
#include "elastic/uneven.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A round may become longer by this share: otherwise noise in the times would take
 * steps from workers that are equally fast. */
#define SLACK 1.05

gw_status gwt_uneven_new(gwt_uneven *u, const gwt_worker *w)
{
    size_t n = gwt_model_floats(w->model);

    u->from = gwt_calloc(n, sizeof *u->from, "a model");
    u->own = gwt_calloc(n, sizeof *u->own, "a model");
    return u->from != NULL && u->own != NULL ? GW_OK : GW_ERR_NOMEM;
}

void gwt_uneven_free(gwt_uneven *u)
{
    gwt_free(u->from);
    gwt_free(u->own);
}

void gwt_uneven_begin(gwt_uneven *u, const float *params, size_t n)
{
    u->weighed = 0;
    u->spent = 0;
    u->made = 0;
    if (u->from != NULL)
        memcpy(u->from, params, n * sizeof *params);
}

void gwt_uneven_count(gwt_uneven *u, double seconds)
{
    u->spent += seconds;
    u->made++;
}

/* ---- weights -----------------------------------------------------------------------
 */

static float weight_of(const gwt_lots *l, int rank)
{
    uint64_t sum = 0;

    for (uint64_t r = 0; r < l->count; r++)
        sum += l->lots[r].count;
    return (float)((double)l->count * (double)l->lots[rank].count / (double)sum);
}

void gwt_uneven_weigh(gwt_uneven *u, const gwt_lots *l, int rank, float *params,
                      size_t n)
{
    if (u->from == NULL)
        return;
    if (u->weighed)
        memcpy(params, u->own, n * sizeof *params);
    else
        memcpy(u->own, params, n * sizeof *params);
    u->weighed = 1;
    float weight = weight_of(l, rank);
    if (weight == 1.0f)
        return; /* the same bits as without weights */
    for (size_t i = 0; i < n; i++)
        params[i] = u->from[i] + weight * (params[i] - u->from[i]);
}

/* ---- how many steps each makes ------------------------------------------------------
 */

uint64_t gwt_uneven_share(uint64_t period, double own, double least)
{
    double fits = own > 0 ? SLACK * (double)period * least / own : (double)period;

    if (!(fits < (double)period))
        return period;
    return fits < 1 ? 1 : (uint64_t)fits;
}

/* One line: after which step, and for each worker by rank the steps of the next round
 * and the seconds of one step, as it told. */
static gw_status write_round(const gwt_worker *w, const gwt_lots *l, const double *took)
{
    char path[GWT_PATH_CAP + 16];

    GWT_TRY(gwt_writer_check(w->job));
    snprintf(path, sizeof path, "%s/rounds.jsonl", w->job->directory);
    FILE *to = fopen(path, "ae");
    if (to == NULL)
        return gw_fail(GW_ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    fprintf(to, "{\"step\": %" PRIu64 ", \"steps\": [", gw_sync_exchanged(w->sync));
    for (uint64_t r = 0; r < l->count; r++)
        fprintf(to, "%s%" PRIu64, r > 0 ? ", " : "", l->lots[r].share);
    fprintf(to, "], \"step_s\": [");
    for (uint64_t r = 0; r < l->count; r++)
        fprintf(to, "%s%.6g", r > 0 ? ", " : "", took[r]);
    fprintf(to, "]}\n");
    return fclose(to) == 0
               ? GW_OK
               : gw_fail(GW_ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
}

gw_status gwt_uneven_agree(gwt_uneven *u, gwt_worker *w, gwt_lots *l)
{
    double took[GWT_MOST_LOTS] = {0}, least = 0;
    size_t lens[GWT_MOST_LOTS];
    double now = u->made > 0 ? u->spent / (double)u->made : u->step_s;

    if (u->from == NULL || l->count > GWT_MOST_LOTS)
        return GW_OK;
    u->step_s = u->step_s > 0 ? (u->step_s + now) / 2 : now;
    GWT_TRY(
        gw_allgather(w->comm, &u->step_s, sizeof u->step_s, took, sizeof *took, lens));
    for (uint64_t r = 0; r < l->count; r++)
        if (took[r] > 0 && (least == 0 || took[r] < least))
            least = took[r];
    for (uint64_t r = 0; r < l->count; r++)
        l->lots[r].share = gwt_uneven_share(gw_sync_period(w->sync), took[r], least);
    return gw_comm_rank(w->comm) == 0 ? write_round(w, l, took) : GW_OK;
}
