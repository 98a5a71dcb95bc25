/* SPDX-License-Identifier: Apache-2.0
 *
 * limit.h - a time limit that follows the usual time of a round; limit.c has the rule.
 */
#ifndef GWI_LIMIT_H
#define GWI_LIMIT_H

#include "comm.h"

/* How long all may be silent now: the comm's time limit, or what it has learned. */
double gwi_limit_now(gw_comm *c);

/* A message has come. */
void gwi_limit_heard(gw_comm *c);

#endif
