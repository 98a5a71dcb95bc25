/* SPDX-License-Identifier: Apache-2.0
 *
 * man_page.c - manual pages. Flags come from their table; what stands around it in
 * --help becomes sections:
 *
 *     Usage: gradwire plan [FLAGS]       SYNOPSIS
 *
 *     Predicts the time of a step ...    DESCRIPTION
 *
 *     Examples                           a line before lines that are indented is a
 * heading, gradwire plan --link 100mbit     and these are shown as they are */
#define _GNU_SOURCE
#include "help/help_pages.h"
#include "common.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- words that troff would change ----------------------------------------- */

static const char *escape_of(char c)
{
    switch (c) {
    case '\\':
        return "\\(rs";
    case '\'':
        return "\\(aq";
    case '`':
        return "\\(ga";
    case '^':
        return "\\(ha";
    case '~':
        return "\\(ti";
    default:
        return NULL;
    }
}

/* Writes text so that it can be copied from the page. In prose the dash of a word such
 * as "warm-up" stays a hyphen; in words that begin with a dash, and in code, none does.
 */
static void put(FILE *to, const char *text, size_t len, int code)
{
    int flag = code;

    if (len > 0 && text[0] == '.')
        fputs("\\&", to);
    for (size_t i = 0; i < len; i++) {
        const char *escape = escape_of(text[i]);
        if (i == 0 || strchr(" ('[", text[i - 1]) != NULL)
            flag = code || text[i] == '-';
        if (escape != NULL)
            fputs(escape, to);
        else if (text[i] == '-' && flag)
            fputs("\\-", to);
        else
            putc(text[i], to);
    }
}

static void put_text(FILE *to, const char *text)
{
    put(to, text, strlen(text), 0);
}

static void put_code(FILE *to, const char *text)
{
    put(to, text, strlen(text), 1);
}

/* ---- what --help says in words --------------------------------------------- */

typedef struct writer {
    FILE *to;
    int shown_as_is; /* within .nf and .fi */
    int apart;       /* a blank line was read */
} writer;

/* A heading without what stands in brackets behind it, in capitals. */
static void put_heading(FILE *to, const char *line, size_t len)
{
    fputs(".SH ", to);
    for (size_t i = 0; i < len && strncmp(line + i, " (", 2) != 0; i++)
        putc(toupper((unsigned char)line[i]), to);
    putc('\n', to);
}

static void show_as_is(writer *w, int on)
{
    if (w->shown_as_is != on)
        fputs(on ? ".nf\n.RS 4\n" : ".RE\n.fi\n", w->to);
    w->shown_as_is = on;
}

static void put_line(writer *w, const char *line, size_t len, int heading)
{
    int indented = line[0] == ' ';

    if (indented && w->shown_as_is && w->apart)
        fputs(".sp\n", w->to);
    show_as_is(w, indented);
    if (heading && !indented) {
        put_heading(w->to, line, len);
    } else {
        if (!indented && w->apart)
            fputs(".PP\n", w->to);
        /* What is indented is so by two columns or more. */
        put(w->to, line + 2 * indented, len - 2 * (size_t)indented, indented);
        putc('\n', w->to);
    }
    w->apart = 0;
}

static void put_lines(FILE *to, const char *text)
{
    writer w = {.to = to};

    while (*text != '\0') {
        size_t len = strcspn(text, "\n");
        const char *next = text + len + (text[len] != '\0');
        if (len > 2)
            put_line(&w, text, len, *next == ' ');
        else
            w.apart = 1;
        text = next;
    }
    show_as_is(&w, 0);
}

/* "Usage: gradwire data list [FLAGS]", of which there may be several. Returns what
 * follows. */
static const char *put_synopsis(FILE *to, const char *text)
{
    const char *label = "Usage: ";

    fputs(".SH SYNOPSIS\n", to);
    for (int first = 1; *text != '\n' && *text != '\0'; first = 0) {
        size_t len = strcspn(text, "\n"), skip = strlen(label), bold;
        if (len < skip)
            break;
        bold = skip + strcspn(text + skip, " ");
        bold += 1 + strcspn(text + bold + (bold < len), " \n");
        bold = bold < len ? bold : len;
        fputs(first ? "\\fB" : ".br\n\\fB", to);
        put(to, text + skip, bold - skip, 1);
        fputs("\\fR", to);
        put(to, text + bold, len - bold, 1);
        putc('\n', to);
        text += len + (text[len] != '\0');
    }
    return text + strspn(text, "\n");
}

/* Ends the text before its last line, if that is a heading over the table of flags. */
static void cut_heading(char *text)
{
    char *end = text + strlen(text);

    while (end > text && end[-1] == '\n')
        *--end = '\0';
    char *line = strrchr(text, '\n');
    if (line != NULL && line > text && line[-1] == '\n' && line[1] != ' ' &&
        end[-1] != '.' && strchr(line + 1, ' ') == NULL)
        *line = '\0';
}

/* ---- sections that are made ------------------------------------------------- */

static void put_title(FILE *to, const char *name)
{
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    time_t at = epoch != NULL ? (time_t)strtoll(epoch, NULL, 10) : 0;
    char date[32] = "\"\"";
    struct tm tm;

    if (epoch != NULL && gmtime_r(&at, &tm) != NULL)
        strftime(date, sizeof date, "%Y-%m-%d", &tm);
    fputs(".TH GRADWIRE", to);
    if (name[0] != '\0')
        fputs("\\-", to);
    for (; *name != '\0'; name++)
        putc(toupper((unsigned char)*name), to);
    fprintf(to, " 1 %s \"gradwire %s\" \"User Commands\"\n", date, gw_version());
}

static void put_flag(FILE *to, const gwc_flag *flag)
{
    fputs(".TP\n\\fB\\-\\-", to);
    put_code(to, flag->name);
    fputs("\\fR", to);
    if (flag->arg != NULL) {
        fputs(" \\fI", to);
        put_code(to, flag->arg);
        fputs("\\fR", to);
    }
    putc('\n', to);
    for (const char *line = flag->help; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        put(to, line, len, 0);
        line += len;
        if (*line != '\0') {
            putc('\n', to);
            line++;
        }
    }
    if (flag->preset != NULL) {
        fputs(" [", to);
        put_code(to, flag->preset);
        putc(']', to);
    }
    putc('\n', to);
}

static void put_flags(FILE *to, const gwc_command *command)
{
    fputs(".SH OPTIONS\n", to);
    for (size_t i = 0; i < command->flag_count; i++) {
        const gwc_flag *flag = &command->flags[i];
        if (flag->name != NULL) {
            put_flag(to, flag);
        } else {
            fputs(".SS ", to);
            put_text(to, flag->help);
            putc('\n', to);
        }
    }
    fputs(".TP\n\\fB\\-\\-help\\fR, \\fB\\-h\\fR\nShow a summary of this page.\n", to);
}

static void put_exit_status(FILE *to)
{
    fprintf(to,
            ".SH EXIT STATUS\n"
            ".TP\n.B %d\nThe command is done.\n"
            ".TP\n.B %d\nIt failed.\n"
            ".TP\n.B %d\nIt was used wrongly, and has done nothing.\n"
            ".TP\n.B %d\nIt was stopped by Ctrl\\-C.\n",
            GWC_DONE, GWC_FAILED, GWC_USAGE, GWC_STOPPED);
}

/* All other pages. */
static void put_see_also(FILE *to, const gwc_command *self)
{
    const gwc_command *command;

    fputs(".SH SEE ALSO\n", to);
    if (self != NULL)
        fputs(".BR gradwire (1)", to);
    for (size_t i = 0; (command = gwc_command_at(i)) != NULL; i++)
        if (command != self)
            fprintf(to, "%s.BR gradwire\\-%s (1)", i > 0 || self != NULL ? ",\n" : "",
                    command->name);
    putc('\n', to);
}

static void put_commands(FILE *to)
{
    const gwc_command *command;

    fputs(".SH COMMANDS\n", to);
    for (size_t i = 0; (command = gwc_command_at(i)) != NULL; i++) {
        fprintf(to, ".TP\n.BR gradwire\\-%s (1)\n", command->name);
        put_text(to, command->summary);
        putc('\n', to);
    }
}

static void put_environment(FILE *to)
{
    fputs(".SH ENVIRONMENT\n"
          ".TP\n.B GRADWIRE_DATA\n"
          "The directory in which data sets are kept and looked for.\n"
          ".TP\n.B GW_THREADS\n"
          "How many threads the library may use in a worker.\n"
          ".TP\n.B GW_CPU_OFF\n"
          "Vector units that are not used, such as avx512,avx2.\n"
          ".PP\n"
          "The command uses no colours, and shows progress on terminals only.\n",
          to);
}

/* ---- pages ------------------------------------------------------------------ */

static void put_command_page(FILE *to, const gwc_command *command, gwc_help_text *help)
{
    put_title(to, command->name);
    fprintf(to, ".SH NAME\ngradwire\\-%s \\- ", command->name);
    put_text(to, command->summary);
    putc('\n', to);
    if (command->flags != NULL)
        cut_heading(help->before);
    const char *rest = put_synopsis(to, help->before);
    fputs(".SH DESCRIPTION\n", to);
    put_lines(to, rest);
    if (command->flags != NULL)
        put_flags(to, command);
    put_lines(to, help->after);
    put_exit_status(to);
    put_see_also(to, command);
}

/* The examples of "gradwire help", without what follows them. */
static const char *examples_of(gwc_help_text *help)
{
    char *at = strstr(help->before, "\nExamples\n"),
         *end = at != NULL ? strstr(at + 1, "\n\n") : NULL;

    if (end != NULL)
        end[1] = '\0';
    return at != NULL ? at + 1 : "";
}

static void put_main_page(FILE *to, gwc_help_text *help)
{
    put_title(to, "");
    fputs(
        ".SH NAME\n"
        "gradwire \\- data\\-parallel SGD that is cheap on slow links\n"
        ".SH SYNOPSIS\n"
        "\\fBgradwire\\fR COMMAND [FLAGS]\n"
        ".br\n"
        "\\fBgradwire \\-\\-version\\fR | \\fB\\-V\\fR\n"
        ".SH DESCRIPTION\n"
        "Several workers train one model. A line of text, the spec, chooses what they\n"
        "send each other and how often. The commands train, compare methods, predict\n"
        "what a method costs on a network, and show runs as a page.\n",
        to);
    put_commands(to);
    put_environment(to);
    put_lines(to, examples_of(help));
    put_exit_status(to);
    put_see_also(to, NULL);
}

gw_status gwc_man_page(const gwc_command *command, FILE *to)
{
    gwc_help_text help;

    GWT_TRY(gwc_help_text_get(&help, command));
    if (command != NULL)
        put_command_page(to, command, &help);
    else
        put_main_page(to, &help);
    gwc_help_text_free(&help);
    return GW_OK;
}
