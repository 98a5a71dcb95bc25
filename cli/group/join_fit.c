/* SPDX-License-Identifier: Apache-2.0
 *
 * join_fit.c - what the settings of a worker that joins a job must be. */
#include "group/join.h"

/* Flags that mean nothing to workers that do not join a job. */
static const char *const joiners[] = {"key-file", "job",          "address",
                                      "port",     "out-only",     "encrypt",
                                      "streams",  "learn-timeout"};

gw_status gwc_join_unused(const gwc_flag *flags, size_t count, int argc, char **argv)
{
    for (size_t i = 0; i < sizeof joiners / sizeof *joiners; i++)
        if (gwc_flags_given(flags, count, argc, argv, joiners[i]))
            return gw_fail(GW_ERR_ARG,
                           "--%s needs --join MEETING or --meet: without them, this "
                           "command starts all workers itself",
                           joiners[i]);
    return GW_OK;
}

int gwc_joins(const gwc_join_options *opt)
{
    return opt->meeting != NULL || opt->meet != NULL;
}

gw_status gwc_join_fit(gwt_config *run)
{
    if (run->workers < 0)
        return gw_fail(GW_ERR_ARG, "--join and --meet need --workers N: how many "
                                   "workers the job has on all machines; or MIN:MAX, "
                                   "such as 2:8, if they may come and go");
    if ((int)run->spawn >= 0)
        return gw_fail(
            GW_ERR_ARG,
            "--spawn cannot be used with --join: each process is one worker");
    if (run->native)
        return gw_fail(GW_ERR_ARG, "--collectives native needs MPI, and not --join");
    run->spawn = GW_SPAWN_PROCESSES;
    return GW_OK;
}
