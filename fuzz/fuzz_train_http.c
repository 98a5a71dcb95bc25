/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_train_http.c - any bytes as a request for metrics: it is answered with one of
 * the known statuses or not at all, and only a request that ends is. */
#define _GNU_SOURCE
#include "../train/watch/metrics_http.c"

#include <stdint.h>
#include <stdlib.h>

static const char text[] = "# EOF\n";

/* Whether the answer begins with one of the statuses that there are. */
static int is_known(const char *answer)
{
    static const char *const known[] = {"200", "400", "404", "405", "431"};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strncmp(answer, "HTTP/1.1 ", 9) == 0 &&
            strncmp(answer + 9, known[i], 3) == 0)
            return 1;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char answer[1024] = "";
    int ends[2], wake[2];

    if (len > 65536 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0 ||
        pipe(wake) != 0)
        return 0;
    /* The kernel holds this much, or the rest is cut off. */
    ssize_t sent = send(ends[0], data, len, MSG_NOSIGNAL);
    shutdown(ends[0], SHUT_WR);
    gwt_http_answer(ends[1], wake[0], text, sizeof text - 1);
    ssize_t got = recv(ends[0], answer, sizeof answer - 1, 0);
    int whole = sent > 0 && memmem(data, (size_t)sent, "\r\n\r\n", 4) != NULL;
    if (got > 0 ? !is_known(answer) : whole && memchr(data, 0, len) == NULL)
        abort();
    close(ends[0]);
    close(ends[1]);
    close(wake[0]);
    close(wake[1]);
    return 0;
}
