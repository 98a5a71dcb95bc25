/* SPDX-License-Identifier: Apache-2.0
 *
 * common.c - memory, time, random numbers and numbers in text, for the trainer. */
#include "common.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ALIGNMENT = 64, NAME_CAP = 64, LIST_CAP = 256 };

static _Thread_local size_t fail_at = (size_t)-1;
static _Thread_local size_t allocations;

static void *calloc_aligned(size_t count, size_t bytes)
{
    if (fail_at != (size_t)-1) {
        if (fail_at == 0)
            return NULL;
        fail_at--;
    }
    if (bytes != 0 && count > (SIZE_MAX - ALIGNMENT) / bytes)
        return NULL;
    /* aligned_alloc() wants a multiple of the alignment, and at least one. */
    size_t total = (count * bytes + ALIGNMENT) & ~(size_t)(ALIGNMENT - 1);
    void *memory = aligned_alloc(ALIGNMENT, total);
    if (memory != NULL)
        memset(memory, 0, total);
    return memory;
}

void *gwt_calloc(size_t count, size_t bytes, const char *what)
{
    void *memory = calloc_aligned(count, bytes);

    if (memory == NULL)
        (void)gw_fail(GW_ERR_NOMEM, "no memory for %zu x %zu bytes of %s", count, bytes,
                      what);
    else
        allocations++;
    return memory;
}

void gwt_free(void *memory)
{
    free(memory);
}

void gwt_alloc_fail_at(size_t k)
{
    fail_at = k;
}

size_t gwt_alloc_count(void)
{
    return allocations;
}

double gwt_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A bijection of 64-bit words in which every input bit moves about half of the
 * output bits; multipliers and shifts are those of the splitmix64 finaliser. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t gwt_random(uint64_t seed, uint64_t stream, uint64_t a, uint64_t b)
{
    /* 2^64 divided by the golden ratio: keeps small counters far apart. */
    const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t h = mix(seed + step * (stream + 1));

    h = mix(h ^ (step * (a + 1)));
    return mix(h + step * (b + 1));
}

gw_status gwt_parse_real(const char *what, const char *text, double min, double max,
                         double *out)
{
    char *end;
    double x = strtod(text, &end);

    if (text[0] == '\0' || isspace((unsigned char)text[0]) || *end != '\0')
        return gw_fail(GW_ERR_ARG, "%s: '%s' is not a number", what, text);
    if (!(x >= min && x <= max) || !isfinite(x))
        return gw_fail(GW_ERR_ARG, "%s: %s is not between %g and %g", what, text, min,
                       max);
    *out = x;
    return GW_OK;
}

gw_status gwt_parse_count(const char *what, const char *text, uint64_t min,
                          uint64_t max, uint64_t *out)
{
    char *end;

    if (text[0] == '\0' || text[strspn(text, "-0123456789")] != '\0')
        return gw_fail(GW_ERR_ARG, "%s: '%s' is not a whole number", what, text);
    errno = 0;
    uint64_t x = strtoull(text, &end, 10);
    if (*end != '\0')
        return gw_fail(GW_ERR_ARG, "%s: '%s' is not a whole number", what, text);
    /* strtoull() accepts a minus sign and wraps, so that is checked as well. */
    if (text[0] == '-' || errno != 0 || x < min || x > max)
        return gw_fail(GW_ERR_ARG, "%s: %s is not between %" PRIu64 " and %" PRIu64,
                       what, text, min, max);
    *out = x;
    return GW_OK;
}

const char *gwt_shortest(double x, char text[40])
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, 40, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    return text;
}

/* Whether text ends with the unit or its plural; *len becomes what comes before. */
static int ends_with(const char *text, const char *unit, size_t *len)
{
    size_t all = strlen(text), n = strlen(unit);

    if (all > 0 && text[all - 1] == 's')
        all--;
    *len = all > n ? all - n : 0;
    return all > n && memcmp(text + *len, unit, n) == 0;
}

gw_status gwt_parse_length(const char *what, const char *text, gwt_length *out)
{
    size_t len = strlen(text);
    char number[64];
    uint64_t steps;

    out->epochs = ends_with(text, "epoch", &len);
    if (!out->epochs && !ends_with(text, "step", &len))
        len = strlen(text);
    if (len >= sizeof number || len == 0 || strspn(text, "0123456789.") < len)
        return gw_fail(GW_ERR_ARG,
                       "%s: expected steps (500) or epochs (2epochs), not '%.60s'",
                       what, text);
    snprintf(number, sizeof number, "%.*s", (int)len, text);
    if (out->epochs)
        return gwt_parse_real(what, number, 0.0, 1e9, &out->count);
    GWT_TRY(gwt_parse_count(what, number, 0, 1000000000000000, &steps));
    out->count = (double)steps;
    return GW_OK;
}

uint64_t gwt_length_steps(gwt_length length, uint64_t epoch_steps)
{
    return (uint64_t)(length.epochs ? length.count * (double)epoch_steps
                                    : length.count);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many letters must be added, removed, replaced or swapped with their neighbour to
 * make b of the first len letters of a, by rows. Both are shorter than NAME_CAP. */
static size_t distance(const char *a, size_t len, const char *b)
{
    size_t row[3][NAME_CAP + 1], n = strlen(b);

    for (size_t j = 0; j <= n; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= len; i++) {
        size_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= n; j++) {
            now[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]),
                           1 + least(now[j - 1], last[j]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], 1 + before[j - 2]);
        }
    }
    return row[len % 3][n];
}

const char *gwt_nearest(const char *text, const char *const *names, size_t count)
{
    const char *best = NULL;
    size_t len = strcspn(text, ":"), best_distance = 1 + (len + 1) / 3;

    if (len >= NAME_CAP)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t d =
            strlen(names[i]) < NAME_CAP ? distance(text, len, names[i]) : NAME_CAP;
        if (d < best_distance) {
            best = names[i];
            best_distance = d;
        }
    }
    return best;
}

/* Writes "a, b and c". */
static void join(char *text, size_t cap, const char *const *names, size_t count)
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < count && len < cap; i++)
        len += (size_t)snprintf(text + len, cap - len, "%s%s",
                                i == 0           ? ""
                                : i + 1 == count ? " and "
                                                 : ", ",
                                names[i]);
}

gw_status gwt_fail_name(const char *what, const char *name, const char *const *names,
                        size_t count, const char *where)
{
    const char *near = gwt_nearest(name, names, count);
    char list[LIST_CAP];

    if (near != NULL)
        return gw_fail(GW_ERR_ARG, "unknown %s '%s'; did you mean %s?", what, name,
                       near);
    if (where != NULL)
        return gw_fail(GW_ERR_ARG, "unknown %s '%s'; %s shows the names", what, name,
                       where);
    join(list, sizeof list, names, count);
    return gw_fail(GW_ERR_ARG, "unknown %s '%s'; the names are %s", what, name, list);
}
