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

enum { RANKS_MAX = 1024, VECTORS_MAX = 8, PIECES_MAX = 32, GWI_PREFIX = 64 };

typedef struct piece {
    const char *memory;
    size_t len;
} piece;

/* This memory is shared by all ranks, hence one entry for each. The pieces are the
 * vectors, at their lines, and then what a sync has. */
static struct rule {
    size_t exactly, least;
    int pieces;
    piece piece[VECTORS_MAX + PIECES_MAX];
} rules[RANKS_MAX];

static struct rule *own_rule(void)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return &rules[rank];
}

void gws_fold_begin(size_t exactly, size_t least)
{
    struct rule *rule = own_rule();

    rule->exactly = exactly;
    rule->least = least;
    rule->pieces = 0;
}

void gws_fold_end(void)
{
    struct rule *rule = own_rule();

    rule->exactly = rule->least = 0;
}

static void *share(struct rule *rule, int line, size_t len)
{
    void *memory = smpi_shared_malloc(len, "gradwire", line);

    rule->piece[line] = (piece){memory, memory != NULL ? len : 0};
    return memory;
}

bool gws_is_folded(const void *memory)
{
    const struct rule *rule = own_rule();
    const char *at = memory;

    for (int i = 0; i < VECTORS_MAX + rule->pieces; i++)
        if (at >= rule->piece[i].memory &&
            at < rule->piece[i].memory + rule->piece[i].len)
            return true;
    return false;
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
    struct rule *rule = own_rule();
    void *memory;

    if (folds(rule, total))
        return share(rule, VECTORS_MAX + rule->pieces++, total);
    return posix_memalign(&memory, alignment, total) == 0 ? memory : NULL;
}

static float *folded_vector(size_t n, int line)
{
    return share(own_rule(), line, n * sizeof(float));
}
#else
void gws_fold_begin(size_t exactly, size_t least)
{
    (void)exactly, (void)least;
}

void gws_fold_end(void)
{
}

bool gws_is_folded(const void *memory)
{
    (void)memory;
    return false;
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
