/* SPDX-License-Identifier: Apache-2.0
 *
 * complete_bash.c - completion for bash 4 and later. The script needs nothing else,
 * also not the package bash-completion. */
#include "help/help_pages.h"

#include <string.h>

/* Names hold no quotes; tests/command/test_completion.py would see one. */
static void put_words(FILE *to, const gwc_command *command, const gwc_flag *flag)
{
    char text[GWC_WORD_CAP];

    fputs("words='", to);
    for (size_t i = 0; gwc_value_word(command, flag, i, text) != NULL; i++)
        fprintf(to, "%s%s", i > 0 ? " " : "", text);
    fputs("'", to);
}

/* One line for each flag that has a value. */
static void put_values(FILE *to, const gwc_command *command)
{
    const gwc_flag *flag;

    for (size_t i = 0; (flag = gwc_flag_next(command, &i)) != NULL;) {
        gwc_value value = gwc_value_of(command, flag);
        if (value == GWC_VALUE_NOTHING)
            continue;
        fprintf(to, "    '%s --%s') ", command->name, flag->name);
        if (value == GWC_VALUE_WORDS)
            put_words(to, command, flag);
        else
            fprintf(to, "kind=%s",
                    value == GWC_VALUE_FILE  ? "file"
                    : value == GWC_VALUE_DIR ? "dir"
                                             : "other");
        fputs(" ;;\n", to);
    }
}

static void put_flags(FILE *to, const gwc_command *command)
{
    const gwc_flag *flag;

    fprintf(to, "    %s) flags='", command->name);
    for (size_t i = 0; (flag = gwc_flag_next(command, &i)) != NULL;)
        fprintf(to, "--%s ", flag->name);
    fputs("--help' ;;\n", to);
}

static void put_arguments(FILE *to, const gwc_command *command)
{
    const char *word;

    if (command->word == NULL)
        return;
    fprintf(to, "    %s) kind=file words='", command->name);
    for (size_t i = 0; (word = command->word(i)) != NULL; i++)
        fprintf(to, "%s%s", i > 0 ? " " : "", word);
    fputs("' ;;\n", to);
}

static void put_cases(FILE *to, const char *title, const char *on,
                      void (*put)(FILE *to, const gwc_command *command))
{
    const gwc_command *command;

    fprintf(to, "\n# %s\n_gradwire_%s() {\n    case $1 in\n", title, on);
    for (size_t i = 0; (command = gwc_command_at(i)) != NULL; i++)
        put(to, command);
    fputs("    esac\n}\n", to);
}

static void put_names(FILE *to)
{
    const gwc_command *command;

    fputs("_gradwire_commands='", to);
    for (size_t i = 0; (command = gwc_command_at(i)) != NULL; i++)
        fprintf(to, "%s ", command->name);
    fputs("--help --version'\n", to);
}

/* Bash takes ':' and '=' for ends of words and replaces only what follows them. So the
 * words are read from the line, and what stands before the last such mark is cut off
 * from what is offered. */
static const char function[] =
    "\n"
    "# Offers words that begin with $1, of which bash replaces what follows : or =.\n"
    "_gradwire_offer() {\n"
    "    local head=${1%\"${1##*[:=]}\"} i\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$2\" -- \"$1\")\n"
    "    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *: ]] && compopt -o nospace\n"
    "    [[ $COMP_WORDBREAKS == *:* ]] || head=''\n"
    "    for i in \"${!COMPREPLY[@]}\"; do\n"
    "        COMPREPLY[i]=${COMPREPLY[i]#\"$head\"}\n"
    "    done\n"
    "}\n"
    "\n"
    "_gradwire() {\n"
    "    local line=${COMP_LINE:0:COMP_POINT} all now before command\n"
    "    local words='' kind='' flags=''\n"
    "    read -ra all <<<\"$line\"\n"
    "    [[ $line == *[[:space:]] ]] && all+=('')\n"
    "    COMPREPLY=()\n"
    "    now=${all[${#all[@]} - 1]}\n"
    "    if [[ ${#all[@]} -le 2 ]]; then\n"
    "        _gradwire_offer \"$now\" \"$_gradwire_commands\"\n"
    "        return\n"
    "    fi\n"
    "    command=${all[1]}\n"
    "    before=${all[${#all[@]} - 2]}\n"
    "    if [[ $now == --*=* ]]; then\n"
    "        before=${now%%=*}\n"
    "        now=${now#*=}\n"
    "    fi\n"
    "    [[ $before == --* ]] && _gradwire_value \"$command $before\"\n"
    "    if [[ -z $words$kind && $now == -* ]]; then\n"
    "        _gradwire_flags \"$command\"\n"
    "        words=$flags\n"
    "    elif [[ -z $words$kind ]]; then\n"
    "        _gradwire_argument \"$command\"\n"
    "        [[ -n $words$kind ]] || { _gradwire_flags \"$command\"; words=$flags; }\n"
    "    fi\n"
    "    [[ -z $words ]] || _gradwire_offer \"$now\" \"$words\"\n"
    "    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then\n"
    "        case $kind in\n"
    "        file) compopt -o default ;;\n"
    "        dir) compopt -o dirnames ;;\n"
    "        esac\n"
    "    fi\n"
    "}\n"
    "\n"
    "complete -F _gradwire gradwire\n";

void gwc_complete_bash(FILE *to)
{
    fputs("# Completion of gradwire for bash; 'gradwire help --completion bash' makes "
          "it.\n"
          "# shellcheck shell=bash disable=SC2034\n\n",
          to);
    put_names(to);
    put_cases(to, "What may follow a flag: words, or a kind.", "value", put_values);
    put_cases(to, "The flags of a command.", "flags", put_flags);
    put_cases(to, "What may stand where no flag does.", "argument", put_arguments);
    fputs(function, to);
}
