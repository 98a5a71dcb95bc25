/* SPDX-License-Identifier: Apache-2.0
 *
 * train_table.c - what "gradwire train" prints before its first step and at the end. */
#define _GNU_SOURCE
#include "train_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "terminal.h"

static double per_step_ms(const gwt_summary *s, double seconds)
{
    return s->steps > 0 ? 1e3 * seconds / (double)s->steps : 0.0;
}

static void print_bytes(FILE *to, const gwt_config *c, const gwt_summary *s)
{
    double dense = gwt_dense_bytes(s->params, c->workers);
    double sent = (double)s->stats.bytes_sent / (double)(s->steps > 0 ? s->steps : 1);
    char text[16];

    fprintf(to, "sent       %s per step and worker", gwc_bytes(sent, text));
    if (dense > 0.0)
        fprintf(to, ", %.3g %% of a dense ring's", 100.0 * sent / dense);
    putc('\n', to);
}

static void print_accuracy(FILE *to, const gwt_summary *s)
{
    int classes = !isnan(s->test_accuracy); /* not numbers */

    if (classes)
        fprintf(to, "accuracy   %.4f on the test set", s->test_accuracy);
    if (classes && !s->equal)
        fprintf(to, " (average model); workers' own %.4f, drift %.3g",
                s->test_accuracy_workers, s->drift);
    if (!isnan(s->perplexity))
        fprintf(to, "\nperplexity %.2f on the test set", s->perplexity);
    if (!isnan(s->perplexity_workers))
        fprintf(to, " (average model); workers' own %.2f", s->perplexity_workers);
    fprintf(to, "%sloss       %.4f training, %.4f test\n", classes ? "\n" : "",
            s->train_loss, s->test_loss);
}

static const char *kind_of_workers(const gwt_config *c)
{
    bool one = c->workers == 1;

    if (c->comm != NULL && strstr(gw_comm_transport(c->comm), "mpi") != NULL)
        return one ? "MPI rank" : "MPI ranks";
    if (c->comm != NULL)
        return one ? "member" : "members";
    if (c->spawn == GW_SPAWN_THREADS)
        return one ? "thread" : "threads";
    return one ? "process" : "processes";
}

static void print_rows(FILE *to, const gwt_config *c, const gwt_job *job)
{
    const gwt_summary *s = gwt_job_summary(job);

    fprintf(to, "model      %s, %" PRIu64 " parameters\n", c->model, s->params);
    fprintf(to, "data       %s\n", c->data);
    fprintf(to, "sync       %s\n", s->sync);
    fprintf(to, "workers    %d %s%s%s, %s\n", c->workers, kind_of_workers(c),
            c->link != NULL ? " on " : "", c->link != NULL ? c->link : "", gw_isa());
    fprintf(to, "steps      %" PRIu64 " (%.4g epoch%s)", s->steps, s->epochs,
            s->epochs == 1.0 ? "" : "s");
    if (s->skipped > 0)
        fprintf(to, ", %" PRIu64 " skipped", s->skipped);
    fputs(s->stopped ? ", stopped\n" : "\n", to);
    print_accuracy(to, s);
    fprintf(to, "time       %.2f s: compute %.2f, sync %.2f, test %.2f\n", s->wall_s,
            s->compute_s, s->sync_s, s->eval_s);
    fprintf(to,
            "per step   compute %.3f ms, sync %.3f ms (encode %.3f, wait %.3f, decode "
            "%.3f)\n",
            per_step_ms(s, s->compute_s), per_step_ms(s, s->sync_s),
            per_step_ms(s, s->stats.encode_seconds),
            per_step_ms(s, s->stats.wait_seconds),
            per_step_ms(s, s->stats.decode_seconds));
    print_bytes(to, c, s);
    if (isfinite(s->tokens_per_s))
        fprintf(to, "speed      %.0f tokens/s of all workers\n", s->tokens_per_s);
    fprintf(to, "model hash %016" PRIx64 "\n", s->model_hash);
    fprintf(to, "run        %s\n", gwt_job_directory(job));
}

/* The width of the first column, below which long rows go on. */
enum { TITLE_WIDTH = 11 };

void gwc_train_table(const gwt_config *c, const gwt_job *job)
{
    char *text = NULL;
    size_t len;
    FILE *stream = open_memstream(&text, &len);

    if (stream == NULL)
        return;
    print_rows(stream, c, job);
    if (fclose(stream) == 0)
        gwc_print_wrapped(stdout, text, TITLE_WIDTH);
    free(text);
}

/* ---- before and after --------------------------------------------------------- */

/* The method with all its settings, unless that is what --sync says: codes of others
 * give the same names other ones. */
static void show_sync(const gwt_config *config, const gwt_job *job)
{
    char full[GWT_SPEC_CAP];

    if (gw_spec_check(gwt_job_sync(job), full, sizeof full) == GW_OK &&
        strcmp(full, config->sync) != 0)
        gwc_printf(stderr, 6, "sync: %s\n", full);
}

void gwc_train_start(const gwt_config *config, const gwt_job *job, int quiet)
{
    uint64_t step;
    const char *resumed = gwt_job_resumed(job, &step), *at = gwt_job_warnings(job);

    while (*at != '\0') {
        size_t len = strcspn(at, "\n");
        fprintf(stderr, "gradwire: warning: %.*s\n", (int)len, at);
        at += len + (at[len] != '\0');
    }
    if (gwt_job_data_note(job)[0] != '\0' && !quiet)
        fprintf(stderr, "note: %s\n", gwt_job_data_note(job));
    if (gwt_job_notes(job)[0] != '\0' && !quiet)
        fprintf(stderr, "note: %s\n", gwt_job_notes(job));
    if (gwt_job_metrics(job)[0] != '\0' && !quiet)
        fprintf(stderr, "note: metrics are in %s\n", gwt_job_metrics(job));
    if (!quiet)
        show_sync(config, job);
    if (resumed != NULL && !quiet)
        fprintf(stderr, "resuming from %s at step %" PRIu64 "\n", resumed, step);
}

void gwc_train_stopped(const gwt_config *config, const gwt_job *job, int quiet)
{
    if (!gwt_job_summary(job)->stopped || quiet)
        return;
    if (config->checkpoint_every != NULL)
        fprintf(stderr, "note: 'gradwire train --resume --out %s' continues this run\n",
                gwt_job_directory(job));
    else
        fprintf(stderr, "note: this run cannot be resumed; --checkpoint-every would "
                        "have written a checkpoint\n");
}
