/* SPDX-License-Identifier: Apache-2.0
 *
 * link_parse.c - parses a link, for callers that have no comm. */
#include "transport/link.h"

gw_status gw_link_parse(const char *link, double *bytes_per_second,
                        double *latency_seconds)
{
    gwi_link_rate rate;

    if (link == NULL)
        return gw_fail(GW_ERR_ARG,
                       "the link is missing; give one such as \"1gbit,50us\"");
    GWI_TRY(gwi_link_parse(link, &rate));
    if (bytes_per_second != NULL)
        *bytes_per_second = rate.bytes_per_second;
    if (latency_seconds != NULL)
        *latency_seconds = rate.latency;
    return GW_OK;
}
