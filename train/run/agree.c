/* SPDX-License-Identifier: Apache-2.0
 *
 * agree.c - compares the status and settings of workers that were started separately.
 * It uses gw_allgather() only, which works whatever the settings are. */
#define _GNU_SOURCE
#include "run/agree.h"
#include "run/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { REASON_CAP = 448, VALUE_CAP = 96 };

static const char *host_of(const gw_comm *comm, int rank)
{
    const char *host = gw_comm_host(comm, rank);

    return host != NULL ? host : "?";
}

/* Gathers cap bytes of each worker; the caller frees *all. */
static gw_status gather(gw_comm *comm, const void *own, size_t cap, char **all)
{
    size_t p = (size_t)gw_comm_workers(comm);
    size_t *lens = gwt_calloc(p, sizeof *lens, "the workers' settings");
    gw_status st = GW_ERR_NOMEM;

    *all = gwt_calloc(p, cap, "the workers' settings");
    if (lens != NULL && *all != NULL)
        st = gw_allgather(comm, own, cap, *all, cap, lens);
    for (size_t r = 0; st == GW_OK && r < p; r++)
        if (lens[r] != cap)
            st = gw_fail(GW_ERR_MISMATCH,
                         "worker %zu on host %s runs another version of gradwire", r,
                         host_of(comm, (int)r));
    gwt_free(lens);
    return st;
}

/* ---- how everybody fares ------------------------------------------------------ */

typedef struct state {
    int32_t status;
    char reason[REASON_CAP];
} state;

static gw_status judge(const gw_comm *comm, const state *all)
{
    int p = gw_comm_workers(comm), first = 0, same = 1;

    while (first < p && all[first].status == GW_OK)
        first++;
    if (first == p)
        return GW_OK;
    for (int r = 0; r < p; r++)
        same = same && strncmp(all[r].reason, all[first].reason, REASON_CAP) == 0;
    if (same)
        return gw_fail((gw_status)all[first].status, "%.*s", REASON_CAP - 1,
                       all[first].reason);
    return gw_fail((gw_status)all[first].status, "worker %d on host %s: %.*s", first,
                   host_of(comm, first), REASON_CAP - 1, all[first].reason);
}

gw_status gwt_agree(gw_comm *comm, gw_status status)
{
    state own = {.status = (int32_t)status};
    char *all = NULL;

    if (status != GW_OK)
        snprintf(own.reason, sizeof own.reason, "%s", gw_error_message());
    gw_status st = gather(comm, &own, sizeof own, &all);
    if (st == GW_OK)
        st = judge(comm, (const state *)(const void *)all);
    gwt_free(all);
    return st;
}

/* ---- the same settings -------------------------------------------------------- */

/* Names may differ from host to host. */
static const char *file_or_none(const char *name)
{
    return name != NULL ? "FILE" : "none";
}

/* Besides the settings that change the result, these change which messages are sent. */
static void write_settings(const gwt_job *job, char text[GWT_SETTINGS_CAP])
{
    const gwt_config *c = &job->config;
    size_t len = gwt_settings_write(job, text);

    snprintf(text + len, GWT_SETTINGS_CAP - len,
             "test samples %zu\n--log-every %" PRIu64 "\n--eval-every %" PRIu64
             "\n--checkpoint-every %" PRIu64
             "\n--resume %d\n--init %s\n--export %s\n--record-gradient %s\n--trace %s"
             "\n--link %s\n--collectives %s\n--uneven %d\n",
             job->data.test.count, job->log_every, job->eval_every,
             job->checkpoint_every, c->resume, file_or_none(c->init),
             file_or_none(c->export_to), file_or_none(c->record_to),
             file_or_none(c->trace), c->link != NULL ? c->link : "none",
             c->native ? "native" : "ours", c->uneven);
}

static int line_len(const char *line)
{
    size_t len = strcspn(line, "\n");

    return (int)(len < VALUE_CAP ? len : VALUE_CAP);
}

/* Names the first line in which the two differ. */
static gw_status fail_differs(const gw_comm *comm, int rank, const char *theirs,
                              int other, const char *first)
{
    while (*theirs != '\0' && *first != '\0') {
        size_t a = strcspn(theirs, "\n"), b = strcspn(first, "\n");
        if (a != b || memcmp(theirs, first, a) != 0)
            break;
        theirs += a + (theirs[a] != '\0');
        first += b + (first[b] != '\0');
    }
    return gw_fail(
        GW_ERR_MISMATCH,
        "worker %d on host %s was started with %.*s, but worker %d on host %s with "
        "%.*s",
        rank, host_of(comm, rank), line_len(theirs), theirs, other,
        host_of(comm, other), line_len(first), first);
}

gw_status gwt_agree_settings(const gwt_job *job)
{
    gw_comm *comm = job->config.comm;
    char own[GWT_SETTINGS_CAP] = "", *all = NULL;
    gw_status st;

    write_settings(job, own);
    st = gather(comm, own, sizeof own, &all);
    for (int r = 1; st == GW_OK && r < gw_comm_workers(comm); r++) {
        char *theirs = all + (size_t)r * sizeof own;
        theirs[sizeof own - 1] = '\0';
        if (strncmp(theirs, all, sizeof own) != 0)
            st = fail_differs(comm, r, theirs, 0, all);
    }
    gwt_free(all);
    return st;
}

/* The settings of a worker, and whether it has trained. */
typedef struct entrant {
    char trained;
    char text[GWT_SETTINGS_CAP];
} entrant;

static gw_status judge_entrants(const gw_comm *comm, entrant *all, int *any_trained)
{
    int p = gw_comm_workers(comm), own = gw_comm_rank(comm), first = 0;

    while (first < p && !all[first].trained)
        first++;
    *any_trained = first < p;
    first = first < p ? first : 0;
    for (int r = 0; r < p; r++)
        all[r].text[sizeof all[r].text - 1] = '\0';
    if (strcmp(all[own].text, all[first].text) != 0)
        return fail_differs(comm, own, all[own].text, first, all[first].text);
    for (int r = 0; r < p; r++)
        if (strcmp(all[r].text, all[first].text) != 0)
            return gw_fail(GW_ERR_PEER, "worker %d was started with other settings", r);
    return GW_OK;
}

gw_status gwt_agree_entering(const gwt_job *job, gw_comm *comm, int trained,
                             int *any_trained)
{
    entrant *own = gwt_calloc(1, sizeof *own, "settings");
    char *all = NULL;
    gw_status st = own != NULL ? GW_OK : GW_ERR_NOMEM;

    if (st == GW_OK) {
        own->trained = trained != 0;
        write_settings(job, own->text);
        st = gather(comm, own, sizeof *own, &all);
    }
    if (st == GW_OK)
        st = judge_entrants(comm, (entrant *)(void *)all, any_trained);
    gwt_free(own);
    gwt_free(all);
    return st;
}

gw_status gwt_agree_link(const gwt_job *job)
{
    gw_comm *comm = job->config.comm;

    for (int r = 1; job->config.link != NULL && r < gw_comm_workers(comm); r++)
        if (strcmp(host_of(comm, r), host_of(comm, 0)) != 0)
            return gw_fail(
                GW_ERR_ARG,
                "--link needs all workers on one machine, because it needs a common "
                "clock; worker %d is on host %s, but worker 0 is on host %s",
                r, host_of(comm, r), host_of(comm, 0));
    return GW_OK;
}
