/* SPDX-License-Identifier: Apache-2.0
 *
 * optimizer.c - SGD, AdaGrad, Adam, AdamW. To add one: write its step and add one entry
 * to the table.
 *
 * Each is one loop over the vectors, so that parameters, gradient and state cross
 * the memory bus once per step. */
#include "optim/optimizer.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* State that only decays, as that of inputs which are always 0, would end as subnormal
 * numbers, with which CPUs compute many times slower. Less than this moves no weight.
 */
#define SETTLED 1e-30f

static inline float settle(float state)
{
    return fabsf(state) < SETTLED ? 0.0f : state;
}

GWT_VECTOR static void sgd_plain(float *restrict x, const float *restrict g, size_t n,
                                 float lr, float decay)
{
    for (size_t i = 0; i < n; i++)
        x[i] -= lr * (g[i] + decay * x[i]);
}

/* v = momentum v + g, x -= lr v. */
GWT_VECTOR static void sgd_momentum(float *restrict x, const float *restrict g,
                                    float *restrict v, size_t n, float lr, float decay,
                                    float momentum)
{
    for (size_t i = 0; i < n; i++) {
        float vi = settle(momentum * v[i] + (g[i] + decay * x[i]));
        v[i] = vi;
        x[i] -= lr * vi;
    }
}

/* v = momentum v + g, x -= lr (g + momentum v). */
GWT_VECTOR static void sgd_nesterov(float *restrict x, const float *restrict g,
                                    float *restrict v, size_t n, float lr, float decay,
                                    float momentum)
{
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] + decay * x[i];
        float vi = settle(momentum * v[i] + gi);
        v[i] = vi;
        x[i] -= lr * (gi + momentum * vi);
    }
}

static void sgd_step(float *x, const float *g, float *const *slot, size_t n, double lr,
                     uint64_t t, const gwt_hyper *hyper)
{
    float decay = (float)hyper->weight_decay, momentum = (float)hyper->momentum;

    (void)t;
    if (hyper->momentum == 0.0)
        sgd_plain(x, g, n, (float)lr, decay);
    else if (hyper->nesterov)
        sgd_nesterov(x, g, slot[0], n, (float)lr, decay, momentum);
    else
        sgd_momentum(x, g, slot[0], n, (float)lr, decay, momentum);
}

/* s += g^2, x -= lr g / (sqrt(s) + 1e-10). */
GWT_VECTOR static void adagrad(float *restrict x, const float *restrict g,
                               float *restrict s, size_t n, float lr, float decay)
{
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] + decay * x[i];
        float si = s[i] + gi * gi;
        s[i] = si;
        x[i] -= lr * (gi / (sqrtf(si) + 1e-10f));
    }
}

static void adagrad_step(float *x, const float *g, float *const *slot, size_t n,
                         double lr, uint64_t t, const gwt_hyper *hyper)
{
    (void)t;
    adagrad(x, g, slot[0], n, (float)lr, (float)hyper->weight_decay);
}

/* The usual constants of Adam. */
static const double adam_beta2 = 0.999;
static const float adam_epsilon = 1e-8f;

/* m and s are the running means of g and g^2; rate and root carry the correction
 * for having begun at 0. Decay acts by way of the gradient, or on x itself, of which
 * the part `keep` stays. */
GWT_VECTOR static void adam(float *restrict x, const float *restrict g,
                            float *restrict m, float *restrict s, size_t n,
                            double beta1, float rate, float root, float decay,
                            float keep)
{
    const float b1 = (float)beta1, b2 = (float)adam_beta2;
    const float c1 = (float)(1.0 - beta1), c2 = (float)(1.0 - adam_beta2);

    for (size_t i = 0; i < n; i++) {
        float gi = g[i] + decay * x[i];
        float mi = settle(b1 * m[i] + c1 * gi);
        float si = settle(b2 * s[i] + c2 * (gi * gi));
        m[i] = mi;
        s[i] = si;
        x[i] = keep * x[i] - rate * (mi / (root * sqrtf(si) + adam_epsilon));
    }
}

/* Step t = 0, 1, ... of both kinds. The sync may have some of beta1. */
static void adam_any(float *x, const float *g, float *const *slot, size_t n, double lr,
                     uint64_t t, double lent, double decay, double keep)
{
    double beta1 = GWT_ADAM_BETA1 > lent ? GWT_ADAM_BETA1 - lent : 0.0;
    double steps = (double)(t + 1);
    double rate = lr / (1.0 - pow(beta1, steps));
    double root = 1.0 / sqrt(1.0 - pow(adam_beta2, steps));

    adam(x, g, slot[0], slot[1], n, beta1, (float)rate, (float)root, (float)decay,
         (float)keep);
}

static void adam_step(float *x, const float *g, float *const *slot, size_t n, double lr,
                      uint64_t t, const gwt_hyper *hyper)
{
    adam_any(x, g, slot, n, lr, t, hyper->lent, hyper->weight_decay, 1.0);
}

static void adamw_step(float *x, const float *g, float *const *slot, size_t n,
                       double lr, uint64_t t, const gwt_hyper *hyper)
{
    adam_any(x, g, slot, n, lr, t, hyper->lent, 0.0, 1.0 - lr * hyper->weight_decay);
}

static const gwt_optimizer table[] = {
    {.name = "sgd",
     .summary = "stochastic gradient descent, with --momentum",
     .takes = "momentum nesterov weight-decay",
     .slots = 1,
     .step = sgd_step},
    {.name = "adagrad",
     .summary = "learning rates per parameter that only fall",
     .takes = "weight-decay",
     .adaptive = 1,
     .slots = 1,
     .step = adagrad_step},
    {.name = "adam",
     .summary = "learning rates per parameter from running means",
     .takes = "weight-decay",
     .adaptive = 1,
     .beta1 = GWT_ADAM_BETA1,
     .slots = 2,
     .step = adam_step},
    {.name = "adamw",
     .summary = "adam with decoupled weight decay; 0.01 is usual",
     .takes = "weight-decay",
     .adaptive = 1,
     .decays_itself = 1,
     .beta1 = GWT_ADAM_BETA1,
     .slots = 2,
     .step = adamw_step},
};

static const gwt_hyper_row settings[] = {
    {.name = "momentum", .offset = offsetof(gwt_hyper, momentum)},
    {.name = "weight-decay", .offset = offsetof(gwt_hyper, weight_decay)},
    {.name = "nesterov",
     .offset = offsetof(gwt_hyper, nesterov),
     .is_switch = 1,
     .before = "off"},
};

const gwt_optimizer *gwt_optimizer_at(size_t i)
{
    return i < COUNT(table) ? &table[i] : NULL;
}

gw_status gwt_optimizer_find(const char *name, const gwt_optimizer **out)
{
    const char *names[COUNT(table)];

    for (size_t i = 0; i < COUNT(table); i++) {
        names[i] = table[i].name;
        if (strcmp(names[i], name) == 0) {
            *out = &table[i];
            return GW_OK;
        }
    }
    return gwt_fail_name("optimizer", name, names, COUNT(table), NULL);
}

int gwt_optimizer_takes(const gwt_optimizer *optimizer, const char *name)
{
    size_t len = strlen(name);

    for (const char *word = optimizer->takes; *word != '\0';) {
        size_t n = strcspn(word, " ");
        if (n == len && strncmp(word, name, len) == 0)
            return 1;
        word += n + (word[n] == ' ');
    }
    return 0;
}

const gwt_hyper_row *gwt_hyper_at(size_t i)
{
    return i < COUNT(settings) ? &settings[i] : NULL;
}

double gwt_hyper_value(const gwt_hyper *hyper, const gwt_hyper_row *row)
{
    const char *at = (const char *)hyper + row->offset;
    double real;
    int on;

    if (row->is_switch) {
        memcpy(&on, at, sizeof on);
        return on;
    }
    memcpy(&real, at, sizeof real);
    return real;
}

gw_status gwt_hyper_check(const gwt_hyper *hyper, const gwt_optimizer *optimizer)
{
    for (size_t i = 0; i < COUNT(settings); i++)
        if (settings[i].is_switch && gwt_hyper_value(hyper, &settings[i]) != 0.0 &&
            !gwt_optimizer_takes(optimizer, settings[i].name))
            return gw_fail(GW_ERR_ARG, "optimizer %s takes no --%s; leave it out",
                           optimizer->name, settings[i].name);
    if (hyper->nesterov && hyper->momentum == 0.0)
        return gw_fail(GW_ERR_ARG, "--nesterov on needs a --momentum above 0");
    return GW_OK;
}
