/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange_adasum.c - Adasum (Maleki et al. 2021): instead of their average, two
 * vectors become
 *
 *     a (+) b = (1 - a.b / 2 a.a) a + (1 - a.b / 2 b.b) b
 *
 * tensor by tensor. Of what both have in common that is the mean, and of what is
 * orthogonal it is the sum. Vectors are combined in pairs, by recursive doubling:
 * worker r with r xor 1, then what came out with that of r xor 2, and so on. Where P is
 * not a power of two, those past the largest one are first combined with a partner
 * below. (+) commutes to the bit, so that both of a pair get the same. It is not
 * associative: another order of workers gives another result. */
#include "kernels/matrix/dots.h"

#include "sync/measure.h"
#include "sync/notes.h"

/* A vector of zeros has nothing in common with any other. */
static float weight(double ab, double own)
{
    return own > 0 ? (float)(1 - ab / (2 * own)) : 1.0f;
}

static void combine(void *arg, float *x, const float *other)
{
    const gw_layout *layout = ((const gw_sync *)arg)->layout;

    for (size_t i = 0; i < layout->count; i++) {
        const gw_tensor *t = &layout->tensors[i];
        size_t n = t->rows * t->cols;
        float *a = x + t->offset;
        const float *b = other + t->offset;
        gwi_dots dots = gwi_dots_of(a, b, n);
        gwi_add_multiples(a, weight(dots.ab, dots.aa), b, weight(dots.ab, dots.bb), n);
    }
}

static gw_status adasum_run(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    gwi_decodes(s);
    return gwi_combine(s, at->v, combine, s, note);
}

/* One message after the other. */
static gwi_path adasum_path(const gwi_spec *spec, const gw_layout *layout, int workers,
                            const gw_traffic *t)
{
    (void)spec, (void)layout, (void)workers;
    return (gwi_path){(double)t->messages_sent, (double)t->bytes_sent};
}

/* Nothing can be put back of what is not a sum. */
static gw_status adasum_check(const gwi_spec *spec, const gwi_stage *stage)
{
    for (int i = 0; i < spec->count; i++)
        if (spec->stages[i]->role == GWI_ROLE_MOMENTUM)
            return gw_fail(GW_ERR_SPEC,
                           "'%s' cannot follow '%s', which does not add up",
                           spec->stages[i]->name, stage->name);
    return gwi_check_uncoded(spec, stage);
}

const gwi_exchange gwi_exchange_adasum = {
    .part = {.name = "adasum", .check = adasum_check},
    .run = adasum_run,
    .path = adasum_path,
    .codes = true,
};

const gwi_stage gwi_stage_adasum = {
    .name = "adasum",
    .summary = "what gradients share is averaged, the rest added (Maleki et al. 2021)",
    .example = "adasum",
    .cost = "4n bytes, log2 P times",
    .expect = "for rates that suit one worker; sends more than dense",
    .role = GWI_ROLE_WHICH,
    .recipe = true,
    .parts = {[GWI_EXCHANGE] = &gwi_exchange_adasum.part},
    .keys = "delay lead",
};
