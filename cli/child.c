/* SPDX-License-Identifier: Apache-2.0
 *
 * child.c - runs other programs, shows their progress, and cleans up. */
#define _GNU_SOURCE
#include "child.h"
#include "progress.h"
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE_CAP = 256, PATH_CAP = 4096 + 64, OPEN_MAX_FTW = 16, NOT_THERE = 127 };

#define LOG        GWC_CHILD_LOG
#define LOOK_EVERY 0.05 /* seconds */
#define PATIENCE   5.0  /* seconds between asking a program to end and ending it */

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

void gwc_catch_stop(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int gwc_stopped(void)
{
    return stopped;
}

/* ---- directories ---------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *info, int kind,
                      struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path) == 0 ? 0 : -1;
}

void gwc_remove_tree(const char *directory)
{
    (void)nftw(directory, remove_one, OPEN_MAX_FTW, FTW_DEPTH | FTW_PHYS);
}

static _Thread_local double bytes_below;

static int add_one(const char *path, const struct stat *info, int kind,
                   struct FTW *where)
{
    (void)path, (void)where;
    if (kind == FTW_F)
        bytes_below += (double)info->st_size;
    return 0;
}

static double tree_bytes(const char *directory)
{
    bytes_below = 0.0;
    (void)nftw(directory, add_one, OPEN_MAX_FTW, FTW_PHYS);
    return bytes_below;
}

/* ---- running -------------------------------------------------------------------- */

/* Runs in the child. It leads a process group of its own, so that whatever it starts
 * can be ended with it. */
static void become(const char *directory, char *const argv[])
{
    int in = open("/dev/null", O_RDONLY);
    int out = -1;

    setpgid(0, 0);
    if (chdir(directory) == 0)
        out = open(LOG, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(1);
    execvp(argv[0], argv);
    _exit(NOT_THERE);
}

/* Less than this is no progress, but the files that a program was started with. */
#define WORTH_SHOWING 1e5

static void show(const char *directory, const char *title, double seconds, int end)
{
    char bytes[16], line[256];

    if (gwc_columns(stderr) == 0)
        return;
    double size = tree_bytes(directory);
    const char *shown = size < WORTH_SHOWING ? "" : gwc_bytes(size, bytes);
    snprintf(line, sizeof line, "%s%s%s  %.0f s", title, *shown != '\0' ? "  " : "",
             shown, seconds);
    gwc_redraw(line);
    if (end)
        putc('\n', stderr);
}

/* Ends what a child that has ended left behind in its group: one that it had started at
 * the moment of the signal has not seen it. */
static void end_group(pid_t child)
{
    struct timespec nap = {.tv_nsec = (long)(1e9 * LOOK_EVERY)};
    double began = gwt_now();

    while (kill(-child, SIGKILL) == 0 && gwt_now() - began < PATIENCE)
        nanosleep(&nap, NULL);
}

/* Waits for the child. If the user stops us, ends it with SIGTERM and later SIGKILL. */
static int wait_for(pid_t child, const char *directory, const char *title)
{
    struct timespec nap = {.tv_nsec = (long)(1e9 * LOOK_EVERY)};
    double began = gwt_now(), shown = began, asked = 0.0;
    int status;

    while (waitpid(child, &status, WNOHANG) == 0) {
        double now = gwt_now();
        if (stopped && asked == 0.0) {
            kill(-child, SIGTERM);
            asked = now;
        } else if (stopped && now - asked > PATIENCE) {
            kill(-child, SIGKILL);
        }
        if (now - shown > 0.5) {
            show(directory, title, now - began, 0);
            shown = now;
        }
        nanosleep(&nap, NULL);
    }
    if (stopped)
        end_group(child);
    show(directory, title, gwt_now() - began, 1);
    return status;
}

/* Picks the most useful line of the program's output: the first that mentions an error,
 * or else the last. */
static void telling_line(const char *directory, char line[LINE_CAP])
{
    char path[PATH_CAP], next[LINE_CAP];
    FILE *log;

    snprintf(line, LINE_CAP, "it printed nothing");
    snprintf(path, sizeof path, "%s/" LOG, directory);
    log = fopen(path, "r");
    if (log == NULL)
        return;
    while (fgets(next, sizeof next, log) != NULL) {
        next[strcspn(next, "\n")] = '\0';
        if (next[0] == '\0')
            continue;
        memcpy(line, next, sizeof next);
        if (strncmp(next, "E: ", 3) == 0 || strcasestr(next, "error") != NULL)
            break;
    }
    fclose(log);
}

static gw_status judge(int status, const char *directory, const char *program)
{
    char line[LINE_CAP];

    if (stopped)
        return gw_fail(GW_ERR_SYSTEM, "stopped");
    if (WIFSIGNALED(status))
        return gw_fail(GW_ERR_SYSTEM, "%s was killed by signal %d", program,
                       WTERMSIG(status));
    if (WEXITSTATUS(status) == 0)
        return GW_OK;
    if (WEXITSTATUS(status) == NOT_THERE)
        return gw_fail(GW_ERR_SYSTEM, "%s is not installed, but is needed for this",
                       program);
    telling_line(directory, line);
    return gw_fail(GW_ERR_SYSTEM, "%s failed: %s", program, line);
}

gw_status gwc_child_run(const char *directory, const char *title, char *const argv[])
{
    pid_t child;

    if (stopped)
        return gw_fail(GW_ERR_SYSTEM, "stopped");
    if (!isatty(STDERR_FILENO))
        fprintf(stderr, "%s\n", title);
    child = fork();
    if (child < 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot start %s: %s", argv[0], strerror(errno));
    if (child == 0)
        become(directory, argv);
    setpgid(child, child); /* both processes call this; either may be first */
    return judge(wait_for(child, directory, title), directory, argv[0]);
}
