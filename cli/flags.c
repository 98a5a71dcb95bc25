/* SPDX-License-Identifier: Apache-2.0
 *
 * flags.c - reads, checks and explains flags. */
#define _GNU_SOURCE
#include "flags.h"
#include "common.h"
#include "terminal.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_COLUMN = 26, WIDTH = 80, NAMES_MAX = 64, TITLE_CAP = 64 };

/* The largest double that is a count; above it a limit means "no limit". */
#define COUNT_LIMIT 0x1p63

static uint64_t count_of(double limit)
{
    return limit >= COUNT_LIMIT ? UINT64_MAX : (uint64_t)limit;
}

/* The index of text in "a|b|c", or -1. */
static int choice_of(const char *choices, const char *text)
{
    size_t len = strlen(text);

    for (int i = 0;; i++) {
        size_t word = strcspn(choices, "|");
        if (word == len && strncmp(choices, text, len) == 0)
            return i;
        if (choices[word] == '\0')
            return -1;
        choices += word + 1;
    }
}

static gw_status store_choice(const gwc_flag *flag, const char *text, void *at)
{
    int i = choice_of(flag->arg, text);

    if (i < 0)
        return gw_fail(GW_ERR_ARG, "--%s: unknown value '%s'; expected one of %s",
                       flag->name, text, flag->arg);
    memcpy(at, &i, sizeof i);
    return GW_OK;
}

static gw_status store_count(const gwc_flag *flag, const char *title, const char *text,
                             void *at)
{
    uint64_t x;

    GWT_TRY(gwt_parse_count(title, text, count_of(flag->min), count_of(flag->max), &x));
    int small = (int)x;
    if (flag->kind == GWC_INT)
        memcpy(at, &small, sizeof small);
    else
        memcpy(at, &x, sizeof x);
    return GW_OK;
}

static gw_status store_range(const gwc_flag *flag, const char *title, const char *text,
                             void *at)
{
    const char *colon = strchr(text, ':');
    uint64_t least = 0, most;
    char first[32];

    if (text[strspn(text, "0123456789:")] != '\0')
        return gw_fail(GW_ERR_ARG,
                       "%s: '%s' is neither a whole number nor MIN:MAX, such as 2:8, "
                       "for workers that --join brings together",
                       title, text);
    if (colon != NULL) {
        snprintf(first, sizeof first, "%.*s", (int)(colon - text), text);
        GWT_TRY(gwt_parse_count(title, first, count_of(flag->min), count_of(flag->max),
                                &least));
        text = colon + 1;
    }
    GWT_TRY(
        gwt_parse_count(title, text, count_of(flag->min), count_of(flag->max), &most));
    if (least > most)
        return gw_fail(GW_ERR_ARG, "%s: MIN:MAX has MIN above MAX", title);
    int pair[2] = {(int)most, (int)least};
    memcpy(at, pair, sizeof pair);
    return GW_OK;
}

static gw_status store_real(const gwc_flag *flag, const char *title, const char *text,
                            void *at)
{
    double x;

    GWT_TRY(gwt_parse_real(title, text, flag->min, flag->max, &x));
    memcpy(at, &x, sizeof x);
    return GW_OK;
}

/* Converts a value from text and stores it in the settings. */
static gw_status store(const gwc_flag *flag, const char *text, void *settings)
{
    char title[TITLE_CAP];
    void *at = (char *)settings + flag->offset;
    int on = 1;

    snprintf(title, sizeof title, "--%s", flag->name);
    switch (flag->kind) {
    case GWC_TEXT:
        memcpy(at, &text, sizeof text);
        return GW_OK;
    case GWC_COUNT:
    case GWC_INT:
        return store_count(flag, title, text, at);
    case GWC_RANGE:
        return store_range(flag, title, text, at);
    case GWC_REAL:
        return store_real(flag, title, text, at);
    case GWC_CHOICE:
        return store_choice(flag, text, at);
    case GWC_SWITCH:
        memcpy(at, &on, sizeof on);
        return GW_OK;
    }
    return GW_OK;
}

static gw_status unknown(const gwc_flag *flags, size_t count, const char *command,
                         const char *name)
{
    const char *names[NAMES_MAX];
    size_t n = 0;

    for (size_t i = 0; i < count && n < NAMES_MAX; i++)
        if (flags[i].name != NULL)
            names[n++] = flags[i].name;
    const char *near = gwt_nearest(name, names, n);
    if (near != NULL)
        return gw_fail(GW_ERR_ARG, "unknown flag --%s; did you mean --%s?", name, near);
    return gw_fail(GW_ERR_ARG,
                   "unknown flag --%s; 'gradwire %s --help' lists the flags", name,
                   command);
}

static const gwc_flag *find(const gwc_flag *flags, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (flags[i].name != NULL && strcmp(flags[i].name, name) == 0)
            return &flags[i];
    return NULL;
}

/* The flag that an argument "--name" names; NULL if it is something else. */
static const gwc_flag *named_by(const gwc_flag *flags, size_t count, const char *arg)
{
    return strncmp(arg, "--", 2) == 0 ? find(flags, count, arg + 2) : NULL;
}

/* Whether the argument is a flag whose value is the next argument. */
static int takes_next(const gwc_flag *flags, size_t count, const char *arg)
{
    const gwc_flag *flag = named_by(flags, count, arg);

    return flag != NULL && flag->kind != GWC_SWITCH;
}

/* Reads the flag at argv[*at], and its value if that is the next argument. */
static gw_status read_one(const gwc_flag *flags, size_t count, const char *command,
                          int argc, char **argv, int *at, void *settings)
{
    char name[TITLE_CAP];
    const char *word = argv[*at] + 2, *value = strchr(word, '=');

    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    const gwc_flag *flag = find(flags, count, name);
    if (flag == NULL)
        return unknown(flags, count, command, name);
    if (flag->kind == GWC_SWITCH) {
        if (value != NULL)
            return gw_fail(GW_ERR_ARG, "--%s takes no value", name);
        return store(flag, "", settings);
    }
    if (value != NULL)
        return store(flag, value + 1, settings);
    if (*at + 1 >= argc)
        return gw_fail(GW_ERR_ARG, "--%s needs a value: --%s %s", name, name,
                       flag->arg);
    if (named_by(flags, count, argv[*at + 1]) != NULL)
        return gw_fail(GW_ERR_ARG,
                       "--%s needs a value: --%s %s; the flag %s follows it", name,
                       name, flag->arg, argv[*at + 1]);
    *at += 1;
    return store(flag, argv[*at], settings);
}

/* Reports an argument that is not a flag. If it follows a switch, it was probably meant
 * as the switch's value. */
static gw_status unexpected(const gwc_flag *flags, size_t count, const char *command,
                            const char *word, const char *before)
{
    const gwc_flag *flag = named_by(flags, count, before);

    if (flag != NULL && flag->kind == GWC_SWITCH && word[0] != '-')
        return gw_fail(GW_ERR_ARG, "--%s takes no value, but '%s' follows it",
                       flag->name, word);
    return gw_fail(GW_ERR_ARG, "unexpected argument '%s'; see 'gradwire %s --help'",
                   word, command);
}

gw_status gwc_flags_read(const gwc_flag *flags, size_t count, const char *command,
                         int argc, char **argv, void *settings, int *help)
{
    *help = 0;
    for (size_t i = 0; i < count; i++)
        if (flags[i].preset != NULL)
            GWT_TRY(store(&flags[i], flags[i].preset, settings));
    for (int at = 0; at < argc; at++) {
        if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
            *help = 1;
            return GW_OK;
        }
        if (strncmp(argv[at], "--", 2) != 0 || argv[at][2] == '\0')
            return unexpected(flags, count, command, argv[at],
                              at > 0 ? argv[at - 1] : "");
        GWT_TRY(read_one(flags, count, command, argc, argv, &at, settings));
    }
    return GW_OK;
}

int gwc_flags_given(const gwc_flag *flags, size_t count, int argc, char **argv,
                    const char *name)
{
    for (int at = 0; at < argc; at++) {
        const char *word = argv[at] + 2;
        size_t len = strcspn(word, "=");
        if (len == strlen(name) && strncmp(word, name, len) == 0)
            return 1;
        if (takes_next(flags, count, argv[at]))
            at++;
    }
    return 0;
}

static int is_in(const char *const *list, const char *name)
{
    while (*list != NULL && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

gw_status gwc_flags_fill(const gwc_flag *flags, size_t count, int argc, char **argv,
                         char *text, const char *const *except, void *settings)
{
    for (char *line = text, *next; *line != '\0'; line = next) {
        size_t len = strcspn(line, "\n");
        next = line + len + (line[len] != '\0');
        line[len] = '\0';
        char *value = strchr(line, ' ');
        if (value == NULL)
            continue;
        *value++ = '\0';
        const gwc_flag *flag = named_by(flags, count, line);
        if (flag != NULL && flag->kind != GWC_SWITCH && !is_in(except, flag->name) &&
            !gwc_flags_given(flags, count, argc, argv, flag->name))
            GWT_TRY(store(flag, value, settings));
    }
    return GW_OK;
}

static size_t next_line(FILE *to)
{
    return (size_t)fprintf(to, "\n  %-*s", NAME_COLUMN, "") - 1;
}

/* Prints "[preset]" after a line of `at` characters, or below it if it does not fit;
 * breaks it between words if it is longer than a line. */
static void print_preset(const char *preset, size_t at, FILE *to)
{
    const char *before = " [";

    if (at + strlen(preset) + 3 > WIDTH) {
        at = next_line(to);
        before = "[";
    }
    while (*preset != '\0') {
        size_t len = strcspn(preset, " ");
        if (at + 1 + len + 1 > WIDTH) {
            at = next_line(to);
            before = "";
        }
        at += (size_t)fprintf(to, "%s%.*s", before, (int)len, preset);
        preset += len + strspn(preset + len, " ");
        before = " ";
    }
    putc(']', to);
}

static void print_flag(const gwc_flag *flag, FILE *to)
{
    char left[128];
    const char *line = flag->help;

    snprintf(left, sizeof left, "--%s%s%s", flag->name, flag->arg != NULL ? " " : "",
             flag->arg != NULL ? flag->arg : "");
    if (strlen(left) >= NAME_COLUMN)
        fprintf(to, "  %s\n  %-*s", left, NAME_COLUMN, "");
    else
        fprintf(to, "  %-*s", NAME_COLUMN, left);
    for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        fprintf(to, "%.*s\n  %-*s", (int)(end - line), line, NAME_COLUMN, "");
    fputs(line, to);
    if (flag->preset != NULL)
        print_preset(flag->preset, 2 + NAME_COLUMN + strlen(line), to);
    putc('\n', to);
}

void gwc_flags_help(const gwc_flag *flags, size_t count, FILE *to)
{
    char *text = NULL;
    size_t len;
    FILE *stream = open_memstream(&text, &len);

    if (stream == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        if (flags[i].name == NULL)
            fprintf(stream, "\n%s\n", flags[i].help);
        else
            print_flag(&flags[i], stream);
    fprintf(stream, "  %-*s%s\n", NAME_COLUMN, "--help", "show this help");
    if (fclose(stream) == 0)
        gwc_print_wrapped(to, text, 2 + NAME_COLUMN);
    free(text);
}

size_t gwc_flags_part(const gwc_flag *flags, size_t count, int argc, char **argv,
                      char **names, char **rest, int *left)
{
    size_t found = 0;

    *left = 0;
    for (int i = 0; i < argc; i++) {
        if (argv[i][0] != '-') {
            names[found++] = argv[i];
            continue;
        }
        rest[(*left)++] = argv[i];
        if (takes_next(flags, count, argv[i]) && i + 1 < argc)
            rest[(*left)++] = argv[++i];
    }
    return found;
}
