/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_advice.c - the advice in words: what to take, what it gains, what it costs, and
 * what is not known. */
#define _GNU_SOURCE
#include "common.h"
#include "plan/plan.h"
#include "progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_CAP = 48 };

/* ---- numbers -----------------------------------------------------------------------
 */

const char *gwc_rate_text(double bytes_per_second, char text[32])
{
    double bits = 8.0 * bytes_per_second;

    if (bytes_per_second == 0.0)
        snprintf(text, 32, "-");
    else if (isinf(bytes_per_second))
        snprintf(text, 32, "always");
    else if (bits >= 0.9995e9)
        snprintf(text, 32, "%.2g Gbit/s", bits / 1e9);
    else
        snprintf(text, 32, "%.3g Mbit/s", bits / 1e6);
    return text;
}

static const char *time_text(double seconds, char text[TEXT_CAP])
{
    if (seconds < 0.9995e-3)
        snprintf(text, TEXT_CAP, "%.3g us", 1e6 * seconds);
    else if (seconds < 0.9995)
        snprintf(text, TEXT_CAP, "%.3g ms", 1e3 * seconds);
    else if (seconds < 300.0)
        snprintf(text, TEXT_CAP, "%.3g s", seconds);
    else if (seconds < 3.0 * 3600.0)
        snprintf(text, TEXT_CAP, "%.0f minutes", seconds / 60.0);
    else
        snprintf(text, TEXT_CAP, "%.3g hours", seconds / 3600.0);
    return text;
}

/* "25.6 million". */
static const char *count_text(double count, char text[TEXT_CAP])
{
    if (count >= 0.9995e9)
        snprintf(text, TEXT_CAP, "%.3g billion", count / 1e9);
    else if (count >= 0.9995e5)
        snprintf(text, TEXT_CAP, "%.*g million", count < 1e6 ? 1 : 3, count / 1e6);
    else
        snprintf(text, TEXT_CAP, "%.0f", count);
    return text;
}

/* ---- what it gains -----------------------------------------------------------------
 */

static int is_loss(const gwc_plan *plan)
{
    return !plan->here && gwc_plan_best(plan)->of_one < 1.0;
}

static void say_which(const gwc_plan *plan, FILE *to)
{
    const gwc_plan_row *best = gwc_plan_best(plan);

    if (is_loss(plan))
        fprintf(
            to,
            "Train on one machine: with no method that we would advise are %d "
            "workers on this link as fast as one. A faster link would help, or more "
            "computing per step, such as a larger batch. The best of the methods is "
            "%s. ",
            plan->job.workers, best->sync);
    else
        fprintf(to, "Take %s. ", best->sync);
    if (best == gwc_plan_dense(plan))
        fprintf(to,
                "No method that keeps the workers' models equal and kept its accuracy "
                "in our runs is %.0f %% faster here, and no other that we would advise "
                "is %.1f times as fast. ",
                100.0 * (GWC_WORTH_SAFE - 1.0), GWC_WORTH_RISKY);
}

static void say_step(const gwc_plan *plan, FILE *to)
{
    const gwc_plan_row *best = gwc_plan_best(plan), *dense = gwc_plan_dense(plan);
    char time[TEXT_CAP], bytes[16];

    fprintf(to, "A step takes about %s", time_text(best->result.step[0], time));
    if (best != dense)
        fprintf(to, " instead of %s with dense",
                time_text(dense->result.step[0], time));
    fprintf(to, ", and a worker sends %s", gwc_bytes(best->result.bytes, bytes));
    if (best != dense)
        fprintf(to, " instead of %s", gwc_bytes(dense->result.bytes, bytes));
    fputs(". ", to);
}

static void say_of_one(const gwc_plan *plan, FILE *to)
{
    const gwc_plan_row *best = gwc_plan_best(plan), *dense = gwc_plan_dense(plan);

    if (plan->here) {
        fputs("The gain over one worker is not computed, because all workers share "
              "this machine. ",
              to);
        return;
    }
    fprintf(to,
            "Together the %d workers then do %.2g times the work of one machine, "
            "counted in samples per second",
            plan->job.workers, best->of_one);
    if (best != dense)
        fprintf(to, "; with dense it would be %.2g times", dense->of_one);
    fputs(". ", to);
}

static void say_crossing(const gwc_plan *plan, FILE *to)
{
    double from = plan->dense_from, overlapped = plan->dense_from_overlapped;
    char rate[32];

    if (gwc_plan_best(plan) == gwc_plan_dense(plan))
        return;
    if (isinf(from))
        fputs("With this delay dense is not faster at any rate up to 100 Gbit/s, the "
              "highest that was tried",
              to);
    else
        fprintf(to, "From about %s on dense is faster", gwc_rate_text(from, rate));
    if (overlapped > 0.0 && isfinite(overlapped))
        fprintf(to,
                "; if its exchange hid behind computing entirely, which is the best "
                "case, it would be from about %s on",
                gwc_rate_text(overlapped, rate));
    fputs(". ", to);
}

/* ---- what it costs -----------------------------------------------------------------
 */

/* "0.30 points of accuracy below dense". */
static void say_points(const gwc_results *r, FILE *to)
{
    const double nothing = 0.005;

    if (r->best - r->worst >= nothing && r->worst < 0.0 && r->best >= 0.0)
        fprintf(to, "between %.2f points of accuracy below and %.2f above dense",
                -r->worst, r->best);
    else if (r->best - r->worst >= nothing)
        fprintf(to, "%.2f to %.2f points of accuracy %s dense",
                fmin(fabs(r->worst), fabs(r->best)),
                fmax(fabs(r->worst), fabs(r->best)),
                r->worst < 0.0 ? "below" : "above");
    else if (fabs(r->worst) < nothing)
        fputs("level with dense", to);
    else
        fprintf(to, "%.2f points of accuracy %s dense", fabs(r->worst),
                r->worst < 0.0 ? "below" : "above");
}

static void say_not_known(const gwc_plan *plan, FILE *to)
{
    char count[2][TEXT_CAP];
    int most = gwc_results_workers_most();
    double params = gwc_results_params_most();

    if ((double)plan->job.params > params)
        fprintf(
            to,
            "The models in our runs have at most %s parameters and yours has %s, so "
            "we do not know what it costs you",
            count_text(params, count[0]),
            count_text((double)plan->job.params, count[1]));
    else
        fputs("Another model or other data may lose more, or less", to);
    if (plan->job.workers > most)
        fprintf(to, ", and no run had more than %d workers", most);
    fputs(": compare a short run of your own with dense first. ", to);
}

static void say_accuracy(const gwc_plan *plan, FILE *to)
{
    const gwc_plan_row *best = gwc_plan_best(plan);
    const gwc_results *r = &best->measured;

    if (best == gwc_plan_dense(plan))
        return;
    fputs("In our own runs it ended ", to);
    say_points(r, to);
    fprintf(to, " (%s, %s, %d workers, means of three seeds; see %s). ", r->trainings,
            r->optimizer, r->workers, r->page);
    say_not_known(plan, to);
    if (best->drifts)
        fputs("The workers' models drift apart between exchanges, so evaluate and save "
              "the average, not one worker's model. ",
              to);
    if (best->warning[0] != '\0')
        fprintf(to, "gradwire will warn: %s. ", best->warning);
}

static void say_first_steps(const gwc_plan *plan, FILE *to)
{
    const gwc_plan_row *best = gwc_plan_best(plan);
    char time[TEXT_CAP], bytes[16];

    if (strcmp(best->runs_as, best->sync) != 0)
        fprintf(to, "With %s gradwire runs it as %s. ", plan->optimizer, best->runs_as);
    if (best->first_steps > 0)
        fprintf(
            to, "The first %llu steps are dense and take about %s together. ",
            (unsigned long long)best->first_steps,
            time_text((double)best->first_steps * gwc_plan_dense(plan)->result.step[0],
                      time));
    if (best->ladder_steps > 0)
        fprintf(
            to,
            "In the next %llu the density falls from 0.25 to the one asked for, and "
            "a worker sends about %s in all of them. ",
            (unsigned long long)best->ladder_steps,
            gwc_bytes(best->ladder_times * best->result.bytes, bytes));
}

/* ---- what else there is ------------------------------------------------------------
 */

static void say_other(const gwc_plan_row *row, FILE *to)
{
    char time[TEXT_CAP];

    fprintf(to, "%s would take %s per step", row->sync,
            time_text(row->result.step[0], time));
    if (row->of_one > 0.0)
        fprintf(to, " (%.2g times the work of one machine)", row->of_one);
}

static void say_others(const gwc_plan *plan, FILE *to)
{
    const gwc_plan_row *unknown = gwc_plan_faster(plan, GWC_TRUST_UNKNOWN);
    const gwc_plan_row *lossy = gwc_plan_faster(plan, GWC_TRUST_LOSSY);

    if (unknown != NULL) {
        say_other(unknown, to);
        fprintf(to,
                ", but %swe have not measured its accuracy with such an optimizer. ",
                unknown->drifts ? "it lets the models drift apart, and " : "");
    }
    if (lossy != NULL) {
        say_other(lossy, to);
        if (lossy->measured.found)
            fprintf(to, ", but lost %.2f points in our runs. ", -lossy->measured.worst);
        else
            fprintf(to, ", but gradwire warns: %s. ", lossy->warning);
    }
}

/* Said where exchanging in every step costs more than a tenth of the time. */
static void say_outer(const gwc_plan *plan, FILE *to)
{
    gwc_plan_outer_advice outer;
    char time[TEXT_CAP];

    if (gwc_plan_dense(plan)->result.step[0] < 1.1 * plan->job.compute ||
        !gwc_plan_outer(plan, &outer))
        return;
    fprintf(
        to,
        "Of the methods with local steps and an outer step, %s suits this link: an "
        "exchange takes %s, which is %.0f %% of the time with a period of %llu "
        "steps. In full it is %s. This assumes that loss grows with the period, so "
        "it is the shortest (from 5 to 500 steps) with which exchanges take a tenth "
        "of the time; and that sending fewer entries is better than a period of "
        "more than 100 steps. docs/results-outer.md has what short runs lost. ",
        outer.sync, time_text(outer.exchange, time), 100.0 * outer.part,
        (unsigned long long)outer.period, outer.in_full);
    if (outer.started[0] != '\0')
        fprintf(to,
                "If the model is not trained yet, %s with a tenth of all steps as N "
                "lost far less in our runs. ",
                outer.started);
}

static void say_assumed(const gwc_plan *plan, FILE *to)
{
    char time[2][TEXT_CAP];

    fprintf(
        to,
        "Assumed: %s; every step computes %s (%s); nothing else uses the link%s; "
        "and the exchange does not overlap with computing, except with delay, where "
        "it runs beside further steps. Dense can overlap with backward: "
        "its step would then take %s at the least. Gradients were made up, and "
        "coding was timed on this machine's processor.",
        plan->here ? "the workers share this machine's processors"
                   : "every worker has a host of its own",
        time_text(plan->job.compute, time[0]),
        plan->compute_measured ? "measured here" : "as given",
        plan->measured_with != NULL ? ", which was measured" : "",
        time_text(gwc_plan_overlapped(plan, 0), time[1]));
}

char *gwc_plan_words(const gwc_plan *plan)
{
    char *text = NULL;
    size_t len;
    FILE *to = open_memstream(&text, &len);

    if (to == NULL)
        return NULL;
    if (plan->job.workers == 1)
        fputs("Take dense. One worker exchanges nothing, so every other method only "
              "costs time.",
              to);
    else {
        say_which(plan, to);
        say_step(plan, to);
        say_of_one(plan, to);
        say_accuracy(plan, to);
        say_first_steps(plan, to);
        say_crossing(plan, to);
        say_others(plan, to);
        say_outer(plan, to);
        say_assumed(plan, to);
    }
    if (fclose(to) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- the lines ---------------------------------------------------------------------
 */

static void append(char line[GWC_LINE_CAP], const char *flag, const char *value)
{
    size_t len = strlen(line);
    const char *quote = strpbrk(value, " '\"$&;|<>*?()") != NULL ? "'" : "";

    snprintf(line + len, GWC_LINE_CAP - len, " %s %s%s%s", flag, quote, value, quote);
}

static void append_model(const gwc_plan *plan, char line[GWC_LINE_CAP])
{
    char number[32];

    if (!plan->trainer_has_it)
        return;
    append(line, "--model", plan->model);
    if (plan->data == NULL)
        return;
    append(line, "--data", plan->data);
    if (plan->data_dir != NULL)
        append(line, "--data-dir", plan->data_dir);
    snprintf(number, sizeof number, "%llu", (unsigned long long)plan->batch);
    append(line, "--batch", number);
}

void gwc_plan_train_line(const gwc_plan *plan, char line[GWC_LINE_CAP])
{
    const gwc_plan_row *best = gwc_plan_best(plan);
    char number[32];

    if (plan->here || plan->job.workers == 1)
        snprintf(line, GWC_LINE_CAP, "gradwire train --workers %d", plan->job.workers);
    else
        snprintf(line, GWC_LINE_CAP, "mpirun -n %d --host HOSTS gradwire train",
                 plan->job.workers);
    append_model(plan, line);
    append(line, "--sync", best->sync);
    append(line, "--optimizer", plan->optimizer);
    if (!plan->adaptive) {
        snprintf(number, sizeof number, "%g", plan->momentum);
        append(line, "--momentum", number);
    }
    if (plan->here)
        append(line, "--link", plan->link);
}

void gwc_plan_torch_line(const gwc_plan *plan, char line[GWC_LINE_CAP])
{
    const gwc_plan_row *best = gwc_plan_best(plan);

    if (best == gwc_plan_dense(plan))
        snprintf(line, GWC_LINE_CAP,
                 "plain DistributedDataParallel; there is nothing to attach");
    else
        snprintf(line, GWC_LINE_CAP,
                 "handle = gradwire.attach(model, \"%s\", optimizer)", best->sync);
}
