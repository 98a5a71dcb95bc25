/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_guard.c - a parent process that reports how a rank ended.
 *
 * When a rank is killed, MPICH's launcher kills all others at once and reports
 * whichever it happened to check first. So each rank has a parent there, which only
 * waits, and prints what happened before it ends and the launcher notices. */
#define _GNU_SOURCE
#include "commands.h"
#include "launch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile pid_t child;
static volatile sig_atomic_t asked;

static void pass_on(int number)
{
    asked = 1;
    if (child > 0)
        kill(child, number);
}

/* The rank gets signals of the terminal only from its parent, and only once. */
static void become_rank(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setpgid(0, 0);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

static void report(const gwc_launch *l, int number)
{
    char host[256] = "?", text[400];

    gethostname(host, sizeof host - 1);
    snprintf(text, sizeof text, "worker %d on host %s was killed by signal %d (%s)",
             l->rank, host, number, strsignal(number));
    gwc_print_error(text);
    fflush(NULL);
}

static void watch(const gwc_launch *l)
{
    int status;

    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            _exit(1);
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    if (asked)
        _exit(GWC_STOPPED);
    report(l, WTERMSIG(status));
    _exit(1);
}

void gwc_launch_guard(const gwc_launch *launch)
{
    struct sigaction action = {.sa_handler = pass_on};
    pid_t parent = getpid();
    int of_hydra = getenv("HYDI_CONTROL_FD") != NULL || getenv("PMI_FD") != NULL;

    if (!of_hydra || strcmp(launch->by, "mpiexec") != 0)
        return;
    fflush(NULL);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    child = fork();
    if (child > 0)
        watch(launch);
    /* If fork() fails, the rank works without a parent. */
    if (child == 0)
        become_rank(parent);
}
