/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics_watch.h - a thread beside worker 0 that hands out the run's metrics: it
 * answers whoever asks at a port, or writes a file every few seconds. Training only
 * copies its figures to it, and never waits for a network or a disk. */
#ifndef GWT_METRICS_WATCH_H
#define GWT_METRICS_WATCH_H

#include "watch/metrics_place.h"
#include "watch/metrics_text.h"

typedef struct gwt_watch gwt_watch;

/* Starts the thread, or sets *out to NULL if the place is none. run and place must last
 * until gwt_watch_end(). A file is written at once. GW_ERR_NOMEM, GW_ERR_SYSTEM. */
gw_status gwt_watch_start(gwt_watch **out, const gwt_metrics_place *place,
                          const gwt_metrics_run *run, const gwt_metrics *first);

/* Replaces the figures. NULL is fine. */
void gwt_watch_update(gwt_watch *watch, const gwt_metrics *now);

/* Ends the thread and writes the file a last time. Fails only if that does
 * (GW_ERR_SYSTEM). NULL is fine. */
gw_status gwt_watch_end(gwt_watch *watch);

#endif
