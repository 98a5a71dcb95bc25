/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint_settings.c - the settings of a run as lines of text, "name value", and
 * the comparison of two such texts.
 *
 * What changes neither the model nor its data may differ between a run and the run
 * that resumes it: where it runs and what it shows. The number of workers may differ
 * too, see checkpoint_load.c. The number of threads may not: the engine of
 * compute_dnnl.c cuts its products by it, so it changes the bits of the model. */
#include "run/advice.h"
#include "run/checkpoint.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPEC_CAP = 256, VALUE_CAP = 512 };

#define THREADS_LINE "--threads "

/* What was asked for, where --advice may have made something else of it. */
#define ASKED_SYNC     "asked-sync"
#define ASKED_MOMENTUM "asked-momentum"

typedef struct lines {
    char *text;
    size_t len;
} lines;

static void GW_PRINTF(3, 4) put(lines *l, const char *name, const char *format, ...)
{
    size_t begin = l->len;
    va_list args;

    l->len +=
        (size_t)snprintf(l->text + l->len, GWT_SETTINGS_CAP - l->len, "%s ", name);
    va_start(args, format);
    int n = vsnprintf(l->text + l->len, GWT_SETTINGS_CAP - l->len, format, args);
    va_end(args);
    /* No text of a setting is long enough for this. */
    if (n < 0 || l->len + (size_t)n + 2 > GWT_SETTINGS_CAP) {
        l->len = begin;
        return;
    }
    /* A path may hold any bytes, a line only one line. */
    for (int i = 0; i < n; i++)
        if (iscntrl((unsigned char)l->text[l->len + (size_t)i]))
            l->text[l->len + (size_t)i] = '?';
    l->len += (size_t)n;
    l->text[l->len++] = '\n';
}

/* As few digits as say exactly this number. */
static void put_real(lines *l, const char *name, double x)
{
    char text[40];

    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    put(l, name, "%s", text);
}

/* The settings of optimizers as they were asked for, but the momentum as it is used. */
static void put_hyper(lines *l, const gwt_job *job)
{
    gwt_hyper hyper = job->config.hyper;
    const gwt_hyper_row *row;
    char name[64];

    hyper.momentum = job->used.momentum;
    for (size_t i = 0; (row = gwt_hyper_at(i)) != NULL; i++) {
        double value = gwt_hyper_value(&hyper, row);
        snprintf(name, sizeof name, "--%s", row->name);
        if (row->is_switch)
            put(l, name, "%s", value != 0.0 ? "on" : "off");
        else
            put_real(l, name, value);
    }
}

/* To add a setting on which the result depends: add its line here, or its row to the
 * table of optimizer.c. */
size_t gwt_settings_write(const gwt_job *job, char text[GWT_SETTINGS_CAP])
{
    static const char *const nonfinite[] = {"stop", "skip", "ignore"};
    static const char *const augment[] = {"none", "crop", "flip", "both"};
    const gwt_config *c = &job->config;
    lines l = {.text = text};
    char sync[SPEC_CAP] = "", asked[SPEC_CAP] = "";

    (void)gw_spec_check(job->used.sync, sync, sizeof sync);
    (void)gw_spec_check(c->sync, asked, sizeof asked);
    put(&l, "version", "%s", gw_version());
    put(&l, "--workers", "%d", c->workers);
    put(&l, "--model", "%s", c->model);
    put(&l, "--data", "%s", c->data);
    put(&l, "samples", "%zu", job->data.train.count);
    put(&l, "--sync", "%s", sync);
    put(&l, ASKED_SYNC, "%s", asked);
    put(&l, "--seed", "%" PRIu64, c->seed);
    put(&l, "--batch", "%" PRIu64, c->batch);
    put(&l, "--sequence", "%" PRIu64, c->sequence);
    put_real(&l, "--dropout", c->dropout);
    put_real(&l, "--clip", c->clip);
    put(&l, "--optimizer", "%s", c->optimizer);
    put_real(&l, "--lr", c->lr);
    put_hyper(&l, job);
    put_real(&l, ASKED_MOMENTUM, c->hyper.momentum);
    put(&l, "--lr-schedule", "%s", c->schedule);
    put(&l, "--warmup", "%s", c->warmup);
    put(&l, "--nonfinite", "%s", nonfinite[c->nonfinite]);
    put(&l, "--augment", "%s", augment[job->augment]);
    put(&l, "--threads", "%d", c->threads);
    put(&l, "--steps", "%" PRIu64, c->steps);
    put(&l, "--epochs", "%" PRIu64, c->steps != 0 ? 0 : c->epochs);
    return l.len;
}

/* ---- comparing ---------------------------------------------------------------- */

/* Whether the line that begins at `line` need not be the same. Where the rate depends
 * on how long the run is to be, its end cannot be moved. */
static int may_differ(const gwt_job *job, const char *line)
{
    static const char *const free[] = {"version ", "--workers "};
    static const char *const end[] = {"--steps ", "--epochs "};
    int moves = !gwt_schedule_needs_end(&job->schedule);

    for (size_t i = 0; i < 2; i++)
        if (strncmp(line, free[i], strlen(free[i])) == 0 ||
            (moves && strncmp(line, end[i], strlen(end[i])) == 0))
            return 1;
    return 0;
}

/* Whether files of before may lack the line: of threads, see
 * gwt_settings_lack_threads(); what was asked for was what was used. */
static int may_lack(const char *line)
{
    static const char *const late[] = {THREADS_LINE, ASKED_SYNC " ",
                                       ASKED_MOMENTUM " "};

    for (size_t i = 0; i < 3; i++)
        if (strncmp(line, late[i], strlen(late[i])) == 0)
            return 1;
    return 0;
}

/* Where the next line begins; end if there is none. */
static const char *next_line(const char *at, const char *end)
{
    const char *stop = memchr(at, '\n', (size_t)(end - at));

    return stop == NULL ? end : stop + 1;
}

/* The value of the line in [text, end) that begins with `name ` (len bytes with the
 * blank), and its length without the end of the line; NULL if there is none. */
static const char *find_value(const char *text, const char *end, const char *name,
                              size_t len, size_t *out)
{
    for (const char *next; text < end; text = next) {
        next = next_line(text, end);
        if ((size_t)(next - text) > len && memcmp(text, name, len) == 0) {
            *out = (size_t)(next - text) - len - (next[-1] == '\n');
            return text + len;
        }
    }
    return NULL;
}

/* The same; where the line is a setting of optimizers that files of before lack, what
 * runs did then. */
static const char *find_or_before(const char *text, const char *end, const char *name,
                                  size_t len, size_t *out)
{
    const char *there = find_value(text, end, name, len, out);
    const gwt_hyper_row *row;

    for (size_t i = 0; there == NULL && (row = gwt_hyper_at(i)) != NULL; i++)
        if (row->before != NULL && len == strlen(row->name) + strlen("-- ") &&
            memcmp(name + 2, row->name, strlen(row->name)) == 0) {
            *out = strlen(row->before);
            return row->before;
        }
    return there;
}

static gw_status fail_differs(const char *name, const char *line, size_t len,
                              const char *value, size_t value_len, const char *saved,
                              size_t saved_len)
{
    return gw_fail(GW_ERR_ARG, "%s was written with %.*s%.*s, but this run has %.*s",
                   name, (int)len, line, (int)(saved_len < 96 ? saved_len : 96), saved,
                   (int)(value_len < 96 ? value_len : 96), value);
}

gw_status gwt_settings_compare(const gwt_job *job, const char *name, const char *saved,
                               size_t len)
{
    char own[GWT_SETTINGS_CAP];
    const char *end = own + gwt_settings_write(job, own);

    for (const char *line = own, *next; line < end; line = next) {
        next = next_line(line, end);
        size_t blank =
            (size_t)((const char *)memchr(line, ' ', (size_t)(end - line)) - line) + 1;
        size_t value_len = (size_t)(next - line) - blank - 1, there_len;
        if (may_differ(job, line))
            continue;
        const char *there = find_or_before(saved, saved + len, line, blank, &there_len);
        if (there == NULL && may_lack(line))
            continue;
        if (there == NULL)
            return gw_fail(GW_ERR_ARG, "%s does not say what its %.*s was", name,
                           (int)blank - 1, line);
        if (there_len != value_len || memcmp(there, line + blank, value_len) != 0)
            return fail_differs(name, line, blank, line + blank, value_len, there,
                                there_len);
    }
    return GW_OK;
}

int gwt_settings_lack_threads(const char *saved, size_t len)
{
    size_t there_len;

    return find_value(saved, saved + len, THREADS_LINE, strlen(THREADS_LINE),
                      &there_len) == NULL;
}

/* ---- how a run goes on --------------------------------------------------------- */

/* The value of the line `name` in text of len bytes, or else of the line `or_name`; ""
 * if there is neither, or if it is longer than any. */
static void take_value(const char *text, size_t len, const char *name,
                       const char *or_name, char value[VALUE_CAP])
{
    const char *names[] = {name, or_name};
    char line[64];

    value[0] = '\0';
    for (size_t i = 0; i < 2; i++) {
        int blank = snprintf(line, sizeof line, "%s ", names[i]);
        size_t n;
        const char *at = find_value(text, text + len, line, (size_t)blank, &n);
        if (at != NULL && n < VALUE_CAP) {
            snprintf(value, VALUE_CAP, "%.*s", (int)n, at);
            return;
        }
    }
}

gw_status gwt_settings_take(gwt_job *job, const char *name, const char *saved,
                            size_t len)
{
    static const char *const line[][2] = {{ASKED_SYNC, "--sync"},
                                          {ASKED_MOMENTUM, "--momentum"}};
    char own[GWT_SETTINGS_CAP], mine[VALUE_CAP], theirs[VALUE_CAP], used[2][VALUE_CAP];
    size_t own_len = gwt_settings_write(job, own);
    int differs = 0;

    for (size_t i = 0; i < 2; i++) {
        take_value(own, own_len, line[i][0], line[i][1], mine);
        take_value(saved, len, line[i][0], line[i][1], theirs);
        if (strcmp(mine, theirs) != 0)
            return GW_OK; /* another run: let the comparison say so */
        take_value(own, own_len, line[i][1], line[i][1], mine);
        take_value(saved, len, line[i][1], line[i][1], used[i]);
        differs |= strcmp(mine, used[i]) != 0;
    }
    if (!differs || !job->config.advice)
        return GW_OK;
    return gwt_advise_as_before(job, name, used[0], strtod(used[1], NULL));
}

/* ---- tensors ------------------------------------------------------------------- */

size_t gwt_tensors_write(const gw_tensor *tensors, size_t count, char *text, size_t cap)
{
    size_t len = 0;

    for (size_t i = 0; i < count; i++) {
        size_t room = len < cap ? cap - len : 0;
        len += (size_t)snprintf(room > 0 ? text + len : NULL, room, "%s %zu %zu\n",
                                tensors[i].name, tensors[i].rows, tensors[i].cols);
    }
    return len;
}
