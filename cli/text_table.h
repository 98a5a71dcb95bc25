/* SPDX-License-Identifier: Apache-2.0
 *
 * text_table.h - tables of figures. On a terminal that is too narrow for a row, the
 * first cell stands alone and the others go below it, in the same columns for every
 * row. */
#ifndef GWC_TEXT_TABLE_H
#define GWC_TEXT_TABLE_H

#include <stddef.h>
#include <stdio.h>

typedef struct gwc_column {
    const char *title;
    int width; /* negative: cells are aligned on the left */
    int gap;   /* blanks in front of it */
} gwc_column;

/* Makes room for a cell of so many characters. */
void gwc_widen(gwc_column *column, int chars);

/* Prints a row of as many cells as there are columns; NULL prints the titles. */
void gwc_print_cells(FILE *to, const gwc_column *columns, size_t count,
                     const char *const *cells);

#endif
