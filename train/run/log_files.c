/* SPDX-License-Identifier: Apache-2.0
 *
 * log_files.c - translates lines of metrics.jsonl. They are our own: one flat object of
 * numbers, names and null, without escapes in what is used here. */
#define _GNU_SOURCE
#include "run/log_files.h"
#include "files/event_file.h"
#include "run/job.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TABLE        "metrics.csv"
#define EVENTS       "events.out.tfevents."
#define EVENTS_OF_US ".gradwire"

enum { FILE_CAP = GWT_PATH_CAP + 128 };

gw_status gwt_log_parse(const char *list, int *out)
{
    static const char *const names[] = {"csv", "tensorboard"};
    char word[32];

    *out = 0;
    for (const char *at = list; at != NULL && *at != '\0';) {
        size_t len = strcspn(at, ",");
        int which = 0;
        snprintf(word, sizeof word, "%.*s", (int)(len < 31 ? len : 31), at);
        while (which < 2 && strcmp(word, names[which]) != 0)
            which++;
        if (which == 2)
            return gwt_fail_name("log", word, names, 2, NULL);
        *out |= 1 << which;
        at += len + (at[len] == ',');
    }
    return GW_OK;
}

/* ---- the parts of a line -----------------------------------------------------------
 */

typedef struct entry {
    const char *key, *value;
    size_t key_len, value_len;
} entry;

static const char *skip(const char *at)
{
    while (*at == ' ' || *at == ',' || *at == '{' || *at == ':')
        at++;
    return at;
}

/* The next "key": value of the line, the value without quotes; 0 at its end. */
static int next_entry(const char **line, entry *out)
{
    const char *at = skip(*line);

    if (*at != '"')
        return 0;
    out->key = ++at;
    out->key_len = strcspn(at, "\"");
    at += out->key_len;
    at = skip(at + (*at == '"'));
    int quoted = *at == '"';
    at += quoted;
    out->value = at;
    out->value_len = strcspn(at, quoted ? "\"" : ",}\n");
    at += out->value_len;
    *line = at + (quoted && *at == '"');
    return 1;
}

static int is_key(const entry *e, const char *key)
{
    return e->key_len == strlen(key) && memcmp(e->key, key, e->key_len) == 0;
}

/* Whether the value is a number. */
static int number_of(const entry *e, double *out)
{
    char text[64], *end;

    if (e->value_len == 0 || e->value_len >= sizeof text)
        return 0;
    memcpy(text, e->value, e->value_len);
    text[e->value_len] = '\0';
    *out = strtod(text, &end);
    return *end == '\0';
}

static double find_number(const char *line, const char *key)
{
    double x = 0.0;
    entry e;

    while (next_entry(&line, &e))
        if (is_key(&e, key) && number_of(&e, &x))
            return x;
    return 0.0;
}

/* ---- translating -------------------------------------------------------------------
 */

static int is_null(const entry *e)
{
    return e->value_len == 4 && memcmp(e->value, "null", 4) == 0;
}

/* The keys, before the first line, or the values; null is an empty field. */
static void add_to_table(FILE *to, const char *line, int keys)
{
    const char *between = "";
    entry e;

    for (; next_entry(&line, &e); between = ",")
        if (keys)
            fprintf(to, "%s%.*s", between, (int)e.key_len, e.key);
        else
            fprintf(to, "%s%.*s", between, is_null(&e) ? 0 : (int)e.value_len, e.value);
    putc('\n', to);
}

/* Every number is a scalar of the name that it has in the line. */
static void add_to_events(FILE *to, const char *line, double epoch)
{
    gwt_event_record record;
    double x;
    entry e;

    gwt_event_begin(&record, epoch + find_number(line, "seconds"),
                    (uint64_t)find_number(line, "step"));
    while (next_entry(&line, &e))
        if (!is_key(&e, "step") && number_of(&e, &x))
            gwt_event_add(&record, e.key, e.key_len, (float)x);
    gwt_event_write(&record, to);
}

static gw_status check_stream(FILE *stream, const gwt_job *job, const char *name)
{
    if (stream == NULL || (fflush(stream) == 0 && !ferror(stream)))
        return GW_OK;
    return gw_fail(GW_ERR_SYSTEM, "cannot write %s/%s: %s", job->directory, name,
                   strerror(errno));
}

gw_status gwt_log_add(gwt_log_files *files, const gwt_job *job, const char *line)
{
    if (files->csv != NULL && !files->titled)
        add_to_table(files->csv, line, 1);
    files->titled = 1;
    if (files->csv != NULL)
        add_to_table(files->csv, line, 0);
    if (files->events != NULL)
        add_to_events(files->events, line, files->epoch);
    GWT_TRY(check_stream(files->csv, job, TABLE));
    return check_stream(files->events, job, EVENTS "*");
}

/* ---- files -------------------------------------------------------------------------
 */

static int is_events_of_us(const char *name)
{
    size_t len = strlen(name), end = strlen(EVENTS_OF_US);

    return strncmp(name, EVENTS, strlen(EVENTS)) == 0 && len > end &&
           strcmp(name + len - end, EVENTS_OF_US) == 0;
}

void gwt_log_remove(const gwt_job *job)
{
    char path[FILE_CAP + 256];
    DIR *dir = opendir(job->directory);

    snprintf(path, sizeof path, "%s/" TABLE, job->directory);
    unlink(path);
    if (dir == NULL)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        if (is_events_of_us(e->d_name)) {
            snprintf(path, sizeof path, "%s/%s", job->directory, e->d_name);
            unlink(path);
        }
    closedir(dir);
}

static gw_status make(FILE **out, const gwt_job *job, const char *name)
{
    char path[FILE_CAP];

    snprintf(path, sizeof path, "%s/%s", job->directory, name);
    *out = fopen(path, "we");
    if (*out == NULL)
        return gw_fail(GW_ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    return GW_OK;
}

/* What the run wrote before it was resumed. */
static gw_status replay(gwt_log_files *files, const gwt_job *job)
{
    char path[FILE_CAP], line[GWT_LOG_LINE_CAP];
    gw_status st = GW_OK;

    snprintf(path, sizeof path, "%s/metrics.jsonl", job->directory);
    FILE *from = fopen(path, "re");
    if (from == NULL)
        return gw_fail(GW_ERR_SYSTEM, "cannot read %s: %s", path, strerror(errno));
    while (st == GW_OK && fgets(line, sizeof line, from) != NULL)
        st = gwt_log_add(files, job, line);
    fclose(from);
    return st;
}

gw_status gwt_log_open(gwt_log_files *out, const gwt_job *job, double began)
{
    struct timespec now;
    char name[96], host[32] = "";

    *out = (gwt_log_files){0};
    if (job->log == 0)
        return GW_OK;
    clock_gettime(CLOCK_REALTIME, &now);
    out->epoch = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - began;
    (void)gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, EVENTS "%010lld.%s.%ld" EVENTS_OF_US,
             (long long)now.tv_sec, host, (long)getpid());
    if (job->log & GWT_LOG_CSV)
        GWT_TRY(make(&out->csv, job, TABLE));
    if (job->log & GWT_LOG_TENSORBOARD) {
        GWT_TRY(make(&out->events, job, name));
        gwt_event_file_begin(out->events, out->epoch);
    }
    return replay(out, job);
}

void gwt_log_close(gwt_log_files *files)
{
    if (files->csv != NULL)
        fclose(files->csv);
    if (files->events != NULL)
        fclose(files->events);
    *files = (gwt_log_files){0};
}
