/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics_text.c - OpenMetrics text. The rules that matter here: a family is announced
 * once by TYPE, UNIT and HELP; a counter's sample ends with _total and a unit ends the
 * family's name; label values escape backslash, quote and newline; the text is UTF-8
 * and its last line is "# EOF". */
#include "watch/metrics_text.h"
#include "common.h"
#include "files/json.h"

#include <math.h>
#include <stddef.h>

typedef enum kind { COUNTER, GAUGE, TESTED } kind; /* TESTED: a gauge with its set */

/* To add a figure: add its field and a row. */
static const struct row {
    const char *name, *unit;
    kind kind;
    size_t offset;
    const char *help;
} rows[] = {
#define AT(field) offsetof(gwt_metrics, field)
    {"start_timestamp_seconds", "seconds", GAUGE, AT(started),
     "When this part of the run began, since 1970."},
    {"last_step_timestamp_seconds", "seconds", GAUGE, AT(stepped),
     "When the last step ended, since 1970."},
    {"steps", NULL, COUNTER, AT(steps), "Steps done, the skipped ones included."},
    {"planned_steps", NULL, GAUGE, AT(planned_steps), "Steps that the run will have."},
    {"skipped_steps", NULL, COUNTER, AT(skipped_steps),
     "Steps skipped because of NaN or infinity."},
    {"epochs", NULL, GAUGE, AT(epochs), "Epochs done, with a fraction."},
    {"samples", NULL, COUNTER, AT(samples), "Samples that all workers trained with."},
    {"tokens", NULL, COUNTER, AT(tokens), "Tokens that all workers trained with."},
    {"run_seconds", "seconds", COUNTER, AT(run_s), "Time since the first step began."},
    {"compute_seconds", "seconds", COUNTER, AT(compute_s),
     "Time for batches, model and optimizer."},
    {"sync_seconds", "seconds", COUNTER, AT(sync_s), "Time inside gradwire."},
    {"evaluation_seconds", "seconds", COUNTER, AT(eval_s), "Time for evaluations."},
    {"encode_seconds", "seconds", COUNTER, AT(encode_s),
     "The part of sync_seconds in which own data was encoded."},
    {"wait_seconds", "seconds", COUNTER, AT(wait_s),
     "The part of sync_seconds in which worker 0 waited."},
    {"decode_seconds", "seconds", COUNTER, AT(decode_s),
     "The part of sync_seconds in which data of others was decoded."},
    {"sent_bytes", "bytes", COUNTER, AT(sent_bytes),
     "Bytes that worker 0 sent for synchronisation, headers included."},
    {"received_bytes", "bytes", COUNTER, AT(received_bytes),
     "Bytes that worker 0 received for synchronisation."},
    {"sent_messages", NULL, COUNTER, AT(sent_messages),
     "Messages that worker 0 sent for synchronisation."},
    {"loss", NULL, GAUGE, AT(loss),
     "Mean training loss of worker 0 since the last line of the log."},
    {"learning_rate", NULL, GAUGE, AT(lr), "Learning rate of the last step."},
    {"residual_norm", NULL, GAUGE, AT(residual_norm),
     "Norm of what worker 0 had not sent at the last line of the log."},
    {"test_loss", NULL, TESTED, AT(test_loss), "Loss at the last evaluation."},
    {"test_accuracy", NULL, TESTED, AT(test_accuracy),
     "Accuracy at the last evaluation."},
    {"perplexity", NULL, TESTED, AT(perplexity), "Perplexity at the last evaluation."},
    {"drift", NULL, TESTED, AT(drift),
     "How far apart the workers' models were at the last evaluation."},
#undef AT
};

static void print_number(FILE *to, double x)
{
    char text[40];

    fprintf(to, "%s\n", isinf(x) ? (x > 0 ? "+Inf" : "-Inf") : gwt_shortest(x, text));
}

/* Bytes that are not UTF-8, and controls, which nobody needs, become '?'. */
static void print_value(FILE *to, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    while (*s != '\0') {
        size_t n = gwt_utf8_len(s);
        if (*s == '\\' || *s == '"')
            fprintf(to, "\\%c", *s);
        else if (n == 0 || *s < 0x20 || *s == 0x7f)
            putc('?', to);
        else
            fwrite(s, 1, n, to);
        s += n > 0 ? n : 1;
    }
}

static void print_label(FILE *to, const char **between, const char *name,
                        const char *text)
{
    if (text == NULL)
        return;
    fprintf(to, "%s%s=\"", *between, name);
    print_value(to, text);
    putc('"', to);
    *between = ",";
}

static void print_run(FILE *to, const gwt_metrics_run *run)
{
    const char *between = "";
    char workers[16];

    snprintf(workers, sizeof workers, "%d", run->workers);
    fputs("# TYPE gradwire_run info\n# HELP gradwire_run What is run.\n"
          "gradwire_run_info{",
          to);
    print_label(to, &between, "model", run->model);
    print_label(to, &between, "data", run->data);
    print_label(to, &between, "sync", run->sync);
    print_label(to, &between, "workers", workers);
    print_label(to, &between, "optimizer", run->optimizer);
    print_label(to, &between, "link", run->link);
    print_label(to, &between, "directory", run->directory);
    print_label(to, &between, "version", run->version);
    fputs("} 1\n", to);
}

static void print_row(FILE *to, const struct row *row, double x, int valid)
{
    const char *set = row->kind != TESTED ? ""
                      : valid             ? "{set=\"valid\"}"
                                          : "{set=\"test\"}";

    fprintf(to, "# TYPE gradwire_%s %s\n", row->name,
            row->kind == COUNTER ? "counter" : "gauge");
    if (row->unit != NULL)
        fprintf(to, "# UNIT gradwire_%s %s\n", row->name, row->unit);
    fprintf(to, "# HELP gradwire_%s %s\n", row->name, row->help);
    fprintf(to, "gradwire_%s%s%s ", row->name, row->kind == COUNTER ? "_total" : "",
            set);
    print_number(to, x);
}

void gwt_metrics_print(FILE *to, const gwt_metrics_run *run, const gwt_metrics *metrics)
{
    print_run(to, run);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double x = *(const double *)((const char *)metrics + rows[i].offset);
        if (!isnan(x))
            print_row(to, &rows[i], x, metrics->valid);
    }
    fprintf(to,
            "# TYPE gradwire_warning gauge\n"
            "# HELP gradwire_warning 1 if the residual or the loss ran away.\n"
            "gradwire_warning %d\n# EOF\n",
            metrics->warning != 0);
}
