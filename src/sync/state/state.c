/* SPDX-License-Identifier: Apache-2.0
 *
 * state.c - what a sync remembers, as bytes, and back, also on another number of
 * workers.
 *
 *     "GWSTATE1" | floats | vectors (bit set) | step | phase begin | phase end |
 *     6 counters of statistics | started | lost and applied mass | spec, 256 bytes |
 *     vectors | check
 *
 * Numbers are 8 bytes, little-endian, the masses f64; vectors are f32. The check is
 * FNV-1a of all before it. */
#include <string.h>

#include "sync/state/memories.h"
#include "hash.h"
#include "sync/beside/late.h"
#include "sync/notes.h"
#include "sync/segments.h"
#include "wire/wire_bytes.h"

enum { WORDS = 15, SPEC_LEN = 256, HEADER_LEN = 8 * WORDS + SPEC_LEN };

/* "GWSTATE1" as a little-endian number. */
#define MAGIC UINT64_C(0x3145544154535747)

static uint64_t vector_set(const gw_sync *s)
{
    gwi_memory_walk walk = {0};
    const gwi_remembered *m;
    uint64_t set = 0;

    while ((m = gwi_next_memory(&s->spec, &walk)) != NULL)
        set |= UINT64_C(1) << m->tag;
    return set;
}

static size_t bytes_of(const gw_sync *s, const gwi_remembered *m)
{
    return gwi_kept_floats(s, m) * sizeof(float);
}

size_t gw_sync_state_len(const gw_sync *s)
{
    size_t len = HEADER_LEN + 8;
    gwi_memory_walk walk = {0};
    const gwi_remembered *m;

    while ((m = gwi_next_memory(&s->spec, &walk)) != NULL)
        len += bytes_of(s, m);
    return len;
}

static uint64_t real_word(double x)
{
    uint64_t word;

    memcpy(&word, &x, sizeof word);
    return word;
}

static double word_real(uint64_t word)
{
    double x;

    memcpy(&x, &word, sizeof x);
    return x;
}

/* ---- saving ------------------------------------------------------------- */

gw_status gw_sync_save(const gw_sync *s, void *state, size_t cap)
{
    /* The statistics count what is under way, too. */
    gwi_late_await(s);
    const gw_stats *t = &s->stats;
    uint64_t words[WORDS] = {MAGIC,
                             s->layout->floats,
                             vector_set(s),
                             s->step,
                             s->phase.begin,
                             s->phase.end,
                             t->steps,
                             t->skipped,
                             t->bytes_sent,
                             t->bytes_received,
                             t->messages_sent,
                             t->messages_received,
                             s->started,
                             real_word(t->lost_mass),
                             real_word(t->applied_mass)};
    size_t len = gw_sync_state_len(s);
    gwi_memory_walk walk = {0};
    const gwi_remembered *m;
    uint8_t *at = state;

    if (cap < len)
        return gw_fail(GW_ERR_SPACE, "a state needs %zu bytes, but the buffer has %zu",
                       len, cap);
    GWI_TRY(gwi_late_outcome(s));
    if (s->spoiled)
        return gw_fail(GW_ERR_NUMBER, "a gradient with NaN or infinity has corrupted "
                                      "the residual; resume from an earlier state");
    for (int i = 0; i < WORDS; i++, at += 8)
        gwi_write_u64le(at, words[i]);
    memcpy(at, s->asked, SPEC_LEN);
    at += SPEC_LEN;
    while ((m = gwi_next_memory(&s->spec, &walk)) != NULL) {
        gwi_wire_put_f32(at, s->kept[m->tag], gwi_kept_floats(s, m));
        at += bytes_of(s, m);
    }
    gwi_write_u64le(at, gwi_hash(GWI_HASH_START, state, len - 8));
    return GW_OK;
}

gw_status gw_state_seal(void *state, size_t len)
{
    uint8_t *bytes = state;

    if (len < HEADER_LEN + 8 || gwi_read_u64le(bytes) != MAGIC)
        return gw_fail(GW_ERR_DATA, "these %zu bytes are not the state of a sync", len);
    gwi_write_u64le(bytes + len - 8, gwi_hash(GWI_HASH_START, bytes, len - 8));
    return GW_OK;
}

/* ---- loading ------------------------------------------------------------ */

static bool is_bad(const uint8_t *f32)
{
    return (gwi_read_u32le(f32) & 0x7f800000u) == 0x7f800000u;
}

static gw_status fail_bad(const gw_sync *s, const gwi_remembered *m, size_t state,
                          size_t at)
{
    if (m->floats != NULL)
        return gw_fail(GW_ERR_DATA, "state %zu holds NaN or infinity in its %s", state,
                       m->what);
    return gw_fail(GW_ERR_DATA,
                   "state %zu holds NaN or infinity in its %s, tensor '%s'", state,
                   m->what, gwi_layout_find(s->layout, at)->name);
}

/* A NaN that is remembered would come back in every step from then on. */
static gw_status check_numbers(const gw_sync *s, const uint8_t *state, size_t i)
{
    const uint8_t *at = state + HEADER_LEN;
    gwi_memory_walk walk = {0};
    const gwi_remembered *m;

    while (gwi_looks(s) && (m = gwi_next_memory(&s->spec, &walk)) != NULL)
        for (size_t j = 0; j < gwi_kept_floats(s, m); j++, at += 4)
            if (is_bad(at))
                return fail_bad(s, m, i, j);
    return GW_OK;
}

static gw_status check_state(const gw_sync *s, const uint8_t *state, size_t len,
                             size_t i)
{
    size_t expected = gw_sync_state_len(s);

    if (len < HEADER_LEN + 8 || gwi_read_u64le(state) != MAGIC)
        return gw_fail(GW_ERR_DATA, "state %zu is not the state of a sync", i);
    if (gwi_read_u64le(state + len - 8) != gwi_hash(GWI_HASH_START, state, len - 8))
        return gw_fail(GW_ERR_DATA, "state %zu is damaged: its checksum does not match",
                       i);
    if (memcmp(state + 8 * WORDS, s->asked, SPEC_LEN) != 0)
        return gw_fail(GW_ERR_DATA, "state %zu was saved with '%.255s', not with '%s'",
                       i, (const char *)state + 8 * WORDS, s->asked);
    if (len != expected || gwi_read_u64le(state + 8) != s->layout->floats ||
        gwi_read_u64le(state + 16) != vector_set(s))
        return gw_fail(GW_ERR_DATA, "state %zu was saved for another model", i);
    return check_numbers(s, state, i);
}

static uint64_t step_of(const void *state)
{
    return gwi_read_u64le((const uint8_t *)state + 24);
}

static gw_status check_states(const gw_sync *s, const void *const *states,
                              const size_t *lens, size_t count)
{
    if (count == 0)
        return gw_fail(GW_ERR_ARG, "there is no state to load");
    for (size_t i = 0; i < count; i++) {
        GWI_TRY(check_state(s, states[i], lens[i], i));
        if (step_of(states[i]) != step_of(states[0]))
            return gw_fail(GW_ERR_DATA,
                           "state %zu was saved after another step than state 0", i);
    }
    return GW_OK;
}

static void load_words(gw_sync *s, const uint8_t *state)
{
    uint64_t words[WORDS];

    for (int i = 0; i < WORDS; i++)
        words[i] = gwi_read_u64le(state + 8 * i);
    s->step = s->exchanged = words[3]; /* states are saved between steps */
    s->phase = (gwi_phase){words[4], words[5]};
    s->stats = (gw_stats){.steps = words[6],
                          .skipped = words[7],
                          .bytes_sent = words[8],
                          .bytes_received = words[9],
                          .messages_sent = words[10],
                          .messages_received = words[11],
                          .applied_mass = word_real(words[14])};
    s->started = words[12] != 0;
    gwi_segments_follow(s);
}

/* v += scale * the floats at bytes. */
static void add_floats(float *v, const uint8_t *bytes, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++) {
        float x;
        gwi_wire_get_f32(&x, bytes + 4 * i, 1);
        v[i] += scale * x;
    }
}

/* How old worker w's memory counts for this worker. */
static float share(const gw_sync *s, gw_handing handing, size_t w, size_t count)
{
    size_t p = (size_t)s->comm->workers, own = (size_t)s->comm->rank;

    if (count == p)
        return 1.0f;
    switch (handing) {
    case GW_HANDING_COMMON:
        return w == 0 ? 1.0f : 0.0f;
    case GW_HANDING_AVERAGED:
        return 1.0f / (float)count;
    case GW_HANDING_ADDED:
        break;
    }
    return w % p == own ? 1.0f : 0.0f;
}

/* Adds the floats at bytes to v; the first to be added set it. */
static void take_floats(float *v, const uint8_t *bytes, size_t n, float scale,
                        bool first)
{
    if (first)
        memset(v, 0, n * sizeof *v);
    /* A copy is exact, where a sum makes 0 of -0. */
    if (first && scale == 1.0f)
        gwi_wire_get_f32(v, bytes, n);
    else if (scale != 0)
        add_floats(v, bytes, n, scale);
}

/* Adds old worker w's vectors to what there is; the first to be added sets them. */
static void take_over(gw_sync *s, const uint8_t *state, size_t w, size_t count)
{
    bool first = w == 0 || count == (size_t)s->comm->workers;
    const uint8_t *at = state + HEADER_LEN;
    gwi_memory_walk walk = {0};
    const gwi_remembered *m;

    gwi_late_await(s);
    if (first) {
        load_words(s, state);
        s->spoiled = false;
        s->guard = (gwi_guard){0};
    }
    /* What was lost is counted once, wherever it is counted. */
    if (share(s, GW_HANDING_ADDED, w, count) > 0)
        s->stats.lost_mass += word_real(gwi_read_u64le(state + 8 * 13));
    while ((m = gwi_next_memory(&s->spec, &walk)) != NULL) {
        take_floats(s->kept[m->tag], at, gwi_kept_floats(s, m),
                    share(s, m->handing, w, count), first);
        at += bytes_of(s, m);
    }
    gwi_late_show(s);
}

static bool has_use_for(const gw_sync *s, size_t w, size_t count)
{
    return count != (size_t)s->comm->workers || w == (size_t)s->comm->rank;
}

gw_status gw_sync_load(gw_sync *s, const void *const *states, const size_t *lens,
                       size_t count)
{
    GWI_TRY(check_states(s, states, lens, count));
    for (size_t i = 0; i < count; i++)
        if (has_use_for(s, i, count))
            take_over(s, states[i], i, count);
    return GW_OK;
}

gw_status gw_sync_load_one(gw_sync *s, const void *state, size_t len, size_t i,
                           size_t count)
{
    if (i >= count)
        return gw_fail(GW_ERR_ARG, "there is no state %zu; there are only %zu", i,
                       count);
    if (!has_use_for(s, i, count))
        return GW_OK;
    GWI_TRY(check_state(s, state, len, i));
    if (i > 0 && count != (size_t)s->comm->workers && step_of(state) != s->step)
        return gw_fail(GW_ERR_DATA,
                       "state %zu was saved after another step than state 0", i);
    take_over(s, state, i, count);
    return GW_OK;
}
