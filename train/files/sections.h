/* SPDX-License-Identifier: Apache-2.0
 *
 * sections.h - a file of sections with checksums, the format of checkpoints.
 * docs/format.md specifies every byte.
 *
 *     "GWCHECK1" | section | section | ... | END section
 *     section:  kind (4) | worker (4) | len (8) | len bytes | check (8)
 */
#ifndef GWT_SECTIONS_H
#define GWT_SECTIONS_H

#include "files/newfile.h"
#include "files/source.h"

/* ---- the check: 64 bits that change when any byte does ---------------------- */

enum { GWT_CHECK_LANES = 4, GWT_CHECK_BLOCK = 8 * GWT_CHECK_LANES };

typedef struct gwt_check {
    uint64_t lane[GWT_CHECK_LANES];
    uint8_t rest[GWT_CHECK_BLOCK]; /* what does not fill a block yet */
    size_t filled;
    uint64_t len;
} gwt_check;

void gwt_check_begin(gwt_check *check);
void gwt_check_add(gwt_check *check, const void *bytes, size_t len);
uint64_t gwt_check_end(gwt_check *check);

/* Numbers in files are little-endian, 8 bytes. */
void gwt_put_word(uint8_t *to, uint64_t word);
uint64_t gwt_get_word(const uint8_t *from);
uint64_t gwt_real_word(double x);
double gwt_word_real(uint64_t word);

/* The kind of a section from its four letters. */
#define GWT_KIND(a, b, c, d) \
    ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

/* ---- writing ---------------------------------------------------------------- */

typedef struct gwt_sections_out {
    gwt_newfile file;
    gwt_check check; /* of the section being written */
    gwt_check all;   /* of the checks of all sections */
    uint64_t count;  /* sections ended */
} gwt_sections_out;

/* As gwt_newfile_open(). After a failure of any of these: gwt_sections_abandon(). */
gw_status gwt_sections_create(gwt_sections_out *out, const char *path,
                              const char *partial);

/* Writes one section: begin with its length, add bytes in any number of calls, end. */
gw_status gwt_sections_begin(gwt_sections_out *out, uint32_t kind, uint32_t worker,
                             uint64_t len);
gw_status gwt_sections_add(gwt_sections_out *out, const void *bytes, size_t len);
gw_status gwt_sections_end(gwt_sections_out *out);

/* All of that in one call. */
gw_status gwt_sections_put(gwt_sections_out *out, uint32_t kind, uint32_t worker,
                           const void *bytes, size_t len);

/* Ends the file; see gwt_newfile_commit(). */
gw_status gwt_sections_commit(gwt_sections_out *out);
void gwt_sections_abandon(gwt_sections_out *out);

/* ---- reading ---------------------------------------------------------------- */

typedef struct gwt_section {
    uint32_t kind, worker;
    uint64_t at, len; /* where its bytes are in the file */
} gwt_section;

typedef struct gwt_sections {
    gwt_source from;
    gwt_section *list; /* without the END */
    size_t count;
} gwt_sections;

/* Opens a file and checks every byte of it. path must stay valid. GW_ERR_DATA if it
 * is damaged or something else, GW_ERR_SYSTEM if it cannot be read, GW_ERR_NOMEM. On
 * success the caller ends with gwt_sections_close(). */
gw_status gwt_sections_open(gwt_sections *out, const char *path);

/* The same for a file that is in memory. */
gw_status gwt_sections_over(gwt_sections *out, const char *name, const void *bytes,
                            size_t len);
void gwt_sections_close(gwt_sections *in);

/* The section of that kind of that worker; NULL if there is none. */
const gwt_section *gwt_sections_find(const gwt_sections *in, uint32_t kind,
                                     uint32_t worker);

/* Reads len bytes of a section, from `from` on; they must be in it. */
gw_status gwt_sections_read(const gwt_sections *in, const gwt_section *section,
                            uint64_t from, void *to, size_t len);

#endif
