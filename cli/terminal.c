/* SPDX-License-Identifier: Apache-2.0
 *
 * terminal.c - the width of a terminal, and lines that fit it. */
#define _GNU_SOURCE
#include "terminal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* A terminal that says something absurd is taken for one of this width. */
enum { NARROWEST = 20 };

int gwc_columns(FILE *to)
{
    struct winsize size;
    int fd = fileno(to);

    if (fd < 0 || !isatty(fd))
        return 0;
    /* mpirun gives its ranks terminals without a size, and prints what they get to
     * wherever its own output goes. */
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 0;
    return size.ws_col < NARROWEST ? NARROWEST : size.ws_col;
}

void gwc_redraw(const char *line)
{
    int columns = gwc_columns(stderr);

    if (columns > 0)
        fprintf(stderr, "\r%.*s\033[K", columns - 1, line);
    fflush(stderr);
}

void gwc_erase(void)
{
    if (gwc_columns(stderr) > 0)
        fputs("\r\033[K", stderr);
}

/* How much of the text, which has len bytes, goes on a line of `room`: up to the last
 * blank that fits, or else behind the last sign at which a spec or a path may be cut,
 * or else all that fits. */
static size_t break_at(const char *text, size_t len, size_t room)
{
    size_t at = room;

    if (len <= room)
        return len;
    while (at > 0 && text[at] != ' ')
        at--;
    if (at > 0 && strspn(text, " ") < at)
        return at;
    for (at = room; at > 1 && strchr(",+/|", text[at - 1]) == NULL;)
        at--;
    return at > 1 ? at : room;
}

static void print_line(FILE *to, const char *text, size_t len, size_t columns,
                       size_t indent)
{
    size_t room = columns;

    for (;;) {
        size_t part = break_at(text, len, room);
        fprintf(to, "%.*s\n", (int)part, text);
        while (part < len && text[part] == ' ')
            part++;
        text += part;
        len -= part;
        if (len == 0)
            return;
        fprintf(to, "%*s", (int)indent, "");
        room = columns - indent;
    }
}

void gwc_printf(FILE *to, int indent, const char *format, ...)
{
    char *text = NULL;
    va_list args;

    va_start(args, format);
    int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        return; /* there is no memory, not even for a line */
    gwc_print_wrapped(to, text, indent);
    free(text);
}

void gwc_print_paragraph(FILE *to, const char *text, int most)
{
    int columns = gwc_columns(to);

    if (columns > 0 && columns < most)
        most = columns;
    print_line(to, text, strlen(text), (size_t)most, 0);
}

void gwc_print_wrapped(FILE *to, const char *text, int indent)
{
    size_t columns = (size_t)gwc_columns(to);

    if (columns == 0) {
        fputs(text, to);
        return;
    }
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");
        print_line(to, text, len, columns,
                   (size_t)indent < columns / 2 ? (size_t)indent : 0);
        text += len + (text[len] != '\0');
    }
}
