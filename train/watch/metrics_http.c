/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics_http.c - as much of HTTP/1.1 as a scrape needs. The answer does not depend on
 * headers, every connection ends after one answer, and requests longer than REQUEST_CAP
 * are refused. */
#define _GNU_SOURCE
#include "watch/metrics_http.h"
#include "common.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUEST_CAP = 8192, HEAD_CAP = 512 };

/* Others wait for their turn as long as one who sends nothing is waited for. */
static const double patience = 2.0;

typedef struct caller {
    int fd, wake;
    double deadline;
} caller;

/* Waits until the connection is ready for `events`; 0 if the time is over, the run ends
 * or the connection fails. */
static int wait_for(const caller *c, short events)
{
    struct pollfd fds[] = {{.fd = c->fd, .events = events},
                           {.fd = c->wake, .events = POLLIN}};

    for (;;) {
        double left = c->deadline - gwt_now();
        int n = left > 0.0 ? poll(fds, 2, 1 + (int)(1e3 * left)) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        return n > 0 && fds[1].revents == 0 && (fds[0].revents & (events | POLLHUP));
    }
}

/* Reads up to the empty line; 0 if it does not come. A request that is too long, or has
 * a zero byte in it, fills the buffer. */
static int read_request(const caller *c, char request[REQUEST_CAP])
{
    size_t len = 0;

    request[0] = '\0';
    while (len + 1 < REQUEST_CAP && strstr(request, "\r\n\r\n") == NULL) {
        if (!wait_for(c, POLLIN))
            return 0;
        ssize_t n = recv(c->fd, request + len, REQUEST_CAP - 1 - len, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return 0;
        len += (size_t)n;
        request[len] = '\0';
    }
    return 1;
}

static void send_all(const caller *c, const char *bytes, size_t len)
{
    while (len > 0 && wait_for(c, POLLOUT)) {
        ssize_t n = send(c->fd, bytes, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return;
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
}

static int is_path(const char *at, const char *path)
{
    size_t len = strlen(path);

    return strncmp(at, path, len) == 0 && (at[len] == ' ' || at[len] == '?');
}

/* The status of the answer to a request. */
static const char *judge(const char *request)
{
    const char *target = strchr(request, ' ');
    const char *line_end = strstr(request, "\r\n");

    if (strstr(request, "\r\n\r\n") == NULL)
        return "431 Request Header Fields Too Large";
    if (target == NULL || target > line_end || target[1] != '/' ||
        memmem(target, (size_t)(line_end - target), " HTTP/1.", 8) == NULL)
        return "400 Bad Request";
    if (strncmp(request, "GET ", 4) != 0 && strncmp(request, "HEAD ", 5) != 0)
        return "405 Method Not Allowed";
    if (!is_path(target + 1, "/metrics") && !is_path(target + 1, "/"))
        return "404 Not Found";
    return "200 OK";
}

/* Says that nothing more comes, and reads what is on its way: closing a socket with
 * unread bytes would take the answer back. */
static void say_goodbye(const caller *c)
{
    char rest[1024];

    shutdown(c->fd, SHUT_WR);
    while (wait_for(c, POLLIN) && recv(c->fd, rest, sizeof rest, 0) > 0)
        ;
}

void gwt_http_answer(int connection, int wake, const char *text, size_t len)
{
    caller c = {.fd = connection, .wake = wake, .deadline = gwt_now() + patience};
    char request[REQUEST_CAP], head[HEAD_CAP], sorry[64];

    if (!read_request(&c, request))
        return;
    const char *status = judge(request);
    int good = status[0] == '2';
    if (!good) {
        snprintf(sorry, sizeof sorry, "%s; try /metrics\n", status);
        text = sorry;
        len = strlen(sorry);
    }
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
                     "Connection: close\r\n\r\n",
                     status,
                     good ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                          : "text/plain; charset=utf-8",
                     len, strncmp(status, "405", 3) == 0 ? "Allow: GET, HEAD\r\n" : "");
    send_all(&c, head, (size_t)n);
    if (strncmp(request, "HEAD ", 5) != 0)
        send_all(&c, text, len);
    say_goodbye(&c);
}
