/* SPDX-License-Identifier: Apache-2.0
 *
 * talk.c - lines of text over an encrypted connection. */
#define _GNU_SOURCE
#include "talk.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gwg_talk gwg_talk_over(gwg_conn *conn)
{
    return (gwg_talk){.conn = conn};
}

void gwg_talk_end(gwg_talk *t)
{
    gwg_conn_free(t->conn);
    free(t->out);
    *t = (gwg_talk){0};
}

static gw_status ended(void)
{
    return gw_fail(GW_ERR_PEER, "the connection has ended");
}

/* ---- sending ------------------------------------------------------------------- */

gw_status gwg_talk_send(gwg_talk *t)
{
    while (t->out_len > 0) {
        struct iovec part = {t->out, t->out_len};
        long n = gwg_conn_write(t->conn, &part, 1);
        if (n < 0)
            return ended();
        if (n == 0)
            return GW_OK;
        t->out_len -= (size_t)n;
        memmove(t->out, t->out + n, t->out_len);
    }
    return gwg_conn_unsent(t->conn) > 0 && gwg_conn_write(t->conn, NULL, 0) < 0
               ? ended()
               : GW_OK;
}

static gw_status make_room(gwg_talk *t, size_t len)
{
    size_t cap = t->out_cap > 0 ? t->out_cap : 1024;
    char *out;

    while (cap < t->out_len + len)
        cap *= 2;
    if (cap > GWG_WAITING_CAP)
        return gw_fail(GW_ERR_SPACE, "the other side does not read");
    if (cap == t->out_cap)
        return GW_OK;
    out = realloc(t->out, cap);
    if (out == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a message");
    t->out = out;
    t->out_cap = cap;
    return GW_OK;
}

gw_status gwg_talk_put(gwg_talk *t, const char *format, ...)
{
    char line[GWG_LINE_CAP];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof line)
        return gw_fail(GW_ERR_SPACE, "a line for the meeting is too long");
    line[len] = '\n';
    GWG_TRY(make_room(t, (size_t)len + 1));
    memcpy(t->out + t->out_len, line, (size_t)len + 1);
    t->out_len += (size_t)len + 1;
    return GW_OK;
}

/* ---- receiving ----------------------------------------------------------------- */

/* Reads on until there is a whole line, or nothing more. */
static gw_status receive(gwg_talk *t)
{
    while (t->in_len < sizeof t->in && memchr(t->in, '\n', t->in_len) == NULL) {
        long n = gwg_conn_read(t->conn, t->in + t->in_len, sizeof t->in - t->in_len);
        if (n < 0)
            return ended();
        if (n == 0)
            return GW_OK;
        t->in_len += (size_t)n;
    }
    return GW_OK;
}

static int is_printable(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] < ' ' || text[i] > '~')
            return 0;
    return 1;
}

gw_status gwg_talk_take(gwg_talk *t, char line[GWG_LINE_CAP])
{
    gw_status st = receive(t);
    char *end = memchr(t->in, '\n', t->in_len);
    size_t len = end != NULL ? (size_t)(end - t->in) : t->in_len;

    if (end == NULL && t->in_len < sizeof t->in)
        return st != GW_OK ? st : GW_PENDING;
    if (end == NULL || !is_printable(t->in, len))
        return gw_fail(GW_ERR_DATA, "the other side sent a malformed line");
    memcpy(line, t->in, len);
    line[len] = '\0';
    t->in_len -= len + 1;
    memmove(t->in, end + 1, t->in_len);
    return GW_OK;
}

gw_status gwg_talk_move(gwg_talk *t)
{
    GWG_TRY(gwg_talk_send(t));
    return receive(t) == GW_OK || t->in_len > 0 ? GW_OK : ended();
}

int gwg_talk_has_more(const gwg_talk *t)
{
    return memchr(t->in, '\n', t->in_len) != NULL || gwg_conn_unread(t->conn) > 0;
}

short gwg_talk_events(const gwg_talk *t)
{
    return (short)(gwg_conn_events(t->conn) | (t->out_len > 0 ? POLLOUT : 0));
}
