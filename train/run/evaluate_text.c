/* SPDX-License-Identifier: Apache-2.0
 *
 * evaluate_text.c - evaluates a language model on a text.
 *
 * The text is cut into GWT_EVAL_COLUMNS runs of rows, whatever the number of workers
 * is, so that the result does not depend on it. Each run begins with an empty state,
 * which is carried from row to row. The runs are read side by side, as the samples of a
 * batch. The state that training carries is saved and restored. Every row counts; the
 * few tokens after the last whole row do not. */
#include "run/job.h"

#include <string.h>

/* Collects the s-th row of each run in [begin, end) that has one, and returns their
 * number. Longer runs come first, so these are the first runs. */
static size_t pick_rows(uint32_t *pick, const gwt_split *split, size_t begin,
                        size_t end, size_t s)
{
    size_t count = 0;

    for (size_t c = begin; c < end; c++) {
        size_t first, last;
        gw_part(split->count, GWT_EVAL_COLUMNS, (int)c, &first, &last);
        if (first + s < last)
            pick[count++] = (uint32_t)(first + s);
    }
    return count;
}

static gw_status score_runs(gwt_score *sum, const gwt_data *data,
                            const gwt_split *split, gwt_model *model, size_t begin,
                            size_t end, uint32_t *labels)
{
    uint32_t pick[GWT_EVAL_COLUMNS];
    size_t count;

    for (size_t s = 0; (count = pick_rows(pick, split, begin, end, s)) > 0; s++) {
        gwt_score score;
        gwt_data_batch(data, split, pick, 0, count, gwt_model_input(model), labels);
        GWT_TRY(gwt_model_score(model, labels, count, &score));
        sum->loss += score.loss;
        sum->correct += score.correct;
        sum->count += score.count;
    }
    return GW_OK;
}

gw_status gwt_score_text(gwt_score *sum, const gwt_data *data, const gwt_split *split,
                         gwt_model *model, int part, int parts)
{
    size_t floats, begin, end;
    float *carry = gwt_model_carry(model, &floats);
    float *saved = gwt_calloc(floats + 1, sizeof *saved, "a model's state");
    uint32_t *labels = gwt_calloc(GWT_EVAL_COLUMNS * gwt_model_outputs(model),
                                  sizeof *labels, "labels");
    gw_status st = GW_ERR_NOMEM;

    *sum = (gwt_score){0};
    if (saved != NULL && labels != NULL) {
        memcpy(saved, carry, floats * sizeof *carry);
        memset(carry, 0, floats * sizeof *carry);
        gw_part(GWT_EVAL_COLUMNS, parts, part, &begin, &end);
        st = score_runs(sum, data, split, model, begin, end, labels);
        memcpy(carry, saved, floats * sizeof *carry);
    }
    gwt_free(saved);
    gwt_free(labels);
    return st;
}
