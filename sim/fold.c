/* SPDX-License-Identifier: Apache-2.0
 *
 * fold.c - see fold.h. Ranks that allocate the same things in the same order get the
 * same memory: the n-th folded piece of each rank is one piece. */
#define _GNU_SOURCE
#include "fold.h"

#include "gradwire.h"

#include <stdlib.h>
#include <string.h>

#ifdef GRADWIRE_SMPI
#include <mpi.h>

/* The build gives this name to the function below. */
#undef aligned_alloc

enum { RANKS_MAX = 1024, PIECES_MAX = 64, GWI_PREFIX = 64, LINES = 1000 };

/* Shared by all ranks, hence one entry for each. */
static struct rule {
    size_t exactly, least;
    int pieces;
} rules[RANKS_MAX];

void gws_fold_begin(int rank, size_t exactly, size_t least)
{
    rules[rank] = (struct rule){exactly, least, 0};
}

static bool folds(const struct rule *rule, size_t total)
{
    /* As gwi_calloc() rounds. */
    size_t wanted = (rule->exactly + 2 * GWI_PREFIX) & ~(size_t)(GWI_PREFIX - 1);

    return rule->pieces < PIECES_MAX && ((rule->exactly > 0 && total == wanted) ||
                                         (rule->least > 0 && total >= rule->least));
}

void *gws_aligned_alloc(size_t alignment, size_t total)
{
    void *memory;
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (folds(&rules[rank], total))
        return smpi_shared_malloc(total, "gradwire", LINES + rules[rank].pieces++);
    return posix_memalign(&memory, alignment, total) == 0 ? memory : NULL;
}

static float *folded_vector(size_t n, int line)
{
    return smpi_shared_malloc(n * sizeof(float), "gradwire", line);
}
#else
void gws_fold_begin(int rank, size_t exactly, size_t least)
{
    (void)rank, (void)exactly, (void)least;
}

static float *folded_vector(size_t n, int line)
{
    (void)line;
    return calloc(n, sizeof(float));
}
#endif

float *gws_vector_new(size_t n, bool folded, int line)
{
    float *v = folded ? folded_vector(n, line) : calloc(n, sizeof *v);

    if (v == NULL)
        gw_fail(GW_ERR_NOMEM, "no memory for %zu floats", n);
    return v;
}

void gws_vector_free(float *v)
{
    free(v);
}
