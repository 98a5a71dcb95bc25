/* SPDX-License-Identifier: Apache-2.0
 *
 * host.c - a worker that runs the meeting of its job itself. */
#define _GNU_SOURCE
#include "group/host.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gradwire_group.h"

enum { WHERE_CAP = 300, KEY_CAP = 1024 + 2 };

/* Between two looks at who is still there. */
#define LOOK_SECONDS 0.2

/* How long the meeting of a job that is over waits for others to say goodbye. */
#define GOODBYE_SECONDS 3.0

struct gwc_host {
    gw_meeting *meeting;
    char where[WHERE_CAP], job[65], key[KEY_CAP];
};

const char *gwc_host_where(const gwc_host *host)
{
    return host->where;
}

/* What this worker calls: the host of `listen`, or this machine. */
static void name_place(gwc_host *host, const char *listen)
{
    const char *colon = strrchr(listen, ':');
    int len = colon != NULL ? (int)(colon - listen) : 0;

    snprintf(host->where, sizeof host->where, "tcp://%.*s:%d",
             len > 0 ? len : (int)strlen("127.0.0.1"), len > 0 ? listen : "127.0.0.1",
             gw_meeting_port(host->meeting));
}

static void say_where(const gwc_host *host)
{
    char name[65] = "this-host";

    gethostname(name, sizeof name - 1);
    fprintf(stderr,
            "note: others join by 'gradwire train --join tcp://%s:%d' with the same "
            "key and settings\n",
            name, gw_meeting_port(host->meeting));
}

gw_status gwc_host_open(gwc_host **out, const char *listen, const char *job,
                        const char *key, double timeout, int quiet)
{
    gw_meeting_options opt = {.struct_size = sizeof opt,
                              .listen = listen,
                              .job = job,
                              .key = key,
                              .timeout_seconds = timeout};
    gwc_host *host = calloc(1, sizeof *host);

    *out = NULL;
    if (host == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a meeting");
    gw_status st = gw_meeting_open(&host->meeting, &opt);
    if (st != GW_OK) {
        free(host);
        return st;
    }
    snprintf(host->job, sizeof host->job, "%s", job);
    snprintf(host->key, sizeof host->key, "%s", key);
    name_place(host, listen);
    if (!quiet)
        say_where(host);
    *out = host;
    return GW_OK;
}

/* ---- the end ----------------------------------------------------------------------
 */

static void count(void *arg, const char *line)
{
    int *members = arg;

    *members += strncmp(line, "member ", 7) == 0;
}

/* How many others the meeting knows. */
static int others(const gwc_host *host)
{
    gw_group_options opt = {.struct_size = sizeof opt,
                            .meeting = host->where,
                            .job = host->job,
                            .key = host->key,
                            .timeout_seconds = 5.0};
    int members = 0;

    return gw_meeting_status(&opt, count, &members) == GW_OK ? members : 0;
}

static void await_others(const gwc_host *host, double seconds)
{
    struct timespec pause = {.tv_nsec = (long)(1e9 * LOOK_SECONDS)};

    for (double left = seconds; left > 0 && others(host) > 0; left -= LOOK_SECONDS)
        nanosleep(&pause, NULL);
}

/* Without the meeting the others could make no view when one of them is gone. */
static void serve_others(const gwc_host *host, int quiet)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (others(host) == 0)
        return;
    if (!quiet)
        fprintf(stderr, "note: the meeting stays open for the others until they have "
                        "left, too; Ctrl-C ends it\n");
    await_others(host, 1e9);
}

void gwc_host_close(gwc_host *host, gwc_host_end end, int quiet)
{
    if (host == NULL)
        return;
    if (end == GWC_HOST_JOB_GOES_ON)
        serve_others(host, quiet);
    else if (end == GWC_HOST_JOB_IS_OVER)
        await_others(host, GOODBYE_SECONDS);
    gw_meeting_close(host->meeting);
    free(host);
}
