/* SPDX-License-Identifier: Apache-2.0
 *
 * etcd_http.c - requests to etcd's JSON gateway, over plain HTTP/1.1. One request at a
 * time goes to one of the endpoints, over a connection that is kept. Beside it a watch
 * stays open at the same endpoint, whose bytes only say that something has changed. */
#define _GNU_SOURCE
#include "etcd.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* An endpoint that takes longer, such as one that has lost its cluster, is left for the
 * next. A healthy one answers in milliseconds, a new leader is found within seconds. */
#define ANSWER_SECONDS  3.0
#define CONNECT_SECONDS 1.5

enum { HEAD_MOST = 1 << 14, PIECE = 1 << 14 };

struct gwg_etcd {
    const gwg_self *self;
    int endpoint;
    int fd, watch_fd; /* -1: not connected */
    gwg_text head, answer;
    char local[GWG_HOST_CAP];
};

/* ---- answers --------------------------------------------------------------------- */

static gw_status fail_answer(void)
{
    return gw_fail(GW_ERR_DATA, "etcd's answer is not HTTP");
}

/* Finds a field in a head that ends with an empty line. Returns its value, which ends
 * at the end of its line, or NULL. */
static const char *find_field(const char *head, const char *name)
{
    size_t len = strlen(name);

    for (const char *line = strstr(head, "\r\n"); line != NULL;
         line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, len) == 0 && line[len] == ':')
            return line + len + 1 + strspn(line + len + 1, " \t");
    }
    return NULL;
}

/* Joins the pieces of a body in place. GW_PENDING: some are missing. */
static gw_status join_pieces(char *body, size_t len, size_t *joined)
{
    size_t at = 0, out = 0;

    for (;;) {
        char *end = memmem(body + at, len - at, "\r\n", 2), *stop;
        if (end == NULL)
            return len - at > 1024 ? fail_answer() : GW_PENDING;
        unsigned long n = strtoul(body + at, &stop, 16);
        if (stop == body + at || (*stop != '\r' && *stop != ';') || n > GWG_TEXT_MOST ||
            strchr("+- \t", body[at]) != NULL)
            return fail_answer();
        at = (size_t)(end - body) + 2;
        if (len - at < n + 2)
            return GW_PENDING;
        if (n == 0)
            break;
        if (memcmp(body + at + n, "\r\n", 2) != 0)
            return fail_answer();
        memmove(body + out, body + at, n);
        out += n;
        at += n + 2;
    }
    /* Fields may follow the last piece, which an empty line ends. */
    if (memmem(body + at - 2, len - at + 2, "\r\n\r\n", 4) == NULL)
        return GW_PENDING;
    body[out] = '\0';
    *joined = out;
    return GW_OK;
}

/* A body that came in pieces is joined only once it is whole, so nothing is moved
 * before that: the pieces are looked at in a copy. */
static gw_status read_pieces(const gwg_text *all, size_t start, gwg_text *body)
{
    size_t joined = 0;

    body->len = 0;
    gwg_text_bytes(body, all->at + start, all->len - start);
    if (body->failed)
        return gw_fail(GW_ERR_NOMEM, "etcd's answer is too long");
    GWG_TRY(join_pieces(body->at, body->len, &joined));
    body->len = joined;
    return GW_OK;
}

/* HTTP/1.1 200 OK */
static bool read_status(const char *head, int *status)
{
    if (strncmp(head, "HTTP/1.", 7) != 0 || strspn(head + 7, "01") != 1 ||
        head[8] != ' ' || strspn(head + 9, "0123456789") != 3)
        return false;
    *status = atoi(head + 9);
    return true;
}

gw_status gwg_http_read(gwg_text *all, int *status, gwg_text *body)
{
    char *end = all->len > 0 ? memmem(all->at, all->len, "\r\n\r\n", 4) : NULL;
    const char *field;
    char *stop;

    if (end == NULL)
        return all->len > HEAD_MOST ? fail_answer() : GW_PENDING;
    size_t start = (size_t)(end - all->at) + 4;
    if (memchr(all->at, '\0', start) != NULL || !read_status(all->at, status))
        return fail_answer();
    /* The field ends where the head does. */
    char kept = end[2];
    end[2] = '\0';
    field = find_field(all->at, "Content-Length");
    unsigned long len = field != NULL ? strtoul(field, &stop, 10) : 0;
    bool measured = field != NULL && *field >= '0' && *field <= '9' && *stop == '\r';
    field = find_field(all->at, "Transfer-Encoding");
    bool pieces = field != NULL && strncasecmp(field, "chunked\r", 8) == 0;
    end[2] = kept;
    if (pieces)
        return read_pieces(all, start, body);
    if (!measured || len > GWG_TEXT_MOST)
        return fail_answer();
    if (all->len - start < len)
        return GW_PENDING;
    body->len = 0;
    gwg_text_bytes(body, all->at + start, len);
    return body->failed ? gw_fail(GW_ERR_NOMEM, "etcd's answer is too long") : GW_OK;
}

/* ---- connections ----------------------------------------------------------------- */

static void hang_up(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static const gwg_address *endpoint(const gwg_etcd *e)
{
    return &e->self->meetings[e->endpoint];
}

gw_status gwg_etcd_open(gwg_etcd **out, const gwg_self *self)
{
    gwg_etcd *e = calloc(1, sizeof *e);

    *out = e;
    if (e == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to call etcd");
    e->self = self;
    e->fd = e->watch_fd = -1;
    /* Members begin at different endpoints. */
    e->endpoint = (int)(self->token % (uint64_t)self->meeting_count);
    return GW_OK;
}

void gwg_etcd_close(gwg_etcd *e)
{
    if (e == NULL)
        return;
    hang_up(&e->fd);
    hang_up(&e->watch_fd);
    gwg_text_free(&e->head);
    gwg_text_free(&e->answer);
    free(e);
}

static gw_status fail_peer(const gwg_etcd *e, const char *why)
{
    return gw_fail(GW_ERR_PEER, "nobody answers at '%s:%s': %s", endpoint(e)->host,
                   endpoint(e)->port, why);
}

/* Waits until fd can move, but not past the time `end`. */
static bool can_move(int fd, short events, double end)
{
    struct pollfd p = {.fd = fd, .events = events};
    double left = end - gwg_now();

    return left > 0 && poll(&p, 1, (int)(1e3 * left) + 1) > 0;
}

static gw_status send_all(const gwg_etcd *e, int fd, const gwg_text *text, double end)
{
    for (size_t sent = 0; sent < text->len;) {
        ssize_t n = send(fd, text->at + sent, text->len - sent, MSG_NOSIGNAL);
        if (n > 0)
            sent += (size_t)n;
        else if (n < 0 && errno != EAGAIN && errno != EINTR)
            return fail_peer(e, strerror(errno));
        else if (!can_move(fd, POLLOUT, end))
            return fail_peer(e, "it takes no request");
    }
    return GW_OK;
}

static gw_status send_request(gwg_etcd *e, int fd, const char *path,
                              const gwg_text *body, double end)
{
    const gwg_address *at = endpoint(e);
    bool six = strchr(at->host, ':') != NULL;

    e->head.len = 0;
    gwg_text_add(&e->head,
                 "POST %s HTTP/1.1\r\nHost: %s%s%s:%s\r\nContent-Type: "
                 "application/json\r\nContent-Length: %zu\r\n\r\n",
                 path, six ? "[" : "", at->host, six ? "]" : "", at->port, body->len);
    gwg_text_bytes(&e->head, body->at, body->len);
    if (e->head.failed)
        return gw_fail(GW_ERR_SPACE, "a request to etcd is too large");
    return send_all(e, fd, &e->head, end);
}

/* Reads until the answer is whole. */
static gw_status await_answer(gwg_etcd *e, int *status, double end)
{
    gw_status st;

    e->head.len = 0;
    while ((st = gwg_http_read(&e->head, status, &e->answer)) == GW_PENDING) {
        char piece[PIECE];
        ssize_t n = recv(e->fd, piece, sizeof piece, 0);
        if (n > 0)
            gwg_text_bytes(&e->head, piece, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return fail_peer(e, n == 0 ? "it has hung up" : strerror(errno));
        else if (!can_move(e->fd, POLLIN, end))
            return fail_peer(e, "it takes too long");
        if (e->head.failed)
            return gw_fail(GW_ERR_PEER, "etcd's answer is too long");
    }
    return st;
}

/* ---- requests -------------------------------------------------------------------- */

static gw_status connect_here(gwg_etcd *e, int *fd, bool *refused)
{
    gw_status st = gwg_connect(endpoint(e), CONNECT_SECONDS, fd);

    if (st == GW_OK)
        return GW_OK;
    *fd = -1;
    *refused = true;
    return st == GW_ERR_ARG ? GW_ERR_PEER : st;
}

static gw_status exchange(gwg_etcd *e, const char *path, const gwg_text *request,
                          int *status, bool *refused)
{
    double end = gwg_now() + ANSWER_SECONDS;

    if (e->fd < 0)
        GWG_TRY(connect_here(e, &e->fd, refused));
    gwg_local_host(e->fd, e->local);
    GWG_TRY(send_request(e, e->fd, path, request, end));
    gw_status st = await_answer(e, status, end);
    return st == GW_ERR_DATA ? GW_ERR_PEER : st;
}

/* The gateway answers 404 if a lease has run out, and 5xx while the cluster has no
 * leader. */
static gw_status judge(const gwg_etcd *e, int status)
{
    if (status == 200 && e->answer.len > 0)
        return GW_OK;
    bool refuses = status == 400 || status == 401 || status == 403 || status == 404;
    return gw_fail(refuses ? GW_ERR_DATA : GW_ERR_PEER,
                   "etcd at '%s:%s' answers %d: %.100s", endpoint(e)->host,
                   endpoint(e)->port, status, e->answer.len > 0 ? e->answer.at : "");
}

gw_status gwg_etcd_post(gwg_etcd *e, const char *path, const gwg_text *request,
                        char **answer, bool *refused)
{
    bool kept = e->fd >= 0;
    int status = 0;
    gw_status st;

    *answer = NULL;
    *refused = false;
    if (request->failed)
        return gw_fail(GW_ERR_SPACE, "a request to etcd is too large");
    e->head.failed = e->answer.failed = false;
    st = exchange(e, path, request, &status, refused);
    /* A connection that was kept may have ended meanwhile. All our requests may be made
     * twice. */
    if (st == GW_ERR_PEER && kept) {
        hang_up(&e->fd);
        st = exchange(e, path, request, &status, refused);
    }
    if (st == GW_OK)
        st = judge(e, status);
    if (st == GW_OK) {
        *answer = e->answer.at;
        return GW_OK;
    }
    hang_up(&e->fd);
    hang_up(&e->watch_fd);
    e->endpoint = (e->endpoint + 1) % e->self->meeting_count;
    return st;
}

/* ---- the watch ------------------------------------------------------------------- */

void gwg_etcd_watch(gwg_etcd *e, const char *prefix, uint64_t revision)
{
    size_t len = strlen(prefix);
    gwg_text body = {0}, end = {0};
    bool refused;

    if (e->watch_fd >= 0)
        return;
    gwg_text_add(&body, "{\"create_request\":{\"start_revision\":\"%llu\",\"key\":\"",
                 (unsigned long long)revision);
    gwg_text_base64(&body, prefix, len);
    gwg_text_bytes(&end, prefix, len - 1);
    gwg_text_add(&end, "0"); /* follows '/' */
    gwg_text_add(&body, "\",\"range_end\":\"");
    gwg_text_base64(&body, end.failed ? "" : end.at, end.len);
    gwg_text_add(&body, "\"}}");
    if (!body.failed && !end.failed &&
        connect_here(e, &e->watch_fd, &refused) == GW_OK &&
        send_request(e, e->watch_fd, "/v3/watch", &body, gwg_now() + ANSWER_SECONDS) !=
            GW_OK)
        hang_up(&e->watch_fd);
    gwg_text_free(&body);
    gwg_text_free(&end);
}

/* What it says is not read: it says that something has changed. */
static void drain(gwg_etcd *e)
{
    char piece[PIECE];
    ssize_t n;

    do
        n = recv(e->watch_fd, piece, sizeof piece, 0);
    while (n == (ssize_t)sizeof piece);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        hang_up(&e->watch_fd);
}

bool gwg_etcd_sleep(gwg_etcd *e, int fd, double seconds)
{
    struct pollfd p[2] = {{.fd = fd, .events = POLLIN},
                          {.fd = e->watch_fd, .events = POLLIN}};

    poll(p, e->watch_fd >= 0 ? 2 : 1, (int)(1e3 * seconds) + 1);
    if (e->watch_fd < 0 || p[1].revents == 0)
        return e->watch_fd < 0;
    drain(e);
    return true;
}

const char *gwg_etcd_local(const gwg_etcd *e)
{
    return e->local;
}
