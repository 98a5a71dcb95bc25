/* SPDX-License-Identifier: Apache-2.0
 *
 * elastic.c - three workers fit the line y = 2 x + 1. One of them dies on the way,
 * another takes its place, and the training goes on. Build it against the installed
 * library:
 *
 *     cc elastic.c $(pkg-config --cflags --libs gradwire-group) -o elastic
 *
 * Each worker could run on a machine of its own: "elastic tcp://HOST:PORT". */
#include <gradwire_group.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 3, STEPS = 400 };
static const char KEY[] = "not-a-secret-at-all";

/* A call that fails because a worker is gone is made again in the next view. */
static gw_status train(gw_group *group, const gw_layout *layout, long dies_at)
{
    float params[2] = {0, 0}, grad[2];
    enum { COMPUTES, EXCHANGES, ENDS } stage = COMPUTES;
    gw_training t = {.struct_size = sizeof t,
                     .spec = "topk:0.5",
                     .layout = layout,
                     .params = params};
    gw_status st = gw_group_enter(group, &t); /* all have the same model now */
    uint64_t step = t.entry.step;

    while (st == GW_OK && step < STEPS) {
        if (stage == COMPUTES) {
            float x =
                (float)((step * 7 + (unsigned)gw_comm_rank(t.comm) * 3) % 10) / 10;
            float error = params[0] * x + params[1] - (2 * x + 1);
            grad[0] = error * x;
            grad[1] = error;
            stage = EXCHANGES;
        }
        if (dies_at > 0 && step == (uint64_t)dies_at)
            raise(SIGKILL);
        if (stage == EXCHANGES && (st = gw_sync_gradient(t.sync, grad)) == GW_OK) {
            for (int i = 0; i < 2; i++)
                params[i] -= 0.5f * grad[i];
            stage = ENDS;
        }
        if (stage == ENDS && (st = gw_sync_model(t.sync, params)) == GW_OK) {
            stage = COMPUTES;
            step++;
        }
        if (gw_group_lost(st) || (stage == COMPUTES && gw_group_due(group))) {
            st = gw_group_enter(group, &t); /* with those that are left, or new */
            if (t.entry.joined) {
                stage = COMPUTES;
                step = t.entry.step;
            }
        }
    }
    if (st == GW_OK)
        printf("worker %d of view %llu: y = %.2f x + %.2f\n", gw_comm_rank(t.comm),
               (unsigned long long)gw_group_view(group), params[0], params[1]);
    gw_training_end(&t);
    return st;
}

static gw_status work(const char *meeting, long dies_at)
{
    gw_tensor tensors[] = {{.name = "line", .offset = 0, .rows = 1, .cols = 2}};
    gw_group_options opt = {.struct_size = sizeof opt,
                            .meeting = meeting,
                            .key = KEY,
                            .min_workers = WORKERS};
    gw_layout *layout = NULL;
    gw_group *group = NULL;
    gw_status st = gw_layout_new(&layout, tensors, 1);

    if (st == GW_OK)
        st = gw_group_join(&group, &opt);
    if (st == GW_OK)
        st = train(group, layout, dies_at);
    gw_group_leave(group);
    gw_layout_free(layout);
    return st;
}

static void start(const char *program, const char *meeting, const char *dies_at)
{
    if (fork() == 0) {
        execl(program, program, meeting, dies_at, (char *)NULL);
        _exit(1);
    }
}

/* A meeting, three workers here, and another one for each that is killed. */
static int show(const char *program)
{
    gw_meeting_options opt = {
        .struct_size = sizeof opt, .listen = "127.0.0.1:0", .key = KEY};
    gw_meeting *meeting;
    char text[64];
    int status, failed = 0;

    if (gw_meeting_open(&meeting, &opt) != GW_OK)
        return 1;
    snprintf(text, sizeof text, "tcp://127.0.0.1:%d", gw_meeting_port(meeting));
    for (int i = 0; i < WORKERS; i++)
        start(program, text, i == 1 ? "150" : "0");
    while (wait(&status) > 0)
        if (WIFSIGNALED(status))
            start(program, text, "0");
        else
            failed |= WEXITSTATUS(status);
    gw_meeting_close(meeting);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc < 2 ? show("/proc/self/exe") == 0
                 : work(argv[1], argc > 2 ? atol(argv[2]) : 0) == GW_OK)
        return 0;
    fprintf(stderr, "elastic: %s\n", gw_error_message());
    return 1;
}
