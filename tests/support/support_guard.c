/* SPDX-License-Identifier: Apache-2.0
 *
 * support_guard.c - buffers with an inaccessible page on either side. */
#define _GNU_SOURCE
#include "support_guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANARY = 0xA5 };

static size_t page_len(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

void guard_init(guard *g, size_t cap)
{
    size_t page = page_len();
    void *map;

    g->cap = (cap + page) / page * page;
    map = mmap(NULL, g->cap + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED ||
        mprotect((unsigned char *)map + page, g->cap, PROT_READ | PROT_WRITE) != 0) {
        perror("guard_init");
        abort();
    }
    g->map = map;
    g->begin = g->map + page;
    g->data = g->begin;
    g->len = 0;
    memset(g->begin, CANARY, g->cap);
}

void guard_fini(guard *g)
{
    munmap(g->map, g->cap + 2 * page_len());
}

void *guard_place(guard *g, size_t len, guard_side side, size_t gap)
{
    if (len > g->cap || gap > g->cap - len) {
        fprintf(stderr, "guard_place: %zu + %zu bytes in %zu\n", len, gap, g->cap);
        abort();
    }
    memset(g->data, CANARY, g->len);
    g->data = side == GUARD_END ? g->begin + g->cap - gap - len : g->begin + gap;
    g->len = len;
    return memset(g->data, 0, len);
}

/* Bytes that all equal their neighbour are all equal; the library's comparison is
 * much faster than a loop. */
static int all_canary(const unsigned char *p, const unsigned char *end)
{
    return p == end || (*p == CANARY && memcmp(p, p + 1, (size_t)(end - p) - 1) == 0);
}

int guard_intact(const guard *g)
{
    return all_canary(g->begin, g->data) &&
           all_canary(g->data + g->len, g->begin + g->cap);
}
