/* SPDX-License-Identifier: Apache-2.0
 *
 * flags.h - the flags of a command as one table, from which they are read, checked
 * and explained; so what --help says is what is done. */
#ifndef GWC_FLAGS_H
#define GWC_FLAGS_H

#include "gradwire.h"

#include <stdio.h>

typedef enum gwc_kind {
    GWC_TEXT,   /* const char *, borrowed from argv */
    GWC_COUNT,  /* uint64_t in min..max */
    GWC_INT,    /* int in min..max */
    GWC_REAL,   /* double in min..max */
    GWC_CHOICE, /* int: which of arg's words, which are parted by '|' */
    GWC_SWITCH, /* int: 1 if given; takes no value */
} gwc_kind;

/* One flag. A row without a kind's name, only with help, is a heading. */
typedef struct gwc_flag {
    const char *name;   /* without the dashes; NULL: a heading */
    const char *arg;    /* what its value is called in the help */
    const char *preset; /* its default as text, read like a value; NULL: none */
    const char *help;   /* may have several lines */
    gwc_kind kind;
    size_t offset; /* of its place in the settings */
    double min, max;
} gwc_flag;

/* Reads arguments argv[0..argc) into settings, the defaults first. Sets *help if
 * --help or -h is among them, and then stops. GW_ERR_ARG: unknown flag, missing or
 * wrong value; the message names the flag and the command. */
gw_status gwc_flags_read(const gwc_flag *flags, size_t count, const char *command,
                         int argc, char **argv, void *settings, int *help);

/* Parts what is no flag nor a flag's value (names of files and the like) from the
 * flags, wherever they stand: names and rest have room for argc each. Returns how
 * many names there are and sets *left to the length of rest. */
size_t gwc_flags_part(const gwc_flag *flags, size_t count, int argc, char **argv,
                      char **names, char **rest, int *left);

/* Prints the table of flags with their defaults. */
void gwc_flags_help(const gwc_flag *flags, size_t count, FILE *to);

#endif
