/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint.h - everything a run is, in one file, so that a run that was stopped and
 * resumed is the run that was not.
 *
 *     checkpoint.c           writing: every worker's part goes to rank 0, in turn
 *     checkpoint_load.c      reading: back to the workers, also to another number
 *     checkpoint_settings.c  what must be the same in both runs
 *     checkpoint_dir.c       which files there are, which one is the newest good one
 *
 * Sections of the file (docs/format.md):
 *
 *     SETS  settings, text        WORK  one worker's counters and means
 *     TENS  tensors, text         MODL  parameters      (one, or one per worker)
 *     JOB   counters of the job   SLOT  optimizer       (likewise)
 *                                 KEPT  statistics and carried state
 *                                 SYNC  state of the sync                        */
#ifndef GWT_CHECKPOINT_H
#define GWT_CHECKPOINT_H

#include "files/sections.h"
#include "run/worker.h"

#define GWT_KIND_SETTINGS GWT_KIND('S', 'E', 'T', 'S')
#define GWT_KIND_TENSORS  GWT_KIND('T', 'E', 'N', 'S')
#define GWT_KIND_JOB      GWT_KIND('J', 'O', 'B', ' ')
#define GWT_KIND_WORKER   GWT_KIND('W', 'O', 'R', 'K')
#define GWT_KIND_MODEL    GWT_KIND('M', 'O', 'D', 'L')
#define GWT_KIND_SLOTS    GWT_KIND('S', 'L', 'O', 'T')
#define GWT_KIND_KEPT     GWT_KIND('K', 'E', 'P', 'T')
#define GWT_KIND_SYNC     GWT_KIND('S', 'Y', 'N', 'C')

/* Counters of the job, as words in this order. */
typedef struct gwt_checkpoint_job {
    uint64_t steps, epoch_steps; /* done; of an epoch */
    uint64_t workers;            /* that wrote it */
    uint64_t models;             /* how many MODL and SLOT there are: 1 or workers */
    uint64_t floats, slots;      /* of a model; vectors of the optimizer */
    uint64_t stats, carry;       /* floats of KEPT: these, then those */
    uint64_t metrics_len;        /* of metrics.jsonl, at that moment */
} gwt_checkpoint_job;

enum { GWT_JOB_WORDS = sizeof(gwt_checkpoint_job) / 8, GWT_SETTINGS_CAP = 16384 };

/* Parts travel in pieces of this many bytes: few enough that nobody waits in silence
 * for long, and memory stays small. */
enum { GWT_PIECE = 4 << 20 };

/* ---- saving and loading, by all workers together ------------------------------- */

/* Writes the next checkpoint of the job and removes those that are too old. */
gw_status gwt_checkpoint_save(const gwt_life *w);

/* Restores w, which is set up but has not begun, from the file that
 * gwt_checkpoints_find() found on rank 0. *metrics_len is how much of metrics.jsonl
 * belongs to it. */
gw_status gwt_checkpoint_load(gwt_life *w, uint64_t *metrics_len);

/* What WORK consists of: copies every counter and mean of w to words, or back. Words
 * were added over time; a file that lacks the last ones leaves these as they are. */
enum { GWT_WORKER_WORDS = 21, GWT_WORKER_WORDS_ONCE = 20 };
void gwt_worker_to_words(const gwt_life *w, uint64_t word[GWT_WORKER_WORDS]);
void gwt_worker_from_words(gwt_life *w, const uint64_t word[GWT_WORKER_WORDS]);

/* Reads the counters of the job, and sees that all sections are there and of the
 * lengths that follow from them. GW_ERR_DATA. */
gw_status gwt_checkpoint_open(gwt_sections *in, const char *path,
                              gwt_checkpoint_job *job);
gw_status gwt_checkpoint_check(const gwt_sections *in, gwt_checkpoint_job *job);

/* Steps done, counted as a job of that many workers counts them: the same place in
 * the same epoch, to less than a step. */
uint64_t gwt_checkpoint_steps(const gwt_checkpoint_job *saved, const gwt_job *job);

/* ---- what must be the same --------------------------------------------------- */

/* Writes the settings as lines of text; returns their length. */
size_t gwt_settings_write(const gwt_job *job, char text[GWT_SETTINGS_CAP]);

/* GW_ERR_ARG names the first setting in which the checkpoint, of that name, and the
 * job differ. saved is text of len bytes. */
gw_status gwt_settings_compare(const gwt_job *job, const char *name, const char *saved,
                               size_t len);

/* Makes the job, if it asks for the same, go on with the spec and the momentum of the
 * checkpoint of that name, whatever is advised today. GW_ERR_DATA. */
gw_status gwt_settings_take(gwt_job *job, const char *name, const char *saved,
                            size_t len);

/* Whether the settings are from before the number of threads was among them: then
 * nobody knows whether it is the same. */
int gwt_settings_lack_threads(const char *saved, size_t len);

/* The tensors of a model as lines "name rows cols"; at most cap bytes are written,
 * and the length of all is returned. */
size_t gwt_tensors_write(const gw_tensor *tensors, size_t count, char *text,
                         size_t cap);

/* ---- the files in the run directory -------------------------------------------- */

/* The name of the next checkpoint, and the name it has while it is written. */
gw_status gwt_checkpoints_next(const gwt_job *job, char path[GWT_FILE_CAP],
                               char partial[GWT_FILE_CAP]);

/* Removes all but the newest --keep. */
void gwt_checkpoints_prune(const gwt_job *job);

/* Whether there are any; removing all. */
int gwt_checkpoints_any(const gwt_job *job);
void gwt_checkpoints_clear(const gwt_job *job);

/* Finds the newest good one for --resume and writes its name and step into the job.
 * Damaged ones after it are renamed and mentioned in job->warnings. One that cannot be
 * read is left as it is: GW_ERR_SYSTEM. */
gw_status gwt_checkpoints_find(gwt_job *job);

/* The newest good one in any directory, if all after it are damaged. GW_ERR_SYSTEM if
 * there is none, or if one cannot be read. */
gw_status gwt_checkpoints_newest(const char *directory, char path[GWT_FILE_CAP]);

#endif
