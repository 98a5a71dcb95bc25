/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics_place.h - where --metrics puts its text: a file, or a port that is listened
 * to. A bare port is one of this machine only. */
#ifndef GWT_METRICS_PLACE_H
#define GWT_METRICS_PLACE_H

#include "common.h"

enum { GWT_HOST_CAP = 256 };

typedef struct gwt_metrics_place {
    const char *file; /* borrowed; NULL: it is a port */
    char host[GWT_HOST_CAP], port[8];
    int listener;                 /* a socket, once it is open; 0: none */
    char name[GWT_HOST_CAP + 32]; /* where to look, for people */
} gwt_metrics_place;

/* Reads "9100", "HOST:9100", "[::1]:9100" or the name of a file; NULL is no place.
 * Touches nothing. GW_ERR_ARG. */
gw_status gwt_place_parse(gwt_metrics_place *out, const char *text);

/* Begins to listen, or checks that the file can be written. Port 0 takes one that is
 * free. GW_ERR_SYSTEM. Released with gwt_place_close(), also after a failure. */
gw_status gwt_place_open(gwt_metrics_place *place);
void gwt_place_close(gwt_metrics_place *place);

/* Whether there is a place at all. */
int gwt_place_given(const gwt_metrics_place *place);

#endif
