/* SPDX-License-Identifier: Apache-2.0
 *
 * terminal.h - output that fits the width of a terminal. Elsewhere, in files and pipes,
 * lines are as long as they are. */
#ifndef GWC_TERMINAL_H
#define GWC_TERMINAL_H

#include "gradwire.h"

#include <stdio.h>

/* The width of the terminal that the stream writes to; 0 if it is none, or one that
 * does not know its size. */
int gwc_columns(FILE *to);

/* Draws one line on the terminal of standard error in place of the one that was drawn
 * before. What does not fit is left out: a line that wraps could not be replaced. */
void gwc_redraw(const char *line);

/* Removes the line that gwc_redraw() drew. */
void gwc_erase(void);

/* Prints lines of text. On a terminal, those that are too long are broken at blanks and
 * go on below, indented by so many columns. */
void gwc_print_wrapped(FILE *to, const char *text, int indent);

/* The same as printf(), in lines that go on below. */
void gwc_printf(FILE *to, int indent, const char *format, ...) GW_PRINTF(3, 4);

/* Prints a paragraph in lines of at most `most` columns, and as many as the terminal
 * has. */
void gwc_print_paragraph(FILE *to, const char *text, int most);

#endif
