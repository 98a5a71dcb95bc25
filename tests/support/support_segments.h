/* SPDX-License-Identifier: Apache-2.0
 *
 * support_segments.h - vectors are cut into segments of a few floats, so that all that
 * is promised of long ones can be tried on a small model. */
#ifndef SUPPORT_SEGMENTS_H
#define SUPPORT_SEGMENTS_H

#include "support_conform.h"
#include "support_model.h"

#include "sync/segments.h"

static inline void set_bound(size_t floats)
{
    gwi_segment_floats = floats;
}

static inline int unset_bound(void **state)
{
    (void)state;
    set_bound(GWI_SEGMENT_FLOATS);
    return 0;
}

/* A test that may set the bound. */
#define BOUNDED(test) cmocka_unit_test_teardown(test, unset_bound)

#endif
