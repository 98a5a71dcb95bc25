/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.c - redraws one line on a terminal and prints plain lines elsewhere. It runs
 * on rank 0, which may be another process than the command. */
#define _GNU_SOURCE
#include "progress.h"
#include "common.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

/* The shortest time between two redraws of the line, and between two plain lines. */
#define REDRAW_SECONDS 0.1
#define LINE_SECONDS   1.0

gwc_display gwc_display_new(int quiet)
{
    return (gwc_display){.quiet = quiet, .terminal = isatty(STDERR_FILENO)};
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

static void print_state(const gwt_progress *p, double loss)
{
    char bytes[16];

    fprintf(
        stderr,
        "step %" PRIu64 "/%" PRIu64 "  epoch %.2f  loss %.4f  %.0f samples/s  %s/step",
        p->step, p->steps, p->epoch, loss, p->samples,
        gwc_bytes((double)p->bytes_sent / (double)(p->step > 0 ? p->step : 1), bytes));
}

static void draw(gwc_display *d, const gwt_progress *p)
{
    char text[24];
    double now = gwt_now(), left;

    if (now - d->drawn_at < REDRAW_SECONDS)
        return;
    left = p->seconds / (double)p->step * (double)(p->steps - p->step);
    fputs("\r", stderr);
    print_state(p, d->last_loss > 0.0 ? d->last_loss : p->loss);
    fprintf(stderr, "  %s left\033[K", duration(left, text));
    d->drawn_at = now;
    d->line_open = 1;
}

static void print_line(gwc_display *d, const gwt_progress *p)
{
    double now = gwt_now();

    if (now - d->drawn_at < LINE_SECONDS && p->step < p->steps)
        return;
    print_state(p, p->loss);
    putc('\n', stderr);
    d->drawn_at = now;
}

static void clear_line(gwc_display *d)
{
    if (d->line_open)
        fputs("\r\033[K", stderr);
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
