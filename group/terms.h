/* SPDX-License-Identifier: Apache-2.0
 *
 * terms.h - what all members of a job must have in common. Who differs is refused. */
#ifndef GWG_TERMS_H
#define GWG_TERMS_H

#include <stdbool.h>

#include "gradwire.h"

/* Connections between two members, at most: TLS keeps 300 KB for each. */
enum { GWG_MOST_STREAMS = 16, GWG_TERMS_CAP = 200 };

typedef struct gwg_terms {
    int min, max, plain, streams;
} gwg_terms;

bool gwg_terms_same(const gwg_terms *a, const gwg_terms *b);

/* Writes what the job has and what the worker that differs wants. */
void gwg_terms_say(char text[GWG_TERMS_CAP], const gwg_terms *job,
                   const gwg_terms *worker);

#endif
