/* SPDX-License-Identifier: Apache-2.0
 *
 * alarm.h - notices when the loss of a run goes away from what it was. */
#ifndef GWT_ALARM_H
#define GWT_ALARM_H

/* Zeroed bytes are the beginning. */
typedef struct gwt_alarm {
    double first; /* loss of the first step, or what is here before if that is more */
    double mean;  /* of the last losses, smoothed */
    double best;  /* least of these means */
    int points;   /* for losses that are too high */
    double worst; /* of these */
    int burst;    /* there was one that was far too high */
} gwt_alarm;

/* Sees the loss of one step. Returns 1 from the step on in which the run has gone
 * away for good. */
int gwt_alarm_sees(gwt_alarm *alarm, double loss);

#endif
