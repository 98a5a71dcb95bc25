/* SPDX-License-Identifier: Apache-2.0
 *
 * spec.c - reads and writes specs by the table of stages. */
#include "sync/spec.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A piece of the text. */
typedef struct word {
    const char *at;
    size_t len;
} word;

#define SHOW(w) (int)(w).len, (w).at

static bool is(word w, const char *text)
{
    return strlen(text) == w.len && memcmp(text, w.at, w.len) == 0;
}

/* Cuts the piece before the next separator off *rest. False at the end; a
 * separator at the very end leaves an empty last piece. */
static bool next_piece(const char **rest, char separator, word *piece)
{
    if (*rest == NULL)
        return false;
    const char *end = strchr(*rest, separator);
    piece->at = *rest;
    piece->len = end != NULL ? (size_t)(end - *rest) : strlen(*rest);
    *rest = end != NULL ? end + 1 : NULL;
    return true;
}

/* The same inside a word. */
static bool next_item(word *rest, word *item)
{
    if (rest->at == NULL)
        return false;
    const char *end = memchr(rest->at, ',', rest->len);
    item->at = rest->at;
    item->len = end != NULL ? (size_t)(end - rest->at) : rest->len;
    rest->len = end != NULL ? rest->len - item->len - 1 : 0;
    rest->at = end != NULL ? end + 1 : NULL;
    return true;
}

/* ---- finding, and saying what would have been found -------------------------------
 */

/* Appends "a, b, c". */
static void append(char *list, size_t cap, const char *name)
{
    size_t len = strlen(list);

    snprintf(list + len, cap - len, "%s%s", len > 0 ? ", " : "", name);
}

static const gwi_stage *find_stage(word name)
{
    const gwi_stage *s;

    for (size_t i = 0; (s = gwi_stage_at(i)) != NULL; i++)
        if (is(name, s->name))
            return s;
    return NULL;
}

static word after_first(word w)
{
    return (word){w.at + 1, w.len - 1};
}

/* Whether at most so many letters changed, left out or put in make b of a. */
static bool is_near(word a, word b, size_t edits)
{
    while (a.len > 0 && b.len > 0 && *a.at == *b.at) {
        a = after_first(a);
        b = after_first(b);
    }
    if (a.len == 0 || b.len == 0)
        return a.len + b.len <= edits;
    return edits > 0 && (is_near(after_first(a), after_first(b), edits - 1) ||
                         is_near(after_first(a), b, edits - 1) ||
                         is_near(a, after_first(b), edits - 1));
}

/* The stage that was probably meant, or NULL: of short names not much may differ. */
static const gwi_stage *nearest_stage(word name)
{
    size_t most = (name.len + 1) / 3 < 2 ? (name.len + 1) / 3 : 2;
    const gwi_stage *s;

    for (size_t edits = 1; edits <= most; edits++)
        for (size_t i = 0; (s = gwi_stage_at(i)) != NULL; i++)
            if (is_near(name, (word){s->name, strlen(s->name)}, edits))
                return s;
    return NULL;
}

static gw_status fail_stage(word name)
{
    char list[256] = "";
    const gwi_stage *s = nearest_stage(name);

    if (s != NULL)
        return gw_fail(GW_ERR_SPEC,
                       "no sync or stage is called '%.*s'; did you mean '%s'?",
                       SHOW(name), s->name);
    for (size_t i = 0; (s = gwi_stage_at(i)) != NULL; i++)
        append(list, sizeof list, s->name);
    return gw_fail(GW_ERR_SPEC, "no sync or stage is called '%.*s'; there are %s",
                   SHOW(name), list);
}

gw_status gwi_stage_find(const char *name, const gwi_stage **out)
{
    word w = {name, strlen(name)};

    *out = find_stage(w);
    return *out != NULL ? GW_OK : fail_stage(w);
}

static gw_status fail_key(const gwi_stage *stage, word name)
{
    char list[256] = "";

    for (size_t i = 0; stage->keys[i] != NULL; i++)
        append(list, sizeof list, stage->keys[i]->name);
    return gw_fail(GW_ERR_SPEC, "'%s' has no option '%.*s'; it takes %s", stage->name,
                   SHOW(name), list[0] != '\0' ? list : "none");
}

static gw_status fail_value(const gwi_stage *stage, const gwi_key *key, word value)
{
    return gw_fail(GW_ERR_SPEC, "'%.*s' does not fit %s of '%s'; what fits is %s",
                   SHOW(value), key->name, stage->name,
                   key->range != NULL ? key->range : key->words);
}

/* ---- one value ----------------------------------------------------------------------
 */

/* The number of a word in "a|b|c", or -1. */
static int find_word(const char *words, word value)
{
    const char *rest = words;
    word w;

    for (int i = 0; next_piece(&rest, '|', &w); i++)
        if (w.len == value.len && memcmp(w.at, value.at, w.len) == 0)
            return i;
    return -1;
}

static bool read_number(word value, double *number)
{
    char text[40], *end;

    /* strtod() would also take spaces, "nan" and hexadecimal. */
    if (value.len == 0 || value.len >= sizeof text ||
        strspn(value.at, "0123456789.eE+-") < value.len)
        return false;
    memcpy(text, value.at, value.len);
    text[value.len] = '\0';
    *number = strtod(text, &end);
    return *end == '\0' && isfinite(*number);
}

static bool bits_fit(double number)
{
    return number <= 8 || number == 32;
}

static bool number_fits(const gwi_key *key, double number)
{
    if (number < key->least || number > key->most)
        return false;
    if (key->kind == GWI_COUNT && number != floor(number))
        return false;
    if (key->at == offsetof(gwi_options, bits))
        return bits_fit(number);
    if (key->at == offsetof(gwi_options, bucket))
        return fmod(number, 8) == 0;
    return true;
}

static void store(gwi_options *opt, const gwi_key *key, double number)
{
    char *field = (char *)opt + key->at;

    if (key->kind == GWI_COUNT)
        *(uint64_t *)(void *)field = (uint64_t)number;
    else
        *(double *)(void *)field = number;
}

static gw_status set_value(gwi_spec *spec, const gwi_stage *stage, const gwi_key *key,
                           word value)
{
    double number;
    int choice = key->words != NULL ? find_word(key->words, value) : -1;

    if (key->kind == GWI_WORD) {
        if (choice < 0)
            return fail_value(stage, key, value);
        *(int *)(void *)((char *)&spec->opt + key->at) = choice;
        return GW_OK;
    }
    if (choice >= 0) { /* the one word a count may be: local:grow */
        spec->when = GWI_WHEN_GROW;
        return GW_OK;
    }
    if (!read_number(value, &number) || !number_fits(key, number))
        return fail_value(stage, key, value);
    store(&spec->opt, key, number);
    return GW_OK;
}

/* ---- one stage ----------------------------------------------------------------------
 */

enum { MAX_KEYS = 16 };

static int find_key(const gwi_stage *stage, word name)
{
    for (int i = 0; stage->keys[i] != NULL; i++)
        if (is(name, stage->keys[i]->name))
            return i;
    return -1;
}

static gw_status set_item(gwi_spec *spec, const gwi_stage *stage, word item,
                          int position, bool given[MAX_KEYS])
{
    const char *equals = memchr(item.at, '=', item.len);
    word value = item;
    int k = position;

    if (equals != NULL) {
        word name = {item.at, (size_t)(equals - item.at)};
        value = (word){equals + 1, item.len - name.len - 1};
        k = find_key(stage, name);
        if (k < 0)
            return fail_key(stage, name);
    } else if (position < 0 || stage->keys[position] == NULL) {
        return gw_fail(GW_ERR_SPEC,
                       "'%.*s' in '%s' is one value too many; write key=value",
                       SHOW(item), stage->name);
    }
    if (given[k])
        return gw_fail(GW_ERR_SPEC, "'%s' gets its %s twice", stage->name,
                       stage->keys[k]->name);
    given[k] = true;
    return set_value(spec, stage, stage->keys[k], value);
}

static gw_status set_defaults(gwi_spec *spec, const gwi_stage *stage,
                              const bool given[MAX_KEYS])
{
    for (int i = 0; stage->keys[i] != NULL; i++) {
        const gwi_key *key = stage->keys[i];
        if (given[i])
            continue;
        if (key->fallback == NULL)
            return gw_fail(GW_ERR_SPEC, "'%s' needs its %s, as in '%s'", stage->name,
                           key->name, stage->example);
        word value = {key->fallback, strlen(key->fallback)};
        GWI_TRY(set_value(spec, stage, key, value));
    }
    return GW_OK;
}

static gw_status parse_stage(gwi_spec *spec, word text)
{
    const char *colon = memchr(text.at, ':', text.len);
    word name = {text.at, colon != NULL ? (size_t)(colon - text.at) : text.len};
    word items = {colon != NULL ? colon + 1 : NULL,
                  colon != NULL ? text.len - name.len - 1 : 0};
    const gwi_stage *stage = find_stage(name);
    bool given[MAX_KEYS] = {false};
    word item;

    if (stage == NULL)
        return fail_stage(name);
    if (spec->count == GWI_MAX_STAGES)
        return gw_fail(GW_ERR_SPEC, "'%s' is one stage too many", stage->name);
    spec->stages[spec->count++] = stage;
    /* Values without a key may not follow one with a key: who could tell which? */
    for (int position = 0; next_item(&items, &item);) {
        GWI_TRY(set_item(spec, stage, item, position, given));
        position = memchr(item.at, '=', item.len) != NULL ? -1
                   : position < 0                         ? -1
                                                          : position + 1;
    }
    return set_defaults(spec, stage, given);
}

/* ---- how stages fit together -------------------------------------------- */

static gw_status check_first(const gwi_stage *first)
{
    char list[256] = "";
    const char *name;

    if (first->recipe)
        return GW_OK;
    for (size_t i = 0; (name = gw_recipe_name(i)) != NULL; i++)
        append(list, sizeof list, name);
    return gw_fail(GW_ERR_SPEC,
                   "'%s' refines a sync and cannot come first; begin with %s",
                   first->name, list);
}

static gw_status check_pair(const gwi_stage *a, const gwi_stage *b)
{
    if (b->role != GWI_ROLE_CHECK &&
        (a->role == GWI_ROLE_ALL || b->role == GWI_ROLE_ALL))
        return gw_fail(GW_ERR_SPEC,
                       "'%s' and '%s' do not fit together; '%s' stands alone", a->name,
                       b->name, a->role == GWI_ROLE_ALL ? a->name : b->name);
    if (a->role == b->role)
        return gw_fail(GW_ERR_SPEC, "'%s' and '%s' answer the same question; keep one",
                       a->name, b->name);
    if (a->role > b->role)
        return gw_fail(GW_ERR_SPEC, "'%s' belongs before '%s'", b->name, a->name);
    return GW_OK;
}

/* Whether all workers have the same model at some time, be it the end. */
static bool ever_equal(const gwi_spec *spec)
{
    return spec->when != GWI_WHEN_NEVER &&
           (spec->how != GWI_HOW_MEANS || spec->opt.resync > 0);
}

/* What a stage needs from the spec as a whole. */
static gw_status check_needs(const gwi_spec *spec, const gwi_stage *stage)
{
    bool above = spec->which == GWI_WHICH_ABOVE;
    bool sparse = spec->which == GWI_WHICH_TOPK || above;
    bool chooses = sparse && (above ? spec->opt.rate > 0 : spec->opt.density < 1);
    bool centred = stage->how == GWI_HOW_CENTRE1 || stage->how == GWI_HOW_CENTRE2;

    if (centred && !chooses)
        return gw_fail(GW_ERR_SPEC,
                       "'%s' fits behind topk, gtopk or drop that leave something out, "
                       "as in 'topk:0.01+%s'; for whole vectors there are q and bf16",
                       stage->name, stage->name);
    if (stage->role == GWI_ROLE_MOMENTUM &&
        (!sparse || spec->what != GWI_WHAT_GRADIENT || spec->opt.residual == GWI_OFF))
        return gw_fail(GW_ERR_SPEC,
                       "'%s' fits behind topk, gtopk or drop of gradients, residual=on",
                       stage->name);
    if (stage->role == GWI_ROLE_MOMENTUM && !chooses && spec->opt.momentum > 0)
        return gw_fail(GW_ERR_SPEC,
                       "'%s' has no effect where everything is sent; leave it out and "
                       "give the optimizer its momentum",
                       stage->name);
    if (stage->role == GWI_ROLE_CHECK && !ever_equal(spec))
        return gw_fail(GW_ERR_SPEC,
                       "'%s' does not fit '%s', whose workers' models never meet",
                       stage->name, spec->stages[0]->name);
    return GW_OK;
}

/* Rounding at random adds a variance of up to q times the squared norm. A residual
 * that takes in more than was there grows without bound, so q must be below 1: for
 * the L2 norm it is min(d/s^2, sqrt(d)/s); for the largest magnitude, about 3.5
 * times the root mean square of a bucket, about 3/s^2. */
static bool rounding_fits(const gwi_spec *spec, uint64_t bits, int norm)
{
    double s = (double)((1u << (bits - 1)) - 1), d = (double)spec->opt.bucket;
    double q = norm == GWI_NORM_L2 ? fmin(d / (s * s), sqrt(d) / s) : 3 / (s * s);

    return q < 1;
}

/* The fewest bits with which a norm fits; 9 if none do. */
static unsigned fewest_bits(const gwi_spec *spec, int norm)
{
    unsigned bits = 2;

    while (bits <= 8 && !rounding_fits(spec, bits, norm))
        bits++;
    return bits;
}

/* The stage that has the option. */
static const char *stage_with(const gwi_spec *spec, size_t at)
{
    for (int i = 0; i < spec->count; i++)
        for (int k = 0; spec->stages[i]->keys[k] != NULL; k++)
            if (spec->stages[i]->keys[k]->at == at)
                return spec->stages[i]->name;
    return spec->stages[0]->name;
}

static gw_status check_rounding(const gwi_spec *spec)
{
    unsigned bits = (unsigned)spec->opt.bits, more = fewest_bits(spec, spec->opt.norm);
    unsigned max_bits = fewest_bits(spec, GWI_NORM_MAX);
    bool l2 = spec->opt.norm == GWI_NORM_L2;
    char by_bits[40] = "", by_norm[40] = "";

    if (rounding_fits(spec, bits, spec->opt.norm))
        return GW_OK;
    if (more <= 8)
        snprintf(by_bits, sizeof by_bits, "bits=%u or more, ", more);
    if (l2 && max_bits <= bits)
        snprintf(by_norm, sizeof by_norm, "norm=max, ");
    else if (l2)
        snprintf(by_norm, sizeof by_norm, "norm=max with bits=%u, ", max_bits);
    return gw_fail(
        GW_ERR_SPEC,
        "bits=%u with norm=%s does not fit residual=on of '%s': rounding "
        "would add more than the residual can shed; take %s%sor residual=off",
        bits, l2 ? "l2" : "max", stage_with(spec, offsetof(gwi_options, residual)),
        by_bits, by_norm);
}

/* The answers of all stages together. */
static void combine(gwi_spec *spec)
{
    for (int i = 0; i < spec->count; i++) {
        const gwi_stage *s = spec->stages[i];
        if (s->when != GWI_WHEN_EVERY)
            spec->when = s->when;
        if (s->what != GWI_WHAT_GRADIENT)
            spec->what = s->what;
        if (s->which != GWI_WHICH_ALL)
            spec->which = s->which;
        if (s->how != GWI_HOW_F32)
            spec->how = s->how;
        if (s->combine != GWI_COMBINE_REDUCE)
            spec->combine = s->combine;
    }
}

/* Options that switch a stage off leave the answers of a spec without it. */
static void switch_off(gwi_spec *spec)
{
    if (spec->which == GWI_WHICH_ABOVE)
        spec->opt.density = 1 - spec->opt.rate;
    if (spec->how == GWI_HOW_LEVELS && spec->opt.bits == 32)
        spec->how = GWI_HOW_F32;
    if ((spec->which == GWI_WHICH_TOPK || spec->which == GWI_WHICH_ABOVE) &&
        spec->opt.density == 1)
        spec->which = GWI_WHICH_ALL;
    if (spec->which == GWI_WHICH_ALL && spec->how == GWI_HOW_F32)
        spec->combine = GWI_COMBINE_REDUCE;
    if (spec->which == GWI_WHICH_CHUNK && spec->opt.chunks == 1)
        spec->which = GWI_WHICH_ALL;
    /* A model change that is compressed is what is sent, not the model. */
    if (spec->what == GWI_WHAT_MODEL &&
        (spec->how != GWI_HOW_F32 ||
         (spec->which != GWI_WHICH_ALL && spec->which != GWI_WHICH_CHUNK)))
        spec->what = GWI_WHAT_CHANGE;
    /* Models averaged in every step are gradients averaged in every step. */
    if (spec->what != GWI_WHAT_GRADIENT && spec->when == GWI_WHEN_EVERY &&
        spec->opt.every == 1 && spec->which != GWI_WHICH_CHUNK &&
        spec->opt.average == GWI_AVERAGE_NONE)
        spec->what = GWI_WHAT_GRADIENT;
}

bool gwi_spec_is_dense(const gwi_spec *spec)
{
    return spec->when == GWI_WHEN_EVERY && spec->what == GWI_WHAT_GRADIENT &&
           spec->which == GWI_WHICH_ALL && spec->how == GWI_HOW_F32;
}

gw_status gwi_spec_parse(const char *text, gwi_spec *spec)
{
    const char *rest = text;
    word stage;

    if (text == NULL)
        return gw_fail(GW_ERR_SPEC, "a sync needs a spec, such as \"dense\"");
    *spec = (gwi_spec){.opt = {.density = 1,
                               .every = 1,
                               .bits = 32,
                               .chunks = 1,
                               .bucket = 512,
                               .check = GWI_CHECK_EVERY}};
    while (next_piece(&rest, '+', &stage))
        GWI_TRY(parse_stage(spec, stage));
    GWI_TRY(check_first(spec->stages[0]));
    for (int i = 1; i < spec->count; i++)
        GWI_TRY(check_pair(spec->stages[i - 1], spec->stages[i]));
    combine(spec);
    for (int i = 0; i < spec->count; i++)
        GWI_TRY(check_needs(spec, spec->stages[i]));
    if (spec->how == GWI_HOW_LEVELS && spec->opt.bits != 32 &&
        spec->opt.residual == GWI_ON)
        GWI_TRY(check_rounding(spec));
    switch_off(spec);
    return GW_OK;
}

/* ---- writing ------------------------------------------------------------ */

/* Appends at *len like snprintf(), counting also what does not fit. */
static void put(char *text, size_t cap, size_t *len, const char *piece,
                size_t piece_len)
{
    for (size_t i = 0; i < piece_len; i++, ++*len)
        if (*len + 1 < cap)
            text[*len] = piece[i];
}

static void put_text(char *text, size_t cap, size_t *len, const char *piece)
{
    put(text, cap, len, piece, strlen(piece));
}

static void put_word(char *text, size_t cap, size_t *len, const char *words, int choice)
{
    const char *rest = words;
    word w;

    for (int i = 0; next_piece(&rest, '|', &w); i++)
        if (i == choice)
            put(text, cap, len, w.at, w.len);
}

static void put_value(const gwi_spec *spec, const gwi_key *key, char *text, size_t cap,
                      size_t *len)
{
    const void *field = (const char *)&spec->opt + key->at;
    char number[40];

    if (key->kind == GWI_WORD) {
        put_word(text, cap, len, key->words, *(const int *)field);
        return;
    }
    if (key->words != NULL && spec->when == GWI_WHEN_GROW) {
        put_text(text, cap, len, key->words);
        return;
    }
    if (key->kind == GWI_COUNT)
        snprintf(number, sizeof number, "%llu",
                 (unsigned long long)*(const uint64_t *)field);
    else
        snprintf(number, sizeof number, "%.9g", *(const double *)field);
    put_text(text, cap, len, number);
}

size_t gwi_spec_write(const gwi_spec *spec, char *text, size_t cap)
{
    size_t len = 0;

    for (int i = 0; i < spec->count; i++) {
        const gwi_stage *s = spec->stages[i];
        put_text(text, cap, &len, i > 0 ? "+" : "");
        put_text(text, cap, &len, s->name);
        for (int k = 0; s->keys[k] != NULL; k++) {
            put_text(text, cap, &len, k > 0 ? "," : ":");
            put_text(text, cap, &len, s->keys[k]->name);
            put_text(text, cap, &len, "=");
            put_value(spec, s->keys[k], text, cap, &len);
        }
    }
    if (cap > 0)
        text[len < cap ? len : cap - 1] = '\0';
    return len;
}

gw_status gw_spec_check(const char *text, char *canonical, size_t cap)
{
    gwi_spec spec;

    GWI_TRY(gwi_spec_parse(text, &spec));
    if (canonical != NULL)
        gwi_spec_write(&spec, canonical, cap);
    return GW_OK;
}
