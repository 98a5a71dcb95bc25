/* SPDX-License-Identifier: Apache-2.0
 *
 * section_parts.h - sizes that the writer and the reader of sections share. */
#ifndef GWT_SECTION_PARTS_H
#define GWT_SECTION_PARTS_H

#define GWT_SECTIONS_MAGIC "GWCHECK1"
#define GWT_KIND_END       GWT_KIND('E', 'N', 'D', ' ')

/* Bytes before and after those of a section; of the END: how many sections there
 * are, and the check of their checks. */
enum { GWT_SECTION_HEAD = 16, GWT_SECTION_TAIL = 8, GWT_END_LEN = 16 };

#endif
