/* SPDX-License-Identifier: Apache-2.0
 *
 * base.c - statuses, messages, memory, time. */
#include "base.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MESSAGE_CAP = 512, ALIGNMENT = 64 };

static _Thread_local char message[MESSAGE_CAP] = "no error";
static _Thread_local size_t fail_at = (size_t)-1;
static _Thread_local size_t allocations;
static _Thread_local size_t held;

size_t gwi_segment_floats = GWI_SEGMENT_FLOATS;

/* In front of every piece of memory; as long as the alignment, which it keeps. */
typedef struct prefix {
    _Alignas(ALIGNMENT) size_t total; /* bytes, with this one */
} prefix;

const char *gw_status_name(gw_status status)
{
    switch (status) {
#define NAME_CASE(name, value, text) \
    case name:                       \
        return #name;
        GW_STATUS_MAP(NAME_CASE)
#undef NAME_CASE
    }
    return "GW_UNKNOWN";
}

const char *gw_status_text(gw_status status)
{
    switch (status) {
#define TEXT_CASE(name, value, text) \
    case name:                       \
        return text;
        GW_STATUS_MAP(TEXT_CASE)
#undef TEXT_CASE
    }
    return "unknown status";
}

const char *gw_error_message(void)
{
    return message;
}

/* Whether the three bytes end a line or turn the direction of writing, U+200E, U+200F,
 * U+2028 to U+202E or U+2066 to U+2069, so that text shows in another order. */
static bool turns(const unsigned char *s)
{
    return s[0] == 0xe2 && ((s[1] == 0x80 && (s[2] == 0x8e || s[2] == 0x8f)) ||
                            (s[1] == 0x80 && s[2] >= 0xa8 && s[2] <= 0xae) ||
                            (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9));
}

/* How many bytes the character at s has; 0 if it is a control character or they are
 * no UTF-8. What is too long for its value, or beyond the last one, is none either. */
static size_t character_len(const unsigned char *s)
{
    size_t len = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    if (len == 1)
        return s[0] >= 0x20 && s[0] != 0x7f;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xc2 && s[1] < 0xa0) || (s[0] == 0xe0 && s[1] < 0xa0) ||
        (s[0] == 0xed && s[1] >= 0xa0) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] >= 0x90) || (len == 3 && turns(s)))
        return 0;
    return len;
}

/* Texts hold names of files and the reasons of other workers: what a terminal would
 * obey must not come through. */
static void make_printable(char *text)
{
    while (*text != 0) {
        size_t len = character_len((const unsigned char *)text);
        if (len == 0)
            *text = '?';
        text += len > 0 ? len : 1;
    }
}

gw_status gw_fail(gw_status status, const char *format, ...)
{
    /* The arguments may point into the old message, hence the detour. */
    char fresh[MESSAGE_CAP];
    va_list args;

    va_start(args, format);
    vsnprintf(fresh, sizeof fresh, format, args);
    va_end(args);
    make_printable(fresh);
    memcpy(message, fresh, sizeof message);
    return status;
}

#define TEXT_OF_(x) #x
#define TEXT_OF(x)  TEXT_OF_(x)

const char *gw_version(void)
{
    return TEXT_OF(GW_VERSION_MAJOR) "." TEXT_OF(GW_VERSION_MINOR) "." TEXT_OF(
        GW_VERSION_PATCH);
}

void *gwi_calloc(size_t count, size_t bytes)
{
    prefix *p;

    if (fail_at != (size_t)-1) {
        if (fail_at == 0)
            return NULL;
        fail_at--;
    }
    if (bytes != 0 && count > (SIZE_MAX - 2 * ALIGNMENT) / bytes)
        return NULL;
    /* aligned_alloc() wants a multiple of the alignment; nothing still gets some. */
    size_t total = (count * bytes + 2 * ALIGNMENT) & ~(size_t)(ALIGNMENT - 1);
    p = aligned_alloc(ALIGNMENT, total);
    if (p == NULL)
        return NULL;
    memset(p, 0, total);
    p->total = total;
    held += total;
    allocations++;
    return p + 1;
}

void gwi_free(void *memory)
{
    if (memory == NULL)
        return;
    prefix *p = (prefix *)memory - 1;
    held -= p->total;
    free(p);
}

void gwi_alloc_fail_at(size_t k)
{
    fail_at = k;
}

size_t gwi_alloc_count(void)
{
    return allocations;
}

size_t gwi_alloc_bytes(void)
{
    return held;
}

gw_status gwi_hand_out(void *to, const void *known, size_t own, size_t least,
                       const char *type)
{
    size_t cap, filled;

    if (to == NULL)
        return gw_fail(GW_ERR_ARG, "the pointer to %s is NULL", type);
    memcpy(&cap, to, sizeof cap);
    if (cap < least)
        return gw_fail(GW_ERR_ARG, "%s: struct_size is %zu, expected at least %zu",
                       type, cap, least);
    filled = cap < own ? cap : own;
    memset(to, 0, cap);
    memcpy(to, known, filled);
    memcpy(to, &filled, sizeof filled);
    return GW_OK;
}

double gwi_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
