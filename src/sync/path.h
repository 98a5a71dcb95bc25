/* SPDX-License-Identifier: Apache-2.0
 *
 * path.h - formulas, shared by exchanges, for how messages wait for each other. */
#ifndef GWI_PATH_H
#define GWI_PATH_H

#include "sync/parts.h"

/* Of one all-reduce of m floats. */
gwi_path gwi_path_of_sum(double m, int workers);

/* Of as many as traffic counts. */
gwi_path gwi_path_repeated(gwi_path one, const gw_traffic *traffic);

/* All send to all others at once, or a part to each: gwi_exchange.path. */
gwi_path gwi_path_of_lists(const gwi_spec *spec, const gw_layout *layout, int workers,
                           const gw_traffic *traffic);

#endif
