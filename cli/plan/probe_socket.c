/* SPDX-License-Identifier: Apache-2.0
 *
 * probe_socket.c - connects, or waits for a connection. */
#define _GNU_SOURCE
#include "plan/probe_socket.h"

#include "common.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { HOST_CAP = 256, CONNECT_SECONDS = 10, ACCEPT_SECONDS = 600, PORT_MOST = 65535 };

void gwc_probe_close(int fd)
{
    close(fd);
}

/* Cuts "HOST:PORT" in two. A numeric IPv6 address is in brackets. */
static gw_status cut(const char *address, char host[HOST_CAP], const char **port)
{
    const char *end = strrchr(address, ':'), *begin = address;
    uint64_t number;
    size_t len = end != NULL ? (size_t)(end - begin) : 0;

    if (len > 2 && begin[0] == '[' && begin[len - 1] == ']') {
        begin++;
        len -= 2;
    } else if (end != NULL && memchr(begin, ':', len) != NULL) {
        len = 0;
    }
    if (len == 0 || len >= HOST_CAP)
        return gw_fail(GW_ERR_ARG,
                       "--measure: '%s' is not HOST:PORT; 'gradwire plan "
                       "--measure-listen PORT' on the other host says which port",
                       address);
    snprintf(host, HOST_CAP, "%.*s", (int)len, begin);
    *port = end + 1;
    return gwt_parse_count("--measure: the port", *port, 1, PORT_MOST, &number);
}

/* Linux uses the time limit of sends for connecting, too. */
static int connect_to(const struct addrinfo *to)
{
    struct timeval limit = {.tv_sec = CONNECT_SECONDS}, none = {.tv_sec = 0};
    int fd = socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC, to->ai_protocol);
    int error;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, to->ai_addr, to->ai_addrlen) == 0) {
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
        return fd;
    }
    error = errno == EINPROGRESS ? ETIMEDOUT : errno;
    close(fd);
    errno = error;
    return -1;
}

gw_status gwc_probe_connect(int *fd, const char *address)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM}, *found;
    char host[HOST_CAP];
    const char *port = "";
    int failed, why;

    *fd = -1;
    GWT_TRY(cut(address, host, &port));
    failed = getaddrinfo(host, port, &want, &found);
    if (failed != 0)
        return gw_fail(GW_ERR_ARG, "--measure: cannot find host %s: %s", host,
                       gai_strerror(failed));
    for (const struct addrinfo *to = found; to != NULL && *fd < 0; to = to->ai_next)
        *fd = connect_to(to);
    why = errno;
    freeaddrinfo(found);
    if (*fd < 0)
        return gw_fail(GW_ERR_SYSTEM,
                       "cannot connect to %s: %s; run 'gradwire plan --measure-listen "
                       "%s' there first",
                       address, strerror(why), port);
    return GW_OK;
}

/* Listens for IPv6 and IPv4 alike, or for IPv4 alone where there is no IPv6. */
static int listen_on(int port)
{
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6,
                                .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in any4 = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port)};
    int off = 0, on = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), bound;

    if (fd >= 0) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        bound = bind(fd, (struct sockaddr *)&any6, sizeof any6);
    } else {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return -1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        bound = bind(fd, (struct sockaddr *)&any4, sizeof any4);
    }
    if (bound == 0 && listen(fd, 1) == 0)
        return fd;
    off = errno;
    close(fd);
    errno = off;
    return -1;
}

static int port_of(int fd)
{
    struct sockaddr_storage name = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof name;

    if (getsockname(fd, (struct sockaddr *)&name, &len) != 0)
        return 0;
    return ntohs(name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
                                            : ((struct sockaddr_in *)&name)->sin_port);
}

/* IPv4 hosts connect as ::ffff:10.0.0.1, of which the end is what people know. */
static void name_peer(const struct sockaddr_storage *from, socklen_t len,
                      char peer[GWC_PEER_CAP])
{
    char text[GWC_PEER_CAP];
    const char *mapped = "::ffff:";

    if (getnameinfo((const struct sockaddr *)from, len, text, sizeof text, NULL, 0,
                    NI_NUMERICHOST) != 0)
        snprintf(text, sizeof text, "another host");
    snprintf(peer, GWC_PEER_CAP, "%s",
             strncmp(text, mapped, strlen(mapped)) == 0 ? text + strlen(mapped) : text);
}

static gw_status accept_one(int listener, int *fd, char peer[GWC_PEER_CAP])
{
    struct pollfd waiting = {.fd = listener, .events = POLLIN};
    struct sockaddr_storage from;
    socklen_t len = sizeof from;
    int ready = poll(&waiting, 1, 1000 * ACCEPT_SECONDS);

    if (ready == 0)
        return gw_fail(GW_ERR_TIMEOUT,
                       "nobody has connected for %d s to measure the link",
                       ACCEPT_SECONDS);
    if (ready > 0)
        *fd = accept4(listener, (struct sockaddr *)&from, &len, SOCK_CLOEXEC);
    if (*fd < 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot accept a connection: %s",
                       strerror(errno));
    name_peer(&from, len, peer);
    return GW_OK;
}

gw_status gwc_probe_accept(int *fd, int port, char peer[GWC_PEER_CAP])
{
    char name[HOST_CAP] = "this host";
    int listener = listen_on(port);
    gw_status st;

    *fd = -1;
    if (listener < 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot listen on port %d: %s", port,
                       strerror(errno));
    (void)gethostname(name, sizeof name - 1);
    fprintf(stderr,
            "gradwire: waiting for 'gradwire plan --measure %s:%d' on another host\n",
            name, port_of(listener));
    st = accept_one(listener, fd, peer);
    close(listener);
    return st;
}
