/* SPDX-License-Identifier: Apache-2.0
 *
 * sections_write.c - writes files of sections with checksums. */
#include "files/sections.h"

#include "files/section_parts.h"

#include <string.h>

gw_status gwt_sections_create(gwt_sections_out *out, const char *path,
                              const char *partial)
{
    out->count = 0;
    gwt_check_begin(&out->all);
    GWT_TRY(gwt_newfile_open(&out->file, path, partial));
    return gwt_newfile_add(&out->file, GWT_SECTIONS_MAGIC, 8);
}

gw_status gwt_sections_begin(gwt_sections_out *out, uint32_t kind, uint32_t worker,
                             uint64_t len)
{
    uint8_t head[GWT_SECTION_HEAD];

    gwt_put_word(head, (uint64_t)worker << 32 | kind);
    gwt_put_word(head + 8, len);
    gwt_check_begin(&out->check);
    return gwt_sections_add(out, head, sizeof head);
}

gw_status gwt_sections_add(gwt_sections_out *out, const void *bytes, size_t len)
{
    gwt_check_add(&out->check, bytes, len);
    return gwt_newfile_add(&out->file, bytes, len);
}

gw_status gwt_sections_end(gwt_sections_out *out)
{
    uint8_t check[8];

    gwt_put_word(check, gwt_check_end(&out->check));
    gwt_check_add(&out->all, check, sizeof check);
    out->count++;
    return gwt_newfile_add(&out->file, check, sizeof check);
}

gw_status gwt_sections_put(gwt_sections_out *out, uint32_t kind, uint32_t worker,
                           const void *bytes, size_t len)
{
    GWT_TRY(gwt_sections_begin(out, kind, worker, len));
    GWT_TRY(gwt_sections_add(out, bytes, len));
    return gwt_sections_end(out);
}

gw_status gwt_sections_commit(gwt_sections_out *out)
{
    uint8_t end[GWT_END_LEN];

    gwt_put_word(end, out->count);
    gwt_put_word(end + 8, gwt_check_end(&out->all));
    GWT_TRY(gwt_sections_put(out, GWT_KIND_END, 0, end, sizeof end));
    return gwt_newfile_commit(&out->file);
}

void gwt_sections_abandon(gwt_sections_out *out)
{
    gwt_newfile_abandon(&out->file);
}
