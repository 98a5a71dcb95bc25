/* SPDX-License-Identifier: Apache-2.0
 *
 * words.h - a vocabulary: words and their numbers, in the order in which they were
 * first seen. */
#ifndef GWT_WORDS_H
#define GWT_WORDS_H

#include "common.h"

/* Token numbers are passed as floats, which are exact up to this number. */
enum { GWT_WORDS_MAX = 1 << 24 };

/* A word in a text; the vocabulary does not copy the text. */
typedef struct gwt_span {
    const char *at;
    size_t len;
} gwt_span;

typedef struct gwt_words {
    gwt_span *word; /* count of them, room for half of slots */
    uint32_t *slot; /* of a hash table: number of the word + 1, or 0; a power of 2 */
    size_t count, slots;
} gwt_words;

/* Begins an empty vocabulary. Released with gwt_words_free(). */
gw_status gwt_words_init(gwt_words *out);
void gwt_words_free(gwt_words *words);

/* The number of the word, which becomes the next one if it is new; the text that
 * it lies in must outlive the vocabulary. GW_ERR_DATA if there are too many. */
gw_status gwt_words_add(gwt_words *words, gwt_span word, uint32_t *number);

/* Keeps the words that occur most often in token[0..tokens), which are numbers of this
 * vocabulary: at most `most`, and none that occurs only once. Every other word becomes
 * `unknown`, which is always a word afterwards and counts as one of `most`. Of words
 * that are equally frequent, those seen first are kept. The order stays. Numbers in
 * token are changed accordingly. */
gw_status gwt_words_keep(gwt_words *words, uint32_t *token, size_t tokens, size_t most,
                         gwt_span unknown);

/* Its number, or UINT32_MAX. */
uint32_t gwt_words_find(const gwt_words *words, gwt_span word);

#endif
