/* SPDX-License-Identifier: Apache-2.0
 *
 * flags.h - one table lists a command's flags. They are read, checked and explained
 * from it, so --help always agrees with the code. */
#ifndef GWC_FLAGS_H
#define GWC_FLAGS_H

#include "gradwire.h"

#include <stdio.h>

typedef enum gwc_kind {
    GWC_TEXT,   /* const char *, borrowed from argv */
    GWC_COUNT,  /* uint64_t in min..max */
    GWC_INT,    /* int in min..max */
    GWC_RANGE,  /* int[2] in min..max: "N" is {N, 0}, "A:B" is {B, A} */
    GWC_REAL,   /* double in min..max */
    GWC_CHOICE, /* int: the index in arg, a list separated by '|' */
    GWC_SWITCH, /* int: 1 if given; takes no value */
} gwc_kind;

/* One flag. A row without a name is a heading, whose text is help. */
typedef struct gwc_flag {
    const char *name;   /* without the dashes; NULL: a heading */
    const char *arg;    /* what its value is called in the help */
    const char *preset; /* its default as text, read like a value; NULL: none */
    const char *help;   /* may have several lines */
    gwc_kind kind;
    size_t offset; /* of its field in the settings */
    double min, max;
} gwc_flag;

/* Stores the defaults in settings, then reads argv[0..argc). Stops and sets *help at
 * --help or -h. GW_ERR_ARG: a flag is unknown, or its value is missing or wrong; the
 * message names the flag. */
gw_status gwc_flags_read(const gwc_flag *flags, size_t count, const char *command,
                         int argc, char **argv, void *settings, int *help);

/* Whether argv, which gwc_flags_read() accepts, gives that flag. */
int gwc_flags_given(const gwc_flag *flags, size_t count, int argc, char **argv,
                    const char *name);

/* Stores the values in text, lines "--name value", of flags that argv does not give and
 * that are not in `except`, a list that ends with NULL. Lines about other flags are
 * skipped. text is cut into its lines and, like argv, must last as long as settings.
 * GW_ERR_ARG: a value is wrong. */
gw_status gwc_flags_fill(const gwc_flag *flags, size_t count, int argc, char **argv,
                         char *text, const char *const *except, void *settings);

/* Separates positional arguments, such as names of files, from flags and their values,
 * in any order. names and rest have room for argc each. Returns the number of names and
 * sets *left to the length of rest. */
size_t gwc_flags_part(const gwc_flag *flags, size_t count, int argc, char **argv,
                      char **names, char **rest, int *left);

/* Prints the table of flags with their defaults. */
void gwc_flags_help(const gwc_flag *flags, size_t count, FILE *to);

#endif
