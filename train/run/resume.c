/* SPDX-License-Identifier: Apache-2.0
 *
 * resume.c - the settings of a run that is resumed, from its newest checkpoint. */
#include "run/agree.h"
#include "run/checkpoint.h"
#include "run/slow_work.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

typedef struct reading {
    const gwt_config *config;
    char *flags;
} reading;

static gw_status read_checkpoint(const char *path, char flags[GWT_SETTINGS_CAP])
{
    gwt_checkpoint_job job;
    gwt_sections in;
    char text[GWT_SETTINGS_CAP];
    size_t len;

    GWT_TRY(gwt_checkpoint_open(&in, path, &job));
    gw_status st = gwt_checkpoint_settings(&in, text, &len);
    if (st == GW_OK)
        gwt_settings_flags(text, len, flags);
    gwt_sections_close(&in);
    return st;
}

gw_status gwt_resume_check(const char *out)
{
    struct stat info;

    if (out == NULL)
        return gw_fail(GW_ERR_ARG,
                       "--resume needs --out, the directory of the run to resume");
    if (stat(out, &info) != 0 && errno == ENOENT)
        return gw_fail(GW_ERR_ARG,
                       "there is no run directory %s to resume from; choose another "
                       "--out, or leave out --resume to start a new run",
                       out);
    if (stat(out, &info) == 0 && !gwt_checkpoints_any_in(out))
        return gw_fail(
            GW_ERR_SYSTEM,
            "there is no checkpoint in %s; leave out --resume to start a new run", out);
    return GW_OK;
}

/* A checkpoint that is damaged or cannot be read is left to gwt_job_new(). */
static gw_status read_flags(void *arg)
{
    reading *r = arg;
    const gwt_config *c = r->config;
    char path[GWT_FILE_CAP];

    if (!c->resume)
        return GW_OK;
    GWT_TRY(gwt_resume_check(c->out));
    if (strlen(c->out) >= GWT_PATH_CAP ||
        gwt_checkpoints_newest(c->out, path) != GW_OK ||
        read_checkpoint(path, r->flags) != GW_OK)
        r->flags[0] = '\0';
    return GW_OK;
}

gw_status gwt_resume_flags(const gwt_config *config, char flags[GWT_SETTINGS_CAP])
{
    reading r = {.config = config, .flags = flags};
    gw_comm *comm = config->comm;

    memset(flags, 0, GWT_SETTINGS_CAP);
    if (comm == NULL)
        return read_flags(&r);
    GWT_TRY(gwt_agree(comm, gwt_slow_work(comm, config->timeout, read_flags, &r)));
    GWT_TRY(gw_broadcast(comm, flags, GWT_SETTINGS_CAP, 0));
    flags[GWT_SETTINGS_CAP - 1] = '\0';
    return GW_OK;
}
