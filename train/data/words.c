/* SPDX-License-Identifier: Apache-2.0
 *
 * words.c - a vocabulary as a hash table with open addressing, never more than half
 * full. */
#include "data/words.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 1 << 12 };

/* FNV-1a. */
static uint64_t hash(gwt_span word)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < word.len; i++)
        h = (h ^ (unsigned char)word.at[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 32;
}

/* The slot that holds the word, or the free one where it belongs. */
static size_t slot_of(const gwt_words *words, gwt_span word)
{
    size_t i = (size_t)hash(word) & (words->slots - 1);

    for (; words->slot[i] != 0; i = (i + 1) & (words->slots - 1)) {
        const gwt_span *w = &words->word[words->slot[i] - 1];
        if (w->len == word.len && memcmp(w->at, word.at, word.len) == 0)
            break;
    }
    return i;
}

/* A table of that many slots with the words of `from`. */
static gw_status fill(gwt_words *out, const gwt_words *from, size_t slots)
{
    *out = (gwt_words){.count = from->count, .slots = slots};
    out->word = gwt_calloc(slots / 2, sizeof *out->word, "a vocabulary");
    out->slot = gwt_calloc(slots, sizeof *out->slot, "a vocabulary");
    if (out->word == NULL || out->slot == NULL) {
        gwt_words_free(out);
        return GW_ERR_NOMEM;
    }
    for (size_t i = 0; i < from->count; i++) {
        out->word[i] = from->word[i];
        out->slot[slot_of(out, from->word[i])] = (uint32_t)i + 1;
    }
    return GW_OK;
}

gw_status gwt_words_init(gwt_words *out)
{
    return fill(out, &(gwt_words){0}, FIRST_SLOTS);
}

void gwt_words_free(gwt_words *words)
{
    gwt_free(words->word);
    gwt_free(words->slot);
    *words = (gwt_words){0};
}

static gw_status grow(gwt_words *words)
{
    gwt_words bigger;

    GWT_TRY(fill(&bigger, words, 2 * words->slots));
    gwt_words_free(words);
    *words = bigger;
    return GW_OK;
}

gw_status gwt_words_add(gwt_words *words, gwt_span word, uint32_t *number)
{
    size_t i = slot_of(words, word);

    if (words->slot[i] == 0) {
        if (words->count == GWT_WORDS_MAX)
            return gw_fail(GW_ERR_DATA, "the text has more than %d different words",
                           GWT_WORDS_MAX);
        if (words->count == words->slots / 2) {
            GWT_TRY(grow(words));
            i = slot_of(words, word);
        }
        words->word[words->count++] = word;
        words->slot[i] = (uint32_t)words->count;
    }
    *number = words->slot[i] - 1;
    return GW_OK;
}

/* ---- rare words ------------------------------------------------------------------ */

typedef struct frequency {
    uint32_t number, count;
} frequency;

/* The more frequent first, then the one seen first. */
static int by_frequency(const void *a, const void *b)
{
    const frequency *x = a, *y = b;

    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Sets keep[i] to 1 for each word i that stays. */
static void choose(const gwt_words *words, frequency *list, uint32_t *keep,
                   const uint32_t *token, size_t tokens, size_t most)
{
    for (size_t i = 0; i < words->count; i++)
        list[i] = (frequency){.number = (uint32_t)i};
    for (size_t i = 0; i < tokens; i++)
        list[token[i]].count += list[token[i]].count < UINT32_MAX;
    qsort(list, words->count, sizeof *list, by_frequency);
    for (size_t i = 0; i < words->count && i < most && list[i].count > 1; i++)
        keep[list[i].number] = 1;
}

/* Adds the words that stay to `to`, and makes keep[i] the new number of word i. */
static gw_status renumber(gwt_words *to, const gwt_words *from, uint32_t *keep,
                          gwt_span unknown)
{
    uint32_t other, number;

    GWT_TRY(gwt_words_add(to, unknown, &other));
    for (size_t i = 0; i < from->count; i++) {
        number = other;
        if (keep[i])
            GWT_TRY(gwt_words_add(to, from->word[i], &number));
        keep[i] = number;
    }
    return GW_OK;
}

static gw_status keep_in(gwt_words *words, gwt_words *fewer, frequency *list,
                         uint32_t *keep, uint32_t *token, size_t tokens, size_t most,
                         gwt_span unknown)
{
    if (list == NULL || keep == NULL)
        return GW_ERR_NOMEM;
    GWT_TRY(gwt_words_init(fewer));
    choose(words, list, keep, token, tokens, most - 1);
    GWT_TRY(renumber(fewer, words, keep, unknown));
    for (size_t i = 0; i < tokens; i++)
        token[i] = keep[token[i]];
    return GW_OK;
}

gw_status gwt_words_keep(gwt_words *words, uint32_t *token, size_t tokens, size_t most,
                         gwt_span unknown)
{
    frequency *list = gwt_calloc(words->count + 1, sizeof *list, "a vocabulary");
    uint32_t *keep = gwt_calloc(words->count + 1, sizeof *keep, "a vocabulary");
    gwt_words fewer = {0};
    gw_status st = keep_in(words, &fewer, list, keep, token, tokens, most, unknown);

    gwt_free(list);
    gwt_free(keep);
    if (st != GW_OK) {
        gwt_words_free(&fewer);
        return st;
    }
    gwt_words_free(words);
    *words = fewer;
    return GW_OK;
}

uint32_t gwt_words_find(const gwt_words *words, gwt_span word)
{
    return words->slot[slot_of(words, word)] - 1;
}
