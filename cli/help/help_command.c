/* SPDX-License-Identifier: Apache-2.0
 *
 * help_command.c - "gradwire help" with flags: manual pages and shell completion, to
 * standard output or, as the build does it, all of them into a folder. */
#define _GNU_SOURCE
#include "help/help_pages.h"
#include "common.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

enum { COMMANDS_MAX = 64 };

typedef struct settings {
    const char *man, *generate;
    int completion;
} settings;

#define AT(field) offsetof(settings, field)

/* The shells must be in the order of `shells`. */
static const gwc_flag flags[] = {
    {"man", "PAGE", NULL,
     "print the manual page of a command, or of\n'gradwire' itself", GWC_TEXT, AT(man),
     0, 0},
    {"completion", "bash|zsh|fish", NULL, "print the completion for a shell",
     GWC_CHOICE, AT(completion), 0, 0},
    {"generate", "DIR", NULL,
     "write all of these into a folder, each where it\nbelongs below PREFIX/share",
     GWC_TEXT, AT(generate), 0, 0},
};

static const struct shell {
    void (*put)(FILE *to);
    const char *path; /* below PREFIX/share */
} shells[] = {
    {gwc_complete_bash, "bash-completion/completions/gradwire"},
    {gwc_complete_zsh, "zsh/site-functions/_gradwire"},
    {gwc_complete_fish, "fish/vendor_completions.d/gradwire.fish"},
};

static void print_help(void)
{
    puts(
        "Usage: gradwire help [COMMAND|SYNC|FLAGS]\n"
        "\n"
        "Alone it lists the commands. With the name of a command it explains that\n"
        "command. With the name of a sync, or a spec, it says what that sends, keeps\n"
        "and can be told. With a flag it prints a manual page or the completion for a\n"
        "shell; both are made from the same tables as this help.\n"
        "\n"
        "Flags");
    gwc_flags_help(flags, COUNT(flags), stdout);
    puts("\n"
         "Examples\n"
         "  gradwire help train\n"
         "  gradwire help gtopk:0.01+q:4\n"
         "  gradwire help --man train | man -l -\n"
         "  source <(gradwire help --completion bash)");
}

/* ---- a folder of all pages --------------------------------------------------- */

/* Makes the folders above a file. */
static gw_status make_folders(char *path)
{
    for (char *at = path + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        int failed = mkdir(path, 0777) != 0 && errno != EEXIST;
        if (failed)
            return gw_fail(GW_ERR_SYSTEM, "cannot make the directory %s: %s", path,
                           strerror(errno));
        *at = '/';
    }
    return GW_OK;
}

static gw_status create(const char *folder, const char *name, FILE **out)
{
    char path[GWT_PATH_CAP];

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return gw_fail(GW_ERR_ARG, "the path %s/%s is too long", folder, name);
    GWT_TRY(make_folders(path));
    *out = fopen(path, "w");
    return *out != NULL
               ? GW_OK
               : gw_fail(GW_ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
}

static gw_status finish(FILE *file, const char *name)
{
    int bad = ferror(file);

    if (fclose(file) != 0 || bad)
        return gw_fail(GW_ERR_SYSTEM, "cannot write all of %s", name);
    return GW_OK;
}

static gw_status write_page(const char *folder, const gwc_command *command)
{
    char name[64];
    FILE *file;

    snprintf(name, sizeof name, "man/man1/gradwire%s%s.1", command != NULL ? "-" : "",
             command != NULL ? command->name : "");
    GWT_TRY(create(folder, name, &file));
    gw_status st = gwc_man_page(command, file), closed = finish(file, name);
    return st != GW_OK ? st : closed;
}

static gw_status generate(const char *folder)
{
    const gwc_command *command;
    FILE *file;

    GWT_TRY(write_page(folder, NULL));
    for (size_t i = 0; (command = gwc_command_at(i)) != NULL; i++)
        GWT_TRY(write_page(folder, command));
    for (size_t i = 0; i < COUNT(shells); i++) {
        GWT_TRY(create(folder, shells[i].path, &file));
        shells[i].put(file);
        GWT_TRY(finish(file, shells[i].path));
    }
    return GW_OK;
}

/* ---- the command ------------------------------------------------------------- */

static gw_status print_page(const char *name)
{
    const gwc_command *command = gwc_command_find(name);
    const char *names[COMMANDS_MAX] = {"gradwire"};
    size_t count = 1;

    if (command != NULL || strcmp(name, names[0]) == 0)
        return gwc_man_page(command, stdout);
    for (size_t i = 0; count < COMMANDS_MAX; i++, count++) {
        if ((command = gwc_command_at(i)) == NULL)
            break;
        names[count] = command->name;
    }
    return gwt_fail_name("page", name, names, count, NULL);
}

static int run_help(int argc, char **argv)
{
    enum { NOT_GIVEN = -1 };
    settings set = {.completion = NOT_GIVEN};
    int help;
    gw_status st = gwc_flags_read(flags, COUNT(flags), "help", argc, argv, &set, &help);

    if (st == GW_OK && help)
        print_help();
    else if (st == GW_OK && set.generate != NULL)
        st = generate(set.generate);
    else if (st == GW_OK && set.man != NULL)
        st = print_page(set.man);
    else if (st == GW_OK)
        shells[set.completion].put(stdout);
    return gwc_exit_code(st);
}

/* Commands, and then methods. */
static const char *word(size_t i)
{
    size_t commands = 0;

    while (gwc_command_at(commands) != NULL)
        commands++;
    return i < commands ? gwc_command_at(i)->name : gw_recipe_name(i - commands);
}

const gwc_command gwc_command_help = {
    .name = "help",
    .summary = "explain a command or a spec; print manual pages and completion",
    .run = run_help,
    .flags = flags,
    .flag_count = COUNT(flags),
    .word = word,
};
