/* SPDX-License-Identifier: Apache-2.0
 *
 * advise.c - which spec to take with which optimizer.
 *
 * Specs that choose entries of gradients for themselves send them late, as sums.
 *
 *   SGD with momentum  It goes in front of the selection, +momentum:M. The first
 *                      steps are dense, the next go down a ladder of densities, and
 *                      merges keep what loses.
 *
 *   adaptive           The size of late sums is not that of gradients, so the
 *                      changes of the model are exchanged, as much longer as the
 *                      noise of workers makes their average too short, and some of
 *                      Adam's beta1 goes in front of the selection:
 *                      update:scale=auto+SPEC+momentum:M,dampening=M. The first
 *                      changes are sent whole, and the ladder follows.
 *
 *   SGD with momentum  A method that stands alone has a momentum of its own: that is a
 *   or adaptive        warning.
 *
 *   SGD without        Late sums act like momentum by themselves: nothing to do.
 *
 * A spec that says something of its own about what would be changed is left alone.
 * docs/choosing.md has the measurements behind the rules. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sync/beside/late.h"
#include "sync/momentum.h"
#include "sync/ramp.h"

/* Dense steps at the beginning: by them the model has left the place where gradients
 * are largest and change most. Fewer give less with 8 workers, more cost bytes. */
#define FIRST_STEPS "64"

/* Below this part of the entries up to a point was lost with 8 workers, and more in
 * short runs of larger models. */
#define SPARSE_BELOW 0.005

static bool is_late(const gwi_spec *spec)
{
    return gwi_sends_lists(spec) && spec->subject == GWI_GRADIENT &&
           gwi_keeps_residual(spec) && !gwi_estimates(spec);
}

/* Coordinates that all workers have in common wait as long, but the choice does not
 * look at their values, so that momentum in front of it would not make up for that. */
static bool waits_by_chance(const gwi_spec *spec)
{
    return !gwi_sends_lists(spec) && spec->subject == GWI_GRADIENT &&
           gwi_keeps_residual(spec) && !gwi_estimates(spec) &&
           gwi_selector_of(spec)->density(spec) < 1;
}

/* What such a spec keeps is a momentum of its own, and nothing can be put before it or
 * behind it. */
static bool stands_alone(const gwi_spec *spec)
{
    return spec->stages[0]->role == GWI_ROLE_ALL;
}

static bool gives_signs(const gwi_spec *spec)
{
    return gwi_outer_of(spec)->gradient != NULL;
}

/* Puts the three together into a->spec, if that is a spec. */
static gw_status compose(gw_advice *a, const char *before, const char *text,
                         const char *behind)
{
    char made[sizeof a->spec];
    int len = snprintf(made, sizeof made, "%s%s%s", before, text, behind);

    if (len < 0 || (size_t)len >= sizeof made)
        return gw_fail(GW_ERR_SPEC, "'%s%s%s' is too long for a spec", before, text,
                       behind);
    GWI_TRY(gw_spec_check(made, NULL, 0));
    memcpy(a->spec, made, sizeof made);
    return GW_OK;
}

/* The first stage with one option more, if it takes it and the text has not said it. */
static void add_option(char *text, size_t cap, const char *key, const char *value)
{
    size_t first = strcspn(text, "+");
    char made[sizeof((gw_advice *)0)->spec];
    int len = snprintf(made, sizeof made, "%.*s,%s=%s%s", (int)first, text, key, value,
                       text + first);
    gwi_spec spec;

    if (strstr(text, key) == NULL && len >= 0 && (size_t)len < cap &&
        (size_t)len < sizeof made && gwi_spec_parse(made, &spec) == GW_OK)
        memcpy(text, made, (size_t)len + 1);
}

/* How much of a text is before "+check", which comes last. */
static size_t before_check(const char *text)
{
    const char *check = strstr(text, "+check");

    return check != NULL ? (size_t)(check - text) : strlen(text);
}

/* The first rung of a ladder sends a quarter of the entries. Where every list goes to
 * all workers, more than so many of them make it dearer than dense steps. */
#define MOST_ON_LADDER 8

/* The first steps are whole, and a ladder of densities follows, unless the text says
 * how the run begins. */
static void add_beginning(const gwi_spec *spec, const gw_optimizer_info *opt,
                          char *text, size_t cap)
{
    const gwi_exchange *exchange = gwi_exchange_of(spec);
    bool dear = exchange->gathers != NULL && exchange->gathers(spec) &&
                opt->workers > MOST_ON_LADDER;

    if (strstr(text, "warmup") != NULL || strstr(text, "ladder") != NULL)
        return;
    add_option(text, cap, "warmup", FIRST_STEPS);
    if (!dear)
        add_option(text, cap, "ladder", FIRST_STEPS);
}

/* Where entries lose on their way, one velocity for all wants them to stay where they
 * were merged. */
static gw_status advise_momentum(const gwi_spec *spec, const char *text,
                                 const gw_optimizer_info *opt, gw_advice *a)
{
    char changed[sizeof a->spec], stage[sizeof a->spec];

    size_t stages = before_check(text);
    snprintf(changed, sizeof changed, "%.*s", (int)stages, text);
    add_beginning(spec, opt, changed, sizeof changed);
    add_option(changed, sizeof changed, "putback", "keep");
    snprintf(stage, sizeof stage, "+momentum:%.9g%s", opt->momentum,
             opt->nesterov ? ",nesterov=on" : "");
    if (opt->dampening > 0)
        snprintf(stage + strlen(stage), sizeof stage - strlen(stage), ",dampening=%.9g",
                 opt->dampening);
    snprintf(stage + strlen(stage), sizeof stage - strlen(stage), "%s", text + stages);
    GWI_TRY(compose(a, "", changed, stage));
    a->takes_momentum = 1;
    snprintf(a->reason, sizeof a->reason,
             "the optimizer's momentum of %g moves in front of the selection, since "
             "entries are sent late",
             opt->momentum);
    return GW_OK;
}

/* How much of beta1 goes in front of the selection. A running mean of what is sent late
 * is later still; all of it in front was 0.4 points lower in one run with 4 workers. */
static const double moved_part = 2.0 / 3;

/* A warm-up or ladder of the spec's own says how the run begins. */
static gw_status advise_update(const gwi_spec *spec, const char *text,
                               const gw_optimizer_info *opt, gw_advice *a)
{
    size_t stages = before_check(text);
    double moved = moved_part * opt->beta1;
    char changed[sizeof a->spec], behind[sizeof a->spec] = "";

    snprintf(changed, sizeof changed, "%.*s", (int)stages, text);
    add_beginning(spec, opt, changed, sizeof changed);
    if (moved > 0)
        snprintf(behind, sizeof behind, "+momentum:%.4g,dampening=%.4g", moved, moved);
    snprintf(behind + strlen(behind), sizeof behind - strlen(behind), "%s",
             text + stages);
    GWI_TRY(compose(a, "update:scale=auto+", changed, behind));
    snprintf(a->reason, sizeof a->reason,
             "with an optimizer that keeps the size of gradients, each worker steps on "
             "its own gradient and the changes of the model are exchanged");
    return GW_OK;
}

/* ---- what is known to cost accuracy ---------------------------------------- */

/* Where results are used a step late (delay=1), only gradients can be exchanged, so a
 * spec cannot be fitted to an adaptive optimizer. */
static const char *warning_of_delay(const gwi_spec *spec, const gw_optimizer_info *opt)
{
    if (!gwi_is_late(spec))
        return "";
    if (opt->adaptive && is_late(spec) && !stands_alone(spec) &&
        !gwi_has_momentum(spec))
        return "with delay=1 late sums meet the optimizer as they are, which cost 2.3 "
               "points of accuracy in our runs: take the same without delay, which "
               "gradwire fits to the optimizer (docs/methods.md)";
    if (opt->momentum > 0)
        return "results that are used a step late cost 1 to 2 points of accuracy with "
               "momentum in our runs: leave out delay=1, unless the link takes as long "
               "as a step (docs/methods.md)";
    return "";
}

static const char *warning_of_late(const gwi_spec *spec, const gw_optimizer_info *opt)
{
    if (stands_alone(spec))
        return opt->momentum > 0 ? "the method has a momentum of its own: set that of "
                                   "the optimizer to 0 (docs/methods.md)"
                                 : "";
    if (gwi_has_momentum(spec) && opt->momentum > 0)
        return "the spec and the optimizer both have momentum: set that of the "
               "optimizer to 0, or leave it to gradwire (docs/choosing.md)";
    if (gwi_selector_of(spec)->density(spec) < SPARSE_BELOW)
        return "so low a density cost up to a point of accuracy in our runs, and more "
               "in short ones of larger models; 0.01 costs less (docs/choosing.md)";
    return "";
}

static const char *warning_of_results(const gwi_spec *spec,
                                      const gw_optimizer_info *opt)
{
    if (gwi_exchange_of(spec)->differs && gwi_resync(spec) == 0)
        return opt->momentum > 0
                   ? "models drift apart, and diverge with momentum: take resync=8, or "
                     "another method (docs/methods.md)"
                   : "models drift apart: take resync=8, or another method "
                     "(docs/methods.md)";
    if (gives_signs(spec) && opt->adaptive)
        return "results are signs, which have no size to adapt to: take SGD, whose "
               "rate "
               "is then the length of a step (docs/methods.md)";
    if (gwi_coder_of(spec) == &gwi_coder_signs && spec->subject == GWI_GRADIENT &&
        (opt->adaptive || opt->momentum > 0))
        return "signs of gradients cost 2 to 7 points of accuracy with momentum and "
               "Adam in our runs: take 'qsgd:4', or SGD without momentum "
               "(docs/methods.md)";
    if (waits_by_chance(spec) && opt->momentum > 0)
        return "late sums act like momentum, and diverged with that of the optimizer: "
               "set it to 0, or take 'topk' (docs/methods.md)";
    return "";
}

/* A count that stands in some stage of a spec; 0 if no stage shows it. */
static uint64_t count_of(const gwi_spec *spec, const char *name)
{
    gwi_shown_key shown;

    for (int i = 0; i < spec->count; i++)
        for (size_t k = 0; gwi_stage_key(spec->stages[i], k, &shown); k++)
            if (shown.key->value == GWI_COUNT && strcmp(shown.key->name, name) == 0) {
                uint64_t count;
                const char *options = gwi_options_of(spec, shown.kind);
                memcpy(&count, options + shown.key->at, sizeof count);
                return count;
            }
    return 0;
}

/* Rounding at random of whole gradients: with 2 bits, about a point was lost, and with
 * a noise of 7 and more, which is 3 bits and norm=l2, 2 to 3 points and more. */
#define COARSE_NOISE 5.0

static bool rounds_coarsely(const gwi_spec *spec)
{
    const gwi_coder *coder = gwi_coder_of(spec);

    return coder->noise != NULL && !gwi_sends_lists(spec) &&
           spec->subject == GWI_GRADIENT && !gwi_keeps_residual(spec) &&
           (coder->noise(spec) >= COARSE_NOISE || count_of(spec, "bits") == 2);
}

/* Estimates of gradients were 3 to 6 points behind with 0.4 and 1.2 % of the entries;
 * more were not measured. Rank 1 was 2 to 3 points behind with momentum and Adam. */
#define ESTIMATES_BELOW 0.02

static const char *warning_of_approximations(const gwi_spec *spec,
                                             const gw_optimizer_info *opt)
{
    if (gwi_estimates(spec) && gwi_sends_lists(spec) &&
        gwi_selector_of(spec)->density(spec) < ESTIMATES_BELOW)
        return "estimates lag behind the gradients, which cost 3 to 6 points in our "
               "runs: take it without '+ef21' (docs/results-methods.md)";
    if (rounds_coarsely(spec) && (opt->momentum > 0 || opt->adaptive))
        return "rounding this coarse cost 1 to 3 points of accuracy with momentum and "
               "Adam in our runs, and diverged with 2 bits of norm=l2: take 'qsgd:4' "
               "(docs/methods.md)";
    if (count_of(spec, "rank") == 1 && (opt->momentum > 0 || opt->adaptive))
        return "rank 1 cost 2 to 3 points of accuracy with momentum and Adam in our "
               "runs: take 'topk:0.01' (docs/results-methods.md)";
    return "";
}

/* Periods from which averages of models cost more than a point: with 4 workers, and
 * with an adaptive optimizer and 8 of them. */
enum { LONG_PERIOD = 30, LONG_WITH_MANY = 8, MANY_WORKERS = 8 };

static bool drifts_far(const gwi_spec *spec, const gw_optimizer_info *opt)
{
    uint64_t period = count_of(spec, "every");

    return gwi_schedule_of(spec) == &gwi_schedule_local && spec->subject == GWI_MODEL &&
           period != GWI_COUNT_WORD &&
           (period >= LONG_PERIOD || (opt->adaptive && period >= LONG_WITH_MANY &&
                                      opt->workers >= MANY_WORKERS));
}

static const char *warning_of_drift(const gwi_spec *spec, const gw_optimizer_info *opt)
{
    if (!drifts_far(spec, opt))
        return "";
    return count_of(spec, "every") >= LONG_PERIOD
               ? "so long a period cost 1 to 2 points of accuracy in our runs: take "
                 "'local:3' to 'local:8', or 'gtopk:0.01' (docs/results-methods.md)"
               : "with such an optimizer and so many workers this period cost 1.5 "
                 "points of accuracy: take 'local:3' or 'qsgd:4' "
                 "(docs/results-optimizers.md)";
}

/* Periods of an outer step with momentum that were measured from random weights. */
#define LONG_OUTER 10

/* Whoever says when local steps start, 0 for a model that is trained, has thought of
 * it. */
static bool starts_apart(const gwi_spec *spec, const char *text,
                         const gw_optimizer_info *opt)
{
    return gwi_schedule_of(spec) == &gwi_schedule_local && gwi_steps_outside(spec) &&
           !gwi_leaves_out(spec) && count_of(spec, "every") >= LONG_OUTER &&
           count_of(spec, "start") == 0 && strstr(text, "start=") == NULL &&
           (opt->adaptive || opt->momentum > 0);
}

static void warn_of_start(const gw_optimizer_info *opt, gw_advice *a)
{
    char steps[24] = "N";

    if (opt->steps >= 10)
        snprintf(steps, sizeof steps, "%" PRIu64, opt->steps / 10);
    snprintf(a->warning, sizeof a->warning,
             "from random weights the loss was 14 %% above that of 'dense', and 3 %% "
             "with a tenth of all steps dense at first: add start=%s, or start=0 if "
             "the model is trained already (docs/results-outer.md)",
             steps);
}

/* A run that ends before the density that was asked for is reached sends most of what
 * 'dense' does. */
static void warn_of_length(const gw_optimizer_info *opt, gw_advice *a)
{
    gwi_spec used;
    uint64_t length;

    if (opt->steps == 0 || gwi_spec_parse(a->spec, &used) != GW_OK ||
        !gwi_sends_lists(&used))
        return;
    length = gwi_ramp_length(&used);
    if (length > 0 && opt->steps <= length)
        snprintf(a->warning, sizeof a->warning,
                 "the first %" PRIu64 " steps send more than this density, and the run "
                 "has no more than %" PRIu64 ": take 'qsgd:4', or a shorter "
                 "warmup and ladder (docs/choosing.md)",
                 length, opt->steps);
}

/* The first thing that is known. */
static void warn(const gwi_spec *spec, const char *text, const gw_optimizer_info *opt,
                 gw_advice *a)
{
    const char *known[] = {
        warning_of_results(spec, opt),
        warning_of_delay(spec, opt),
        is_late(spec) ? warning_of_late(spec, opt) : "",
        warning_of_approximations(spec, opt),
        warning_of_drift(spec, opt),
    };

    for (size_t i = 0; i < sizeof known / sizeof *known && a->warning[0] == '\0'; i++)
        snprintf(a->warning, sizeof a->warning, "%s", known[i]);
    if (a->warning[0] == '\0' && starts_apart(spec, text, opt))
        warn_of_start(opt, a);
    if (a->warning[0] == '\0')
        warn_of_length(opt, a);
}

/* ---- the answer ------------------------------------------------------------------ */

/* Callers that were built before `steps` was added have a shorter struct. */
static gw_status read_optimizer(const gw_optimizer_info *opt, gw_optimizer_info *own)
{
    size_t least = offsetof(gw_optimizer_info, steps);

    if (opt == NULL || opt->struct_size < least || opt->struct_size > sizeof *own)
        return gw_fail(GW_ERR_ARG,
                       "gw_spec_advise() needs an optimizer with its struct_size");
    memset(own, 0, sizeof *own);
    memcpy(own, opt, opt->struct_size);
    return GW_OK;
}

static gw_status check_arguments(const gw_optimizer_info *opt, const gw_advice *a)
{
    if (a == NULL || a->struct_size != sizeof *a)
        return gw_fail(GW_ERR_ARG, "gw_spec_advise() needs room for advice, with its "
                                   "struct_size");
    if (!(opt->momentum >= 0 && opt->momentum < 1) || opt->workers < 1 ||
        !(opt->beta1 >= 0 && opt->beta1 < 1))
        return gw_fail(GW_ERR_ARG,
                       "momentum %g, beta1 %g and %d workers are no optimizer's",
                       opt->momentum, opt->beta1, opt->workers);
    return GW_OK;
}

gw_status gw_spec_advise(const char *text, const gw_optimizer_info *optimizer,
                         gw_advice *advice)
{
    gw_advice a = {.struct_size = sizeof a};
    gw_optimizer_info own;
    const gw_optimizer_info *opt = &own;
    gwi_spec spec;

    GWI_TRY(read_optimizer(optimizer, &own));
    GWI_TRY(check_arguments(opt, advice));
    GWI_TRY(gwi_spec_parse(text, &spec));
    GWI_TRY(compose(&a, "", text, ""));
    if (is_late(&spec) && !stands_alone(&spec) && !gwi_has_momentum(&spec)) {
        if (opt->adaptive && !gwi_is_late(&spec))
            GWI_TRY(advise_update(&spec, text, opt, &a));
        else if (!opt->adaptive && opt->momentum > 0)
            GWI_TRY(advise_momentum(&spec, text, opt, &a));
    }
    warn(&spec, text, opt, &a);
    *advice = a;
    return GW_OK;
}
