/* SPDX-License-Identifier: Apache-2.0
 *
 * resolve.c - what follows from the answers of all stages together.
 *
 * A part that its options switch off gives way to the usual one, so that what is off
 * is off by construction. Then it is clear what is handed over, and how. */
#include "sync/state/past_models.h"
#include "sync/beside/stream.h"

static void switch_off(gwi_spec *spec, gwi_kind kind)
{
    if (spec->part[kind]->off != NULL && spec->part[kind]->off(spec))
        spec->part[kind] = gwi_usual_part(kind);
}

static bool compresses(const gwi_spec *spec)
{
    bool sparse = gwi_leaves_out(spec) && !gwi_selector_of(spec)->of_models;

    return sparse || spec->part[GWI_CODER] != &gwi_coder_f32.part ||
           gwi_exchange_codes(spec);
}

/* Models averaged in every step are gradients averaged in every step, if nobody looks
 * at the models in between or makes something else of their average. */
static bool is_of_gradients(const gwi_spec *spec)
{
    const gwi_part *schedule = spec->part[GWI_SCHEDULE];

    return schedule->off != NULL && schedule->off(spec) && !gwi_streams(spec) &&
           !gwi_selector_of(spec)->of_models && !gwi_steps_outside(spec) &&
           !gwi_sees_models(spec);
}

static void decide_subject(gwi_spec *spec)
{
    if (is_of_gradients(spec))
        spec->part[GWI_SCHEDULE] = gwi_usual_part(GWI_SCHEDULE);
    spec->subject = gwi_schedule_of(spec)->subject;
    /* A model change that is compressed, or that an outer step wants, or that is
     * exchanged while the model changes, is what is sent, not the model. Of models that
     * are averaged in part there is no change that all know of. */
    if (spec->subject == GWI_MODEL && !gwi_selector_of(spec)->of_models &&
        (compresses(spec) || gwi_steps_outside(spec) || gwi_streams(spec)))
        spec->subject = GWI_CHANGE;
}

static void decide_exchange(gwi_spec *spec)
{
    const gwi_part *asked = spec->part[GWI_EXCHANGE];

    if (asked != NULL && (asked->off == NULL || !asked->off(spec)))
        return;
    spec->part[GWI_EXCHANGE] = spec->subject == GWI_MODEL
                                   ? &gwi_exchange_common.part
                                   : &gwi_coder_of(spec)->whole->part;
}

void gwi_spec_settle(gwi_spec *spec, int workers)
{
    const gwi_exchange *exchange = gwi_exchange_of(spec);

    if (exchange->instead != NULL)
        spec->part[GWI_EXCHANGE] = &exchange->instead(spec, workers)->part;
}

void gwi_spec_resolve(gwi_spec *spec)
{
    switch_off(spec, GWI_SELECTOR);
    switch_off(spec, GWI_TRANSFORM);
    switch_off(spec, GWI_CODER);
    switch_off(spec, GWI_OUTER);
    decide_subject(spec);
    decide_exchange(spec);
    gwi_spec_settle(spec, 0);
    switch_off(spec, GWI_MEMORY);
}

bool gwi_spec_is_dense(const gwi_spec *spec)
{
    return spec->subject == GWI_GRADIENT && gwi_schedule_of(spec)->talks &&
           spec->part[GWI_EXCHANGE] == &gwi_exchange_dense.part;
}

gw_status gwi_check_uncoded(const gwi_spec *spec, const gwi_stage *stage)
{
    for (int i = 0; i < spec->count; i++)
        if (spec->stages[i]->role == GWI_ROLE_HOW)
            return gw_fail(GW_ERR_SPEC,
                           "'%s' cannot follow '%s', which adds values up on the way",
                           spec->stages[i]->name, stage->name);
    return GW_OK;
}
