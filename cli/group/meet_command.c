/* SPDX-License-Identifier: Apache-2.0
 *
 * meet_command.c - "gradwire meet": the place where workers of a job find each
 * other. */
#define _GNU_SOURCE
#include "commands.h"
#include "group/join.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gradwire_group.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

typedef struct settings {
    const char *listen, *job, *key_file, *new_key;
    double timeout;
    int quiet;
} settings;

#define AT(field) offsetof(settings, field)

static const gwc_flag flags[] = {
    {"listen", "[HOST]:PORT", ":7077",
     "where workers call; without HOST, on all interfaces", GWC_TEXT, AT(listen), 0, 0},
    {"job", "NAME", "job", "the job's name", GWC_TEXT, AT(job), 0, 0},
    {"key-file", "FILE", NULL,
     "file with the job's key [the environment variable\n"
     "GRADWIRE_KEY]",
     GWC_TEXT, AT(key_file), 0, 0},
    {"new-key", "FILE", NULL, "write a new random key to FILE, and end", GWC_TEXT,
     AT(new_key), 0, 0},
    {"timeout", "SECONDS", "60",
     "a worker that does not answer for this long when a\n"
     "view ends is left out of the next one",
     GWC_REAL, AT(timeout), 0.1, 1e6},
    {"quiet", NULL, NULL, "do not tell who comes and goes", GWC_SWITCH, AT(quiet), 0,
     0},
};

static void print_help(void)
{
    puts("Usage: gradwire meet [FLAGS]\n"
         "\n"
         "Runs a meeting: the place where the workers of one job find each other, on\n"
         "any number of machines, without MPI. It takes part in no exchange. Workers\n"
         "prove that they know the job's key before anything else is read from them.\n"
         "It runs until Ctrl-C; workers that have met go on without it.\n");
    gwc_flags_help(flags, COUNT(flags), stdout);
    puts("\nExamples\n"
         "  gradwire meet --new-key job.key\n"
         "  gradwire meet --key-file job.key --listen :7077\n"
         "  gradwire train --join tcp://HOST:7077 --key-file job.key --workers 2\n"
         "  gradwire status tcp://HOST:7077 --key-file job.key");
}

/* ---- a new key ----------------------------------------------------------------------
 */

/* Only its owner can read it, and an old key is not lost. */
static gw_status write_key(const char *path)
{
    char key[45];
    int fd;

    GWT_TRY(gw_group_new_key(key));
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return gw_fail(GW_ERR_ARG, "cannot write %s: %s", path, strerror(errno));
    key[43] = '\n';
    ssize_t n = write(fd, key, 44);
    if (close(fd) != 0 || n != 44) {
        unlink(path);
        return gw_fail(GW_ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    }
    printf("wrote a new key to %s; copy it to every machine of the job, over a safe "
           "way\n",
           path);
    return GW_OK;
}

/* ---- the meeting
 * ---------------------------------------------------------------------- */

static void tell(void *arg, const char *line)
{
    (void)arg;
    puts(line);
    fflush(stdout);
}

static void await_signal(void)
{
    sigset_t ends;
    int number;

    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigwait(&ends, &number);
}

/* Signals are blocked before the meeting's thread starts, so that await_signal() gets
 * them. */
static void hold_signals(void)
{
    sigset_t ends;

    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
}

static gw_status run_meeting(const settings *set)
{
    gw_meeting_options opt = {.struct_size = sizeof opt,
                              .listen = set->listen,
                              .job = set->job,
                              .timeout_seconds = set->timeout,
                              .tell = set->quiet ? NULL : tell};
    gw_meeting *meeting;
    char *key;
    gw_status st;

    GWT_TRY(gwc_key_read(set->key_file, &key));
    opt.key = key;
    hold_signals();
    st = gw_meeting_open(&meeting, &opt);
    free(key);
    if (st != GW_OK)
        return st;
    printf("listening at port %d; Ctrl-C ends the meeting\n", gw_meeting_port(meeting));
    fflush(stdout);
    await_signal();
    gw_meeting_close(meeting);
    return GW_OK;
}

static int run_meet(int argc, char **argv)
{
    settings set = {0};
    int help;

    if (gwc_flags_read(flags, COUNT(flags), "meet", argc, argv, &set, &help) != GW_OK)
        return GWC_USAGE;
    if (help) {
        print_help();
        return GWC_DONE;
    }
    return gwc_exit_code(set.new_key != NULL ? write_key(set.new_key)
                                             : run_meeting(&set));
}

const gwc_command gwc_command_meet = {
    .name = "meet",
    .summary = "run a meeting for workers on several machines",
    .run = run_meet,
    .not_by_ranks = 1,
    .flags = flags,
    .flag_count = COUNT(flags),
};
