/* SPDX-License-Identifier: Apache-2.0
 *
 * link.h - emulates a network of a given rate and latency on any transport. */
#ifndef GWI_LINK_H
#define GWI_LINK_H

#include "base.h"

typedef struct gwi_link_rate {
    double bytes_per_second;
    double latency; /* seconds */
} gwi_link_rate;

/* Reads "1gbit,50us"; GW_ERR_ARG names the word that is wrong. */
gw_status gwi_link_parse(const char *text, gwi_link_rate *rate);
gw_status gwi_link_check(const char *text);

#endif
