/* SPDX-License-Identifier: Apache-2.0
 *
 * fold.c - see fold.h. Ranks that allocate the same things in the same order get the
 * same memory: the n-th folded piece of each rank is one piece.
 *
 * A sync has room for the worst case, of which a step uses little: with 1024 workers,
 * 34 GB in all for lists that travel by owners. So pages that are still zero when a
 * sync has been made are given back; they come again when they are written to. */
#define _GNU_SOURCE
#include "fold.h"

#include "gradwire.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef GRADWIRE_SMPI
#include <mpi.h>
#include <sys/mman.h>

/* The build gives this name to the function below. */
#undef aligned_alloc

enum { RANKS_MAX = 1024, VECTORS_MAX = 8, PIECES_MAX = 32, GWI_PREFIX = 64 };
enum { OWN_MAX = 8, OWN_LEAST = 1 << 20, PAGE = 4096 };

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
    int owns; /* long pieces that are not folded, while memory is folded */
    piece own[OWN_MAX];
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
    rule->pieces = rule->owns = 0;
}

/* Gives back the pages that hold nothing but zeros. */
static void give_back_zeros(const piece *own)
{
    static const char zeros[PAGE];
    uintptr_t end = (uintptr_t)own->memory + own->len;
    uintptr_t at = ((uintptr_t)own->memory + PAGE - 1) & ~(uintptr_t)(PAGE - 1);

    for (; at + PAGE <= end; at += PAGE)
        if (memcmp((const void *)at, zeros, PAGE) == 0)
            (void)madvise((void *)at, PAGE, MADV_DONTNEED);
}

void gws_fold_end(void)
{
    struct rule *rule = own_rule();

    for (int i = 0; i < rule->owns; i++)
        give_back_zeros(&rule->own[i]);
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
    if (posix_memalign(&memory, alignment, total) != 0)
        return NULL;
    if (rule->exactly > 0 && total >= OWN_LEAST && rule->owns < OWN_MAX)
        rule->own[rule->owns++] = (piece){memory, total};
    return memory;
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
