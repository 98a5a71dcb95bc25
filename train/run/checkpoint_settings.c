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

/* A message of the library has 512 bytes, which the rest of it needs, too. */
enum { SPEC_CAP = 256, VALUE_CAP = 512, DIFFERENCES_CAP = 240 };

#define THREADS_LINE "--threads "
#define LIMIT_LINE   "--limit "

/* What was asked for, where --advice may have made something else of it; and the spec
 * of --sync letter for letter. */
#define ASKED_SYNC     "asked-sync"
#define ASKED_MOMENTUM "asked-momentum"
#define GIVEN_SYNC     "given-sync"

/* Always with its unit: a bare number is one of epochs, of a version of before. */
#define EVAL_EVERY "--eval-every"

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

static void put_real(lines *l, const char *name, double x)
{
    char text[40];

    put(l, name, "%s", gwt_shortest(x, text));
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
    put(&l, "--limit", "%" PRIu64, c->limit);
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

static int is_count(const char *text)
{
    return text[strspn(text, "0123456789")] == '\0';
}

static void put_if(lines *l, const char *name, const char *text)
{
    if (text != NULL)
        put(l, name, "%s", text);
}

/* Names of files to write are not among them: who resumes a run may not be the one who
 * began it. */
size_t gwt_settings_save(const gwt_job *job, char text[GWT_SETTINGS_CAP])
{
    const gwt_config *c = &job->config;
    lines l = {.text = text, .len = gwt_settings_write(job, text)};

    put(&l, GIVEN_SYNC, "%s", c->sync);
    put(&l, "--advice", "%s", c->advice ? "on" : "off");
    put_if(&l, "--data-dir", c->data_dir);
    put_if(&l, "--link", c->link);
    if (c->comm == NULL)
        put(&l, "--spawn", "%s",
            c->spawn == GW_SPAWN_THREADS ? "threads" : "processes");
    put_real(&l, "--timeout", c->timeout);
    put_if(&l, "--checkpoint-every", c->checkpoint_every);
    put(&l, "--keep", "%d", c->keep);
    put_if(&l, "--log", c->log);
    put(&l, "--log-every", "%" PRIu64, c->log_every);
    if (c->eval_every != NULL)
        put(&l, EVAL_EVERY, "%s%s", c->eval_every,
            is_count(c->eval_every) ? "steps" : "");
    return l.len;
}

/* ---- comparing ---------------------------------------------------------------- */

static int begins(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

/* Whether the line that begins at `line` need not be the same, or is compared by
 * compare_end() or compare_asked(). */
static int is_apart(const char *line)
{
    static const char *const apart[] = {
        "version ", "--workers ",   "--steps ",    "--epochs ",
        "--sync ",  ASKED_SYNC " ", "--momentum ", ASKED_MOMENTUM " ",
    };

    for (size_t i = 0; i < sizeof apart / sizeof apart[0]; i++)
        if (begins(line, apart[i]))
            return 1;
    return 0;
}

/* Whether files of before may lack the line; see gwt_settings_lack_threads(). The
 * number of samples says the same as --limit. */
static int may_lack(const char *line)
{
    return begins(line, THREADS_LINE) || begins(line, LIMIT_LINE);
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

/* The settings in which a run differs from its checkpoint, for one message. */
typedef struct differences {
    char text[DIFFERENCES_CAP];
    size_t len;
    int more; /* how many did not fit */
} differences;

/* One line of settings: its name with the blank, and its value. */
typedef struct setting {
    const char *name, *value;
    size_t name_len, value_len;
} setting;

static setting setting_of(const char *line, const char *next)
{
    const char *blank = memchr(line, ' ', (size_t)(next - line));

    return (setting){.name = line,
                     .name_len = (size_t)(blank - line) + 1,
                     .value = blank + 1,
                     .value_len = (size_t)(next - blank) - 2};
}

/* Cuts a value that is long. */
static int shown(size_t len)
{
    return (int)(len < 96 ? len : 96);
}

static void GW_PRINTF(2, 3) add_difference(differences *d, const char *format, ...)
{
    char one[DIFFERENCES_CAP];
    va_list args;

    va_start(args, format);
    vsnprintf(one, sizeof one, format, args);
    va_end(args);
    if (d->more > 0 || d->len + strlen(one) + 8 > sizeof d->text) {
        d->more++;
        return;
    }
    d->len += (size_t)snprintf(d->text + d->len, sizeof d->text - d->len, "%swith %s",
                               d->len > 0 ? "; " : "", one);
}

static gw_status compare_line(differences *d, const char *name, const char *saved,
                              size_t len, setting own)
{
    size_t there_len;
    const char *there =
        find_or_before(saved, saved + len, own.name, own.name_len, &there_len);

    /* Another --limit, which comes before it, explains another number. */
    if (begins(own.name, "samples ") && strstr(d->text, LIMIT_LINE) != NULL)
        return GW_OK;
    if (there == NULL && may_lack(own.name))
        return GW_OK;
    if (there == NULL)
        return gw_fail(GW_ERR_ARG, "%s does not say what its %.*s was", name,
                       (int)own.name_len - 1, own.name);
    if (there_len != own.value_len || memcmp(there, own.value, there_len) != 0)
        add_difference(d, "%.*s%.*s, but this run has %.*s", (int)own.name_len,
                       own.name, shown(there_len), there, shown(own.value_len),
                       own.value);
    return GW_OK;
}

/* Compares the values of lines of these names, the first ones that a text has. */
static void compare_value(differences *d, const char *flag, const char *own,
                          size_t own_len, const char *saved, size_t len,
                          const char *name, const char *show)
{
    char here[VALUE_CAP], there[VALUE_CAP];

    take_value(own, own_len, name, flag, here);
    take_value(saved, len, name, flag, there);
    if (strcmp(here, there) == 0)
        return;
    take_value(own, own_len, show, flag, here);
    take_value(saved, len, show, name, there);
    if (there[0] == '\0')
        take_value(saved, len, flag, flag, there);
    add_difference(d, "%s %.*s, but this run has %.*s", flag, shown(strlen(there)),
                   there, shown(strlen(here)), here);
}

/* Compares what was asked for and, if nothing differs so far, what --advice made of it,
 * which depends on other settings, too. */
static void compare_asked(differences *d, const char *own, size_t own_len,
                          const char *saved, size_t len)
{
    compare_value(d, "--sync", own, own_len, saved, len, ASKED_SYNC, GIVEN_SYNC);
    compare_value(d, "--momentum", own, own_len, saved, len, ASKED_MOMENTUM,
                  ASKED_MOMENTUM);
    if (d->len == 0)
        compare_value(d, "--sync", own, own_len, saved, len, "--sync", "--sync");
    if (d->len == 0)
        compare_value(d, "--momentum", own, own_len, saved, len, "--momentum",
                      "--momentum");
}

/* "--steps 25" or "--epochs 3": where these settings say that the run ends. */
static void end_of(const char *text, size_t len, char end[VALUE_CAP])
{
    char steps[VALUE_CAP], epochs[VALUE_CAP];

    take_value(text, len, "--steps", "--steps", steps);
    take_value(text, len, "--epochs", "--epochs", epochs);
    if (steps[0] == '\0' || strcmp(steps, "0") == 0)
        snprintf(end, VALUE_CAP, "--epochs %.99s", epochs);
    else
        snprintf(end, VALUE_CAP, "--steps %.99s", steps);
}

/* Where the rate depends on how long the run is to be, its end cannot be moved. Returns
 * whether it was. */
static int compare_end(differences *d, const gwt_job *job, const char *own,
                       size_t own_len, const char *saved, size_t len)
{
    char here[VALUE_CAP], there[VALUE_CAP];

    end_of(own, own_len, here);
    end_of(saved, len, there);
    if (!gwt_schedule_needs_end(&job->schedule) || strcmp(here, there) == 0)
        return 0;
    add_difference(d, "%s, but this run has %s", there, here);
    return 1;
}

static gw_status fail_differs(const gwt_job *job, const char *name,
                              const differences *d, int end)
{
    char more[32] = "";

    if (d->more > 0)
        snprintf(more, sizeof more, "; and %d more", d->more);
    if (end)
        return gw_fail(GW_ERR_ARG,
                       "%s was written %s%s; --lr-schedule %.40s lowers the rate until "
                       "the planned end, which therefore cannot be moved: leave out "
                       "what differs to finish the run, or begin another one with its "
                       "weights (--init, 'gradwire weights export')",
                       name, d->text, more, job->config.schedule);
    return gw_fail(GW_ERR_ARG,
                   "%s was written %s%s; leave out what differs, or choose another "
                   "--out",
                   name, d->text, more);
}

gw_status gwt_settings_compare(const gwt_job *job, const char *name, const char *saved,
                               size_t len)
{
    char own[GWT_SETTINGS_CAP];
    size_t own_len = gwt_settings_save(job, own);
    differences d = {.len = 0};

    for (const char *line = own, *next; !begins(line, GIVEN_SYNC); line = next) {
        next = next_line(line, own + own_len);
        if (!is_apart(line))
            GWT_TRY(compare_line(&d, name, saved, len, setting_of(line, next)));
    }
    compare_asked(&d, own, own_len, saved, len);
    int moved = compare_end(&d, job, own, own_len, saved, len);
    return d.len > 0 ? fail_differs(job, name, &d, moved) : GW_OK;
}

int gwt_settings_lack_threads(const char *saved, size_t len)
{
    size_t there_len;

    return find_value(saved, saved + len, THREADS_LINE, strlen(THREADS_LINE),
                      &there_len) == NULL;
}

/* ---- how a run goes on --------------------------------------------------------- */

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

/* Whether a line is no flag, or says by 0 that a flag was not given. */
static int is_no_flag(setting s)
{
    static const char *const counts[] = {"--steps ", "--epochs ", "--log-every ",
                                         LIMIT_LINE};

    if (!begins(s.name, "--") || s.value_len >= VALUE_CAP)
        return 1;
    for (size_t i = 0; i < 4; i++)
        if (begins(s.name, counts[i]) && s.value_len == 1 && s.value[0] == '0')
            return 1;
    return 0;
}

/* The value of a flag as it was given. */
static void value_given(const char *saved, size_t len, setting s, char value[VALUE_CAP])
{
    value[0] = '\0';
    if (begins(s.name, "--sync "))
        take_value(saved, len, GIVEN_SYNC, ASKED_SYNC, value);
    if (begins(s.name, "--momentum "))
        take_value(saved, len, ASKED_MOMENTUM, "--momentum", value);
    if (value[0] == '\0')
        snprintf(value, VALUE_CAP, "%.*s", (int)s.value_len, s.value);
    if (begins(s.name, EVAL_EVERY " ") && is_count(value))
        snprintf(value + strlen(value), VALUE_CAP - strlen(value), "epochs");
}

void gwt_settings_flags(const char *saved, size_t len, char flags[GWT_SETTINGS_CAP])
{
    const char *end = saved + len;
    lines l = {.text = flags};
    char name[64], value[VALUE_CAP];

    for (const char *line = saved, *next; line < end; line = next) {
        next = next_line(line, end);
        if (next[-1] != '\n' || memchr(line, ' ', (size_t)(next - line)) == NULL)
            continue;
        setting s = setting_of(line, next);
        if (is_no_flag(s) || s.name_len > sizeof name)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)s.name_len - 1, s.name);
        value_given(saved, len, s, value);
        put(&l, name, "%s", value);
    }
    flags[l.len] = '\0';
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
