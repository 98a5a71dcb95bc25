/* SPDX-License-Identifier: Apache-2.0
 *
 * lr_schedule.c - how the learning rate changes. To add a schedule: write how it is
 * read and its factor, and add one line to the table. */
#include "optim/lr_schedule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

enum { TEXT_CAP = 256 };

static gw_status parse_nothing(gwt_schedule *s, char *rest)
{
    if (rest[0] == '\0')
        return GW_OK;
    return gw_fail(GW_ERR_ARG,
                   "learning-rate schedule: %s takes no options, but '%s' was given",
                   s->type->name, rest);
}

static double constant_factor(const gwt_schedule *s, double t, double w)
{
    (void)s, (void)t, (void)w;
    return 1.0;
}

static gw_status parse_milestones(gwt_schedule *s, char *list)
{
    char *word, *save = NULL;
    double last = 0.0;

    for (word = strtok_r(list, "/", &save); word; word = strtok_r(NULL, "/", &save)) {
        if (s->milestones == GWT_MILESTONES_MAX)
            return gw_fail(GW_ERR_ARG,
                           "learning-rate schedule: step has more than %d milestones",
                           GWT_MILESTONES_MAX);
        double *at = &s->milestone[s->milestones++];
        GWT_TRY(
            gwt_parse_real("learning-rate schedule: milestone", word, 0.0, 1e9, at));
        if (*at <= last)
            return gw_fail(GW_ERR_ARG,
                           "learning-rate schedule: milestone %s is not later than the "
                           "previous one",
                           word);
        last = *at;
    }
    if (s->milestones == 0)
        return gw_fail(GW_ERR_ARG,
                       "learning-rate schedule: step needs epochs, such as step:30/60");
    return GW_OK;
}

static gw_status parse_step(gwt_schedule *s, char *rest)
{
    char *option = strchr(rest, ',');

    s->factor = 0.1;
    if (option != NULL) {
        *option++ = '\0';
        if (strncmp(option, "factor=", 7) != 0)
            return gw_fail(
                GW_ERR_ARG,
                "learning-rate schedule: unknown option '%s' of step; expected factor=",
                option);
        GWT_TRY(gwt_parse_real("learning-rate schedule: factor", option + 7, 0.0, 1.0,
                               &s->factor));
    }
    return parse_milestones(s, rest);
}

static double step_factor(const gwt_schedule *s, double t, double w)
{
    double f = 1.0, epoch = (t + w) / s->epoch_steps;

    for (size_t i = 0; i < s->milestones && epoch >= s->milestone[i]; i++)
        f *= s->factor;
    return f;
}

static gw_status parse_cosine(gwt_schedule *s, char *rest)
{
    if (rest[0] == '\0')
        return GW_OK;
    return gwt_parse_real("learning-rate schedule: end of the cosine", rest, 0.0, 1.0,
                          &s->end);
}

static double cosine_factor(const gwt_schedule *s, double t, double w)
{
    double length = s->total_steps - w;

    double wave = t >= length ? 0.0 : 0.5 * (1.0 + cos(acos(-1.0) * t / length));

    return s->end > 0.0 ? s->end + (1.0 - s->end) * wave : wave;
}

static gw_status parse_power(gwt_schedule *s, char *rest)
{
    s->alpha = 0.5;
    if (rest[0] == '\0')
        return GW_OK;
    return gwt_parse_real("learning-rate schedule: power", rest, 0.0, 10.0, &s->alpha);
}

static double power_factor(const gwt_schedule *s, double t, double w)
{
    (void)w;
    return pow(t + 1.0, -s->alpha);
}

static const gwt_schedule_type table[] = {
    {.name = "constant",
     .summary = "keeps the rate constant",
     .parse = parse_nothing,
     .factor = constant_factor},
    {.name = "step",
     .usage = "step:30/60,factor=0.1",
     .summary = "multiplies the rate by the factor from each of these epochs on",
     .parse = parse_step,
     .factor = step_factor},
    {.name = "cosine",
     .usage = "cosine[:0.1]",
     .summary = "lowers the rate along half a cosine wave, to this share or to 0",
     .parse = parse_cosine,
     .factor = cosine_factor,
     .needs_end = 1},
    {.name = "power",
     .usage = "power:0.5",
     .summary = "multiplies the rate by t^-0.5 in step t = 1, 2, ...",
     .parse = parse_power,
     .factor = power_factor},
};

/* The kind that a text begins with. */
static gw_status find_type(const char *text, const gwt_schedule_type **out)
{
    const char *names[COUNT(table)];
    size_t len = strcspn(text, ":");

    for (size_t i = 0; i < COUNT(table); i++) {
        names[i] = table[i].name;
        if (strlen(names[i]) == len && strncmp(names[i], text, len) == 0) {
            *out = &table[i];
            return GW_OK;
        }
    }
    return gwt_fail_name("learning-rate schedule", text, names, COUNT(table), NULL);
}

gw_status gwt_schedule_parse(gwt_schedule *out, const char *text, const char *warmup)
{
    char copy[TEXT_CAP];

    memset(out, 0, sizeof *out);
    if (strlen(text) >= sizeof copy)
        return gw_fail(GW_ERR_ARG,
                       "learning-rate schedule: the text is longer than %d characters",
                       TEXT_CAP - 1);
    GWT_TRY(find_type(text, &out->type));
    const char *rest = strchr(text, ':');
    snprintf(copy, sizeof copy, "%s", rest != NULL ? rest + 1 : "");
    GWT_TRY(out->type->parse(out, copy));
    return gwt_parse_length("warm-up", warmup, &out->warmup);
}

int gwt_schedule_needs_end(const gwt_schedule *schedule)
{
    return schedule->type->needs_end;
}

const gwt_schedule_type *gwt_schedule_at(size_t i)
{
    return i < COUNT(table) ? &table[i] : NULL;
}

double gwt_schedule_factor(const gwt_schedule *schedule, uint64_t t)
{
    double at = (double)t;
    double w =
        (double)gwt_length_steps(schedule->warmup, (uint64_t)schedule->epoch_steps);

    if (at < w)
        return (at + 1.0) / w;
    return schedule->type->factor(schedule, at - w, w);
}
