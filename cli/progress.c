/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.c - redraws one line on a terminal and prints plain lines elsewhere. It runs
 * on rank 0, which may be another process than the command. */
#define _GNU_SOURCE
#include "progress.h"
#include "common.h"
#include "terminal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The shortest time between two redraws of the line, and between two plain lines. */
#define REDRAW_SECONDS 0.1
#define LINE_SECONDS   1.0

gwc_display gwc_display_new(int quiet)
{
    return (gwc_display){.quiet = quiet, .terminal = gwc_columns(stderr) > 0};
}

const char *gwc_bytes(double bytes, char *text)
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
    size_t i = 0;

    for (; bytes >= 999.5 && i + 1 < sizeof unit / sizeof unit[0]; i++)
        bytes /= 1000.0;
    snprintf(text, 16, i == 0 || bytes >= 99.95 ? "%.0f %s" : "%.3g %s", bytes,
             unit[i]);
    return text;
}

/* "1:02:03" or "2:03". */
static const char *duration(double seconds, char text[24])
{
    long s = (long)(seconds + 0.5);

    if (s >= 3600)
        snprintf(text, 24, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, 24, "%ld:%02ld", s / 60, s % 60);
    return text;
}

/* The parts of the line, in the order in which they are shown. */
enum { STEP, EPOCH, LOSS, SPEED, BYTES, LEFT, PARTS, PART_CAP = 48 };
typedef char line_parts[PARTS][PART_CAP];

static void write_parts(line_parts part, const gwt_progress *p, double loss)
{
    double step = (double)(p->step > 0 ? p->step : 1);
    double left = p->seconds / step * (double)(p->steps - p->step);
    char bytes[16], text[24];

    snprintf(part[STEP], PART_CAP, "step %" PRIu64 "/%" PRIu64, p->step, p->steps);
    snprintf(part[EPOCH], PART_CAP, "epoch %.2f", p->epoch);
    snprintf(part[LOSS], PART_CAP, "loss %.4f", loss);
    if (isnan(p->tokens))
        snprintf(part[SPEED], PART_CAP, "%.0f samples/s", p->samples);
    else
        snprintf(part[SPEED], PART_CAP, "%.0f tokens/s", p->tokens);
    snprintf(part[BYTES], PART_CAP, "%s/step",
             gwc_bytes((double)p->bytes_sent / step, bytes));
    snprintf(part[LEFT], PART_CAP, "%s left", duration(left, text));
}

static size_t line_len(line_parts part)
{
    size_t len = 0;

    for (int i = 0; i < PARTS; i++)
        len += part[i][0] != '\0' ? strlen(part[i]) + 2 : 0;
    return len - 2;
}

static void join(line_parts part, char line[PARTS * PART_CAP])
{
    size_t len = 0;

    line[0] = '\0';
    for (int i = 0; i < PARTS; i++)
        if (part[i][0] != '\0')
            len += (size_t)snprintf(line + len, PARTS * PART_CAP - len, "%s%s",
                                    len > 0 ? "  " : "", part[i]);
}

/* Leaves out parts, the least important first, until the others fit. */
static void draw(gwc_display *d, const gwt_progress *p)
{
    static const int less_important[] = {BYTES, SPEED, EPOCH, LEFT};
    size_t room = (size_t)gwc_columns(stderr) - 1;
    char line[PARTS * PART_CAP];
    line_parts part;
    double now = gwt_now();

    if (now - d->drawn_at < REDRAW_SECONDS)
        return;
    write_parts(part, p, d->last_loss > 0.0 ? d->last_loss : p->loss);
    for (size_t i = 0; i < 4 && line_len(part) > room; i++)
        part[less_important[i]][0] = '\0';
    join(part, line);
    gwc_redraw(line);
    d->drawn_at = now;
    d->line_open = 1;
}

static void print_line(gwc_display *d, const gwt_progress *p)
{
    char line[PARTS * PART_CAP];
    line_parts part;
    double now = gwt_now();

    if (now - d->drawn_at < LINE_SECONDS && p->step < p->steps)
        return;
    write_parts(part, p, p->loss);
    part[LEFT][0] = '\0';
    join(part, line);
    fprintf(stderr, "%s\n", line);
    d->drawn_at = now;
}

static void clear_line(gwc_display *d)
{
    if (d->line_open)
        gwc_erase();
    d->line_open = 0;
}

static void print_verdict(const gwt_progress *p, const char *set)
{
    fprintf(stderr, "epoch %.4g  ", p->epoch);
    if (!isnan(p->test_accuracy)) /* classes, not numbers */
        fprintf(stderr, "%s accuracy %.4f  ", set, p->test_accuracy);
    fprintf(stderr, "%s loss %.4f", set, p->test_loss);
    if (!isnan(p->perplexity))
        fprintf(stderr, "  perplexity %.2f", p->perplexity);
    fputc('\n', stderr);
}

static void tell(void *arg, gwt_event event, const gwt_progress *p)
{
    gwc_display *d = arg;

    if (d->quiet && event != GWT_EVENT_WARNING)
        return;
    switch (event) {
    case GWT_EVENT_STEP:
        if (d->terminal)
            draw(d, p);
        break;
    case GWT_EVENT_LOG:
        d->last_loss = p->loss;
        if (!d->terminal)
            print_line(d, p);
        break;
    case GWT_EVENT_EVAL:
        clear_line(d);
        print_verdict(p, p->valid ? "validation" : "test");
        break;
    case GWT_EVENT_WARNING:
        clear_line(d);
        fprintf(stderr, "gradwire: warning: %s\n", p->warning);
        break;
    }
}

gwt_observer gwc_display_observer(gwc_display *display)
{
    return (gwt_observer){.tell = tell, .arg = display};
}
