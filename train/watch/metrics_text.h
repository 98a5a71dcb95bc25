/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics_text.h - the state of a run as OpenMetrics 1.0 text, which Prometheus and its
 * kin read. */
#ifndef GWT_METRICS_TEXT_H
#define GWT_METRICS_TEXT_H

#include <stdint.h>
#include <stdio.h>

/* What the run is. Strings are borrowed; NULL leaves a label out. */
typedef struct gwt_metrics_run {
    const char *model, *data, *sync, *optimizer, *link, *directory, *version;
    int workers;
} gwt_metrics_run;

/* What it has done so far. Counts and seconds are those of worker 0, unless a comment
 * says otherwise; docs/runs.md explains each. What does not apply is NaN. */
typedef struct gwt_metrics {
    double started, stepped; /* when, in seconds since 1970 */
    double steps, planned_steps, skipped_steps, epochs;
    double samples, tokens; /* of all workers */
    double run_s, compute_s, sync_s, eval_s, encode_s, wait_s, decode_s;
    double sent_bytes, received_bytes, sent_messages;
    double loss, lr, residual_norm;
    double test_loss, test_accuracy, perplexity, drift;
    int valid;   /* whether these four are of the validation set */
    int warning; /* whether the run was warned of */
} gwt_metrics;

/* Prints all of it, ending with "# EOF". The caller checks the stream for errors. */
void gwt_metrics_print(FILE *to, const gwt_metrics_run *run,
                       const gwt_metrics *metrics);

#endif
