/* SPDX-License-Identifier: Apache-2.0
 *
 * levels_pack.h - 32 levels, one in each byte, become 4 * bits bytes: the part of
 * encoding that AVX2 and AVX-512 do alike, in registers of 256 bits. It goes by
 * multiply-and-add, which shifts one of two neighbours and joins it to the other:
 *
 *     32 bytes of `bits` bits -> 16 words of 2*bits -> 8 of 4*bits -> 4 of 8*bits
 *
 * The file that includes this has included the intrinsics and defined GWI_TARGET, the
 * attribute that allows them. */
#include <string.h>

/* What packing keeps in registers. */
typedef struct packer {
    __m256i pair, quad; /* multipliers that join neighbours */
    __m128i eight;      /* shift that joins the last two */
    __m256i mask, squeeze;
} packer;

GWI_TARGET static inline packer packer_make(int bits)
{
    char squeeze[16];
    packer p;

    /* Keeps the low `bits` bytes of both 64-bit halves; -1 gives a zero byte. */
    memset(squeeze, -1, sizeof squeeze);
    for (int i = 0; i < bits; i++) {
        squeeze[i] = (char)i;
        squeeze[bits + i] = (char)(8 + i);
    }
    /* Eight bits are bytes already, and not joined. */
    p.pair = _mm256_set1_epi16((short)(1 | 1 << (8 + bits % 8)));
    p.quad = _mm256_set1_epi32(1 | 1 << (16 + 2 * (bits % 8)));
    p.eight = _mm_cvtsi32_si128(4 * bits);
    p.mask = _mm256_set1_epi8((signed char)((1 << bits) - 1));
    p.squeeze = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)squeeze));
    return p;
}

/* Packs 32 levels into 4 * bits bytes at out, and writes up to out + 2 * bits + 16:
 * the bytes after the first 4 * bits are 0. */
GWI_TARGET static inline void pack(const packer *p, __m256i bytes, unsigned bits,
                                   uint8_t *out)
{
    if (bits < 8) {
        bytes = _mm256_and_si256(bytes, p->mask);
        __m256i w = _mm256_madd_epi16(_mm256_maddubs_epi16(p->pair, bytes), p->quad);
        __m256i high = _mm256_sll_epi64(_mm256_srli_epi64(w, 32), p->eight);
        w = _mm256_or_si256(_mm256_blend_epi32(w, _mm256_setzero_si256(), 0xAA), high);
        bytes = _mm256_shuffle_epi8(w, p->squeeze);
    }
    _mm_storeu_si128((void *)out, _mm256_castsi256_si128(bytes));
    _mm_storeu_si128((void *)(out + 2 * bits), _mm256_extracti128_si256(bytes, 1));
}

/* Eight bytes of packed levels. */
static inline uint64_t load64(const uint8_t *in)
{
    uint64_t word;

    memcpy(&word, in, sizeof word);
    return word;
}
