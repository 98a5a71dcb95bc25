/* SPDX-License-Identifier: Apache-2.0
 *
 * sync.c - one method for one model: making it, the two calls of a step, and what
 * is measured around them. */
#include "sync/sync.h"

#include <inttypes.h>
#include <string.h>

#include "kernels/vector.h"
#include "sync/methods.h"

static const gwi_method *const methods[] = {
    &gwi_method_none,
    &gwi_method_dense,
};

static const gwi_method *find_method(const gwi_spec *spec)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i]->fits(spec))
            return methods[i];
    return NULL;
}

/* ---- making -------------------------------------------------------------------------
 */

/* What must be the same on all workers, in a form that can be sent. */
typedef struct settings {
    uint64_t floats, layout, seed, nonfinite;
    char text[256];
} settings;

/* FNV-1a, for telling layouts apart and nothing else. */
static uint64_t hash(uint64_t h, const void *data, size_t len)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < len; i++)
        h = (h ^ bytes[i]) * 1099511628211u;
    return h;
}

static uint64_t layout_hash(const gw_layout *l)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < l->count; i++) {
        const gw_tensor *t = &l->tensors[i];
        uint64_t shape[2] = {t->rows, t->cols};
        h = hash(h, t->name, strlen(t->name) + 1);
        h = hash(h, shape, sizeof shape);
    }
    return h;
}

static gw_status fail_mismatch(const settings *own, const settings *other, int rank)
{
    if (strncmp(own->text, other->text, sizeof own->text) != 0)
        return gw_fail(GW_ERR_MISMATCH,
                       "this worker syncs by '%s', worker %d by '%.255s'", own->text,
                       rank, other->text);
    if (own->floats != other->floats)
        return gw_fail(GW_ERR_MISMATCH,
                       "this worker's model has %" PRIu64
                       " parameters, worker %d's %" PRIu64,
                       own->floats, rank, other->floats);
    return gw_fail(GW_ERR_MISMATCH, "this worker and worker %d differ in %s", rank,
                   own->layout != other->layout ? "the tensors of the model"
                   : own->seed != other->seed   ? "the seed of the sync"
                                                : "what to do about NaN and infinity");
}

static gw_status compare_settings(const gw_sync *s)
{
    size_t p = (size_t)s->comm->workers;
    settings own = {.floats = s->layout->floats,
                    .layout = layout_hash(s->layout),
                    .seed = s->seed,
                    .nonfinite = (uint64_t)s->nonfinite};
    settings *all = gwi_calloc(p, sizeof *all + sizeof(size_t));
    gw_status st;

    if (all == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory to compare %zu workers", p);
    memcpy(own.text, s->text, sizeof own.text);
    size_t *lens = (size_t *)(all + p);
    st = gw_allgather(s->comm, &own, sizeof own, all, sizeof own, lens);
    for (size_t r = 0; st == GW_OK && r < p; r++)
        if (lens[r] != sizeof own || memcmp(&own, &all[r], sizeof own) != 0)
            st = fail_mismatch(&own, &all[r], (int)r);
    gwi_free(all);
    return st;
}

static gw_status check_arguments(const gw_layout *layout, const gw_comm *comm,
                                 const gw_sync_options *opt)
{
    if (layout == NULL || comm == NULL)
        return gw_fail(GW_ERR_ARG, "gw_sync_new() needs a layout and a comm");
    if (opt != NULL && (opt->struct_size != sizeof *opt || opt->nonfinite < 0 ||
                        opt->nonfinite > GW_NONFINITE_IGNORE))
        return gw_fail(
            GW_ERR_ARG,
            "gw_sync_options: struct_size or nonfinite is not one known here");
    return GW_OK;
}

static gw_status build(gw_sync *s, const gw_layout *layout, gw_comm *comm,
                       const gw_sync_options *opt)
{
    s->comm = comm;
    s->layout = gwi_layout_copy(layout);
    if (s->layout == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for a layout");
    s->nonfinite = opt != NULL ? opt->nonfinite : GW_NONFINITE_STOP;
    s->seed = opt != NULL ? opt->seed : 0;
    gwi_spec_write(&s->spec, s->text, sizeof s->text);
    GWI_TRY(compare_settings(s));
    return s->method->init != NULL ? s->method->init(s) : GW_OK;
}

gw_status gw_sync_new(gw_sync **out, const char *text, const gw_layout *layout,
                      gw_comm *comm, const gw_sync_options *opt)
{
    gwi_spec spec;
    gw_sync *s;
    gw_status st;

    *out = NULL;
    GWI_TRY(check_arguments(layout, comm, opt));
    GWI_TRY(gwi_spec_parse(text, &spec));
    const gwi_method *method = find_method(&spec);
    if (method == NULL)
        return gw_fail(GW_ERR_ABSENT,
                       "'%s' is not in this version, which has dense and none", text);
    s = gwi_calloc(1, sizeof *s + method->state_size);
    if (s == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for a sync");
    s->method = method;
    s->state = s + 1;
    s->spec = spec;
    st = build(s, layout, comm, opt);
    if (st != GW_OK)
        goto fail;
    *out = s;
    return GW_OK;

fail:
    gw_sync_free(s);
    return st;
}

void gw_sync_free(gw_sync *s)
{
    if (s == NULL)
        return;
    if (s->method->fini != NULL)
        s->method->fini(s);
    gw_layout_free(s->layout);
    gwi_free(s);
}

/* ---- measuring
 * ------------------------------------------------------------------------ */

static gw_traffic enter(gw_sync *s)
{
    gw_traffic before = s->comm->traffic;

    s->entered = gwi_now();
    s->waited = before.wait_seconds;
    s->encoded = 0;
    return before;
}

void gwi_sync_encoded(gw_sync *s)
{
    double waited = s->comm->traffic.wait_seconds - s->waited;

    s->encoded = gwi_now() - s->entered - waited;
}

static void leave(gw_sync *s, const gw_traffic *before)
{
    const gw_traffic *now = &s->comm->traffic;
    double waited = now->wait_seconds - s->waited;

    s->stats.bytes_sent += now->bytes_sent - before->bytes_sent;
    s->stats.bytes_received += now->bytes_received - before->bytes_received;
    s->stats.messages_sent += now->messages_sent - before->messages_sent;
    s->stats.messages_received += now->messages_received - before->messages_received;
    s->stats.encode_seconds += s->encoded;
    s->stats.wait_seconds += waited;
    s->stats.decode_seconds += gwi_now() - s->entered - waited - s->encoded;
}

/* ---- the two calls
 * ---------------------------------------------------------------------- */

/* A note about a bad gradient: worker + 1 above, tensor below, so that the least
 * note is that of the first such worker. */
static gwi_note look_at(const gw_sync *s, const float *grad)
{
    size_t n = s->layout->floats, bad;

    if (s->nonfinite == GW_NONFINITE_IGNORE)
        return 0;
    bad = gwi_first_nonfinite(grad, n);
    if (bad == n)
        return 0;
    const gw_tensor *t = gwi_layout_find(s->layout, bad);
    return (uint64_t)(s->comm->rank + 1) << 32 | (uint64_t)(t - s->layout->tensors);
}

static gw_status act_on(gw_sync *s, gwi_note note)
{
    if (note == 0)
        return GW_OK;
    if (s->nonfinite == GW_NONFINITE_SKIP) {
        s->stats.skipped++;
        return GW_SKIPPED;
    }
    const gw_tensor *t = gw_layout_tensor(s->layout, note & UINT32_MAX);
    return gw_fail(
        GW_ERR_NUMBER,
        "the gradient of worker %d holds NaN or infinity in tensor '%s' (step "
        "%" PRIu64 ")",
        (int)(note >> 32) - 1, t != NULL ? t->name : "?", s->step);
}

gw_status gw_sync_gradient(gw_sync *s, float *grad)
{
    gw_traffic before = enter(s);
    gw_status st = GW_OK;

    gwi_comm_set_step(s->comm, ++s->step);
    s->stats.steps++;
    gwi_note note = look_at(s, grad);
    if (s->method->gradient != NULL)
        st = s->method->gradient(s, grad, &note);
    leave(s, &before);
    return st == GW_OK ? act_on(s, note) : st;
}

gw_status gw_sync_model(gw_sync *s, float *params)
{
    if (s->method->model == NULL)
        return GW_OK;
    gw_traffic before = enter(s);
    gw_status st = s->method->model(s, params);
    leave(s, &before);
    return st;
}

int gw_sync_keeps_equal(const gw_sync *s)
{
    return s->method->keeps_equal || s->comm->workers == 1;
}

const char *gw_sync_spec(const gw_sync *s)
{
    return s->text;
}

gw_stats gw_sync_stats(const gw_sync *s)
{
    return s->stats;
}
