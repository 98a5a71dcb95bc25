/* SPDX-License-Identifier: Apache-2.0
 *
 * complete_zsh.c - completion for zsh, as a file of its function path. */
#include "help/help_pages.h"

#include <string.h>

/* Within single quotes, and where ':', '[' and ']' mean something. */
static void put_text(FILE *to, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr(":[]\\", *text) != NULL)
            putc('\\', to);
        if (*text == '\'')
            fputs("'\\''", to);
        else
            putc(*text, to);
    }
}

static void put_words(FILE *to, const gwc_command *command, const gwc_flag *flag)
{
    char text[GWC_WORD_CAP];

    putc('(', to);
    for (size_t i = 0; gwc_value_word(command, flag, i, text) != NULL; i++) {
        fputs(i > 0 ? " " : "", to);
        put_text(to, text);
    }
    putc(')', to);
}

/* '--data=[the data set]:NAME:(mnist cifar10)' */
static void put_flag(FILE *to, const gwc_command *command, const gwc_flag *flag)
{
    gwc_value value = gwc_value_of(command, flag);
    char brief[GWC_BRIEF_CAP];

    fprintf(to, " \\\n            '--%s%s[", flag->name,
            value == GWC_VALUE_NOTHING ? "" : "=");
    put_text(to, gwc_flag_brief(flag, brief));
    putc(']', to);
    if (value != GWC_VALUE_NOTHING) {
        putc(':', to);
        put_text(to, flag->arg);
        putc(':', to);
    }
    if (value == GWC_VALUE_WORDS)
        put_words(to, command, flag);
    else if (value == GWC_VALUE_FILE)
        fputs("_files", to);
    else if (value == GWC_VALUE_DIR)
        fputs("_files -/", to);
    else if (value == GWC_VALUE_OTHER)
        putc(' ', to);
    putc('\'', to);
}

static void put_arguments(FILE *to, const gwc_command *command)
{
    const char *word = command->word(0);

    if (word == NULL) {
        fputs(" \\\n            '*:file:_files'", to);
        return;
    }
    fputs(" \\\n            '*:name:(", to);
    for (size_t i = 0; (word = command->word(i)) != NULL; i++) {
        fputs(i > 0 ? " " : "", to);
        put_text(to, word);
    }
    fputs(")'", to);
}

static void put_command(FILE *to, const gwc_command *command)
{
    const gwc_flag *flag;

    fprintf(to, "    %s)\n        _arguments", command->name);
    for (size_t i = 0; (flag = gwc_flag_next(command, &i)) != NULL;)
        put_flag(to, command, flag);
    fputs(" \\\n            '(- *)'{--help,-h}'[show what it does]'", to);
    if (command->word != NULL)
        put_arguments(to, command);
    fputs("\n        ;;\n", to);
}

void gwc_complete_zsh(FILE *to)
{
    const gwc_command *command;

    fputs(
        "#compdef gradwire\n"
        "# Completion of gradwire for zsh; 'gradwire help --completion zsh' makes it.\n"
        "\n"
        "_gradwire() {\n"
        "    local -a commands=(\n",
        to);
    for (size_t i = 0; (command = gwc_command_at(i)) != NULL; i++) {
        fprintf(to, "        '%s:", command->name);
        put_text(to, command->summary);
        fputs("'\n", to);
    }
    fputs(
        "    )\n"
        "    if ((CURRENT == 2)); then\n"
        "        _describe command commands\n"
        "        _arguments '--help[list the commands]' '--version[show the version]'\n"
        "        return\n"
        "    fi\n"
        "    shift words\n"
        "    ((CURRENT--))\n"
        "    case $words[1] in\n",
        to);
    for (size_t i = 0; (command = gwc_command_at(i)) != NULL; i++)
        put_command(to, command);
    fputs("    esac\n"
          "}\n"
          "\n"
          "# It is read as a function the first time, or sourced.\n"
          "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
          "    _gradwire \"$@\"\n"
          "else\n"
          "    compdef _gradwire gradwire\n"
          "fi\n",
          to);
}
