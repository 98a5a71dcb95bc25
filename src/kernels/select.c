/* SPDX-License-Identifier: Apache-2.0
 *
 * select.c - exact selection in one pass.
 *
 * The k-th largest magnitude of one step is close to that of the step before.
 * So the pass that adds the gradient also moves everything above a little less
 * than the last threshold out of r, into a list of candidates:
 *
 *     r, g  --collect-->  candidates (somewhat more than k)  --k largest-->  out
 *                                     the others go back to r
 *
 * The guess decides only how long this takes. Too high, and fewer than k
 * candidates are found: they go back, and r is searched again with a lower one.
 * Too low, and the list fills up: the k largest of it stay, the others go back,
 * and only what is larger than those k is collected from there on. No guess is below
 * 0: zeros are never candidates, and where all else is fewer than k, it is all. */
#include "kernels/select.h"

#include "kernels/float_bits.h"
#include "kernels/vector.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Candidates beyond 2k for which there is room, so that for small k the list is
 * not thinned out all the time. */
enum { SPARE = 4096 };

int32_t gwi_magnitude_key(float x)
{
    int32_t bits = gwi_magnitude_bits(x);

    return bits > GWI_KEY_NAN ? GWI_KEY_NAN : bits;
}

/* The bound for collect() above which only larger keys lie. Nothing is larger
 * than NaN, though its bits may be. */
static int32_t above_key(int32_t key)
{
    return key == GWI_KEY_NAN ? INT32_MAX : key;
}

void gwi_put_back(const gwi_list *list, float *r)
{
    for (size_t i = 0; i < list->n; i++)
        r[list->index[i]] = list->value[i];
}

static size_t move_entries(gwi_list *to, size_t n, const gwi_list *from, size_t begin)
{
    size_t count = from->n - begin;

    if (count == 0)
        return n;
    memmove(to->index + n, from->index + begin, count * sizeof *to->index);
    memmove(to->value + n, from->value + begin, count * sizeof *to->value);
    return n + count;
}

int32_t gwi_split_largest(const gwi_list *list, size_t k, gwi_list *largest,
                          gwi_list *others)
{
    size_t ties;
    int32_t nth = gwi_nth_key(list->value, list->n, k, &ties);

    gwi_select()->split(list, k, nth, ties, largest, others);
    return nth;
}

/* Leaves the k largest in list and puts the others back into r. Returns the key of
 * the k-th. */
static int32_t thin_out(gwi_list *list, size_t k, float *r)
{
    size_t ties, kept = 0;
    int32_t nth = gwi_nth_key(list->value, list->n, k, &ties);

    for (size_t i = 0; i < list->n; i++) {
        uint32_t index = list->index[i];
        float value = list->value[i];
        size_t keep = gwi_is_largest(gwi_magnitude_key(value), nth, &ties);
        r[index] = keep ? 0.0f : value;
        list->index[kept] = index;
        list->value[kept] = value;
        kept += keep;
    }
    list->n = kept;
    return nth;
}

/* ---- the k largest --------------------------------------------------------- */

static size_t part_floats(size_t n, unsigned parts)
{
    return n / parts + (n % parts != 0);
}

static size_t list_cap(size_t n, size_t k, unsigned parts)
{
    size_t most = part_floats(n, parts);

    if (k < most / 2 && 2 * k + SPARE < most)
        most = 2 * k + SPARE;
    return most + GWI_COLLECT_ROOM;
}

size_t gwi_topk_work_bytes(size_t n, size_t k, unsigned parts)
{
    return list_cap(n, k, parts) * parts * (sizeof(uint32_t) + sizeof(float));
}

void gwi_topk_work_init(gwi_topk_work *work, void *memory, size_t n, size_t k,
                        unsigned parts)
{
    assert(parts >= 1 && parts <= GWI_THREADS_MAX);
    work->entries = list_cap(n, k, parts) * parts;
    work->parts = parts;
    work->index = memory;
    work->value = (float *)(void *)(work->index + work->entries);
}

/* One selection under way. The parts' lists lie one after the other in work. */
typedef struct search {
    float *r;
    const float *g;
    const gw_piece *pieces; /* in place of g; NULL: none */
    size_t count;           /* of pieces */
    size_t n, k;
    int32_t above;
    unsigned parts;
    gwi_list list[GWI_THREADS_MAX];
} search;

/* What collect() does, with a gradient in pieces. It counts from the beginning of r,
 * so it is given where g would begin if all of it lay before and behind a piece. */
static size_t collect_pieces(const search *s, size_t i, size_t end, int32_t above,
                             gwi_list *out)
{
    size_t begin = 0;

    for (size_t c = 0; i < end && c < s->count; begin += s->pieces[c++].floats) {
        size_t stop = begin + s->pieces[c].floats;
        stop = stop < end ? stop : end;
        if (i >= stop)
            continue;
        uintptr_t g = (uintptr_t)s->pieces[c].at - begin * sizeof(float);
        size_t at = gwi_select()->collect(s->r, (const float *)g, i, stop, above, out);
        if (at < stop)
            return at;
        i = stop;
    }
    return i;
}

static size_t collect_some(const search *s, size_t i, size_t end, int32_t above,
                           gwi_list *out)
{
    if (s->pieces != NULL)
        return collect_pieces(s, i, end, above, out);
    return gwi_select()->collect(s->r, s->g, i, end, above, out);
}

static void search_part(void *arg, size_t part)
{
    search *s = arg;
    gwi_list *list = &s->list[part];
    size_t length = part_floats(s->n, s->parts);
    size_t i = part * length < s->n ? part * length : s->n;
    size_t end = s->n - i < length ? s->n : i + length;
    int32_t above = s->above;

    list->n = 0;
    while ((i = collect_some(s, i, end, above, list)) < end) {
        above = above_key(thin_out(list, s->k, s->r));
    }
}

/* Collects what is above, joins the parts' lists in the first and returns how
 * many there are. When they are fewer than k, they are all there is above. */
static size_t search_all(search *s, int32_t above)
{
    gwi_list *all = &s->list[0];

    s->above = above;
    gwi_parallel(s->parts, search_part, s);
    for (unsigned p = 1; p < s->parts; p++) {
        all->n = move_entries(all, all->n, &s->list[p], 0);
    }
    return all->n;
}

/* Spreads the samples over the strides, so that rows of equal length in the
 * vector do not all show the same column. */
static size_t jitter(size_t i, size_t stride)
{
    return (size_t)((uint32_t)i * 2654435761u >> 8) % stride;
}

/* A bound that somewhat more than k are above, from samples of r + g. Three
 * standard deviations are added to what k asks of the sample. */
static int32_t sampled_guess(const search *s)
{
    enum { SAMPLES = 16384 };
    float *sample = s->list[0].value;
    size_t count = s->list[0].cap < SAMPLES ? s->list[0].cap : SAMPLES;
    size_t stride = s->n / count, ties;
    double share = (double)s->k / (double)s->n * (double)count;
    double rank = share + 3.0 * sqrt(share) + 3.0;

    if (stride < 2 || rank >= (double)count)
        return -1;
    for (size_t i = 0; i < count; i++) {
        size_t at = i * stride + jitter(i, stride);
        sample[i] = s->g ? s->r[at] + s->g[at] : s->r[at];
    }
    return gwi_nth_key(sample, count, (size_t)rank, &ties) - 1;
}

/* A step's threshold moves by a few per cent; the margin follows how much. */
static const float margin_first = 0.05f, margin_least = 0.01f, margin_most = 0.5f;

static int guess_holds(const gwi_topk_guess *guess, size_t n, size_t k)
{
    return guess->n == n && guess->k == k;
}

int32_t gwi_guess_bound(const gwi_topk_guess *guess, size_t n, size_t k)
{
    if (!guess_holds(guess, n, k))
        return -1;
    return gwi_magnitude_key(guess->threshold * (1.0f - guess->margin)) - 1;
}

static int32_t first_guess(const gwi_topk_guess *guess, const search *s)
{
    return guess_holds(guess, s->n, s->k) ? gwi_guess_bound(guess, s->n, s->k)
                                          : sampled_guess(s);
}

/* A guess below one that was too high: from samples, or if there are too few values for
 * that about two thirds of the one before, a few times. */
static int32_t lower_guess(const search *s, int32_t guess, int tries)
{
    enum { STEP = 3 << 21, MOST_TRIES = 4 };
    int32_t sampled = tries == 0 ? sampled_guess(s) : -1;

    if (sampled >= 0 || s->n > 16 * SPARE || tries == MOST_TRIES)
        return sampled;
    return guess - STEP;
}

/* Finds at least k candidates, or all entries that are not 0, for a guess and lower
 * ones. Returns how many the first guess has found. */
static size_t search_down(search *s, int32_t guess)
{
    size_t first = 0;

    for (int tries = 0;; tries++) {
        guess = guess > 0 ? guess : 0;
        size_t found = search_all(s, guess);
        s->g = NULL;
        s->pieces = NULL;
        if (tries == 0)
            first = found;
        if (found >= s->k || guess == 0)
            return first;
        gwi_put_back(&s->list[0], s->r);
        guess = lower_guess(s, guess, tries);
    }
}

/* Aims at between 1.05 and 1.25 k candidates. */
void gwi_guess_learn(gwi_topk_guess *guess, size_t n, size_t k, size_t found,
                     int32_t nth)
{
    int known = guess_holds(guess, n, k);
    double ratio = (double)found / (double)k;
    float margin = known ? guess->margin : margin_first;

    if (known && ratio < 1.0)
        margin *= 2.0f;
    else if (known && ratio < 1.05)
        margin *= 1.25f;
    else if (known && ratio > 1.25)
        margin *= 0.8f;
    margin = margin < margin_least ? margin_least : margin;
    guess->margin = margin > margin_most ? margin_most : margin;
    guess->threshold = gwi_bits_magnitude(nth);
    guess->n = n;
    guess->k = k;
}

/* Moves the k largest of the candidates, or all if they are fewer, to out; what is
 * left returns to r. Returns the key of the k-th, 0 if there is none. */
static int32_t choose(search *s, gwi_list *out)
{
    gwi_list *all = &s->list[0];
    int32_t nth = 0;

    if (all->n < s->k) {
        out->n = move_entries(out, 0, all, 0);
        return nth;
    }
    nth = gwi_split_largest(all, s->k, out, all);
    gwi_put_back(all, s->r);
    return nth;
}

/* Selects at least one. */
static size_t select_largest(search *s, gwi_topk_guess *guess,
                             const gwi_topk_work *work, uint32_t *index, float *value)
{
    gwi_list out = {index, value, 0, s->k};
    size_t first, cap;

    s->parts = s->n < GWI_SHARED_MIN ? 1 : work->parts;
    cap = work->entries / s->parts;
    for (unsigned p = 0; p < s->parts; p++)
        s->list[p] = (gwi_list){work->index + cap * p, work->value + cap * p, 0, cap};
    first = search_down(s, first_guess(guess, s));
    gwi_guess_learn(guess, s->n, s->k, first, choose(s, &out));
    return out.n;
}

size_t gwi_select_topk(gwi_topk_guess *guess, gwi_topk_work *work, float *r,
                       const float *g, size_t n, size_t k, uint32_t *index,
                       float *value)
{
    search s = {.r = r, .g = g, .n = n, .k = k};

    assert(k <= n);
    if (k == 0) {
        if (g)
            gwi_add(r, g, n);
        return 0;
    }
    return select_largest(&s, guess, work, index, value);
}

/* Samples, which a selection without a guess begins with, are taken from r alone. */
size_t gwi_select_topk_of(gwi_topk_guess *guess, gwi_topk_work *work, float *r,
                          const gw_piece *pieces, size_t count, size_t n, size_t k,
                          uint32_t *index, float *value)
{
    search s = {.r = r, .pieces = pieces, .count = count, .n = n, .k = k};

    assert(k <= n);
    if (k == 0 || !guess_holds(guess, n, k)) {
        for (size_t c = 0, at = 0; c < count; at += pieces[c++].floats)
            gwi_add(r + at, pieces[c].at, pieces[c].floats);
        return gwi_select_topk(guess, work, r, NULL, n, k, index, value);
    }
    return select_largest(&s, guess, work, index, value);
}

/* ---- above a threshold ----------------------------------------------------- */

/* Goes on from where collect() stopped for want of room, until out is full. */
static size_t collect_rest(float *r, const float *g, size_t i, size_t end,
                           int32_t above, gwi_list *out)
{
    for (; i < end && out->n < out->cap; i++) {
        r[i] = g ? r[i] + g[i] : r[i];
        if (gwi_magnitude_bits(r[i]) <= above)
            continue;
        out->index[out->n] = (uint32_t)i;
        out->value[out->n++] = r[i];
        r[i] = 0.0f;
    }
    return i;
}

typedef struct cut {
    float *r;
    const float *g;
    size_t n;
    int32_t above;
    unsigned parts;
    gwi_list list[GWI_THREADS_MAX];
    int full[GWI_THREADS_MAX]; /* whether the part may have left something */
} cut;

static void cut_part(void *arg, size_t part)
{
    cut *c = arg;
    size_t length = part_floats(c->n, c->parts);
    size_t i = part * length < c->n ? part * length : c->n;
    size_t end = c->n - i < length ? c->n : i + length;

    i = gwi_select()->collect(c->r, c->g, i, end, c->above, &c->list[part]);
    i = collect_rest(c->r, c->g, i, end, c->above, &c->list[part]);
    c->full[part] = i < end;
    if (c->g)
        gwi_vector()->add(c->r + i, c->g + i, end - i);
}

/* Cuts with `parts` threads, each filling its share of out. Returns 0, with
 * everything back in r, if a share was too small: the others' may have room. */
static int cut_shared(cut *c, gwi_list *out)
{
    size_t share = out->cap / c->parts;
    int full = 0;

    for (unsigned p = 0; p < c->parts; p++)
        c->list[p] =
            (gwi_list){out->index + share * p, out->value + share * p, 0, share};
    gwi_parallel(c->parts, cut_part, c);
    for (unsigned p = 0; p < c->parts; p++)
        full |= c->full[p];
    for (unsigned p = 0; p < c->parts; p++) {
        const gwi_list *list = &c->list[p];
        if (full) {
            gwi_put_back(list, c->r);
            continue;
        }
        out->n = move_entries(out, out->n, list, 0);
    }
    return !full;
}

/* What collect() is to go by. */
static int32_t bound_of(gwi_threshold t)
{
    int32_t key = gwi_magnitude_key(t.value);

    assert(!t.ties || (key > 0 && key < GWI_KEY_NAN));
    return t.ties ? key - 1 : above_key(key);
}

bool gwi_select_above(float *r, const float *g, size_t n, gwi_threshold threshold,
                      gwi_list *out)
{
    cut c = {.r = r, .g = g, .n = n};

    c.above = bound_of(threshold);
    c.parts = n < GWI_SHARED_MIN ? 1 : gwi_threads();
    out->n = 0;
    if (c.parts > 1) {
        if (cut_shared(&c, out))
            return true;
        c.g = NULL;
        c.parts = 1;
    }
    c.list[0] = *out;
    cut_part(&c, 0);
    out->n = c.list[0].n;
    return !c.full[0];
}

void gwi_count_above(const float *r, size_t n, float value, size_t *above, size_t *ties)
{
    const int32_t nth = gwi_magnitude_key(value);
    size_t larger = 0, equal = 0;

    for (size_t i = 0; i < n; i++) {
        int32_t key = gwi_magnitude_key(r[i]);
        larger += key > nth;
        equal += key == nth;
    }
    *above = larger;
    *ties = equal;
}

size_t gwi_ties_end(const float *r, size_t n, float value, size_t count)
{
    const int32_t key = gwi_magnitude_key(value);
    size_t i = 0;

    for (; i < n && count > 0; i++)
        count -= gwi_magnitude_key(r[i]) == key;
    return i;
}

/* The samples are as far apart as memory is slow: all of them miss the caches. */
static void take_samples(const float *r, const float *g, size_t stride, size_t count,
                         float *samples)
{
    enum { AHEAD = 32 };

    for (size_t i = 0; i < count; i++) {
        size_t at = i * stride, later = at + (i + AHEAD < count ? AHEAD * stride : 0);
        __builtin_prefetch(r + later);
        if (g)
            __builtin_prefetch(g + later);
        samples[i] = g ? r[at] + g[at] : r[at];
    }
}

size_t gwi_threshold_rank(size_t samples, double rate)
{
    size_t place = (size_t)((double)samples * rate);

    return samples - (place > 0 ? place - 1 : 0);
}

gwi_threshold gwi_threshold_at(int32_t key, size_t rank, size_t ties)
{
    return (gwi_threshold){.value = gwi_bits_magnitude(key),
                           .ties =
                               key > 0 && key < GWI_KEY_NAN && (ties > 1 || rank == 1)};
}

gwi_threshold gwi_threshold_of(float *scratch, size_t count, double rate)
{
    size_t ties;
    gwi_topk_work work;
    search s = {.r = scratch, .n = count, .parts = 1};
    const gwi_list *list = &s.list[0];
    int32_t key;

    s.k = gwi_threshold_rank(count, rate);
    gwi_topk_work_init(&work, scratch + count, count, s.k, 1);
    s.list[0] = (gwi_list){work.index, work.value, 0, work.entries};
    if (search_all(&s, sampled_guess(&s)) < s.k) {
        gwi_put_back(list, scratch);
        search_all(&s, -1);
    }
    key = gwi_nth_key(list->value, list->n, s.k, &ties);
    return gwi_threshold_at(key, s.k, ties);
}

gwi_threshold gwi_sampled_threshold(const float *r, const float *g, size_t n,
                                    double rate, float *scratch)
{
    size_t count = n < GWI_SAMPLES_MAX ? n : GWI_SAMPLES_MAX;

    if (n == 0)
        return (gwi_threshold){.value = 0};
    take_samples(r, g, n / count, count, scratch);
    return gwi_threshold_of(scratch, count, rate);
}
