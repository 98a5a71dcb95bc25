/* SPDX-License-Identifier: Apache-2.0
 *
 * sync_list.h - lists of specs as users write them. */
#ifndef GWC_SYNC_LIST_H
#define GWC_SYNC_LIST_H

#include "gradwire.h"

/* Copies a list of specs, separated by spaces, in which "all" stands for an example of
 * every recipe that exchanges something while it trains. GW_ERR_ARG if it does not fit
 * into cap bytes. */
gw_status gwc_sync_list(char *out, size_t cap, const char *text);

#endif
