/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics_place.c - reads --metrics, and listens. */
#define _GNU_SOURCE
#include "watch/metrics_place.h"
#include "files/newfile.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connections that wait for their turn. */
enum { BACKLOG = 16, PORT_MOST = 65535 };

static const char this_machine[] = "127.0.0.1";

static int is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static gw_status take_port(gwt_metrics_place *place, const char *text)
{
    uint64_t port;

    GWT_TRY(gwt_parse_count("--metrics: port", text, 0, PORT_MOST, &port));
    snprintf(place->port, sizeof place->port, "%u", (unsigned)port);
    return GW_OK;
}

/* What is in front of the colon, without the brackets of an IPv6 address. */
static gw_status take_host(gwt_metrics_place *place, const char *text, size_t len)
{
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    if (len == 0 || len >= sizeof place->host)
        return gw_fail(GW_ERR_ARG,
                       "--metrics: a host is missing in front of the port; 0.0.0.0 "
                       "stands for all addresses of this machine");
    snprintf(place->host, sizeof place->host, "%.*s", (int)len, text);
    return GW_OK;
}

gw_status gwt_place_parse(gwt_metrics_place *out, const char *text)
{
    *out = (gwt_metrics_place){0};
    if (text == NULL)
        return GW_OK;
    if (text[0] == '\0')
        return gw_fail(GW_ERR_ARG, "--metrics: expected a file, a port or HOST:PORT");
    const char *colon = strrchr(text, ':');
    if (is_number(text)) {
        snprintf(out->host, sizeof out->host, "%s", this_machine);
        return take_port(out, text);
    }
    if (colon != NULL && is_number(colon + 1) && strchr(text, '/') == NULL) {
        GWT_TRY(take_host(out, text, (size_t)(colon - text)));
        return take_port(out, colon + 1);
    }
    out->file = text;
    return GW_OK;
}

int gwt_place_given(const gwt_metrics_place *place)
{
    return place->file != NULL || place->host[0] != '\0';
}

/* A socket that listens at that address; -1, and errno says why. */
static int listen_at(const struct addrinfo *at)
{
    int on = 1,
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    at->ai_protocol);

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    on = errno;
    close(fd);
    errno = on;
    return -1;
}

/* "http://HOST:PORT/metrics" with the port that was taken. */
static void name_listener(gwt_metrics_place *place)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    int v6 = strchr(place->host, ':') != NULL;

    if (getsockname(place->listener, (struct sockaddr *)&address, &len) == 0)
        (void)getnameinfo((struct sockaddr *)&address, len, NULL, 0, place->port,
                          sizeof place->port, NI_NUMERICSERV);
    snprintf(place->name, sizeof place->name, "http://%s%s%s:%s/metrics", v6 ? "[" : "",
             place->host, v6 ? "]" : "", place->port);
}

static gw_status open_listener(gwt_metrics_place *place)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int fd, error = getaddrinfo(place->host, place->port, &hints, &found);

    if (error != 0)
        return gw_fail(GW_ERR_SYSTEM, "--metrics: cannot listen at %s:%s: %s",
                       place->host, place->port, gai_strerror(error));
    fd = listen_at(found);
    freeaddrinfo(found);
    if (fd < 0)
        return gw_fail(GW_ERR_SYSTEM, "--metrics: cannot listen at %s:%s: %s%s",
                       place->host, place->port, strerror(errno),
                       errno == EADDRINUSE ? "; port 0 takes one that is free" : "");
    place->listener = fd;
    name_listener(place);
    return GW_OK;
}

gw_status gwt_place_open(gwt_metrics_place *place)
{
    if (!gwt_place_given(place))
        return GW_OK;
    if (place->file == NULL)
        return open_listener(place);
    snprintf(place->name, sizeof place->name, "%.*s", GWT_HOST_CAP, place->file);
    return gwt_newfile_check(place->file);
}

void gwt_place_close(gwt_metrics_place *place)
{
    if (place->listener > 0)
        close(place->listener);
    place->listener = 0;
}
