/* SPDX-License-Identifier: Apache-2.0
 *
 * page_bytes.c - the page that report/ is bundled into, inside the command. The
 * assembler reads the file; cmake/GradwireReport.cmake made it. */
#include "report/page_bytes.h"

#ifdef GRADWIRE_PAGE_FILE

__asm__(".section .rodata\n"
        ".balign 16\n"
        "gwc_page_file_begin:\n"
        ".incbin \"" GRADWIRE_PAGE_FILE "\"\n"
        "gwc_page_file_end:\n"
        ".byte 0\n"
        ".previous\n");

extern const char begin[] __asm__("gwc_page_file_begin");
extern const char end[] __asm__("gwc_page_file_end");

const char *gwc_page_bytes(size_t *len)
{
    *len = (size_t)(end - begin);
    return begin;
}

#else

const char *gwc_page_bytes(size_t *len)
{
    *len = 0;
    return NULL;
}

#endif
