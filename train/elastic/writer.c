/* SPDX-License-Identifier: Apache-2.0
 *
 * writer.c - who writes the run directory of a job whose workers come and go. A lock
 * does not say that: a worker that is stopped, or cut off, keeps it. So the file
 * "writer" names the job and the worker. Another worker of the same job takes the
 * directory over by writing its own name there, and by giving itself new files: what
 * the former writer has open is in no directory any more. */
#define _GNU_SOURCE
#include "files/newfile.h"
#include "run/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

enum { FILE_CAP = GWT_PATH_CAP + 320 };

#define NAME  "writer"
#define BEGIN "checkpoint-"
#define END   ".partial"

static void path_of(char path[FILE_CAP], const gwt_job *job, const char *name)
{
    snprintf(path, FILE_CAP, "%s/%s", job->directory, name);
}

/* What the file says; zeros if there is none. */
static void read_names(const gwt_job *job, uint64_t *id, uint64_t *token)
{
    char path[FILE_CAP];

    *id = *token = 0;
    path_of(path, job, NAME);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fscanf(file, "job %16" SCNx64 " writer %16" SCNx64, id, token) != 2)
        *id = *token = 0;
    fclose(file);
}

int gwt_writer_of_job(const gwt_job *job)
{
    uint64_t id, token;

    read_names(job, &id, &token);
    return job->id != 0 && id == job->id;
}

gw_status gwt_writer_check(const gwt_job *job)
{
    uint64_t id, token;

    if (job->config.views == NULL)
        return GW_OK;
    read_names(job, &id, &token);
    /* Whoever held the lock may have ended since. */
    if (job->lock > 0)
        (void)flock(job->lock, LOCK_EX | LOCK_NB);
    if (job->token != 0 && id == job->id && token == job->token)
        return GW_OK;
    return gw_fail(GW_ERR_PEER, "another worker writes to %s now", job->directory);
}

static uint64_t draw(void)
{
    uint64_t word = 0;

    while (word == 0)
        if (getrandom(&word, sizeof word, 0) != sizeof word && errno != EINTR)
            return 0;
    return word;
}

/* Half of a checkpoint is of no use; if its writer goes on, it cannot complete it. */
static void remove_halves(const gwt_job *job)
{
    char path[FILE_CAP];
    DIR *dir = opendir(job->directory);

    if (dir == NULL)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        size_t len = strlen(e->d_name), end = strlen(END);
        if (strncmp(e->d_name, BEGIN, strlen(BEGIN)) != 0 || len < end ||
            strcmp(e->d_name + len - end, END) != 0)
            continue;
        path_of(path, job, e->d_name);
        unlink(path);
    }
    closedir(dir);
}

gw_status gwt_writer_sign(gwt_job *job)
{
    char path[FILE_CAP], text[64];

    job->id = job->id != 0 ? job->id : draw();
    job->token = draw();
    if (job->id == 0 || job->token == 0)
        return gw_fail(GW_ERR_SYSTEM, "the system has no random numbers");
    path_of(path, job, NAME);
    int len = snprintf(text, sizeof text, "job %016" PRIx64 "\nwriter %016" PRIx64 "\n",
                       job->id, job->token);
    GWT_TRY(gwt_newfile_write(path, NULL, text, (size_t)len));
    remove_halves(job);
    return GW_OK;
}

void gwt_writer_remove(const gwt_job *job)
{
    char path[FILE_CAP];

    path_of(path, job, NAME);
    unlink(path);
}

static gw_status copy(FILE *from, gwt_newfile *to)
{
    char piece[1 << 14];
    size_t n;

    while ((n = fread(piece, 1, sizeof piece, from)) > 0)
        GWT_TRY(gwt_newfile_add(to, piece, n));
    return ferror(from)
               ? gw_fail(GW_ERR_SYSTEM, "cannot read %s: %s", to->path, strerror(errno))
               : GW_OK;
}

gw_status gwt_writer_renew(const gwt_job *job, const char *name)
{
    char path[FILE_CAP];
    gwt_newfile to;

    path_of(path, job, name);
    FILE *from = fopen(path, "re");
    if (from == NULL)
        return GW_OK; /* nobody has written it yet */
    gw_status st = gwt_newfile_open(&to, path, NULL);
    if (st == GW_OK) {
        st = copy(from, &to);
        if (st == GW_OK)
            st = gwt_newfile_commit(&to);
        else
            gwt_newfile_abandon(&to);
    }
    fclose(from);
    return st;
}
