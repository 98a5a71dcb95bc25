/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.h - shows the progress of a run on standard error. */
#ifndef GWC_PROGRESS_H
#define GWC_PROGRESS_H

#include "run/train.h"

typedef struct gwc_display {
    int quiet;        /* whether warnings are all that is shown */
    int terminal;     /* whether there is a line to redraw */
    double drawn_at;  /* when it was drawn last */
    int line_open;    /* whether it is on the screen now */
    double last_loss; /* a mean, which jumps less than the loss of single steps */
} gwc_display;

/* The display for a run; the observer refers to it. */
gwc_display gwc_display_new(int quiet);
gwt_observer gwc_display_observer(gwc_display *display);

/* Formats a number of bytes as "1.50 MB" in text (at least 16 bytes). */
const char *gwc_bytes(double bytes, char *text);

#endif
