/* SPDX-License-Identifier: Apache-2.0
 *
 * test_command_probe.c - measuring a link: two workers agree, and the one that answers
 * trusts no request. */
#include "../../cli/plan/link_probe.c"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* What the probe would use to find the other worker. */
gw_status gwc_probe_connect(int *fd, const char *address)
{
    (void)fd, (void)address;
    return GW_ERR_SYSTEM;
}

gw_status gwc_probe_accept(int *fd, int port, char peer[GWC_PEER_CAP])
{
    (void)fd, (void)port, (void)peer;
    return GW_ERR_SYSTEM;
}

void gwc_probe_close(int fd)
{
    close(fd);
}

void gwc_launch_guard(const gwc_launch *launch)
{
    (void)launch;
}

gw_status gwc_launch_join(gw_comm **out, const gwc_launch *launch, double timeout,
                          int native)
{
    (void)out, (void)launch, (void)timeout, (void)native;
    return GW_ERR_ABSENT;
}

int gwc_launch_alone(const gwc_launch *launch, int code)
{
    (void)launch;
    return code;
}

int gwc_launch_end(gw_comm *comm, int code, int agreed)
{
    (void)comm, (void)agreed;
    return code;
}

int gwc_exit_code(gw_status st)
{
    return st == GW_OK ? 0 : 1;
}

typedef struct answering {
    int fd;
    gw_status status;
} answering;

static void *answer(void *arg)
{
    answering *a = arg;

    a->status = over_socket(a->fd, 1, "there", NULL);
    return NULL;
}

static void start(pthread_t *thread, answering *a, int *fd)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    a->fd = pair[1];
    *fd = pair[0];
    assert_int_equal(pthread_create(thread, NULL, answer, a), 0);
}

static void measures(void **state)
{
    gwc_link link = {0, 0};
    answering a;
    pthread_t thread;
    int fd;

    (void)state;
    start(&thread, &a, &fd);
    assert_int_equal(over_socket(fd, 0, "here", &link), GW_OK);
    pthread_join(thread, NULL);
    assert_int_equal(a.status, GW_OK);
    assert_true(link.bytes_per_second > 0.0 && isfinite(link.bytes_per_second));
    assert_true(link.delay > 0.0 && link.delay < 60.0);
}

/* A worker 0 that begins with such a request. */
static gw_status answer_to(request r, size_t len)
{
    int fds[2] = {-1, -1};
    gw_comm *comm;
    answering a;
    pthread_t thread;

    start(&thread, &a, &fds[1]);
    assert_int_equal(gw_comm_sockets(&comm, fds, NULL, 0, 2, NULL), GW_OK);
    assert_int_equal(gw_transfer(comm, 0, &r, 1, NULL, len), GW_OK);
    pthread_join(thread, NULL);
    gw_comm_free(comm);
    return a.status;
}

static void trusts_no_request(void **state)
{
    (void)state;
    assert_int_equal(answer_to((request){MAGIC, ASK_END, 0}, sizeof(request)), GW_OK);
    assert_int_equal(answer_to((request){MAGIC + 1, ASK_END, 0}, sizeof(request)),
                     GW_ERR_DATA);
    assert_int_equal(answer_to((request){MAGIC, 0, 0}, sizeof(request)), GW_ERR_DATA);
    assert_int_equal(answer_to((request){MAGIC, 4, 0}, sizeof(request)), GW_ERR_DATA);
    assert_int_equal(
        answer_to((request){MAGIC, ASK_SEND, LENGTH_MOST + 1ull}, sizeof(request)),
        GW_ERR_DATA);
    assert_int_equal(answer_to((request){MAGIC, ASK_TAKE, UINT64_MAX}, sizeof(request)),
                     GW_ERR_DATA);
    assert_int_equal(answer_to((request){MAGIC, ASK_TAKE, 8}, 12), GW_ERR_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measures),
        cmocka_unit_test(trusts_no_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
