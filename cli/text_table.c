/* SPDX-License-Identifier: Apache-2.0
 *
 * text_table.c - tables of figures that fit a terminal. */
#include "text_table.h"
#include "terminal.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_CAP = 512, INDENT = 2 };

/* A line that is being made. */
typedef struct line {
    char text[LINE_CAP];
    size_t len;
} line;

static void add(line *l, int gap, int width, const char *cell)
{
    size_t room = sizeof l->text - l->len;
    int n = snprintf(l->text + l->len, room, "%*s%*s", gap, "", width, cell);

    l->len += n < (int)room ? (size_t)n : room - 1;
}

/* Prints it without the blanks at its end, and begins the next one. */
static void end_line(line *l, FILE *to)
{
    while (l->len > 0 && l->text[l->len - 1] == ' ')
        l->len--;
    if (l->len > 0)
        fprintf(to, "%.*s\n", (int)l->len, l->text);
    l->len = 0;
    l->text[0] = '\0';
}

static int width_of(const gwc_column *columns, size_t count)
{
    int width = 0;

    for (size_t i = 0; i < count; i++)
        width += columns[i].gap + abs(columns[i].width);
    return width;
}

void gwc_widen(gwc_column *column, int chars)
{
    if (chars > abs(column->width))
        column->width = column->width < 0 ? -chars : chars;
}

void gwc_print_cells(FILE *to, const gwc_column *columns, size_t count,
                     const char *const *cells)
{
    int terminal = gwc_columns(to), at = 0;
    int narrow = terminal > 0 && terminal < width_of(columns, count);
    line l = {.len = 0};

    for (size_t i = 0; i < count; i++) {
        const gwc_column *c = &columns[i];
        int gap = c->gap, width = c->gap + abs(c->width);
        if (narrow && (i == 1 || (i > 1 && at + width > terminal))) {
            end_line(&l, to);
            at = 0;
        }
        if (narrow && at == 0)
            gap = i > 0 ? INDENT : 0;
        at += at == 0 ? gap + abs(c->width) : width;
        add(&l, gap, c->width, cells != NULL ? cells[i] : c->title);
    }
    end_line(&l, to);
}
