/* SPDX-License-Identifier: Apache-2.0
 *
 * support_wire.h - random positions and random messages for the tests of wire/. */
#ifndef GW_SUPPORT_WIRE_H
#define GW_SUPPORT_WIRE_H

#include "wire/wire.h"

/* Prints the seed, from GW_TEST_SEED if that is set, and begins anew with it. */
void wire_seed(void);

/* The next random number. */
uint64_t wire_random(void);

/* A number below limit, which is not 0. */
uint64_t wire_below(uint64_t limit);

/* k ascending positions below n, uniformly random; k <= n. */
void wire_positions(uint32_t *positions, uint32_t k, uint32_t n);

/* Ascending positions below n, each taken with the same probability; at most cap.
 * Returns how many. */
uint32_t wire_bernoulli(uint32_t *positions, uint32_t cap, uint32_t n,
                        double probability);

/* Random scales, positive and finite, and random values for a message begun. */
void wire_fill(const gwi_wire_writer *w);

/* Makes a message of this form with random contents, at these positions if it is
 * sparse, in a new buffer of exactly its length. Fails the test if it cannot. */
uint8_t *wire_message(const gwi_wire_form *form, const uint32_t *positions,
                      size_t *len);

#endif
