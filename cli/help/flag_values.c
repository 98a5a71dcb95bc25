/* SPDX-License-Identifier: Apache-2.0
 *
 * flag_values.c - what may follow a flag: its own words, the names in a table of the
 * trainer or of the library, or a file. */
#include "help/help_pages.h"
#include "model_shapes.h"

#include "data/data.h"
#include "models/model.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"

#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* ---- names from tables ----------------------------------------------------- */

/* Writes the i-th name to text; 0 past the end. */
typedef int name_of(size_t i, char *text);

static int copy(const char *name, const char *ending, char *text)
{
    if (name != NULL)
        snprintf(text, GWC_WORD_CAP, "%s%s", name, ending);
    return name != NULL;
}

static int model_name(size_t i, char *text)
{
    const gwt_model_spec *model = gwt_model_at(i);

    return model != NULL && copy(model->name, "", text);
}

/* What needs more after its name ends with the ':' before that. */
static int data_name(size_t i, char *text)
{
    const gwt_data_source *source = gwt_data_source_at(i);

    if (source == NULL)
        return 0;
    return copy(source->name, source->usage[strlen(source->name)] == ':' ? ":" : "",
                text);
}

static int optimizer_name(size_t i, char *text)
{
    const gwt_optimizer *optimizer = gwt_optimizer_at(i);

    return optimizer != NULL && copy(optimizer->name, "", text);
}

static int schedule_name(size_t i, char *text)
{
    const gwt_schedule_type *type = gwt_schedule_at(i);

    if (type == NULL)
        return 0;
    /* What is in brackets need not be given. */
    int given = type->usage != NULL && strchr(type->usage, '[') == NULL;
    return copy(given ? type->usage : type->name, "", text);
}

/* An example of each, for the names alone lack what must be given. */
static int sync_name(size_t i, char *text)
{
    return copy(gw_recipe_example(i), "", text);
}

static int known_shape_name(size_t i, char *text)
{
    const gwc_shape *shape = gwc_shape_at(i);

    return copy(shape != NULL ? shape->name : NULL, "", text);
}

/* Models that the trainer has, then those of which only the size is known. */
static int planned_model_name(size_t i, char *text)
{
    size_t own = 0;

    while (gwt_model_at(own) != NULL)
        own++;
    return i < own ? model_name(i, text) : known_shape_name(i - own, text);
}

/* The first row that fits counts; a row without a command is for all. */
static const struct source {
    const char *flag, *command;
    name_of *name;
} sources[] = {
    {"model", "simulate", known_shape_name},
    {"model", "plan", planned_model_name},
    {"model", NULL, model_name},
    {"data", NULL, data_name},
    {"optimizer", NULL, optimizer_name},
    {"lr-schedule", NULL, schedule_name},
    {"sync", NULL, sync_name},
};

static name_of *source_of(const gwc_command *command, const gwc_flag *flag)
{
    for (size_t i = 0; i < COUNT(sources); i++)
        if (strcmp(sources[i].flag, flag->name) == 0 &&
            (sources[i].command == NULL ||
             strcmp(sources[i].command, command->name) == 0))
            return sources[i].name;
    return NULL;
}

/* ---- values ---------------------------------------------------------------- */

gwc_value gwc_value_of(const gwc_command *command, const gwc_flag *flag)
{
    if (flag->kind == GWC_SWITCH)
        return GWC_VALUE_NOTHING;
    if (flag->kind == GWC_CHOICE)
        return GWC_VALUE_WORDS;
    if (flag->kind != GWC_TEXT)
        return GWC_VALUE_OTHER;
    if (source_of(command, flag) != NULL)
        return GWC_VALUE_WORDS;
    if (strcmp(flag->arg, "FILE") == 0)
        return GWC_VALUE_FILE;
    return strcmp(flag->arg, "DIR") == 0 ? GWC_VALUE_DIR : GWC_VALUE_OTHER;
}

/* The i-th of the words that '|' parts. */
static int choice(const char *list, size_t i, char *text)
{
    for (; i > 0; i--) {
        list += strcspn(list, "|");
        if (*list == '\0')
            return 0;
        list++;
    }
    snprintf(text, GWC_WORD_CAP, "%.*s", (int)strcspn(list, "|"), list);
    return 1;
}

const char *gwc_value_word(const gwc_command *command, const gwc_flag *flag, size_t i,
                           char *text)
{
    int there = flag->kind == GWC_CHOICE ? choice(flag->arg, i, text)
                                         : source_of(command, flag)(i, text);

    return there ? text : NULL;
}

/* ---- flags ----------------------------------------------------------------- */

static int has(const gwc_command *command, const char *name)
{
    for (size_t i = 0; i < command->flag_count; i++)
        if (command->flags[i].name != NULL && strcmp(command->flags[i].name, name) == 0)
            return 1;
    return 0;
}

const gwc_flag *gwc_flag_next(const gwc_command *command, size_t *i)
{
    const gwc_command *other = command->passes_to;
    size_t own = command->flag_count,
           all = own + (other != NULL ? other->flag_count : 0);

    while (*i < all) {
        size_t at = (*i)++;
        const gwc_flag *flag = at < own ? &command->flags[at] : &other->flags[at - own];
        if (flag->name != NULL && (at < own || !has(command, flag->name)))
            return flag;
    }
    return NULL;
}

const char *gwc_flag_brief(const gwc_flag *flag, char *text)
{
    snprintf(text, GWC_BRIEF_CAP, "%.*s", (int)strcspn(flag->help, ";"), flag->help);
    for (char *at = text; (at = strchr(at, '\n')) != NULL;)
        *at = ' ';
    return text;
}
