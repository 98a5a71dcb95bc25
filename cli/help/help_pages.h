/* SPDX-License-Identifier: Apache-2.0
 *
 * help_pages.h - what is made from the tables of commands and flags beside --help:
 *
 *     help_command.c       "gradwire help --man", --completion, --generate
 *     help_text.c          what a command prints for --help, as text
 *     man_page.c           manual pages
 *     flag_values.c        what may follow a flag
 *     complete_bash.c      completion, one file for each shell
 *     complete_zsh.c
 *     complete_fish.c
 */
#ifndef GWC_HELP_PAGES_H
#define GWC_HELP_PAGES_H

#include "commands.h"

/* What a command prints for --help; NULL stands for "gradwire help". It is parted by
 * the table of flags, which is left out. All of it is released with
 * gwc_help_text_free(). */
typedef struct gwc_help_text {
    char *before; /* begins with "Usage:" */
    char *after;  /* "" if nothing follows the table */
} gwc_help_text;

/* GW_ERR_SYSTEM, GW_ERR_NOMEM; then *out is empty. */
gw_status gwc_help_text_get(gwc_help_text *out, const gwc_command *command);
void gwc_help_text_free(gwc_help_text *help);

/* Writes the manual page of a command; NULL stands for gradwire(1). Its date is that of
 * $SOURCE_DATE_EPOCH, or is left out. GW_ERR_SYSTEM, GW_ERR_NOMEM. */
gw_status gwc_man_page(const gwc_command *command, FILE *to);

/* Write the completion for a shell. */
void gwc_complete_bash(FILE *to);
void gwc_complete_zsh(FILE *to);
void gwc_complete_fish(FILE *to);

/* What may follow a flag. */
typedef enum gwc_value {
    GWC_VALUE_NOTHING, /* it is a switch */
    GWC_VALUE_WORDS,   /* one of some words; others may be taken, too */
    GWC_VALUE_FILE,
    GWC_VALUE_DIR,
    GWC_VALUE_OTHER, /* a number, or text that nobody can guess */
} gwc_value;

gwc_value gwc_value_of(const gwc_command *command, const gwc_flag *flag);

enum { GWC_WORD_CAP = 128 };

/* The i-th word that may follow a flag of GWC_VALUE_WORDS, written to text
 * (GWC_WORD_CAP bytes) and returned; NULL past the end. */
const char *gwc_value_word(const gwc_command *command, const gwc_flag *flag, size_t i,
                           char *text);

/* The i-th flag of a command, and then those that it passes on, if it has none of that
 * name itself. *i is moved past it. NULL past the end; headings are left out. */
const gwc_flag *gwc_flag_next(const gwc_command *command, size_t *i);

enum { GWC_BRIEF_CAP = 256 };

/* A flag's help up to a semicolon, as one line, written to text (GWC_BRIEF_CAP bytes)
 * and returned. */
const char *gwc_flag_brief(const gwc_flag *flag, char *text);

#endif
