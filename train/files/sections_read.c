/* SPDX-License-Identifier: Apache-2.0
 *
 * sections_read.c - opens files of sections with checksums. It is safe on any bytes:
 * every length is compared with the size of the file before it is used, and memory is
 * allocated only in proportion to the file. */
#define _GNU_SOURCE
#include "files/sections.h"

#include "files/section_parts.h"

#include <string.h>

enum { CHUNK = 1 << 18, FIRST_ROOM = 64 };

/* ---- opening ---------------------------------------------------------------- */

typedef struct scan {
    gwt_sections *in;
    uint64_t at;   /* how far it is read */
    size_t room;   /* in the list */
    gwt_check all; /* of the checks so far */
    uint8_t *chunk;
} scan;

static gw_status damaged(const scan *s, const char *why)
{
    return gw_fail(GW_ERR_DATA, "%s is damaged: %s at byte %llu", s->in->from.name, why,
                   (unsigned long long)s->at);
}

static gw_status append(scan *s, gwt_section section)
{
    gwt_sections *in = s->in;

    if (in->count == s->room) {
        size_t room = s->room == 0 ? FIRST_ROOM : 2 * s->room;
        gwt_section *list = gwt_calloc(room, sizeof *list, "the sections of a file");
        if (list == NULL)
            return GW_ERR_NOMEM;
        if (in->count > 0)
            memcpy(list, in->list, in->count * sizeof *list);
        gwt_free(in->list);
        in->list = list;
        s->room = room;
    }
    in->list[in->count++] = section;
    return GW_OK;
}

/* The check of len bytes from s->at on. */
static gw_status check_of(scan *s, uint64_t len, uint64_t *out)
{
    gwt_check check;

    gwt_check_begin(&check);
    for (uint64_t at = s->at; len > 0;) {
        size_t n = len < CHUNK ? (size_t)len : CHUNK;
        GWT_TRY(gwt_source_read(&s->in->from, at, s->chunk, n));
        gwt_check_add(&check, s->chunk, n);
        at += n;
        len -= n;
    }
    *out = gwt_check_end(&check);
    return GW_OK;
}

/* Reads one section and verifies it. */
static gw_status next_section(scan *s, gwt_section *out)
{
    uint8_t head[GWT_SECTION_HEAD], tail[GWT_SECTION_TAIL];
    uint64_t left = s->in->from.len - s->at, check;

    if (left < GWT_SECTION_HEAD + GWT_SECTION_TAIL)
        return damaged(s, "it is cut off");
    GWT_TRY(gwt_source_read(&s->in->from, s->at, head, sizeof head));
    uint64_t names = gwt_get_word(head), len = gwt_get_word(head + 8);
    *out = (gwt_section){(uint32_t)names, (uint32_t)(names >> 32),
                         s->at + GWT_SECTION_HEAD, len};
    if (len > left - GWT_SECTION_HEAD - GWT_SECTION_TAIL)
        return damaged(s, "a section is cut off");
    GWT_TRY(check_of(s, GWT_SECTION_HEAD + len, &check));
    GWT_TRY(gwt_source_read(&s->in->from, out->at + len, tail, sizeof tail));
    if (gwt_get_word(tail) != check)
        return damaged(s, "a section does not match its checksum");
    if (out->kind != GWT_KIND_END)
        gwt_check_add(&s->all, tail, sizeof tail);
    s->at = out->at + len + GWT_SECTION_TAIL;
    return GW_OK;
}

static gw_status check_end(scan *s, const gwt_section *end)
{
    uint8_t word[GWT_END_LEN];

    if (end->len != sizeof word || s->at != s->in->from.len)
        return damaged(s, "there are bytes after its end");
    GWT_TRY(gwt_source_read(&s->in->from, end->at, word, sizeof word));
    if (gwt_get_word(word) != s->in->count ||
        gwt_get_word(word + 8) != gwt_check_end(&s->all))
        return damaged(s, "a section is missing");
    return GW_OK;
}

static gw_status scan_all(scan *s)
{
    gwt_section section = {0};
    char magic[8];

    if (s->in->from.len < sizeof magic)
        return gw_fail(GW_ERR_DATA, "%s is not a checkpoint", s->in->from.name);
    GWT_TRY(gwt_source_read(&s->in->from, 0, magic, sizeof magic));
    if (memcmp(magic, GWT_SECTIONS_MAGIC, sizeof magic) != 0)
        return gw_fail(GW_ERR_DATA, "%s is not a checkpoint", s->in->from.name);
    s->at = sizeof magic;
    gwt_check_begin(&s->all);
    for (;;) {
        GWT_TRY(next_section(s, &section));
        if (section.kind == GWT_KIND_END)
            return check_end(s, &section);
        GWT_TRY(append(s, section));
    }
}

static gw_status check_all(gwt_sections *in)
{
    size_t room = in->from.len < CHUNK ? (size_t)in->from.len : CHUNK;
    scan s = {.in = in, .chunk = gwt_calloc(room, 1, "reading a file")};
    gw_status st = s.chunk != NULL ? scan_all(&s) : GW_ERR_NOMEM;

    gwt_free(s.chunk);
    if (st != GW_OK)
        gwt_sections_close(in);
    return st;
}

gw_status gwt_sections_open(gwt_sections *out, const char *path)
{
    *out = (gwt_sections){.from.fd = -1};
    GWT_TRY(gwt_source_open(&out->from, path));
    return check_all(out);
}

gw_status gwt_sections_over(gwt_sections *out, const char *name, const void *bytes,
                            size_t len)
{
    *out = (gwt_sections){.from = gwt_source_over(name, bytes, len)};
    return check_all(out);
}

void gwt_sections_close(gwt_sections *in)
{
    gwt_source_close(&in->from);
    gwt_free(in->list);
    *in = (gwt_sections){.from.fd = -1};
}

/* ---- what is in it ------------------------------------------------------------ */

const gwt_section *gwt_sections_find(const gwt_sections *in, uint32_t kind,
                                     uint32_t worker)
{
    for (size_t i = 0; i < in->count; i++)
        if (in->list[i].kind == kind && in->list[i].worker == worker)
            return &in->list[i];
    return NULL;
}

gw_status gwt_sections_read(const gwt_sections *in, const gwt_section *section,
                            uint64_t from, void *to, size_t len)
{
    if (from > section->len || len > section->len - from)
        return gw_fail(GW_ERR_DATA, "a section of %s is too short", in->from.name);
    return gwt_source_read(&in->from, section->at + from, to, len);
}
