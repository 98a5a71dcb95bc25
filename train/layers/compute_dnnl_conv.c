/* SPDX-License-Identifier: Apache-2.0
 *
 * compute_dnnl_conv.c - convolutions on oneDNN.
 *
 * The trainer's weights are plain, because that is what is synchronised; oneDNN's
 * kernels want them in blocks of their own choice, one for each direction. So a
 * pass is (weights -> blocked) -> convolution, and backward (-> plain gradient):
 *
 *     forward           in, pack(weight), bias  -> out
 *     backward weights  in, dout                -> unpack(dweight), dbias
 *     backward data     dout, pack'(weight)     -> din
 *
 * Packing costs one pass over the weights. oneDNN's objects hold the size of the
 * batch, so there is a set of them for each of the few sizes that a run uses. */
#include "layers/compute.h"

#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <string.h>

#if DNNL_VERSION_MAJOR != 2
#error "this file is written for the C interface of oneDNN 2"
#endif

/* A run uses the batch it trains with, the largest, and the rest of a test set. */
enum { SETS = 4, ARGS = 4 };

/* One call of the engine: a primitive and the memory it is given. */
typedef struct operation {
    dnnl_primitive_t primitive;
    int args;
    dnnl_exec_arg_t arg[ARGS];
} operation;

/* Weights, or their gradient, on the way from one order to another. */
typedef struct packing {
    int needed; /* 0: both orders are the same */
    operation reorder;
    size_t bytes; /* of the blocked side */
} packing;

/* Everything for one size of batch; the backward part is made when it is needed. */
typedef struct set {
    size_t batch; /* 0: not in use */
    dnnl_primitive_desc_t hint;
    operation forward, weights, data;
    packing pack_forward, unpack_weights, pack_data;
    int ready_weights, ready_data;
} set;

struct gwt_conv {
    gwt_conv_options opt;
    dnnl_stream_t stream;
    set sets[SETS];
    size_t next; /* the set that is replaced first if all are in use */
    void *packed;
    size_t packed_bytes;
};

/* ---- engine -------------------------------------------------------------------- */

static dnnl_engine_t engine;
static dnnl_status_t engine_status;
static pthread_once_t engine_once = PTHREAD_ONCE_INIT;

static void make_engine(void)
{
    engine_status = dnnl_engine_create(&engine, dnnl_cpu, 0);
}

static gw_status refused(const gwt_conv *c, dnnl_status_t st)
{
    const gwt_conv_options *o = &c->opt;

    if (st == dnnl_out_of_memory)
        return gw_fail(GW_ERR_NOMEM, "no memory for a convolution");
    return gw_fail(GW_ERR_SYSTEM,
                   "oneDNN cannot compute a convolution of %zu x %zu x %zu to %zu "
                   "channels (status %d)",
                   o->in.channels, o->in.height, o->in.width, o->out.channels, (int)st);
}

/* Passes a failure of the engine on. */
#define TRY(call)                       \
    do {                                \
        dnnl_status_t st_try_ = (call); \
        if (st_try_ != dnnl_success)    \
            return st_try_;             \
    } while (0)

/* ---- operations ----------------------------------------------------------------- */

static dnnl_status_t add_memory(operation *op, int name, const dnnl_memory_desc_t *desc)
{
    dnnl_exec_arg_t *arg = &op->arg[op->args];

    TRY(dnnl_memory_create(&arg->memory, desc, engine, DNNL_MEMORY_NONE));
    arg->arg = name;
    op->args++;
    return dnnl_success;
}

static dnnl_status_t add_argument(operation *op, int name, dnnl_primitive_desc_t pd,
                                  dnnl_query_t what, int index)
{
    return add_memory(op, name, dnnl_primitive_desc_query_md(pd, what, index));
}

static void close_operation(operation *op)
{
    for (int i = 0; i < op->args; i++)
        dnnl_memory_destroy(op->arg[i].memory);
    if (op->primitive != NULL)
        dnnl_primitive_destroy(op->primitive);
    *op = (operation){0};
}

/* data[i] is where the i-th argument lies; the engine writes to outputs alone. */
static dnnl_status_t run(const gwt_conv *c, operation *op, const void *const *data)
{
    for (int i = 0; i < op->args; i++) {
        void *at;
        memcpy(&at, &data[i], sizeof at);
        TRY(dnnl_memory_set_data_handle(op->arg[i].memory, at));
    }
    return dnnl_primitive_execute(op->primitive, c->stream, op->args, op->arg);
}

/* ---- packing ------------------------------------------------------------------- */

static dnnl_status_t plain_weights(dnnl_memory_desc_t *out, const gwt_conv_options *o,
                                   dnnl_format_tag_t tag)
{
    dnnl_dims_t dims = {(dnnl_dim_t)o->out.channels, (dnnl_dim_t)o->in.channels,
                        (dnnl_dim_t)o->kernel, (dnnl_dim_t)o->kernel};

    return dnnl_memory_desc_init_by_tag(out, 4, dims, dnnl_f32, tag);
}

static dnnl_status_t make_packing(packing *p, const dnnl_memory_desc_t *from,
                                  const dnnl_memory_desc_t *to)
{
    dnnl_primitive_desc_t pd;
    dnnl_status_t st;

    p->needed = !dnnl_memory_desc_equal(from, to);
    size_t a = dnnl_memory_desc_get_size(from), b = dnnl_memory_desc_get_size(to);
    p->bytes = a > b ? a : b;
    if (!p->needed)
        return dnnl_success;
    TRY(dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, NULL));
    st = dnnl_primitive_create(&p->reorder.primitive, pd);
    dnnl_primitive_desc_destroy(pd);
    TRY(st);
    TRY(add_memory(&p->reorder, DNNL_ARG_FROM, from));
    return add_memory(&p->reorder, DNNL_ARG_TO, to);
}

/* Makes room for blocked weights. */
static gw_status reserve(gwt_conv *c, const packing *p)
{
    if (!p->needed || p->bytes <= c->packed_bytes)
        return GW_OK;
    gwt_free(c->packed);
    c->packed_bytes = 0;
    c->packed = gwt_calloc(p->bytes, 1, "a convolution's weights");
    if (c->packed == NULL)
        return GW_ERR_NOMEM;
    c->packed_bytes = p->bytes;
    return GW_OK;
}

/* Sets *out to where the packed weights lie. */
static dnnl_status_t pack(gwt_conv *c, packing *p, const float *weight,
                          const void **out)
{
    *out = p->needed ? c->packed : weight;
    if (!p->needed)
        return dnnl_success;
    return run(c, &p->reorder, (const void *[]){weight, c->packed});
}

/* ---- what depends on the batch --------------------------------------------------- */

/* Descriptions of the tensors, the order of weights left to the engine. */
typedef struct tensors {
    dnnl_memory_desc_t in, out, weight, bias, plain;
    dnnl_dims_t strides, padding;
} tensors;

static dnnl_status_t describe_image(dnnl_memory_desc_t *out, gwt_shape s, size_t block,
                                    size_t batch)
{
    dnnl_dims_t dims = {(dnnl_dim_t)batch, (dnnl_dim_t)s.channels, (dnnl_dim_t)s.height,
                        (dnnl_dim_t)s.width};
    dnnl_format_tag_t tag = block == 16  ? dnnl_nChw16c
                            : block == 8 ? dnnl_nChw8c
                                         : dnnl_nchw;

    return dnnl_memory_desc_init_by_tag(out, 4, dims, dnnl_f32, tag);
}

static dnnl_status_t describe(tensors *t, const gwt_conv_options *o, size_t batch)
{
    dnnl_dims_t channels = {(dnnl_dim_t)o->out.channels};

    t->strides[0] = t->strides[1] = (dnnl_dim_t)o->stride;
    t->padding[0] = t->padding[1] = (dnnl_dim_t)o->padding;
    TRY(describe_image(&t->in, o->in, o->in_block, batch));
    TRY(describe_image(&t->out, o->out, o->out_block, batch));
    TRY(plain_weights(&t->plain, o, dnnl_oihw));
    TRY(plain_weights(&t->weight, o, dnnl_format_tag_any));
    return dnnl_memory_desc_init_by_tag(&t->bias, 1, channels, dnnl_f32, dnnl_x);
}

static dnnl_status_t describe_forward(dnnl_primitive_desc_t *out,
                                      const gwt_conv_options *o, const tensors *t)
{
    dnnl_convolution_desc_t desc;

    TRY(dnnl_convolution_forward_desc_init(
        &desc, dnnl_forward_training, dnnl_convolution_direct, &t->in, &t->weight,
        o->bias ? &t->bias : NULL, &t->out, t->strides, t->padding, t->padding));
    return dnnl_primitive_desc_create(out, &desc, NULL, engine, NULL);
}

static dnnl_status_t make_forward(set *s, const gwt_conv_options *o, const tensors *t)
{
    operation *op = &s->forward;

    TRY(describe_forward(&s->hint, o, t));
    TRY(dnnl_primitive_create(&op->primitive, s->hint));
    TRY(add_argument(op, DNNL_ARG_SRC, s->hint, dnnl_query_src_md, 0));
    TRY(add_argument(op, DNNL_ARG_WEIGHTS, s->hint, dnnl_query_weights_md, 0));
    TRY(add_argument(op, DNNL_ARG_DST, s->hint, dnnl_query_dst_md, 0));
    if (o->bias)
        TRY(add_argument(op, DNNL_ARG_BIAS, s->hint, dnnl_query_weights_md, 1));
    return make_packing(
        &s->pack_forward, &t->plain,
        dnnl_primitive_desc_query_md(s->hint, dnnl_query_weights_md, 0));
}

static dnnl_status_t fill_weights(set *s, const gwt_conv_options *o, const tensors *t,
                                  dnnl_primitive_desc_t pd)
{
    operation *op = &s->weights;

    TRY(dnnl_primitive_create(&op->primitive, pd));
    TRY(add_argument(op, DNNL_ARG_SRC, pd, dnnl_query_src_md, 0));
    TRY(add_argument(op, DNNL_ARG_DIFF_DST, pd, dnnl_query_diff_dst_md, 0));
    TRY(add_argument(op, DNNL_ARG_DIFF_WEIGHTS, pd, dnnl_query_diff_weights_md, 0));
    if (o->bias)
        TRY(add_argument(op, DNNL_ARG_DIFF_BIAS, pd, dnnl_query_diff_weights_md, 1));
    return make_packing(&s->unpack_weights,
                        dnnl_primitive_desc_query_md(pd, dnnl_query_diff_weights_md, 0),
                        &t->plain);
}

static dnnl_status_t make_weights(set *s, const gwt_conv_options *o, const tensors *t)
{
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t pd;
    dnnl_status_t st;

    TRY(dnnl_convolution_backward_weights_desc_init(
        &desc, dnnl_convolution_direct, &t->in, &t->weight, o->bias ? &t->bias : NULL,
        &t->out, t->strides, t->padding, t->padding));
    TRY(dnnl_primitive_desc_create(&pd, &desc, NULL, engine, s->hint));
    st = fill_weights(s, o, t, pd);
    dnnl_primitive_desc_destroy(pd);
    return st;
}

static dnnl_status_t fill_data(set *s, const tensors *t, dnnl_primitive_desc_t pd)
{
    operation *op = &s->data;

    TRY(dnnl_primitive_create(&op->primitive, pd));
    TRY(add_argument(op, DNNL_ARG_DIFF_DST, pd, dnnl_query_diff_dst_md, 0));
    TRY(add_argument(op, DNNL_ARG_WEIGHTS, pd, dnnl_query_weights_md, 0));
    TRY(add_argument(op, DNNL_ARG_DIFF_SRC, pd, dnnl_query_diff_src_md, 0));
    return make_packing(&s->pack_data, &t->plain,
                        dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0));
}

static dnnl_status_t make_data(set *s, const tensors *t)
{
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t pd;
    dnnl_status_t st;

    TRY(dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, &t->in,
                                                 &t->weight, &t->out, t->strides,
                                                 t->padding, t->padding));
    TRY(dnnl_primitive_desc_create(&pd, &desc, NULL, engine, s->hint));
    st = fill_data(s, t, pd);
    dnnl_primitive_desc_destroy(pd);
    return st;
}

static void close_set(set *s)
{
    close_operation(&s->forward);
    close_operation(&s->weights);
    close_operation(&s->data);
    close_operation(&s->pack_forward.reorder);
    close_operation(&s->unpack_weights.reorder);
    close_operation(&s->pack_data.reorder);
    if (s->hint != NULL)
        dnnl_primitive_desc_destroy(s->hint);
    *s = (set){0};
}

/* Makes a set for that batch size and replaces the oldest one. */
static gw_status make_set(gwt_conv *c, size_t batch, set **out)
{
    set *s = &c->sets[c->next++ % SETS];
    tensors t;
    dnnl_status_t st;

    close_set(s);
    st = describe(&t, &c->opt, batch);
    if (st == dnnl_success)
        st = make_forward(s, &c->opt, &t);
    if (st != dnnl_success) {
        close_set(s);
        return refused(c, st);
    }
    s->batch = batch;
    *out = s;
    return reserve(c, &s->pack_forward);
}

static gw_status find_set(gwt_conv *c, size_t batch, set **out)
{
    for (size_t i = 0; i < SETS; i++)
        if (c->sets[i].batch == batch) {
            *out = &c->sets[i];
            return GW_OK;
        }
    return make_set(c, batch, out);
}

/* Adds what backward needs, once. */
static gw_status complete(gwt_conv *c, set *s, int data)
{
    dnnl_status_t st = dnnl_success;
    tensors t;

    if (s->ready_weights && (s->ready_data || !data))
        return GW_OK;
    st = describe(&t, &c->opt, s->batch);
    if (st == dnnl_success && !s->ready_weights) {
        st = make_weights(s, &c->opt, &t);
        s->ready_weights = 1;
    }
    if (st == dnnl_success && data) {
        st = make_data(s, &t);
        s->ready_data = 1;
    }
    if (st != dnnl_success) {
        close_set(s);
        return refused(c, st);
    }
    GWT_TRY(reserve(c, &s->unpack_weights));
    return reserve(c, &s->pack_data);
}

/* ---- the interface --------------------------------------------------------------- */

gw_status gwt_conv_new(gwt_conv **out, const gwt_conv_options *options)
{
    gwt_conv *c = gwt_calloc(1, sizeof *c, "a convolution");
    dnnl_status_t st;

    *out = NULL;
    if (c == NULL)
        return GW_ERR_NOMEM;
    c->opt = *options;
    pthread_once(&engine_once, make_engine);
    st = engine_status;
    if (st == dnnl_success)
        st = dnnl_stream_create(&c->stream, engine, dnnl_stream_default_flags);
    if (st != dnnl_success) {
        gw_status failed = refused(c, st);
        gwt_free(c);
        return failed;
    }
    *out = c;
    return GW_OK;
}

void gwt_conv_free(gwt_conv *conv)
{
    if (conv == NULL)
        return;
    for (size_t i = 0; i < SETS; i++)
        close_set(&conv->sets[i]);
    dnnl_stream_destroy(conv->stream);
    gwt_free(conv->packed);
    gwt_free(conv);
}

gw_status gwt_conv_forward(gwt_conv *conv, size_t batch, const float *in,
                           const float *weight, const float *bias, float *out)
{
    const void *packed;
    dnnl_status_t st;
    set *s;

    GWT_TRY(find_set(conv, batch, &s));
    st = pack(conv, &s->pack_forward, weight, &packed);
    if (st == dnnl_success)
        st = run(conv, &s->forward, (const void *[]){in, packed, out, bias});
    return st == dnnl_success ? GW_OK : refused(conv, st);
}

static dnnl_status_t run_weights(gwt_conv *c, set *s, const float *in,
                                 const float *dout, float *dweight, float *dbias)
{
    void *to = s->unpack_weights.needed ? c->packed : dweight;

    TRY(run(c, &s->weights, (const void *[]){in, dout, to, dbias}));
    if (!s->unpack_weights.needed)
        return dnnl_success;
    return run(c, &s->unpack_weights.reorder, (const void *[]){to, dweight});
}

static dnnl_status_t run_data(gwt_conv *c, set *s, const float *weight,
                              const float *dout, float *din)
{
    const void *packed;

    TRY(pack(c, &s->pack_data, weight, &packed));
    return run(c, &s->data, (const void *[]){dout, packed, din});
}

gw_status gwt_conv_backward(gwt_conv *conv, size_t batch, const float *in,
                            const float *weight, const float *dout, float *dweight,
                            float *dbias, float *din)
{
    dnnl_status_t st;
    set *s;

    GWT_TRY(find_set(conv, batch, &s));
    GWT_TRY(complete(conv, s, din != NULL));
    st = run_weights(conv, s, in, dout, dweight, dbias);
    if (st == dnnl_success && din != NULL)
        st = run_data(conv, s, weight, dout, din);
    return st == dnnl_success ? GW_OK : refused(conv, st);
}

size_t gwt_compute_block(void)
{
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    unsigned avx512 = (unsigned)dnnl_cpu_isa_avx512_core;
    unsigned avx2 = (unsigned)dnnl_cpu_isa_avx2;

#if !defined(__x86_64__)
    return 1;
#endif
    if ((isa & avx512) == avx512)
        return 16;
    return (isa & avx2) == avx2 ? 8 : 1;
}
