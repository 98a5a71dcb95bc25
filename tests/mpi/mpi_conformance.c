/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_conformance.c - the promises of every sync over MPI, for 1 to as many workers
 * as mpirun has started ranks (see ranks_more()). Ends by MPI_Abort() at the first that
 * is not kept.
 *
 * Arguments choose: "all" (the default), "bits" for the first test alone, "native"
 * for MPI's own sums, whose bits nobody promises. */
#define _GNU_SOURCE
#include "support_conform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gradwire_mpi.h"

enum { MOST = 9 };

static int world_rank, world_size;
static gw_comm *everybody, *kept[MOST + 1];
static int native;

static void require(gw_status st, const char *spec, int workers)
{
    if (st == GW_OK)
        return;
    fprintf(stderr, "rank %d, '%s', %d workers: %s: %s\n", world_rank, spec, workers,
            gw_status_name(st), gw_error_message());
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Ranks that are not needed wait without taking a core from those that are. */
static void meet(void)
{
    require(gw_barrier(everybody), "barrier", world_size);
}

/* A comm of the first `workers` ranks; NULL on others. */
static gw_comm *make_comm(int workers)
{
    gw_mpi_options opt = {
        .struct_size = sizeof opt, .timeout_seconds = 60, .native = native};
    gw_comm *comm = NULL;
    MPI_Comm part;

    meet();
    MPI_Comm_split(MPI_COMM_WORLD, world_rank < workers ? 0 : MPI_UNDEFINED, 0, &part);
    if (part == MPI_COMM_NULL)
        return NULL;
    require(gw_mpi_comm_new(&comm, part, &opt), "", workers);
    MPI_Comm_free(&part);
    return comm;
}

/* Runs a body that is expected to succeed, on a comm that is kept. */
static void run(int workers, gw_body *body, void *arg, const char *spec)
{
    if (world_rank < workers)
        require(body(kept[workers], arg), spec, workers);
    meet();
}

/* Runs one that may fail, on a comm of its own; GW_OK on other ranks. */
static gw_status run_apart(int workers, gw_body *body, void *arg)
{
    gw_comm *comm = make_comm(workers);
    gw_status st = comm != NULL ? body(comm, arg) : GW_OK;

    if (st != GW_OK)
        (void)gw_comm_fail(comm, st);
    gw_comm_free(comm);
    meet();
    return st;
}

/* ---- the promises ----------------------------------------------------------- */

/* Conservation and agreement, and the bits of threads on one machine. */
static void test_bits(const char *spec, int workers)
{
    uint64_t own[MOST] = {0}, all[MOST] = {0}, local[MOST] = {0};
    conform_job j = {.spec = spec, .steps = 3, .digests = own};
    gw_local_options opt = {
        .struct_size = sizeof opt, .workers = workers, .spawn = GW_SPAWN_THREADS};
    size_t lens[MOST];

    run(workers, conform_body, &j, spec);
    require(
        gw_allgather(everybody, &own[world_rank], sizeof *own, all, sizeof *all, lens),
        spec, workers);
    if (world_rank == 0 && !native) {
        j.digests = local;
        require(gw_local_run(&opt, conform_body, &j), spec, workers);
        if (memcmp(all, local, sizeof all) != 0)
            require(gw_fail(GW_ERR_DATA, "other bits than local"), spec, workers);
    }
    meet();
}

static void test_more(const char *spec)
{
    conform_job parts = {.spec = spec, .steps = 3, .by_parts = true};
    conform_job resumed = {.spec = spec, .steps = 4, .break_at = 2};
    conform_job skipped = {
        .spec = spec, .steps = 5, .bad_step = 3, .nonfinite = GW_NONFINITE_SKIP};

    run(3, conform_body, &parts, spec);
    run(3, conform_body, &resumed, spec);
    run(4, conform_body, &skipped, spec);
    run(5, conform_bytes, (void *)(uintptr_t)spec, spec);
}

/* The worker with the bad gradient says so; those who talk to it hear of it from the
 * exchange itself or by its reason, and all go on living. */
static void test_bad_number(const char *spec)
{
    conform_job bad = {.spec = spec, .steps = 5, .bad_step = 3};
    gw_status st = run_apart(3, conform_body, &bad);
    const char *said = gw_error_message();
    int allowed =
        st == GW_ERR_NUMBER || (world_rank != 2 && (st == GW_ERR_PEER || st == GW_OK));

    if (world_rank >= 3)
        return;
    if (!allowed || (st != GW_OK && strstr(said, "worker 2 holds NaN") == NULL))
        require(gw_fail(GW_ERR_DATA, "NaN gives %s: %s", gw_status_name(st), said),
                spec, 3);
}

static void test_all(const char *what)
{
    int more = strcmp(what, "all") == 0;

    for (size_t i = 0; conform_spec(i) != NULL; i++) {
        for (int workers = 1; workers <= world_size; workers = ranks_more(workers))
            test_bits(conform_spec(i), workers);
        if (!more || world_size < 5)
            continue;
        test_more(conform_spec(i));
        test_bad_number(conform_spec(i));
        require(run_apart(2, conform_nonsense, (void *)(uintptr_t)conform_spec(i)),
                conform_spec(i), 2);
    }
}

int main(int argc, char **argv)
{
    gw_mpi_options opt = {.struct_size = sizeof opt, .timeout_seconds = 200};
    const char *what = argc > 1 ? argv[1] : "all";
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (world_size > MOST)
        require(gw_fail(GW_ERR_ARG, "at most %d ranks", MOST), "", world_size);
    require(gw_mpi_comm_new(&everybody, MPI_COMM_WORLD, &opt), "", world_size);
    native = strcmp(what, "native") == 0;
    for (int workers = 1; workers <= world_size; workers++)
        kept[workers] = make_comm(workers);
    test_all(what);
    for (int workers = 1; workers <= world_size; workers++)
        gw_comm_free(kept[workers]);
    gw_comm_free(everybody);
    if (world_rank == 0)
        printf("every promise kept for 1 to %d ranks\n", world_size);
    MPI_Finalize();
    return 0;
}
