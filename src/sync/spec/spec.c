/* SPDX-License-Identifier: Apache-2.0
 *
 * spec.c - reads and writes specs by the table of stages. */
#include "sync/parts.h"

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

/* ---- finding, and saying what would have been found */

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

/* 'sign,code=entropy' and 'qsgd:4+code=entropy': options without a colon, and an option
 * after a plus. */
static gw_status fail_separator(word name)
{
    word first, rest = name;

    if (next_item(&rest, &first) && rest.at != NULL && find_stage(first) != NULL)
        return gw_fail(GW_ERR_SPEC, "options follow a colon: '%.*s:%.*s', not '%.*s'",
                       SHOW(first), SHOW(rest), SHOW(name));
    if (memchr(name.at, '=', name.len) != NULL)
        return gw_fail(
            GW_ERR_SPEC,
            "'%.*s' is not a stage; options follow their stage after a colon "
            "or a comma, as in 'qsgd:4,code=entropy'",
            SHOW(name));
    return GW_OK;
}

static gw_status fail_stage(word name)
{
    char list[256] = "";
    const gwi_stage *s = nearest_stage(name);

    GWI_TRY(fail_separator(name));
    if (s != NULL)
        return gw_fail(GW_ERR_SPEC,
                       "unknown method or stage '%.*s'; did you mean '%s'?", SHOW(name),
                       s->name);
    for (size_t i = 0; (s = gwi_stage_at(i)) != NULL; i++)
        append(list, sizeof list, s->name);
    return gw_fail(GW_ERR_SPEC, "unknown method or stage '%.*s'; expected one of %s",
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
    const char *near = NULL;
    char list[256] = "";
    gwi_shown_key shown;

    for (size_t i = 0; gwi_stage_key(stage, i, &shown); i++) {
        append(list, sizeof list, shown.key->name);
        if (near == NULL && name.len > 2 &&
            is_near(name, (word){shown.key->name, strlen(shown.key->name)}, 1))
            near = shown.key->name;
    }
    if (near != NULL)
        return gw_fail(GW_ERR_SPEC,
                       "'%s' has no option '%.*s'; did you mean '%s'? It takes %s",
                       stage->name, SHOW(name), near, list);
    return gw_fail(GW_ERR_SPEC, "'%s' has no option '%.*s'; it takes %s", stage->name,
                   SHOW(name), list[0] != '\0' ? list : "none");
}

static gw_status fail_value(const gwi_stage *stage, const gwi_key *key, word value)
{
    return gw_fail(GW_ERR_SPEC, "invalid %s '%.*s' for '%s'; expected %s", key->name,
                   SHOW(value), stage->name,
                   key->range != NULL ? key->range : key->words);
}

/* ---- one value -------------------------------- */

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

static bool number_fits(const gwi_key *key, double number)
{
    if (number < key->least || number > key->most)
        return false;
    if (key->value == GWI_COUNT && number != floor(number))
        return false;
    return key->fits == NULL || key->fits(number);
}

static void store(void *field, gwi_value value, double number)
{
    if (value == GWI_COUNT)
        *(uint64_t *)field = (uint64_t)number;
    else
        *(double *)field = number;
}

/* How late results are used is a question about the whole spec, which its first stage
 * answers. */
static bool is_asked(const gwi_shown_key *shown, bool first)
{
    return first || shown->kind != GWI_LATE;
}

static gw_status set_value(gwi_spec *spec, const gwi_stage *stage,
                           const gwi_shown_key *shown, word value)
{
    const gwi_key *key = shown->key;
    void *field = spec->options[shown->kind] + key->at;
    int choice = key->words != NULL ? find_word(key->words, value) : -1;
    double number;

    if (key->value == GWI_WORD) {
        if (choice < 0)
            return fail_value(stage, key, value);
        *(int *)field = choice;
        return GW_OK;
    }
    if (choice >= 0) { /* the one word that a count or number may be, too */
        if (key->value == GWI_COUNT)
            *(uint64_t *)field = GWI_COUNT_WORD;
        else
            *(double *)field = GWI_NUMBER_WORD;
        return GW_OK;
    }
    if (!read_number(value, &number) || !number_fits(key, number))
        return fail_value(stage, key, value);
    store(field, key->value, number);
    return GW_OK;
}

/* ---- one stage -------------------------------- */

enum { MAX_KEYS = 16 };

/* The number of the key of this name, or MAX_KEYS. */
static size_t find_key(const gwi_stage *stage, word name)
{
    gwi_shown_key shown;

    for (size_t i = 0; gwi_stage_key(stage, i, &shown); i++)
        if (is(name, shown.key->name))
            return i;
    return MAX_KEYS;
}

/* Sets number `position` of the stage's keys, or the one that the item names. */
static gw_status set_item(gwi_spec *spec, const gwi_stage *stage, word item,
                          size_t position, bool given[MAX_KEYS])
{
    const char *equals = memchr(item.at, '=', item.len);
    gwi_shown_key shown;
    word value = item;

    if (equals != NULL) {
        word name = {item.at, (size_t)(equals - item.at)};
        value = (word){equals + 1, item.len - name.len - 1};
        position = find_key(stage, name);
        if (position == MAX_KEYS)
            return fail_key(stage, name);
    }
    if (position >= MAX_KEYS || !gwi_stage_key(stage, position, &shown) ||
        (equals == NULL && shown.kind == GWI_LATE))
        return gw_fail(GW_ERR_SPEC,
                       "'%.*s' is one value too many for '%s'; write key=value",
                       SHOW(item), stage->name);
    if (!is_asked(&shown, spec->count == 1))
        return gw_fail(GW_ERR_SPEC, "%s must be given to the first stage, '%s'",
                       shown.key->name, spec->stages[0]->name);
    if (given[position])
        return gw_fail(GW_ERR_SPEC, "%s of '%s' is given twice", shown.key->name,
                       stage->name);
    given[position] = true;
    return set_value(spec, stage, &shown, value);
}

static gw_status set_defaults(gwi_spec *spec, const gwi_stage *stage,
                              const bool given[MAX_KEYS])
{
    gwi_shown_key shown;

    for (size_t i = 0; gwi_stage_key(stage, i, &shown); i++) {
        if (given[i] || !is_asked(&shown, spec->count == 1))
            continue;
        if (shown.fallback == NULL)
            return gw_fail(GW_ERR_SPEC, "'%s' requires %s, as in '%s'", stage->name,
                           shown.key->name, stage->example);
        word value = {shown.fallback, strlen(shown.fallback)};
        GWI_TRY(set_value(spec, stage, &shown, value));
    }
    return GW_OK;
}

/* Puts a part in its place, with the options that it has before keys set them. What was
 * set for the part that it refines stays. */
static void adopt(gwi_spec *spec, gwi_kind kind, const gwi_part *part)
{
    const gwi_part *before = spec->part[kind];

    if (before == part)
        return;
    spec->part[kind] = part;
    if (before != NULL && part->refines == before)
        return;
    memset(spec->options[kind], 0, GWI_OPTIONS_MAX);
    if (part->defaults != NULL)
        memcpy(spec->options[kind], part->defaults, part->options_size);
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
        return gw_fail(GW_ERR_SPEC, "'%s' is one stage too many; a spec has at most %d",
                       stage->name, GWI_MAX_STAGES);
    spec->stages[spec->count++] = stage;
    for (int kind = 0; kind < GWI_KINDS; kind++)
        if (stage->parts[kind] != NULL)
            adopt(spec, (gwi_kind)kind, stage->parts[kind]);
    /* Values without a key may not follow one with a key: who could tell which? */
    for (size_t position = 0; next_item(&items, &item);) {
        GWI_TRY(set_item(spec, stage, item, position, given));
        position = memchr(item.at, '=', item.len) != NULL || position >= MAX_KEYS
                       ? MAX_KEYS
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
    return gw_fail(GW_ERR_SPEC, "a spec cannot begin with '%s'; begin with one of %s",
                   first->name, list);
}

static gw_status check_pair(const gwi_stage *a, const gwi_stage *b)
{
    if (b->role != GWI_ROLE_CHECK &&
        (a->role == GWI_ROLE_ALL || b->role == GWI_ROLE_ALL))
        return gw_fail(GW_ERR_SPEC,
                       "'%s' and '%s' cannot be combined; '%s' must stand alone",
                       a->name, b->name, a->role == GWI_ROLE_ALL ? a->name : b->name);
    if (a->role == b->role)
        return gw_fail(GW_ERR_SPEC, "'%s' and '%s' do the same job; keep one of them",
                       a->name, b->name);
    if (a->role > b->role)
        return gw_fail(GW_ERR_SPEC, "'%s' must come before '%s'", b->name, a->name);
    return GW_OK;
}

/* What the parts that the stages brought need of each other. */
static gw_status check_needs(const gwi_spec *spec)
{
    for (int i = 0; i < spec->count; i++)
        for (int kind = 0; kind < GWI_KINDS; kind++) {
            const gwi_part *part = spec->stages[i]->parts[kind];
            if (part != NULL && part->check != NULL)
                GWI_TRY(part->check(spec, spec->stages[i]));
        }
    return GW_OK;
}

gw_status gwi_spec_parse(const char *text, gwi_spec *spec)
{
    const char *rest = text;
    word stage;

    if (text == NULL)
        return gw_fail(GW_ERR_SPEC, "the spec is missing; give one such as \"dense\"");
    *spec = (gwi_spec){.count = 0};
    for (int kind = 0; kind < GWI_KINDS; kind++)
        if (kind != GWI_EXCHANGE)
            adopt(spec, (gwi_kind)kind, gwi_usual_part((gwi_kind)kind));
    while (next_piece(&rest, '+', &stage))
        GWI_TRY(parse_stage(spec, stage));
    GWI_TRY(check_first(spec->stages[0]));
    for (int i = 1; i < spec->count; i++)
        GWI_TRY(check_pair(spec->stages[i - 1], spec->stages[i]));
    GWI_TRY(check_needs(spec));
    gwi_spec_resolve(spec);
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

/* Whether a count or number is the one word that it may be. */
static bool is_its_word(const gwi_key *key, const void *field)
{
    if (key->words == NULL)
        return false;
    return key->value == GWI_COUNT ? *(const uint64_t *)field == GWI_COUNT_WORD
                                   : *(const double *)field == GWI_NUMBER_WORD;
}

static void put_value(const gwi_spec *spec, const gwi_shown_key *shown, char *text,
                      size_t cap, size_t *len)
{
    const gwi_key *key = shown->key;
    const void *field = spec->options[shown->kind] + key->at;
    char number[40];

    if (key->value == GWI_WORD) {
        put_word(text, cap, len, key->words, *(const int *)field);
        return;
    }
    if (is_its_word(key, field))
        snprintf(number, sizeof number, "%s", key->words);
    else if (key->value == GWI_NUMBER)
        snprintf(number, sizeof number, "%.9g", *(const double *)field);
    else
        snprintf(number, sizeof number, "%llu",
                 (unsigned long long)*(const uint64_t *)field);
    put_text(text, cap, len, number);
}

/* Keys that came later than files with canonical specs, or that few need, are left out
 * where they are as usual, unless something else is usual for the stage. */
static bool is_unsaid(const gwi_spec *spec, const gwi_shown_key *shown)
{
    char value[40] = "";
    size_t len = 0;

    if (!shown->key->unsaid || shown->fallback != shown->key->fallback)
        return false;
    put_value(spec, shown, value, sizeof value, &len);
    return strcmp(value, shown->key->fallback) == 0;
}

static void put_stage(const gwi_spec *spec, const gwi_stage *stage, char *text,
                      size_t cap, size_t *len)
{
    char before = ':';
    gwi_shown_key shown;

    put_text(text, cap, len, stage->name);
    for (size_t k = 0; gwi_stage_key(stage, k, &shown); k++) {
        if (is_unsaid(spec, &shown) || !is_asked(&shown, stage == spec->stages[0]))
            continue;
        put(text, cap, len, &before, 1);
        before = ',';
        put_text(text, cap, len, shown.key->name);
        put_text(text, cap, len, "=");
        put_value(spec, &shown, text, cap, len);
    }
}

size_t gwi_spec_write(const gwi_spec *spec, char *text, size_t cap)
{
    size_t len = 0;

    for (int i = 0; i < spec->count; i++) {
        put_text(text, cap, &len, i > 0 ? "+" : "");
        put_stage(spec, spec->stages[i], text, cap, &len);
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
