/* SPDX-License-Identifier: Apache-2.0
 *
 * commands.h - the commands of gradwire. */
#ifndef GWC_COMMANDS_H
#define GWC_COMMANDS_H

#include "flags.h"
#include "gradwire.h"

/* Exit codes. */
enum { GWC_DONE = 0, GWC_FAILED = 1, GWC_USAGE = 2, GWC_STOPPED = 130 };

/* Added to an exit code: the error has been printed, or another rank prints it. */
enum { GWC_SAID = 256 };

/* The exit code of a command that ends with st: GW_ERR_ARG and GW_ERR_SPEC are wrong
 * usage, GW_ERR_STOPPED is Ctrl-C. */
int gwc_exit_code(gw_status st);

/* Prints an error as one line, with control characters replaced. */
void gwc_print_error(const char *message);

/* One command = one file whose only external symbol is its gwc_command. */
typedef struct gwc_command {
    const char *name, *summary;

    /* Runs the command with the arguments after its name and returns the exit code.
     * After GWC_FAILED and GWC_USAGE, the caller prints gw_error_message(). */
    int (*run)(int argc, char **argv);

    /* Whether all ranks of mpirun run it together. Otherwise only rank 0 runs it. */
    int by_ranks;

    /* Whether it is refused under mpirun: it starts programs of its own, which would
     * take themselves for ranks. */
    int not_by_ranks;

    /* The flags that it takes; NULL: none but --help. Those of passes_to, if that is
     * not NULL, are taken as well, and handed on. */
    const gwc_flag *flags;
    size_t flag_count;
    const struct gwc_command *passes_to;

    /* The i-th word that may stand where no flag does, NULL past the end: shells offer
     * them, and names of files past them. NULL: there are only flags. */
    const char *(*word)(size_t i);
} gwc_command;

extern const gwc_command gwc_command_train;
extern const gwc_command gwc_command_list;
extern const gwc_command gwc_command_data;
extern const gwc_command gwc_command_bench;
extern const gwc_command gwc_command_convex;
extern const gwc_command gwc_command_report;
extern const gwc_command gwc_command_weights;
extern const gwc_command gwc_command_compare;
extern const gwc_command gwc_command_plan;
extern const gwc_command gwc_command_simulate;
extern const gwc_command gwc_command_meet;
extern const gwc_command gwc_command_status;
extern const gwc_command gwc_command_help;

/* The i-th command, in the order of the help, which is the last; NULL past the end. The
 * one of that name, or NULL. */
const gwc_command *gwc_command_at(size_t i);
const gwc_command *gwc_command_find(const char *name);

/* Prints what "gradwire help" prints. */
void gwc_print_help(void);

/* Checks whether 'gradwire train' accepts these arguments, without reading data or
 * creating a directory. GW_ERR_ARG, GW_ERR_SPEC. */
gw_status gwc_train_check(int argc, char **argv);

#endif
