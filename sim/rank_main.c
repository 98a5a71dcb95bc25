/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_main.c - main() of a rank: reads the settings, starts MPI, tries each method and
 * prints a line for it. */
#define _GNU_SOURCE
#include "rank.h"

#include "gradwire_mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

#ifdef GRADWIRE_SMPI
enum { SIMULATED = 1 };
#else
enum { SIMULATED = 0 };
#endif

/* Names and specs contain no character that JSON has to escape, since gw_spec_check()
 * accepted them. */
static void print_line(const gws_settings *set, const char *sync, int workers,
                       const gws_result *r)
{
    printf("{\"sync\": \"%s\", \"spec\": \"%s\", \"workers\": %d, \"params\": %llu, "
           "\"steps\": %llu, ",
           sync, r->spec, workers, (unsigned long long)set->params,
           (unsigned long long)set->steps);
    printf("\"step_s\": %.9g, \"step_min_s\": %.9g, \"compute_s\": %.9g, "
           "\"encode_s\": %.9g, \"wait_s\": %.9g, \"decode_s\": %.9g, ",
           r->step, r->step_min, set->compute, r->encode, r->wait, r->decode);
    printf("\"bytes_sent\": %.15g, \"bytes_received\": %.15g, \"messages_sent\": "
           "%.15g, \"bytes_sent_all\": %.15g, ",
           r->bytes_sent, r->bytes_received, r->messages_sent, r->bytes_sent_all);
    printf("\"isa\": \"%s\", \"simulated\": %s, \"folded\": %s}\n", gw_isa(),
           SIMULATED ? "true" : "false", set->folded ? "true" : "false");
    fflush(stdout);
}

/* Each method gets a comm of its own, so that it does not inherit memory from
 * another. */
static gw_status try_one(const gws_settings *set, const char *sync, gws_source *source)
{
    gw_mpi_options opt = {.struct_size = sizeof opt,
                          .timeout_seconds = set->timeout,
                          .native = set->native,
                          .blocking = SIMULATED};
    gws_result result;
    gw_comm *comm;
    gw_status st;

    GWI_TRY(gw_mpi_comm_new(&comm, MPI_COMM_WORLD, &opt));
    st = gws_trial(&result, sync, set, comm, source);
    if (st == GW_OK && gw_comm_rank(comm) == 0)
        print_line(set, sync, gw_comm_workers(comm), &result);
    /* A comm that failed may still have messages under way: the job ends with it. */
    if (st == GW_OK)
        gw_comm_free(comm);
    return st;
}

static gw_status try_list(const gws_settings *set, const char *list, gws_source *source)
{
    const char *at = list + strspn(list, " ");
    char sync[256];

    while (*at != '\0') {
        size_t len = strcspn(at, " ");
        if (len >= sizeof sync)
            return gw_fail(
                GW_ERR_ARG,
                "--sync: a method has %zu characters; at most 255 are allowed", len);
        snprintf(sync, sizeof sync, "%.*s", (int)len, at);
        GWI_TRY(gw_spec_check(sync, NULL, 0));
        GWI_TRY(try_one(set, sync, source));
        at += len + strspn(at + len, " ");
    }
    return GW_OK;
}

static gw_status run(int argc, char **argv, int rank)
{
    gws_settings set;
    gws_source source;
    gw_status st;

    GWI_TRY(gws_settings_read(&set, argc, argv));
    st = gws_source_init(&source, &set, rank);
    if (st == GW_OK) {
        MPI_Barrier(MPI_COMM_WORLD);
        for (size_t i = 0; st == GW_OK && i < set.sync_count; i++)
            st = try_list(&set, set.syncs[i], &source);
    }
    gws_source_fini(&source);
    return st;
}

/* Exported, because smpirun calls it in a shared object. */
GW_API int main(int argc, char **argv)
{
    int provided, rank;
    gw_status st;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            gws_settings_help();
            return 0;
        }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    st = run(argc, argv, rank);
    if (st != GW_OK) {
        /* What is wrong with the settings is wrong on all ranks: one speaks. */
        bool shared = st == GW_ERR_ARG || st == GW_ERR_SPEC;
        if (!shared || rank == 0)
            fprintf(stderr, "gradwire-exchange: error on rank %d: %s\n", rank,
                    gw_error_message());
        if (!shared)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return st == GW_OK ? 0 : st == GW_ERR_ARG || st == GW_ERR_SPEC ? 2 : 1;
}
