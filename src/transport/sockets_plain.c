/* SPDX-License-Identifier: Apache-2.0
 *
 * sockets_plain.c - the bytes of a connection that nobody encrypts: those of its
 * socket. */
#define _GNU_SOURCE
#include "transport/sockets.h"

#include <errno.h>
#include <sys/socket.h>

static int fd_of(void *ctx)
{
    return (int)(intptr_t)ctx;
}

static long outcome(ssize_t n, long ended)
{
    if (n > 0)
        return (long)n;
    if (n == 0)
        return ended;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

static long plain_read(void *ctx, void *buf, size_t len)
{
    return outcome(recv(fd_of(ctx), buf, len, 0), len > 0 ? -1 : 0);
}

static long plain_write(void *ctx, const struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                             .msg_iovlen = (size_t)count};

    return outcome(sendmsg(fd_of(ctx), &message, MSG_NOSIGNAL), 0);
}

static size_t plain_nothing(void *ctx)
{
    (void)ctx;
    return 0;
}

static void plain_release(void *ctx)
{
    (void)ctx;
}

gw_stream gwi_stream_plain(int fd)
{
    return (gw_stream){
        .fd = fd,
        .ctx = (void *)(intptr_t)fd,
        .read = plain_read,
        .write = plain_write,
        .unread = plain_nothing,
        .unsent = plain_nothing,
        .release = plain_release,
    };
}
