/* SPDX-License-Identifier: Apache-2.0
 *
 * complete_fish.c - completion for fish. */
#include "help/help_pages.h"

/* As a word in single quotes. */
static void put_text(FILE *to, const char *text)
{
    putc('\'', to);
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\')
            putc('\\', to);
        putc(*text, to);
    }
    putc('\'', to);
}

static void put_start(FILE *to, const gwc_command *command)
{
    fprintf(to, "complete -c gradwire -n '__gradwire_command %s'", command->name);
}

static void put_value(FILE *to, const gwc_command *command, const gwc_flag *flag)
{
    char text[GWC_WORD_CAP];

    switch (gwc_value_of(command, flag)) {
    case GWC_VALUE_NOTHING:
        break;
    case GWC_VALUE_WORDS:
        fputs(" -x -a '", to);
        for (size_t i = 0; gwc_value_word(command, flag, i, text) != NULL; i++)
            fprintf(to, "%s%s", i > 0 ? " " : "", text);
        putc('\'', to);
        break;
    case GWC_VALUE_FILE:
        fputs(" -r -F", to);
        break;
    case GWC_VALUE_DIR:
        fputs(" -x -a '(__fish_complete_directories)'", to);
        break;
    case GWC_VALUE_OTHER:
        fputs(" -x", to);
        break;
    }
}

static void put_flag(FILE *to, const gwc_command *command, const gwc_flag *flag)
{
    char brief[GWC_BRIEF_CAP];

    put_start(to, command);
    fprintf(to, " -l %s", flag->name);
    put_value(to, command, flag);
    fputs(" -d ", to);
    put_text(to, gwc_flag_brief(flag, brief));
    putc('\n', to);
}

static void put_arguments(FILE *to, const gwc_command *command)
{
    const char *word;

    for (size_t i = 0; (word = command->word(i)) != NULL; i++) {
        put_start(to, command);
        fprintf(to, " -a %s\n", word);
    }
    if (command->word(0) == NULL) {
        put_start(to, command);
        fputs(" -F\n", to);
    }
}

static void put_command(FILE *to, const gwc_command *command)
{
    const gwc_flag *flag;

    putc('\n', to);
    fprintf(to, "complete -c gradwire -n __gradwire_no_command -a %s -d ",
            command->name);
    put_text(to, command->summary);
    putc('\n', to);
    for (size_t i = 0; (flag = gwc_flag_next(command, &i)) != NULL;)
        put_flag(to, command, flag);
    if (command->word != NULL)
        put_arguments(to, command);
}

void gwc_complete_fish(FILE *to)
{
    const gwc_command *command;

    fputs("# Completion of gradwire for fish; 'gradwire help --completion fish' makes "
          "it.\n"
          "\n"
          "function __gradwire_command\n"
          "    set -l words (commandline -opc)\n"
          "    test (count $words) -ge 2; and test $words[2] = $argv[1]\n"
          "end\n"
          "\n"
          "function __gradwire_no_command\n"
          "    test (count (commandline -opc)) -eq 1\n"
          "end\n"
          "\n"
          "complete -c gradwire -f\n"
          "complete -c gradwire -s h -l help -d 'show what it does'\n"
          "complete -c gradwire -n __gradwire_no_command -s V -l version -d 'show the "
          "version'\n",
          to);
    for (size_t i = 0; (command = gwc_command_at(i)) != NULL; i++)
        put_command(to, command);
}
