/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sockets_fork.c - a process that was forked has copies of its parent's comms. It
 * must not speak for its parent, whatever it does with them, nor keep connections open
 * that end when the parent dies. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm.h"
#include "support_sockets.h"

/* ---- a child does something with the comm ------------------------------- */

static int frees(gw_comm *comm)
{
    gw_comm_free(comm);
    return 0;
}

static int fails(gw_comm *comm)
{
    gw_fail(GW_ERR_DATA, "a helper has failed");
    int good = gw_comm_fail(comm, GW_ERR_DATA) == GW_ERR_DATA;

    gw_comm_free(comm);
    return good ? 0 : 1;
}

static int uses(gw_comm *comm)
{
    int good = gw_barrier(comm) == GW_ERR_ARG &&
               strstr(gw_error_message(), "belongs to the process that made it");

    gw_comm_free(comm);
    return good ? 0 : 1;
}

static int run_child(int (*act)(gw_comm *comm), gw_comm *comm)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0)
        _exit(act(comm));
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What the other end reads, without waiting: -1 for nothing. */
static ssize_t peek(int fd, uint8_t *bytes, size_t cap)
{
    ssize_t n = recv(fd, bytes, cap, MSG_DONTWAIT);

    assert_true(n >= 0 || errno == EAGAIN);
    return n;
}

static void check_silence(int (*act)(gw_comm *comm))
{
    static const uint8_t frames[] = {2, 0, 0, 0, 0, 0, 0, 0, 7,
                                     8, 0, 0, 0, 0, 0, 0, 0, 1};
    socket_group *group = socket_group_new(2);
    int other = socket_group_fd(group, 1, 0);
    uint8_t in[64];
    gw_comm *comm;

    assert_run_ok(stream_comm_new(&comm, group, 0, 5));
    assert_int_equal(run_child(act, comm), 0);
    assert_int_equal(peek(other, in, sizeof in), -1);
    /* And the parent goes on as if nothing had happened. */
    assert_run_ok(gwi_send(comm, &comm->ops[0], 1, frames + 8, 2));
    assert_run_ok(gwi_wait(comm, &comm->ops[0]));
    gw_comm_free(comm);
    assert_int_equal(peek(other, in, sizeof in), sizeof frames);
    assert_memory_equal(in, frames, sizeof frames);
    assert_int_equal(peek(other, in, sizeof in), 0);
    socket_group_free(group);
}

static void test_child_says_nothing(void **state)
{
    (void)state;
    check_silence(frees);
    check_silence(fails);
    check_silence(uses);
}

/* ---- a child outlives its parent ---------------------------------------- */

/* Rank 0 in a process of its own, with a helper that stays until told to go. */
static void rank_with_helper(int fd, int ready, int go)
{
    int fds[2] = {-1, fd};
    char byte;
    gw_comm *comm;

    if (gw_comm_sockets(&comm, fds, NULL, 0, 2, NULL) != GW_OK)
        _exit(1);
    if (fork() == 0) {
        (void)!write(ready, "h", 1);
        (void)!read(go, &byte, 1);
        _exit(0);
    }
    pause();
    _exit(0);
}

static void test_death_is_seen_despite_helper(void **state)
{
    struct pollfd end = {.events = POLLIN};
    int pair[2], ready[2], go[2];
    char byte;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    pid_t rank = fork();
    if (rank == 0) {
        close(go[1]);
        close(pair[1]);
        rank_with_helper(pair[0], ready[1], go[0]);
    }
    close(pair[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    kill(rank, SIGKILL);
    waitpid(rank, NULL, 0);
    end.fd = pair[1];
    assert_int_equal(poll(&end, 1, 10000), 1);
    assert_int_equal(recv(end.fd, &byte, 1, 0), 0);
    close(pair[1]);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(go[i]);
    }
}

static void test_programs_do_not_inherit(void **state)
{
    socket_group *group = socket_group_new(2);
    int fd = socket_group_fd(group, 0, 1);
    gw_comm *comm;

    (void)state;
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    assert_run_ok(stream_comm_new(&comm, group, 0, 5));
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    gw_comm_free(comm);
    socket_group_free(group);
}

/* ---- forks while comms come and go -------------------------------------- */

static void *come_and_go(void *arg)
{
    _Atomic int *stop = arg;

    while (!atomic_load(stop)) {
        socket_group *group = socket_group_new(3);
        gw_comm *comms[3];
        for (int r = 0; r < 3; r++)
            if (stream_comm_new(&comms[r], group, r, 5) != GW_OK)
                return arg;
        /* Not in the order in which they came. */
        gw_comm_free(comms[1]);
        gw_comm_free(comms[0]);
        gw_comm_free(comms[2]);
        socket_group_free(group);
    }
    return NULL;
}

static int is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void test_forks_beside_threads(void **state)
{
    socket_group *group = socket_group_new(2);
    int fd = socket_group_fd(group, 0, 1);
    _Atomic int stop = 0;
    pthread_t threads[2];
    void *failed;
    gw_comm *comm;

    (void)state;
    assert_run_ok(stream_comm_new(&comm, group, 0, 5));
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, come_and_go, &stop);
    for (int i = 0; i < 50; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0)
            _exit(is_open(fd));
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
        assert_true(is_open(fd));
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    gw_comm_free(comm);
    socket_group_free(group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child_says_nothing),
        cmocka_unit_test(test_death_is_seen_despite_helper),
        cmocka_unit_test(test_programs_do_not_inherit),
        cmocka_unit_test(test_forks_beside_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
