/* SPDX-License-Identifier: Apache-2.0
 *
 * help_text.c - what a command prints for --help, as text. Commands write it to
 * standard output, which is a file for as long as that takes. */
#define _GNU_SOURCE
#include "help/help_pages.h"
#include "common.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void print(const gwc_command *command)
{
    char flag[] = "--help", *arg[] = {flag};

    if (command == NULL)
        gwc_print_help();
    else
        (void)command->run(1, arg);
}

/* Prints into the file in place of standard output. */
static gw_status print_to(FILE *file, const gwc_command *command)
{
    int saved;

    fflush(stdout);
    saved = dup(STDOUT_FILENO);
    if (saved < 0 || dup2(fileno(file), STDOUT_FILENO) < 0) {
        if (saved >= 0)
            close(saved);
        return gw_fail(GW_ERR_SYSTEM, "cannot turn standard output to a file: %s",
                       strerror(errno));
    }
    print(command);
    fflush(stdout);
    int back = dup2(saved, STDOUT_FILENO);
    close(saved);
    return back < 0 ? gw_fail(GW_ERR_SYSTEM, "cannot turn standard output back: %s",
                              strerror(errno))
                    : GW_OK;
}

/* All that is in the file, as text. */
static gw_status read_back(FILE *file, char **out)
{
    long len = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;

    if (len < 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot read a temporary file: %s",
                       strerror(errno));
    rewind(file);
    *out = gwt_calloc((size_t)len + 1, 1, "a help text");
    if (*out == NULL)
        return GW_ERR_NOMEM;
    if (fread(*out, 1, (size_t)len, file) == (size_t)len)
        return GW_OK;
    gwt_free(*out);
    *out = NULL;
    return gw_fail(GW_ERR_SYSTEM, "cannot read a temporary file");
}

static gw_status with_file(FILE *file, const gwc_command *command, char **out)
{
    GWT_TRY(print_to(file, command));
    return read_back(file, out);
}

static gw_status capture(const gwc_command *command, char **out)
{
    FILE *file = tmpfile();
    gw_status st;

    if (file == NULL)
        return gw_fail(GW_ERR_SYSTEM, "cannot make a temporary file: %s",
                       strerror(errno));
    st = with_file(file, command, out);
    fclose(file);
    return st;
}

/* The table of flags, as --help has it. */
static gw_status table_of(const gwc_command *command, char **out)
{
    FILE *file = tmpfile();
    gw_status st;

    if (file == NULL)
        return gw_fail(GW_ERR_SYSTEM, "cannot make a temporary file: %s",
                       strerror(errno));
    gwc_flags_help(command->flags, command->flag_count, file);
    st = read_back(file, out);
    fclose(file);
    return st;
}

/* Ends the text where the table begins, and sets *after to what follows it. */
static gw_status part(const gwc_command *command, char *text, char **after)
{
    char *table, *at;

    *after = text + strlen(text);
    if (command == NULL || command->flags == NULL)
        return GW_OK;
    GWT_TRY(table_of(command, &table));
    at = strstr(text, table);
    if (at != NULL) {
        *after = at + strlen(table);
        *at = '\0';
    }
    gwt_free(table);
    return at != NULL ? GW_OK
                      : gw_fail(GW_ERR_SYSTEM, "'gradwire %s --help' lacks its flags",
                                command->name);
}

gw_status gwc_help_text_get(gwc_help_text *out, const gwc_command *command)
{
    gw_status st;

    *out = (gwc_help_text){0};
    GWT_TRY(capture(command, &out->before));
    st = part(command, out->before, &out->after);
    if (st != GW_OK)
        gwc_help_text_free(out);
    return st;
}

void gwc_help_text_free(gwc_help_text *help)
{
    gwt_free(help->before);
    *help = (gwc_help_text){0};
}
