/* SPDX-License-Identifier: Apache-2.0
 *
 * test_group_etcd.c - a job that meets in a cluster of etcd, of three members on this
 * machine: views go on while one of them is dead, and what strangers store there lets
 * nobody in. Skipped where there is no etcd. */
#define _GNU_SOURCE
#include "etcd.h"
#include "members.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { MOST = 3, ETCDS = 3 };

extern char **environ;

/* ---- a cluster --------------------------------------------------------------------
 */

typedef struct cluster {
    char folder[64];
    int client[ETCDS], peer[ETCDS];
    pid_t pid[ETCDS];
    char meeting[128];
} cluster;

static cluster all;

/* A port that was free a moment ago. */
static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    close(fd);
    return ntohs(at.sin_port);
}

static pid_t start_etcd(const cluster *c, int i)
{
    char name[8], data[96], client[64], peer[64], crowd[256], log[96];
    posix_spawn_file_actions_t files;
    pid_t pid;

    snprintf(name, sizeof name, "e%d", i);
    snprintf(data, sizeof data, "%s/%s", c->folder, name);
    snprintf(log, sizeof log, "%s/%s.log", c->folder, name);
    snprintf(client, sizeof client, "http://127.0.0.1:%d", c->client[i]);
    snprintf(peer, sizeof peer, "http://127.0.0.1:%d", c->peer[i]);
    snprintf(crowd, sizeof crowd,
             "e0=http://127.0.0.1:%d,e1=http://127.0.0.1:%d,e2=http://127.0.0.1:%d",
             c->peer[0], c->peer[1], c->peer[2]);
    char *args[] = {"etcd", "--name",
                    name,   "--data-dir",
                    data,   "--listen-client-urls",
                    client, "--advertise-client-urls",
                    client, "--listen-peer-urls",
                    peer,   "--initial-advertise-peer-urls",
                    peer,   "--initial-cluster",
                    crowd,  NULL};
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    int code = posix_spawnp(&pid, "etcd", &files, NULL, args, environ);
    posix_spawn_file_actions_destroy(&files);
    return code == 0 ? pid : -1;
}

static void end_etcd(pid_t *pid)
{
    if (*pid <= 0)
        return;
    kill(*pid, SIGKILL);
    waitpid(*pid, NULL, 0);
    *pid = -1;
}

static void ignore_line(void *arg, const char *line)
{
    (void)arg, (void)line;
}

static member as_member(gw_status (*act)(gw_group *group, member *m))
{
    return (member){.meeting = all.meeting, .min = 2, .max = MOST, .act = act};
}

/* Starts three, and waits until they answer. */
static int open_cluster(void **state)
{
    member m = as_member(NULL);
    gw_group_options opt;

    (void)state;
    snprintf(all.folder, sizeof all.folder, "/tmp/gradwire-etcd-XXXXXX");
    assert_non_null(mkdtemp(all.folder));
    for (int i = 0; i < ETCDS; i++) {
        all.client[i] = free_port();
        all.peer[i] = free_port();
    }
    snprintf(all.meeting, sizeof all.meeting,
             "etcd://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/test-1", all.client[0],
             all.client[1], all.client[2]);
    for (int i = 0; i < ETCDS; i++)
        all.pid[i] = start_etcd(&all, i);
    if (all.pid[0] < 0)
        return 0;
    opt = options_of(&m);
    while (gw_meeting_status(&opt, ignore_line, NULL) != GW_OK) {
        if (waitpid(all.pid[0], NULL, WNOHANG) != 0)
            return -1;
        usleep(100000);
    }
    return 0;
}

static int close_cluster(void **state)
{
    char command[128];

    (void)state;
    for (int i = 0; i < ETCDS; i++)
        end_etcd(&all.pid[i]);
    snprintf(command, sizeof command, "rm -rf %s", all.folder);
    return system(command);
}

static void skip_without_etcd(void)
{
    if (all.pid[1] > 0)
        return;
    print_message("skipped: there is no etcd here; install etcd-server\n");
    skip();
}

/* ---- views go on
 * --------------------------------------------------------------------- */

static atomic_int steps, running, finish;

/* Steps, and enters a new view when one is due or a comm fails, until `finish` says how
 * many workers the last view has. */
static gw_status work(gw_group *group, member *m)
{
    gw_comm *comm;
    gw_status st;
    int sum = 0;

    PASS_ON(enter(group, m, &comm));
    running++;
    for (;;) {
        st = vote(comm, gw_group_due(group), &sum);
        if (st == GW_OK && sum == 0 &&
            vote(comm, finish == m->workers, &sum) == GW_OK) {
            steps++;
            if (sum > 0)
                break;
            continue;
        }
        gw_comm_free(comm);
        PASS_ON(enter(group, m, &comm));
        running++;
    }
    gw_comm_free(comm);
    return GW_OK;
}

static void test_views_go_on_without_one_of_three(void **state)
{
    member as = as_member(work), members[MOST];
    gw_group_options late;
    gw_group *group;

    (void)state;
    skip_without_etcd();
    for (int i = 0; i < 2; i++)
        start(&members[i], &as, i);
    await_more(&running, 1);
    uint64_t first = members[0].view;

    /* One of the cluster's members dies. Nobody who runs notices; others still join and
     * leave. */
    end_etcd(&all.pid[0]);
    await_more(&steps, steps + 100);
    start(&members[2], &as, 2);
    await_more(&running, 4);
    late = options_of(&as);
    late.max_workers = MOST + 1;
    assert_int_equal(gw_group_join(&group, &late), GW_ERR_MISMATCH);
    assert_non_null(strstr(gw_error_message(), "this job has 2 to 3 workers"));

    /* It is back, and another one dies. */
    all.pid[0] = start_etcd(&all, 0);
    end_etcd(&all.pid[2]);
    await_more(&steps, steps + 100);
    finish = MOST;
    for (int i = 0; i < MOST; i++) {
        await(&members[i]);
        assert_int_equal(members[i].workers, MOST);
        assert_true(members[i].view > first);
    }
    assert_int_equal(members[2].rank, 2);
}

/* ---- a member dies
 * ------------------------------------------------------------------- */

/* In a process of its own, with a lease for an hour. */
static gw_status die_among_three(gw_group *group, member *m)
{
    gw_comm *comm = NULL;
    int sum;

    do {
        gw_comm_free(comm);
        PASS_ON(enter(group, m, &comm));
    } while (m->workers < MOST);
    PASS_ON(vote(comm, 0, &sum));
    raise(SIGKILL);
    return GW_OK;
}

/* The others find out by themselves: the lease does not end while this test runs. */
static void test_the_dead_are_missed_before_their_lease_ends(void **state)
{
    member as = as_member(die_among_three), members[2];
    int how;

    (void)state;
    skip_without_etcd();
    finish = 0;
    pid_t pid = fork();
    if (pid == 0) {
        gwg_lease_seconds = 3600;
        run_member(&as);
        _exit(1);
    }
    as.act = work;
    for (int i = 0; i < 2; i++)
        start(&members[i], &as, i);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how));
    finish = 2;
    for (int i = 0; i < 2; i++) {
        await(&members[i]);
        assert_int_equal(members[i].workers, 2);
    }
}

/* ---- members that can only call out
 * ----------------------------------------------------
 */

static atomic_int hubless;

static void hear_hubless(void *arg, const char *line)
{
    (void)arg;
    hubless += strstr(line, "waiting for a worker that others can call") != NULL;
}

/* etcd passes nothing on: two of them wait for a third that can be called. */
static void test_those_who_only_call_out_wait_for_a_hub(void **state)
{
    member as = as_member(work), members[MOST];

    (void)state;
    skip_without_etcd();
    finish = MOST;
    as.tell = hear_hubless;
    as.out_only = 1;
    for (int i = 0; i < 2; i++)
        start(&members[i], &as, i);
    await_more(&hubless, 1);
    as.out_only = 0;
    start(&members[2], &as, 2);
    for (int i = 0; i < MOST; i++) {
        await(&members[i]);
        assert_int_equal(members[i].workers, MOST);
    }
}

static void check_next(const int *ports, int rows, int count, const char *seats)
{
    gwg_row row[4] = {{0}};
    gwg_table t = {.rows = row, .count = rows};
    gwg_text text = {0};
    char line[32];
    int last = -1;

    for (int i = 0; i < rows; i++) {
        row[i] = (gwg_row){.token = (uint64_t)i, .host = "h", .name = "n"};
        row[i].port = ports[i];
        row[i].wait = ports[i] < 0 ? GWG_WAIT_JOINED : GWG_WAIT_ASKS;
    }
    assert_int_equal(gwg_table_can_meet(&t, count), seats[0] != '\0');
    gwg_table_next(&t, count, &text);
    for (; *seats != '\0'; seats++, last++) {
        snprintf(line, sizeof line, "\n%016x ", (unsigned)(*seats - '0'));
        assert_non_null(strstr(text.at, line));
    }
    if (last >= 0)
        assert_null(strstr(strstr(text.at, line) + 1, "\n"));
    gwg_text_free(&text);
}

/* A view that is full without one that can be called has one in its last seat. */
static void test_the_seats_of_a_view(void **state)
{
    (void)state;
    check_next((int[]){0, 0, 5}, 3, 3, "012");
    check_next((int[]){0, 0, 5}, 3, 2, "02");
    check_next((int[]){0, 0, -1, 5}, 4, 2, "03");
    check_next((int[]){0, 0, -1, 0}, 4, 2, "");
    check_next((int[]){5, 0, 0}, 3, 2, "01");
    check_next((int[]){0, -1, 5, 5}, 4, 2, "02");
    check_next((int[]){0, 5}, 2, 1, "0");
    check_next((int[]){0, 0}, 2, 2, "");
}

/* ---- strangers with access to etcd
 * ----------------------------------------------------
 */

static int send_put(const char *body)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)all.client[1])};
    char request[2048], answer[64] = "";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    int n = snprintf(request, sizeof request,
                     "POST /v3/kv/put HTTP/1.1\r\nHost: etcd\r\nContent-Length: "
                     "%zu\r\n\r\n%s",
                     strlen(body), body);
    assert_int_equal(send(fd, request, (size_t)n, MSG_NOSIGNAL), n);
    (void)!recv(fd, answer, sizeof answer - 1, 0);
    close(fd);
    return strncmp(answer, "HTTP/1.1 200", 12) == 0;
}

static void count_members(void *arg, const char *line)
{
    *(int *)arg += strncmp(line, "member ", 7) == 0;
}

/* What is stored without the key's code is no member. The same bytes under another name
 * are none either. */
static void test_rows_of_strangers_are_not_read(void **state)
{
    /* /gradwire/test-1/member/0123456789abcdef, and a row with a code of zeros */
    static const char put[] =
        "{\"key\":\"L2dyYWR3aXJlL3Rlc3QtMS9tZW1iZXIvMDEyMzQ1Njc4OWFiY2RlZg==\","
        "\"value\":\"MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw"
        "MDAwMDAwMDAwMDAwMDAwMDAwMCBtZW1iZXIgMSAyIDMgMCA5OSAxMjcuMC4wLjEgZXZlIGFza3Mg"
        "MCAw\"}";
    member as = as_member(NULL);
    gw_group_options opt = options_of(&as);
    int count = 0;

    (void)state;
    skip_without_etcd();
    while (!send_put(put))
        usleep(100000);
    assert_run_ok(gw_meeting_status(&opt, count_members, &count));
    assert_int_equal(count, 0);
    opt.key = "the key of that test";
    count = 0;
    assert_run_ok(gw_meeting_status(&opt, count_members, &count));
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views_go_on_without_one_of_three),
        cmocka_unit_test(test_the_dead_are_missed_before_their_lease_ends),
        cmocka_unit_test(test_those_who_only_call_out_wait_for_a_hub),
        cmocka_unit_test(test_the_seats_of_a_view),
        cmocka_unit_test(test_rows_of_strangers_are_not_read),
    };

    return cmocka_run_group_tests(tests, open_cluster, close_cluster);
}
