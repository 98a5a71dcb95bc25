/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_group_lines.c - any lines that four guests say to a meeting, and to a hub: each
 * is acted on or refused, and views have members. The first letter of a line says which
 * guest it is from. */
#include "meeting.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUESTS = 4 };

/* What was read means the same when it is written again. */
static void read_pair(const char *line)
{
    gwg_pair pair, again;
    char text[GWG_LINE_CAP];

    if (gwg_pair_read(line, &pair) != GW_OK)
        return;
    snprintf(text, sizeof text, "relay %llu %llu %llu", (unsigned long long)pair.view,
             (unsigned long long)pair.from, (unsigned long long)pair.to);
    if (gwg_pair_read(text, &again) != GW_OK || again.view != pair.view ||
        again.from != pair.from || again.to != pair.to)
        abort();
}

/* Guests here have no connections, so those for a hub are read and go no further. */
static void say(gw_meeting *m, gwg_guest *g, const char *line)
{
    if (g->role == GWG_NOBODY)
        *g = (gwg_guest){.role = GWG_STRANGER, .from = "10.0.0.1"};
    if (strncmp(line, "relay ", 6) == 0)
        read_pair(line);
    else if (gwg_meeting_hear(m, g, line) != GW_OK)
        gwg_guest_drop(m, g, NULL);
    gwg_meeting_form(m, 1e9);
    if (gwg_count_role(m, GWG_RUNS) > m->terms.max)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    gw_meeting *m = calloc(1, sizeof *m);
    char line[GWG_LINE_CAP];

    for (size_t at = 0; m != NULL && at < len;) {
        const uint8_t *end = memchr(data + at, '\n', len - at);
        size_t n = end != NULL ? (size_t)(end - data) - at : len - at;
        if (n > 1 && n < sizeof line) {
            memcpy(line, data + at + 1, n - 1);
            line[n - 1] = '\0';
            say(m, &m->guests[data[at] % GUESTS], line);
        }
        at += n + 1;
    }
    for (int i = 0; m != NULL && i < GUESTS; i++)
        gwg_talk_end(&m->guests[i].talk);
    free(m);
    return 0;
}
