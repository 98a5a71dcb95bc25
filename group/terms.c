/* SPDX-License-Identifier: Apache-2.0
 *
 * terms.c - compares what members want. */
#include "terms.h"

#include <stdio.h>

bool gwg_terms_same(const gwg_terms *a, const gwg_terms *b)
{
    return a->min == b->min && a->max == b->max && a->plain == b->plain &&
           a->streams == b->streams;
}

static void say_one(char text[GWG_TERMS_CAP / 3], const gwg_terms *t)
{
    int used = 0;

    if (t->min < t->max)
        used = snprintf(text, GWG_TERMS_CAP / 3, "%d to ", t->min);
    snprintf(text + used, GWG_TERMS_CAP / 3 - (size_t)used,
             "%d worker%s, %s, %d connection%s per pair", t->max,
             t->max == 1 ? "" : "s", t->plain ? "not encrypted" : "encrypted",
             t->streams, t->streams == 1 ? "" : "s");
}

void gwg_terms_say(char text[GWG_TERMS_CAP], const gwg_terms *job,
                   const gwg_terms *worker)
{
    char has[GWG_TERMS_CAP / 3], wants[GWG_TERMS_CAP / 3];

    say_one(has, job);
    say_one(wants, worker);
    snprintf(text, GWG_TERMS_CAP, "this job has %s; this worker wants %s", has, wants);
}
