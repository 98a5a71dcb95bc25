/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics_watch.c - the thread beside worker 0.
 *
 *     gwt_watch_update() --copy--> now --print--> text --> connection or file
 */
#define _GNU_SOURCE
#include "watch/metrics_watch.h"
#include "files/newfile.h"
#include "watch/metrics_http.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How often the file is written, and when a connection that could not be accepted is
 * tried again. */
enum { FILE_MS = 5000, RETRY_MS = 100 };

struct gwt_watch {
    const gwt_metrics_place *place;
    const gwt_metrics_run *run;
    pthread_t thread;
    pthread_mutex_t lock; /* of now */
    gwt_metrics now;
    int wake[2]; /* a pipe: the thread ends when its other end is closed */
};

/* The text of now, released by free(); NULL if there is no memory. */
static char *print_now(gwt_watch *w, size_t *len)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, len);
    gwt_metrics copy;

    if (to == NULL)
        return NULL;
    pthread_mutex_lock(&w->lock);
    copy = w->now;
    pthread_mutex_unlock(&w->lock);
    gwt_metrics_print(to, w->run, &copy);
    if (fclose(to) == 0)
        return text;
    free(text);
    return NULL;
}

static gw_status write_file(gwt_watch *w)
{
    size_t len;
    char *text = print_now(w, &len);
    gw_status st;

    if (text == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for metrics");
    st = gwt_newfile_write(w->place->file, NULL, text, len);
    free(text);
    return st;
}

static void answer(gwt_watch *w)
{
    int fd = accept4(w->place->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    size_t len;
    char *text;

    /* Whoever it was is gone, or there are too many open files for now. */
    if (fd < 0) {
        (void)poll(&(struct pollfd){.fd = w->wake[0], .events = POLLIN}, 1, RETRY_MS);
        return;
    }
    text = print_now(w, &len);
    if (text != NULL)
        gwt_http_answer(fd, w->wake[0], text, len);
    free(text);
    close(fd);
}

static void *serve(void *arg)
{
    gwt_watch *w = arg;
    int port = w->place->file == NULL;
    struct pollfd fds[] = {{.fd = w->wake[0], .events = POLLIN},
                           {.fd = w->place->listener, .events = POLLIN}};

    for (;;) {
        int n = poll(fds, port ? 2 : 1, port ? -1 : FILE_MS);
        if (n < 0 && errno != EINTR)
            return NULL;
        if (n > 0 && fds[0].revents != 0)
            return NULL;
        /* A disk that is full now may have room later; the last write tells. */
        if (n == 0)
            (void)write_file(w);
        else if (n > 0)
            answer(w);
    }
}

/* Signals are for the thread that trains. */
static int start_thread(gwt_watch *w)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&w->thread, NULL, serve, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void release(gwt_watch *w)
{
    for (int i = 0; i < 2; i++)
        if (w->wake[i] > 0)
            close(w->wake[i]);
    pthread_mutex_destroy(&w->lock);
    gwt_free(w);
}

static gw_status begin(gwt_watch *w)
{
    int error;

    if (w->place->file != NULL)
        GWT_TRY(write_file(w));
    if (pipe2(w->wake, O_CLOEXEC) != 0)
        return gw_fail(GW_ERR_SYSTEM, "no pipe for --metrics: %s", strerror(errno));
    error = start_thread(w);
    if (error != 0)
        return gw_fail(GW_ERR_SYSTEM, "no thread for --metrics: %s", strerror(error));
    return GW_OK;
}

gw_status gwt_watch_start(gwt_watch **out, const gwt_metrics_place *place,
                          const gwt_metrics_run *run, const gwt_metrics *first)
{
    gwt_watch *w;
    gw_status st;

    *out = NULL;
    if (!gwt_place_given(place))
        return GW_OK;
    w = gwt_calloc(1, sizeof *w, "metrics");
    if (w == NULL)
        return GW_ERR_NOMEM;
    w->place = place;
    w->run = run;
    w->now = *first;
    pthread_mutex_init(&w->lock, NULL);
    st = begin(w);
    if (st != GW_OK) {
        release(w);
        return st;
    }
    *out = w;
    return GW_OK;
}

void gwt_watch_update(gwt_watch *watch, const gwt_metrics *now)
{
    if (watch == NULL)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->now = *now;
    pthread_mutex_unlock(&watch->lock);
}

gw_status gwt_watch_end(gwt_watch *watch)
{
    gw_status st = GW_OK;

    if (watch == NULL)
        return GW_OK;
    close(watch->wake[1]);
    watch->wake[1] = 0;
    pthread_join(watch->thread, NULL);
    if (watch->place->file != NULL)
        st = write_file(watch);
    release(watch);
    return st;
}
