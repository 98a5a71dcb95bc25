/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - the gradwire program: runs the command that was named and reports its
 * failure. To add a command, write its file and add one line to the table. */
#include "commands.h"
#include "common.h"
#include "launch.h"
#include "list_method.h"
#include "terminal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static const gwc_command *const table[] = {
    &gwc_command_train,    &gwc_command_compare, &gwc_command_plan,
    &gwc_command_report,   &gwc_command_list,    &gwc_command_data,
    &gwc_command_bench,    &gwc_command_convex,  &gwc_command_weights,
    &gwc_command_simulate, &gwc_command_meet,    &gwc_command_status,
};

void gwc_print_help(void)
{
    puts("gradwire - data-parallel SGD that is cheap on slow links\n"
         "\n"
         "Usage: gradwire COMMAND [FLAGS]\n"
         "\n"
         "Commands");
    for (size_t i = 0; i < COUNT(table); i++)
        gwc_printf(stdout, 13, "  %-10s %s\n", table[i]->name, table[i]->summary);
    puts(
        "  help       show this help; 'gradwire help COMMAND' shows a command's help,\n"
        "             'gradwire help METHOD' describes a method\n"
        "\n"
        "  --version  show the version\n"
        "\n"
        "Examples\n"
        "  gradwire train\n"
        "  gradwire train --sync gtopk:0.01 --link 1gbit,50us\n"
        "  gradwire list\n"
        "\n"
        "Exit codes: 0 success, 1 failure, 2 wrong usage, 130 stopped by Ctrl-C.");
}

const gwc_command *gwc_command_at(size_t i)
{
    if (i < COUNT(table))
        return table[i];
    return i == COUNT(table) ? &gwc_command_help : NULL;
}

const gwc_command *gwc_command_find(const char *name)
{
    const gwc_command *command;

    for (size_t i = 0; (command = gwc_command_at(i)) != NULL; i++)
        if (strcmp(command->name, name) == 0)
            break;
    return command;
}

/* After 'help', names of methods are suggested as well as commands. */
static int unknown(const char *name, int help)
{
    const char *names[COUNT(table) + 64], *sync;
    size_t count = COUNT(table);

    for (size_t i = 0; i < COUNT(table); i++)
        names[i] = table[i]->name;
    for (size_t i = 0; help && i < 64 && (sync = gw_recipe_name(i)) != NULL; i++)
        names[count++] = sync;
    const char *near = gwt_nearest(name, names, count);
    if (near != NULL)
        (void)gw_fail(GW_ERR_ARG, "unknown command '%s'; did you mean %s?", name, near);
    else
        (void)gw_fail(GW_ERR_ARG,
                      "unknown command '%s'; 'gradwire help' lists the commands", name);
    return GWC_USAGE;
}

/* "help" alone, "help train", "help gtopk:0.01", or what help_command.c makes. */
static int run_help(int argc, char **argv)
{
    char flag[] = "--help", *arg[] = {flag};
    const gwc_command *command;

    if (argc == 0) {
        gwc_print_help();
        return GWC_DONE;
    }
    if (argv[0][0] == '-')
        return gwc_command_help.run(argc, argv);
    if (argc > 1) {
        (void)gw_fail(GW_ERR_ARG, "help: one name at a time, not '%s' and '%s'",
                      argv[0], argv[1]);
        return GWC_USAGE;
    }
    command = gwc_command_find(argv[0]);
    if (command != NULL)
        return command->run(1, arg);
    if (gwc_list_method(argv[0], 0) == GW_OK)
        return GWC_DONE;
    return strpbrk(argv[0], ":+") != NULL ? GWC_USAGE : unknown(argv[0], 1);
}

int gwc_exit_code(gw_status st)
{
    if (st == GW_OK)
        return GWC_DONE;
    if (st == GW_ERR_STOPPED)
        return GWC_STOPPED;
    return st == GW_ERR_ARG || st == GW_ERR_SPEC ? GWC_USAGE : GWC_FAILED;
}

/* Runs a command, but refuses one that must not run under mpirun. */
static int run_command(const gwc_command *command, int argc, char **argv)
{
    gwc_launch launch = gwc_launch_look();
    int help = 0;

    for (int i = 0; i < argc; i++)
        help |= strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
    if (launch.by == NULL || !command->not_by_ranks || help)
        return command->run(argc, argv);
    (void)gw_fail(GW_ERR_ARG, "'gradwire %s' starts its own workers; run it without %s",
                  command->name, launch.by);
    return GWC_USAGE;
}

/* Under mpirun, rank 0 alone runs a command that is not run by all ranks together. */
static int others_do_it(const gwc_command *command)
{
    gwc_launch launch = gwc_launch_look();

    return launch.by != NULL && launch.rank != 0 &&
           (command == NULL || !command->by_ranks);
}

static int run(int argc, char **argv)
{
    const gwc_command *command;

    if (others_do_it(argc < 2 ? NULL : gwc_command_find(argv[1])))
        return GWC_DONE;
    if (argc < 2) {
        (void)gw_fail(GW_ERR_ARG,
                      "no command given; 'gradwire help' lists the commands");
        return GWC_USAGE;
    }
    if (strcmp(argv[1], "help") == 0)
        return run_help(argc - 2, argv + 2);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return run_help(0, NULL);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("gradwire %s\n", gw_version());
        return GWC_DONE;
    }
    command = gwc_command_find(argv[1]);
    return command != NULL ? run_command(command, argc - 2, argv + 2)
                           : unknown(argv[1], 0);
}

/* The message may contain arguments and paths with any characters. */
void gwc_print_error(const char *message)
{
    fputs("gradwire: ", stderr);
    for (; *message != '\0'; message++)
        putc(iscntrl((unsigned char)*message) ? '?' : *message, stderr);
    putc('\n', stderr);
}

/* A file must not get the descriptor of a closed standard stream, or printed text would
 * end up in it. Standard output is opened read-only, so that printing to a closed one
 * is still an error. */
static void hold_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", fd == STDERR_FILENO ? O_RDWR : O_RDONLY);
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    int code = run(argc, argv);

    /* What failed before the last flush is known to ferror() only. */
    if ((fflush(stdout) != 0 || ferror(stdout)) && (code & ~GWC_SAID) == GWC_DONE) {
        (void)gw_fail(GW_ERR_SYSTEM, "cannot write to standard output");
        code = GWC_FAILED;
    }
    if (code & GWC_SAID)
        return code & ~GWC_SAID;
    if (code == GWC_FAILED || code == GWC_USAGE)
        gwc_print_error(gw_error_message());
    return code;
}
