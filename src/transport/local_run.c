/* SPDX-License-Identifier: Apache-2.0
 *
 * local_run.c - starts the workers of a group and watches them to the end.
 *
 * Only one failure is reported, the most telling one: a worker killed by a signal, or
 * else one that failed by itself, or else the first one that noticed. */
#define _GNU_SOURCE
#include "transport/local.h"
#include "transport/link.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long the others may take to end by themselves after a failure. */
#define GRACE 2.0

typedef struct worker {
    struct job *job;
    int rank;
    pthread_t thread;
    pid_t pid; /* 0 once it was waited for */
    int pidfd;
    int wait_status;
    bool killed_here;
} worker;

typedef struct job {
    gw_local_group *group;
    gw_body *body;
    void *arg;
    worker *workers;
    int count;
    double deadline; /* when to kill those still running; 0: not yet */
} job;

/* ---- in a worker -------------------------------------------------------- */

static void run_rank(job *j, int rank)
{
    gwi_slot *slot = &j->group->slots[rank];
    gw_comm *comm;
    gw_status st = gw_local_join(&comm, j->group, rank);

    if (st == GW_OK)
        st = j->body(comm, j->arg);
    slot->status = st;
    slot->finished_at = gwi_now();
    snprintf(slot->message, sizeof slot->message, "%s",
             st == GW_OK ? "" : gw_error_message());
    /* A worker that fails by itself must not leave the others waiting. */
    if (st != GW_OK)
        gwi_local_mark_dead(j->group, rank);
    atomic_store(&slot->finished, 1);
    gw_comm_free(comm);
}

static void *thread_main(void *arg)
{
    worker *w = arg;

    run_rank(w->job, w->rank);
    return NULL;
}

static void process_main(worker *w, pid_t parent, const sigset_t *mask)
{
    /* Dies with the parent, also if the parent died before this line. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    signal(SIGINT, SIG_IGN); /* the parent decides what Ctrl-C means */
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    run_rank(w->job, w->rank);
    fflush(NULL);
    _exit(w->job->group->slots[w->rank].status == GW_OK ? 0 : 1);
}

/* ---- starting ----------------------------------------------------------- */

static gw_status start_threads(job *j)
{
    j->group->shared.gates = j->group->gates;
    for (int r = 0; r < j->count; r++) {
        int error =
            pthread_create(&j->workers[r].thread, NULL, thread_main, &j->workers[r]);
        if (error != 0) {
            for (int rest = r; rest < j->count; rest++)
                gwi_local_mark_dead(j->group, rest);
            j->count = r;
            return gw_fail(GW_ERR_SYSTEM, "cannot start worker %d as a thread: %s", r,
                           strerror(error));
        }
    }
    return GW_OK;
}

static gw_status fork_worker(worker *w, const sigset_t *mask)
{
    pid_t parent = getpid();

    w->pid = fork();
    if (w->pid == 0)
        process_main(w, parent, mask);
    if (w->pid < 0) {
        w->pid = 0;
        return gw_fail(GW_ERR_SYSTEM, "cannot start worker %d as a process: %s",
                       w->rank, strerror(errno));
    }
    atomic_store(&w->job->group->slots[w->rank].pid, (int)w->pid);
    w->pidfd = gwi_pidfd(w->pid);
    return GW_OK;
}

static gw_status start_processes(job *j)
{
    sigset_t stop, mask;
    gw_status st = GW_OK;

    /* Otherwise what the caller has printed so far would come out P + 1 times. */
    fflush(NULL);
    /* A Ctrl-C between fork and SIG_IGN must not kill a worker. */
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, &mask);
    for (int r = 0; r < j->count && st == GW_OK; r++)
        st = fork_worker(&j->workers[r], &mask);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return st;
}

/* ---- watching ----------------------------------------------------------- */

static bool failed(const job *j, const worker *w)
{
    const gwi_slot *slot = &j->group->slots[w->rank];

    return WIFSIGNALED(w->wait_status) || !atomic_load(&slot->finished) ||
           slot->status != GW_OK;
}

static void reap(job *j, worker *w)
{
    if (waitpid(w->pid, &w->wait_status, WNOHANG) != w->pid)
        return;
    w->pid = 0;
    if (failed(j, w)) {
        gwi_local_mark_dead(j->group, w->rank);
        if (j->deadline == 0)
            j->deadline = gwi_now() + GRACE;
    }
}

static void kill_rest(job *j)
{
    for (int r = 0; r < j->count; r++) {
        if (j->workers[r].pid == 0)
            continue;
        j->workers[r].killed_here = true;
        kill(j->workers[r].pid, SIGKILL);
    }
    /* They are reaped as usual; do not come here again. */
    j->deadline = -1;
}

/* Sleeps until a worker ends or the deadline comes, at most 20 ms where the
 * kernel has no pidfds. */
static void sleep_on_workers(job *j, struct pollfd *fds)
{
    double seconds = 1;
    nfds_t n = 0;

    for (int r = 0; r < j->count; r++) {
        if (j->workers[r].pid == 0)
            continue;
        if (j->workers[r].pidfd < 0)
            seconds = 0.02;
        else
            fds[n++] = (struct pollfd){.fd = j->workers[r].pidfd, .events = POLLIN};
    }
    if (j->deadline > 0 && j->deadline - gwi_now() < seconds)
        seconds = j->deadline - gwi_now();
    poll(fds, n, seconds > 0 ? (int)(seconds * 1000) + 1 : 0);
}

static int still_running(const job *j)
{
    int n = 0;

    for (int r = 0; r < j->count; r++)
        n += j->workers[r].pid != 0;
    return n;
}

static void watch_processes(job *j, struct pollfd *fds)
{
    while (still_running(j) > 0) {
        sleep_on_workers(j, fds);
        for (int r = 0; r < j->count; r++)
            if (j->workers[r].pid != 0)
                reap(j, &j->workers[r]);
        if (j->deadline > 0 && gwi_now() >= j->deadline)
            kill_rest(j);
    }
    for (int r = 0; r < j->count; r++)
        if (j->workers[r].pidfd >= 0)
            close(j->workers[r].pidfd);
}

/* ---- what happened ------------------------------------------------------ */

static gw_status report_signal(const job *j, const worker *w)
{
    int signo = WTERMSIG(w->wait_status);

    return gw_fail(GW_ERR_PEER,
                   "worker %d on host %s was killed by signal %d (%s) in step %" PRIu64,
                   w->rank, j->group->host, signo, strsignal(signo),
                   atomic_load(&j->group->slots[w->rank].step));
}

static gw_status report_exit(const job *j, const worker *w)
{
    return gw_fail(GW_ERR_PEER,
                   "worker %d on host %s exited with code %d before it was done",
                   w->rank, j->group->host, WEXITSTATUS(w->wait_status));
}

/* How close to the cause: a worker's own failure, then a peer found silent, then
 * a peer found gone - which may be one that only gave up on the silent one. */
static int remoteness(int status)
{
    return status == GW_ERR_PEER ? 2 : status == GW_ERR_TIMEOUT ? 1 : 0;
}

static bool comes_before(const gwi_slot *a, const gwi_slot *b)
{
    if (remoteness(a->status) != remoteness(b->status))
        return remoteness(a->status) < remoteness(b->status);
    return a->finished_at < b->finished_at;
}

static gw_status report_status(const job *j)
{
    const gwi_slot *first = NULL;

    for (int r = 0; r < j->count; r++) {
        const gwi_slot *s = &j->group->slots[r];
        if (atomic_load(&s->finished) && s->status != GW_OK &&
            (first == NULL || comes_before(s, first)))
            first = s;
    }
    return first == NULL ? GW_OK
                         : gw_fail((gw_status)first->status, "%s", first->message);
}

static gw_status report_processes(const job *j)
{
    for (int r = 0; r < j->count; r++) {
        const worker *w = &j->workers[r];
        if (w->killed_here)
            continue;
        if (WIFSIGNALED(w->wait_status))
            return report_signal(j, w);
        if (!atomic_load(&j->group->slots[r].finished))
            return report_exit(j, w);
    }
    return report_status(j);
}

/* ---- all together -----------------------------------------------------------------
 */

static gw_status run_threads(job *j)
{
    gw_status st = start_threads(j);

    for (int r = 0; r < j->count; r++)
        pthread_join(j->workers[r].thread, NULL);
    return st == GW_OK ? report_status(j) : st;
}

static gw_status run_processes(job *j, struct pollfd *fds)
{
    gw_status st = start_processes(j);

    if (st != GW_OK)
        kill_rest(j);
    watch_processes(j, fds);
    return st == GW_OK ? report_processes(j) : st;
}

static gw_status run_job(job *j)
{
    size_t p = (size_t)j->count;
    struct pollfd *fds;
    gw_status st;

    j->workers = gwi_calloc(p, sizeof *j->workers + sizeof *fds);
    if (j->workers == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to run %zu workers", p);
    fds = (struct pollfd *)(j->workers + p);
    for (int r = 0; r < j->count; r++)
        j->workers[r] = (worker){.job = j, .rank = r, .pidfd = -1};
    if (j->group->opt.spawn == GW_SPAWN_THREADS)
        st = run_threads(j);
    else
        st = run_processes(j, fds);
    gwi_free(j->workers);
    return st;
}

gw_status gw_local_run(const gw_local_options *opt, gw_body *body, void *arg)
{
    job j = {.body = body, .arg = arg};
    gw_status st;

    if (body == NULL)
        return gw_fail(GW_ERR_ARG, "gw_local_run() needs a body");
    if (opt != NULL && opt->struct_size == sizeof *opt && opt->link != NULL)
        GWI_TRY(gwi_link_check(opt->link));
    GWI_TRY(gw_local_group_new(&j.group, opt));
    j.count = opt->workers;
    st = run_job(&j);
    gw_local_group_free(j.group);
    return st;
}
