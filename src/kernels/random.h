/* SPDX-License-Identifier: Apache-2.0
 *
 * random.h - random bits as a pure function of where they are used.
 *
 * There is no stream and no state: the bits that round entry j of bucket B on one
 * worker in one step depend on (seed, step, worker, B, j) alone, so threads,
 * vector widths and resumed runs all see the same ones. All arithmetic is on
 * unsigned integers and wraps; the definitions below are part of the format.
 *
 *     (seed, step, worker) --random_key--> 64-bit key
 *     (key, B)             --random64----> 64 bits, split into two 32-bit halves
 *     (halves, j)          --random24----> 24 bits, cheap in vector lanes
 */
#ifndef GWI_RANDOM_H
#define GWI_RANDOM_H

#include <stdint.h>

/* 2^64 and 2^32 divided by the golden ratio, made odd: steps of this size visit
 * all values and keep successive ones far apart. */
#define GWI_RANDOM_STEP64 UINT64_C(0x9E3779B97F4A7C15)
#define GWI_RANDOM_STEP32 UINT32_C(0x9E3779B9)

/* The two multipliers of the 32-bit mixer, which vector code needs by name. They
 * are known for an avalanche of little bias with shifts of 16 and 15. */
#define GWI_RANDOM_MUL_A UINT32_C(0x7FEB352D)
#define GWI_RANDOM_MUL_B UINT32_C(0x846CA68B)

/* The SplitMix64 finaliser: a bijection in which every input bit reaches every
 * output bit. */
static inline uint64_t gwi_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* 64 random bits for one index under one key. The key is added again between two
 * mixes, so that two keys never give shifted copies of one sequence. */
static inline uint64_t gwi_random64(uint64_t key, uint64_t index)
{
    return gwi_mix64(gwi_mix64(key + index * GWI_RANDOM_STEP64) + key);
}

/* The key of one worker in one step; steps count from 1. */
static inline uint64_t gwi_random_key(uint64_t seed, uint64_t step, uint64_t worker)
{
    uint64_t key = gwi_random64(GWI_RANDOM_STEP64, seed);

    key = gwi_random64(key, step);
    return gwi_random64(key, worker);
}

/* The two words that key the 32-bit mixer. */
typedef struct gwi_random_words {
    uint32_t add, mid;
} gwi_random_words;

/* The words for one block of up to 2^32 draws: the halves of the 64 bits. */
static inline gwi_random_words gwi_random_block(uint64_t key, uint64_t block)
{
    uint64_t bits = gwi_random64(key, block);

    return (gwi_random_words){(uint32_t)bits, (uint32_t)(bits >> 32)};
}

/* 24 random bits for draw j of a block: the top ones, which a product mixes best,
 * so that no third shift is needed after it. */
static inline uint32_t gwi_random24(gwi_random_words words, uint32_t j)
{
    uint32_t x = j * GWI_RANDOM_STEP32 + words.add;

    x = (x ^ (x >> 16)) * GWI_RANDOM_MUL_A;
    x = ((x ^ (x >> 15)) + words.mid) * GWI_RANDOM_MUL_B;
    return x >> 8;
}

#endif
