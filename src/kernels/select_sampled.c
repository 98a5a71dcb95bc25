/* SPDX-License-Identifier: Apache-2.0
 *
 * select_sampled.c - sampled threshold and selection in one pass.
 *
 * A threshold is the magnitude of a certain rank among samples. The threshold of one
 * step is close to that of the step before, so one pass collects everything above a
 * little less, and the candidates that are samples show the threshold:
 *
 *     r, g  --collect-->  candidates  --those that are samples-->  threshold
 *                              |
 *                              +-- above it --> out;  the others go back to r
 *
 * If there are fewer samples among the candidates than the rank asks for, or more
 * candidates than there is room, all go back and the threshold is sampled anew. */
#include "kernels/select.h"

#include "kernels/float_bits.h"
#include "kernels/vector.h"

/* Copies the values of the candidates that are samples. Without a branch: nobody could
 * predict it. Without a division, and exact for any n: the product with the next number
 * above 2^32 / stride. Times stride that is at most 2^32 + stride. So sample i, which
 * is at i * stride, is found at place i: i is below 100000 and stride below 42950, and
 * their product below 2^32. What is no multiple of the stride fails the comparison. */
static size_t samples_among(const gwi_list *list, size_t n, size_t count,
                            float *samples)
{
    uint64_t stride = n / count, inverse = ((uint64_t)1 << 32) / stride + 1;
    size_t found = 0;

    for (size_t i = 0; i < list->n; i++) {
        uint64_t at = list->index[i], place = at * inverse >> 32;
        samples[found] = list->value[i];
        found += (size_t)(place * stride == at) & (size_t)(place < count);
    }
    return found;
}

/* Leaves in list what the threshold lets go and puts the others back into r. scratch
 * has room for list->n indices and values. */
static void keep_above(gwi_list *list, gwi_threshold t, float *r, float *scratch)
{
    gwi_list others = {(uint32_t *)(void *)scratch, scratch + list->n, 0, list->n};

    gwi_select()->split(list, SIZE_MAX, gwi_magnitude_key(t.value),
                        t.ties ? SIZE_MAX : 0, list, &others);
    gwi_put_back(&others, r);
}

/* What a vector is sampled for. */
typedef struct wanted {
    size_t n, samples, rank;
} wanted;

/* Whether looking for samples among candidates is less work than reading them first. It
 * is where candidates are few enough for the caches and for half of the scratch memory,
 * and where a pass is not shared out to threads. */
static bool guess_pays(const wanted *w)
{
    double expected = (double)w->n * (double)w->rank / (double)w->samples;

    return 4 * expected <= (double)GWI_THRESHOLD_FLOATS(w->n) &&
           (w->n < GWI_SHARED_MIN || gwi_threads() == 1);
}

/* Collects candidates in out and finds the threshold among them. *found is how many of
 * the candidates are samples. Returns false, with everything in r and g added to it, if
 * the threshold is not among them, or is NaN, or if there was not room for all. */
static bool try_guess(const wanted *w, int32_t bound, float *r, const float *g,
                      float *scratch, gwi_threshold *threshold, gwi_list *out,
                      size_t *found)
{
    int32_t key = GWI_KEY_NAN;
    size_t end, ties = 0;

    out->n = 0;
    end = gwi_select()->collect(r, g, 0, w->n, bound, out);
    *found = end < w->n ? 2 * w->rank : samples_among(out, w->n, w->samples, scratch);
    if (end == w->n && *found >= w->rank && 2 * out->n <= GWI_THRESHOLD_FLOATS(w->n))
        key = gwi_nth_key(scratch, *found, w->rank, &ties);
    if (key < GWI_KEY_NAN) {
        *threshold = gwi_threshold_at(key, w->rank, ties);
        keep_above(out, *threshold, r, scratch);
        return true;
    }
    gwi_put_back(out, r);
    if (g != NULL)
        gwi_add(r + end, g + end, w->n - end);
    return false;
}

bool gwi_select_sampled(gwi_topk_guess *guess, float *r, const float *g, size_t n,
                        double rate, float *scratch, gwi_threshold *threshold,
                        gwi_list *out)
{
    wanted w = {n, n < GWI_SAMPLES_MAX ? n : GWI_SAMPLES_MAX, 0};
    size_t found = 0;
    bool fits = true;

    w.rank = gwi_threshold_rank(w.samples, rate);
    int32_t bound = guess_pays(&w) ? gwi_guess_bound(guess, n, w.rank) : -1;
    if (bound <= 0 || !try_guess(&w, bound, r, g, scratch, threshold, out, &found)) {
        g = bound > 0 ? NULL : g;
        *threshold = gwi_sampled_threshold(r, g, n, rate, scratch);
        fits = gwi_select_above(r, g, n, *threshold, out);
    }
    if (n > 0)
        gwi_guess_learn(guess, n, w.rank, found, gwi_magnitude_key(threshold->value));
    return fits;
}
