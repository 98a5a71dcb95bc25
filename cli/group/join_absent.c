/* SPDX-License-Identifier: Apache-2.0
 *
 * join_absent.c - a build without OpenSSL cannot join jobs. */
#include "commands.h"
#include "group/join.h"

static gw_status absent(void)
{
    return gw_fail(GW_ERR_ABSENT, "this build has no OpenSSL, which meetings need; "
                                  "install libssl-dev and build again");
}

gw_status gwc_join(gwc_joined **out, gw_comm **comm, const gwc_join_options *opt,
                   int workers, double timeout, int quiet)
{
    (void)opt, (void)workers, (void)timeout, (void)quiet;
    *out = NULL;
    *comm = NULL;
    return absent();
}

gw_status gwc_join_later(gwc_joined **out, const gwc_join_options *opt, int least,
                         int most, double timeout, int quiet)
{
    (void)opt, (void)least, (void)most, (void)timeout, (void)quiet;
    *out = NULL;
    return absent();
}

gw_status gwc_join_next(void *joined, gw_comm **out)
{
    (void)joined;
    *out = NULL;
    return absent();
}

int gwc_join_due(void *joined)
{
    (void)joined;
    return 0;
}

void gwc_join_tell(void *joined, const char *line)
{
    (void)joined, (void)line;
}

void gwc_join_wake(gwc_joined *joined)
{
    (void)joined;
}

void gwc_join_report(gwc_joined *joined, const gwt_progress *progress)
{
    (void)joined, (void)progress;
}

void gwc_join_leave(gwc_joined *joined, gwc_host_end end)
{
    (void)joined, (void)end;
}

static int run_absent(int argc, char **argv)
{
    (void)argc, (void)argv;
    (void)absent();
    return GWC_FAILED;
}

const gwc_command gwc_command_meet = {
    .name = "meet",
    .summary = "run a meeting for workers on several machines",
    .run = run_absent,
};

const gwc_command gwc_command_status = {
    .name = "status",
    .summary = "show the workers of a job that meets somewhere",
    .run = run_absent,
};
