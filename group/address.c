/* SPDX-License-Identifier: Apache-2.0
 *
 * address.c - parses addresses, listens and connects. */
#define _GNU_SOURCE
#include "address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

double gwg_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- texts --------------------------------------------------------------------- */

static gw_status fail_address(const char *text)
{
    return gw_fail(GW_ERR_ARG, "invalid address '%s'; expected HOST:PORT", text);
}

static int is_port(const char *text)
{
    char *end;
    long port = strtol(text, &end, 10);

    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && port <= 65535 &&
           strlen(text) < GWG_PORT_CAP;
}

gw_status gwg_address_parse(const char *text, gwg_address *out)
{
    const char *colon = strrchr(text, ':');
    const char *port = colon != NULL ? colon + 1 : text, *host = text;
    size_t len = colon != NULL ? (size_t)(colon - text) : 0;

    if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
        host++;
        len -= 2;
    }
    if (!is_port(port) || len >= sizeof out->host)
        return fail_address(text);
    snprintf(out->host, sizeof out->host, "%.*s", (int)len, host);
    snprintf(out->port, sizeof out->port, "%s", port);
    return GW_OK;
}

static gw_status look_up(const gwg_address *at, int passive, struct addrinfo **out)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = passive ? AI_PASSIVE : 0};
    int code =
        getaddrinfo(at->host[0] != '\0' ? at->host : NULL, at->port, &hints, out);

    if (code == 0)
        return GW_OK;
    return gw_fail(GW_ERR_ARG, "cannot find the host of '%s:%s': %s", at->host,
                   at->port, gai_strerror(code));
}

static void write_host(const struct sockaddr_storage *from, char host[GWG_HOST_CAP])
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)from;
    const struct sockaddr_in *four = (const struct sockaddr_in *)from;

    host[0] = '\0';
    if (from->ss_family == AF_INET)
        inet_ntop(AF_INET, &four->sin_addr, host, GWG_HOST_CAP);
    else if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, host, GWG_HOST_CAP);
    else
        inet_ntop(AF_INET6, &six->sin6_addr, host, GWG_HOST_CAP);
}

/* Lines leave at once, and a host that vanished without a word is noticed after some
 * twenty seconds. */
static void tune(int fd)
{
    int on = 1, idle = 10, interval = 3, count = 4;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

/* ---- listening ----------------------------------------------------------------- */

static int open_listener(const struct addrinfo *a)
{
    int on = 1, off = 0;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 128) == 0)
        return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

/* IPv6 sockets also take IPv4, so they come first where all interfaces are meant. */
static int open_first(const struct addrinfo *list, int family)
{
    int fd = -1;

    for (const struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next)
        if (a->ai_family == family)
            fd = open_listener(a);
    return fd;
}

gw_status gwg_listen(const gwg_address *at, int *fd, int *port)
{
    struct sockaddr_storage own;
    socklen_t len = sizeof own;
    struct addrinfo *list;

    GWG_TRY(look_up(at, 1, &list));
    *fd = open_first(list, AF_INET6);
    if (*fd < 0)
        *fd = open_first(list, AF_INET);
    freeaddrinfo(list);
    if (*fd < 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot listen at '%s:%s': %s", at->host,
                       at->port, strerror(errno));
    getsockname(*fd, (struct sockaddr *)&own, &len);
    *port = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                            : ((struct sockaddr_in *)&own)->sin_port);
    return GW_OK;
}

int gwg_is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

void gwg_local_host(int fd, char host[GWG_HOST_CAP])
{
    struct sockaddr_storage own;
    socklen_t len = sizeof own;

    host[0] = '\0';
    if (getsockname(fd, (struct sockaddr *)&own, &len) == 0)
        write_host(&own, host);
}

int gwg_accept(int listener, char from[GWG_HOST_CAP])
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    int fd =
        accept4(listener, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0)
        return -1;
    tune(fd);
    write_host(&peer, from);
    return fd;
}

/* ---- connecting ----------------------------------------------------------------- */

static int begin_one(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    tune(fd);
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS)
        return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

/* Returns 0 once fd is connected, otherwise an errno. */
static int finish_one(int fd, double seconds)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int code = 0;
    socklen_t len = sizeof code;

    if (poll(&p, 1, (int)(1e3 * seconds)) <= 0)
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) == 0 ? code : errno;
}

static gw_status fail_connect(const gwg_address *to, int code)
{
    return gw_fail(GW_ERR_PEER, "nobody answers at '%s:%s': %s", to->host, to->port,
                   strerror(code));
}

gw_status gwg_connect(const gwg_address *to, double seconds, int *fd)
{
    double end = gwg_now() + seconds;
    struct addrinfo *list;
    int code = ETIMEDOUT;

    GWG_TRY(look_up(to, 0, &list));
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        double left = end - gwg_now();
        *fd = begin_one(a);
        code = *fd < 0 ? errno : finish_one(*fd, left > 0 ? left : 0);
        if (code == 0)
            break;
        if (*fd >= 0)
            close(*fd);
    }
    freeaddrinfo(list);
    return code == 0 ? GW_OK : fail_connect(to, code);
}

int gwg_is_refused(const gwg_address *at, double seconds)
{
    struct addrinfo *list;
    int code, fd;

    if (look_up(at, 0, &list) != GW_OK)
        return 0;
    fd = begin_one(list);
    code = fd < 0 ? errno : finish_one(fd, seconds);
    if (fd >= 0)
        close(fd);
    freeaddrinfo(list);
    return code == ECONNREFUSED;
}

gw_status gwg_connect_begin(const gwg_address *to, int *fd)
{
    struct addrinfo *list;

    GWG_TRY(look_up(to, 0, &list));
    *fd = begin_one(list);
    int code = errno;
    freeaddrinfo(list);
    return *fd >= 0 ? GW_OK : fail_connect(to, code);
}
