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

typedef struct gwt_schedule_type {
    const char *name;

    /* Reads what follows "name:", the empty text if nothing does. */
    gw_status (*parse)(gwt_schedule *s, char *rest);

    /* The factor t steps after the warm-up of w steps. */
    double (*factor)(const gwt_schedule *s, double t, double w);

    int needs_end; /* whether the factor depends on total_steps */
} gwt_schedule_type;

static gw_status parse_nothing(gwt_schedule *s, char *rest)
{
    if (rest[0] == '\0')
        return GW_OK;
    return gw_fail(GW_ERR_ARG, "learning-rate schedule: %s takes no '%s'",
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
                           "learning-rate schedule: more than %d milestones",
                           GWT_MILESTONES_MAX);
        double *at = &s->milestone[s->milestones++];
        GWT_TRY(
            gwt_parse_real("learning-rate schedule: milestone", word, 0.0, 1e9, at));
        if (*at <= last)
            return gw_fail(
                GW_ERR_ARG,
                "learning-rate schedule: milestone %s does not come after the "
                "one before",
                word);
        last = *at;
    }
    if (s->milestones == 0)
        return gw_fail(GW_ERR_ARG,
                       "learning-rate schedule: step needs epochs, as in step:30/60");
    return GW_OK;
}

static gw_status parse_step(gwt_schedule *s, char *rest)
{
    char *option = strchr(rest, ',');

    s->factor = 0.1;
    if (option != NULL) {
        *option++ = '\0';
        if (strncmp(option, "factor=", 7) != 0)
            return gw_fail(GW_ERR_ARG,
                           "learning-rate schedule: step knows factor=, not '%s'",
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

static double cosine_factor(const gwt_schedule *s, double t, double w)
{
    double length = s->total_steps - w;

    if (t >= length)
        return 0.0;
    return 0.5 * (1.0 + cos(acos(-1.0) * t / length));
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
    {"constant", parse_nothing, constant_factor, 0},
    {"step", parse_step, step_factor, 0},
    {"cosine", parse_nothing, cosine_factor, 1},
    {"power", parse_power, power_factor, 0},
};

static gw_status parse_warmup(gwt_schedule *s, const char *text)
{
    char number[TEXT_CAP];
    const char *unit = strchr(text, 'e');

    /* "1e3" is not a warm-up: whole numbers of steps, or fractions of an epoch. */
    s->warmup_epochs = unit != NULL;
    if (unit == NULL) {
        uint64_t steps;
        GWT_TRY(gwt_parse_count("warm-up", text, 0, 1000000000, &steps));
        s->warmup = (double)steps;
        return GW_OK;
    }
    if (strcmp(unit, "epochs") != 0 && strcmp(unit, "epoch") != 0)
        return gw_fail(GW_ERR_ARG,
                       "warm-up: '%s' is neither steps (500) nor epochs "
                       "(2epochs)",
                       text);
    snprintf(number, sizeof number, "%.*s", (int)(unit - text), text);
    return gwt_parse_real("warm-up", number, 0.0, 1e6, &s->warmup);
}

gw_status gwt_schedule_parse(gwt_schedule *out, const char *text, const char *warmup)
{
    char copy[TEXT_CAP];

    memset(out, 0, sizeof *out);
    if (strlen(text) >= sizeof copy)
        return gw_fail(GW_ERR_ARG, "learning-rate schedule: longer than %d characters",
                       TEXT_CAP - 1);
    snprintf(copy, sizeof copy, "%s", text);
    char *rest = copy + strcspn(copy, ":");
    if (*rest == ':')
        *rest++ = '\0';
    for (size_t i = 0; i < COUNT(table); i++)
        if (strcmp(table[i].name, copy) == 0)
            out->type = &table[i];
    if (out->type == NULL)
        return gw_fail(
            GW_ERR_ARG,
            "no learning-rate schedule '%s'; there are constant, step, cosine "
            "and power",
            copy);
    GWT_TRY(out->type->parse(out, rest));
    return parse_warmup(out, warmup);
}

int gwt_schedule_needs_end(const gwt_schedule *schedule)
{
    return schedule->type->needs_end;
}

const char *gwt_schedule_name(size_t i)
{
    return i < COUNT(table) ? table[i].name : NULL;
}

double gwt_schedule_factor(const gwt_schedule *schedule, uint64_t t)
{
    double at = (double)t, w = schedule->warmup;

    if (schedule->warmup_epochs)
        w = floor(w * schedule->epoch_steps);
    if (at < w)
        return (at + 1.0) / w;
    return schedule->type->factor(schedule, at - w, w);
}
