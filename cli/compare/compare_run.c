/* SPDX-License-Identifier: Apache-2.0
 *
 * compare_run.c - runs one case as a process of its own, so that the others continue if
 * it crashes. A file in its directory records the arguments, so that a finished run is
 * only reused for the same settings. */
#define _GNU_SOURCE
#include "commands.h"
#include "common.h"
#include "compare/compare.h"
#include "terminal.h"
#include "files/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char arguments_file[] = "arguments";

enum { FILE_CAP = GWC_PATH_CAP + 32, ERROR_CAP = 4096, ARGUMENTS_CAP = 65536 };

/* How often the line on the terminal is drawn. */
enum { DRAW_MS = 300 };

/* ---- what was run -----------------------------------------------------------------
 */

/* The arguments, one per line. */
static size_t arguments_text(const gwc_case *one, char *text, size_t cap)
{
    size_t len = 0;

    for (int i = 0; i < one->args && len < cap; i++)
        len += (size_t)snprintf(text + len, cap - len, "%s\n", one->arg[i]);
    return len < cap ? len : cap;
}

static void file_path(char path[FILE_CAP], const gwc_case *one)
{
    snprintf(path, FILE_CAP, "%s/%s", one->directory, arguments_file);
}

static gw_status write_arguments(const gwc_case *one)
{
    char path[FILE_CAP], *text = gwt_calloc(ARGUMENTS_CAP, 1, "arguments");
    gw_status st;

    if (text == NULL)
        return GW_ERR_NOMEM;
    size_t len = arguments_text(one, text, ARGUMENTS_CAP);
    file_path(path, one);
    st = gwt_newfile_write(path, NULL, text, len);
    gwt_free(text);
    return st;
}

/* Whether the file there holds the arguments of this case. */
static int same_arguments(const gwc_case *one, char *text, char *there)
{
    char path[FILE_CAP];
    size_t len = arguments_text(one, text, ARGUMENTS_CAP), found;
    FILE *file;

    file_path(path, one);
    file = fopen(path, "r");
    if (file == NULL)
        return 0;
    found = fread(there, 1, ARGUMENTS_CAP, file);
    fclose(file);
    return found == len && memcmp(text, there, len) == 0;
}

static gw_status check_arguments(const gwc_case *one)
{
    char *text = gwt_calloc(2, ARGUMENTS_CAP, "arguments");

    if (text == NULL)
        return GW_ERR_NOMEM;
    int same = same_arguments(one, text, text + ARGUMENTS_CAP);
    gwt_free(text);
    if (same)
        return GW_OK;
    return gw_fail(
        GW_ERR_ARG,
        "%s has a run with other settings; choose another --out, or remove that run",
        one->directory);
}

gw_status gwc_case_there(gwc_case *one, int *there)
{
    struct stat st;
    gwc_run run;

    *there = 0;
    if (stat(one->directory, &st) != 0)
        return GW_OK;
    if (gwc_run_read(&run, one->directory) == GW_OK)
        *there = run.finished;
    gwc_run_free(&run);
    return *there ? check_arguments(one) : GW_OK;
}

/* ---- the process ------------------------------------------------------------------
 */

static volatile sig_atomic_t child, stopped;

/* The first signal ends the run after its current step, the second at once. */
static void on_signal(int number)
{
    (void)number;
    if (child > 0)
        kill((pid_t)child, SIGINT);
    stopped = 1;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* Runs 'gradwire train' with the arguments of the case, in the child. It has a process
 * group of its own, so that it gets each signal once, from us, and it ends if we do. */
static void become_train(const gwc_case *one, int error_pipe)
{
    char self[] = "gradwire", command[] = "train", quiet[] = "--quiet";
    char force[] = "--force", out[FILE_CAP];
    char *argv[GWC_CASE_ARGS_MAX + 8] = {self, command};
    int n = 2, null = open("/dev/null", O_RDWR);

    for (int i = 0; i < one->args; i++)
        argv[n++] = one->arg[i];
    snprintf(out, sizeof out, "--out=%s", one->directory);
    argv[n++] = out;
    argv[n++] = quiet;
    argv[n++] = force;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(error_pipe, STDERR_FILENO);
    execv("/proc/self/exe", argv);
    dprintf(STDERR_FILENO, "gradwire: cannot start a run: %s\n", strerror(errno));
    _exit(GWC_FAILED);
}

/* The last line that the child printed on its standard error. */
typedef struct complaint {
    char text[ERROR_CAP];
    size_t len;
} complaint;

static void hear(complaint *c, int pipe)
{
    char bytes[512];
    ssize_t n = read(pipe, bytes, sizeof bytes);

    for (ssize_t i = 0; i < n; i++) {
        if (c->len > 0 && c->text[c->len - 1] == '\n')
            c->len = 0;
        if (c->len + 1 < sizeof c->text)
            c->text[c->len++] = bytes[i];
    }
    c->text[c->len] = '\0';
}

static void draw(const gwc_case *one, const char *headline, double since)
{
    char state[64] = "", line[512];
    int columns = gwc_columns(stderr);
    gwc_run run;

    if (columns == 0)
        return;
    if (gwc_run_read(&run, one->directory) == GW_OK && run.points > 0)
        snprintf(state, sizeof state, ": step %.0f, loss %.4f",
                 run.point[GWC_STEP][run.points - 1],
                 run.point[GWC_LOSS][run.points - 1]);
    gwc_run_free(&run);
    /* What changes is shown, however long the name of the run is. */
    int room = columns - (int)strlen(state) - 12;
    snprintf(line, sizeof line, "%.*s%s (%.0f s)", room > 8 ? room : 8, headline, state,
             gwt_now() - since);
    gwc_redraw(line);
}

/* Waits for the child and shows the progress of the run. */
static int attend(const gwc_case *one, const char *headline, int pipe, complaint *c)
{
    double since = gwt_now();
    int status = 0;

    for (;;) {
        struct pollfd p = {.fd = pipe, .events = POLLIN};
        int ready = poll(&p, 1, DRAW_MS);
        if (ready > 0 && (p.revents & POLLIN))
            hear(c, pipe);
        else if (ready > 0)
            break;
        draw(one, headline, since);
    }
    while (waitpid((pid_t)child, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

/* The child's last line without the command's name, or how it ended. */
static void explain(gwc_case *one, int status, complaint *c)
{
    const char *why = c->text;

    c->text[strcspn(c->text, "\n")] = '\0';
    if (strncmp(why, "gradwire: ", 10) == 0)
        why += 10;
    if (WIFSIGNALED(status))
        snprintf(one->why, sizeof one->why, "killed by signal %d", WTERMSIG(status));
    else if (*why != '\0')
        snprintf(one->why, sizeof one->why, "%.*s", GWC_NOTE_CAP - 1, why);
    else
        snprintf(one->why, sizeof one->why, "exit status %d", WEXITSTATUS(status));
    one->state = GWC_CASE_FAILED;
}

static gw_status start(const gwc_case *one, int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot start a run: %s", strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become_train(one, ends[1]);
    close(ends[1]);
    if (pid > 0) {
        child = pid;
        return GW_OK;
    }
    close(ends[0]);
    return gw_fail(GW_ERR_SYSTEM, "cannot start a run: %s", strerror(errno));
}

gw_status gwc_case_run(gwc_case *one, const char *headline)
{
    complaint c = {.len = 0};
    int ends[2], status;

    catch_signals();
    if (stopped)
        return gw_fail(GW_ERR_STOPPED, "stopped");
    GWT_TRY(start(one, ends));
    status = attend(one, headline, ends[0], &c);
    child = 0;
    close(ends[0]);
    gwc_erase();
    if (stopped)
        return gw_fail(GW_ERR_STOPPED, "stopped");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        explain(one, status, &c);
        return GW_OK;
    }
    one->state = GWC_CASE_RUN;
    return write_arguments(one);
}
