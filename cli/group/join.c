/* SPDX-License-Identifier: Apache-2.0
 *
 * join.c - joins a job as one of its workers. */
#define _GNU_SOURCE
#include "group/join.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gradwire_group.h"

enum { KEY_CAP = 1024 + 2 };

/* Between two reports to a meeting. */
#define REPORT_SECONDS 1.0

struct gwc_joined {
    gw_group *volatile group;
    gw_group_options options; /* of one that is to be joined */
    gwc_host *host;           /* of its meeting; NULL: it is elsewhere */
    char *key;
    volatile sig_atomic_t asked; /* to leave */
    double reported_at;
};

/* ---- the key -----------------------------------------------------------------------
 */

/* Others who can read the file could join the job. */
static gw_status check_mode(FILE *file, const char *path)
{
    struct stat info;

    if (fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode) &&
        (info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return gw_fail(GW_ERR_ARG,
                       "%s can be used by others on this machine; run 'chmod 600 %s'",
                       path, path);
    return GW_OK;
}

static gw_status read_line(const char *path, char text[KEY_CAP])
{
    FILE *file = fopen(path, "re");
    gw_status st;

    if (file == NULL)
        return gw_fail(GW_ERR_ARG, "cannot read the key in %s: %s", path,
                       strerror(errno));
    st = check_mode(file, path);
    if (st == GW_OK && fgets(text, KEY_CAP, file) == NULL)
        st = gw_fail(GW_ERR_ARG, "%s has no key", path);
    fclose(file);
    text[strcspn(text, "\r\n")] = '\0';
    return st;
}

gw_status gwc_key_read(const char *path, char **key)
{
    const char *variable = getenv("GRADWIRE_KEY");
    char text[KEY_CAP] = "";

    *key = NULL;
    if (path == NULL && variable == NULL)
        return gw_fail(GW_ERR_ARG,
                       "no key: give --key-file FILE, or set GRADWIRE_KEY; 'gradwire "
                       "meet --new-key FILE' makes one");
    if (path != NULL)
        GWT_TRY(read_line(path, text));
    *key = strdup(path != NULL ? text : variable);
    return *key != NULL ? GW_OK : gw_fail(GW_ERR_NOMEM, "not enough memory for a key");
}

/* ---- joining -----------------------------------------------------------------------
 */

/* Only this program knows what Ctrl-C does to it. */
static void tell(void *arg, const char *line)
{
    static const char waits[] = "waiting for the meeting";
    int may_end = strncmp(line, waits, sizeof waits - 1) == 0;

    (void)arg;
    fprintf(stderr, "note: %s%s\n", line,
            may_end ? "; Ctrl-C ends the run, with a checkpoint if it writes any" : "");
}

/* Reads the key, and opens the meeting if that is this worker's own. */
static gw_status prepare(gwc_joined *joined, const gwc_join_options *opt)
{
    gw_group_options *join = &joined->options;

    GWT_TRY(gwc_key_read(opt->key_file, &joined->key));
    join->key = joined->key;
    if (opt->meet == NULL)
        return GW_OK;
    if (opt->meeting != NULL)
        return gw_fail(GW_ERR_ARG, "--join calls a meeting and --meet opens one; give "
                                   "one of them");
    GWT_TRY(gwc_host_open(&joined->host, opt->meet, opt->job, joined->key,
                          join->timeout_seconds, join->tell == NULL));
    join->meeting = gwc_host_where(joined->host);
    return GW_OK;
}

gw_status gwc_join_later(gwc_joined **out, const gwc_join_options *opt, int least,
                         int most, double timeout, int quiet)
{
    gwc_joined *joined = calloc(1, sizeof *joined);
    gw_status st;

    *out = NULL;
    if (joined == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to join a job");
    joined->options = (gw_group_options){
        .struct_size = sizeof joined->options,
        .meeting = opt->meeting,
        .job = opt->job,
        .address = opt->address,
        .port = opt->port,
        .min_workers = least,
        .max_workers = most,
        .plain = opt->plain,
        .out_only = opt->out_only,
        .streams = opt->streams,
        .learn_timeout = opt->learn_timeout,
        .timeout_seconds = timeout,
        .tell = quiet ? NULL : tell,
    };
    st = prepare(joined, opt);
    if (st != GW_OK) {
        gwc_join_leave(joined, GWC_HOST_FAILED);
        return st;
    }
    *out = joined;
    return GW_OK;
}

static gw_status join_group(gwc_joined *joined)
{
    gw_group *group;

    GWT_TRY(gw_group_join(&group, &joined->options));
    joined->group = group;
    /* The handler may have come before there was anything to pass this on to. */
    if (joined->asked)
        gw_group_leaving(group);
    return GW_OK;
}

gw_status gwc_join_next(void *arg, gw_comm **out)
{
    gwc_joined *joined = arg;

    *out = NULL;
    if (joined->group == NULL)
        GWT_TRY(join_group(joined));
    return gw_group_next(joined->group, out);
}

int gwc_join_due(void *arg)
{
    gwc_joined *joined = arg;

    return gw_group_due(joined->group);
}

void gwc_join_tell(void *arg, const char *line)
{
    gwc_joined *joined = arg;

    if (joined->options.tell != NULL)
        tell(NULL, line);
}

void gwc_join_wake(gwc_joined *joined)
{
    if (joined == NULL)
        return;
    joined->asked = 1;
    if (joined->group != NULL)
        gw_group_leaving(joined->group);
}

gw_status gwc_join(gwc_joined **out, gw_comm **comm, const gwc_join_options *opt,
                   int workers, double timeout, int quiet)
{
    gw_status st = gwc_join_later(out, opt, workers, workers, timeout, quiet);

    *comm = NULL;
    if (st == GW_OK)
        st = gwc_join_next(*out, comm);
    if (st != GW_OK) {
        gwc_join_leave(*out, GWC_HOST_FAILED);
        *out = NULL;
    }
    return st;
}

void gwc_join_report(gwc_joined *joined, const gwt_progress *p)
{
    double now = gwt_now();

    if (joined == NULL || joined->group == NULL ||
        (now - joined->reported_at < REPORT_SECONDS && p->step < p->steps))
        return;
    joined->reported_at = now;
    gw_group_report(joined->group,
                    &(gw_group_progress){.struct_size = sizeof(gw_group_progress),
                                         .step = p->step,
                                         .steps = p->steps,
                                         .loss = p->loss,
                                         .samples = p->samples,
                                         .bytes_sent = p->bytes_sent});
}

void gwc_join_leave(gwc_joined *joined, gwc_host_end end)
{
    if (joined == NULL)
        return;
    gw_group_leave(joined->group);
    gwc_host_close(joined->host, end, joined->options.tell == NULL);
    free(joined->key);
    free(joined);
}
