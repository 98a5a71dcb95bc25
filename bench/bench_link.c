/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_link.c - whether an emulated link takes the time that it says: messages
 * between two processes against latency + bytes / rate. */
#include "crew.h"

#include "transport/link.h"

#include <stdio.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static const char *const links[] = {"10mbit", "100mbit", "1gbit", "10gbit",
                                    "1gbit,50us"};
static const double times[] = {0.2e-3, 1e-3, 10e-3, 100e-3};

/* From a millisecond on within 5 %, below that within 100 us. */
static const double long_time = 1e-3, part = 0.05, slack = 100e-6;

static const double quick_time = 10e-3;

static gw_status measure(gwb_sheet *sheet, const char *link, double seconds)
{
    gwi_link_rate rate;
    gwb_crew_result result;

    GWI_TRY(gwi_link_parse(link, &rate));
    size_t len = (size_t)(seconds * rate.bytes_per_second + 0.5);
    double modelled = (double)len / rate.bytes_per_second + rate.latency;
    gwb_task task = {.spawn = GW_SPAWN_PROCESSES,
                     .workers = 2,
                     .link = link,
                     .len = len,
                     .repeat = 1,
                     .act = gwb_act_message};
    gwb_row row = gwb_row_new("link", len, "%s, %g ms", link, 1e3 * modelled);

    row.bytes = 1;
    if (!gwb_wanted(sheet, row.name))
        return GW_OK;
    GWI_TRY(gwb_crew_run(sheet->set, &task, &result));
    row.seconds = result.best;
    row.rate = 1e-6 * (double)len / result.best;
    row.unit = "MB/s";
    row.limit = "latency + bytes/rate";
    row.limit_seconds = modelled;
    row.ratio = result.best / modelled;
    row.median = result.median / modelled;
    row.sense = GWB_WITHIN;
    row.target = 1.0 + (modelled >= long_time ? part : slack / modelled);
    gwb_sheet_add(sheet, &row);
    return GW_OK;
}

static gw_status run(gwb_sheet *sheet)
{
    for (size_t i = 0; i < COUNT(links); i++)
        for (size_t j = 0; j < COUNT(times); j++)
            if (!sheet->set->quick || times[j] <= quick_time)
                GWI_TRY(measure(sheet, links[i], times[j]));
    return GW_OK;
}

const gwb_group gwb_group_link = {
    .name = "link",
    .summary = "emulated links, against the time they should take",
    .by_default = 1,
    .run = run,
};
