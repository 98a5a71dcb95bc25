/* SPDX-License-Identifier: Apache-2.0
 *
 * check.h - the checksum of messages without a header: raw floats, and bytes of the
 * caller.
 *
 * Recursive doubling packs its floats, and the checksum is at the end of the message.
 * Everything else is sent and received in place, with no room after it. Its checksum, 4
 * bytes, follows in a message of its own to the same worker. */
#ifndef GWI_CHECK_H
#define GWI_CHECK_H

#include "comm.h"
#include "kernels/crc32c.h"
#include "wire/wire_bytes.h"

enum { GWI_CHECK_LEN = 4 };

static inline void gwi_put_check(uint8_t *to, const void *data, size_t len)
{
    gwi_write_u32le(to, gwi_crc32c(0, data, len));
}

/* Simulated ranks may share the memory of their vectors (sim/fold.h), which then hold
 * what some rank left there: the time is spent, and the answer is yes. */
static inline bool gwi_same_check(uint32_t said, uint32_t found)
{
#ifdef GRADWIRE_SMPI
    found = said;
#endif
    return said == found;
}

static inline bool gwi_is_checked(const uint8_t *check, const void *data, size_t len)
{
    return gwi_same_check(gwi_read_u32le(check), gwi_crc32c(0, data, len));
}

/* Breaks the comm: what worker `from` sent did not arrive as it was sent. */
gw_status gwi_fail_check(gw_comm *c, int from);

#endif
