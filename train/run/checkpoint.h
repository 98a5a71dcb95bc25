/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint.h - saves the complete state of a run in one file, so that a run that was
 * stopped and resumed has the same result as one that was not.
 *
 *     checkpoint.c           writing: every worker's part goes to rank 0, in turn
 *     checkpoint_load.c      reading: back to the workers, even if their number changed
 *     checkpoint_settings.c  the settings that must be the same in both runs
 *     resume.c               the settings of a run that is resumed
 *     checkpoint_dir.c       the files, and which one is the newest good one
 *
 * Sections of the file (docs/format.md):
 *
 *     SETS  settings, text        WORK  one worker's counters and means
 *     TENS  tensors, text         MODL  parameters      (one, or one per worker)
 *     WIND  windows, text         SLOT  optimizer       (likewise)
 *     JOB   counters of the job   KEPT  statistics and carried state
 *                                 SYNC  state of the sync                        */
#ifndef GWT_CHECKPOINT_H
#define GWT_CHECKPOINT_H

#include "files/sections.h"
#include "run/worker.h"

#define GWT_KIND_SETTINGS GWT_KIND('S', 'E', 'T', 'S')
#define GWT_KIND_TENSORS  GWT_KIND('T', 'E', 'N', 'S')
#define GWT_KIND_WINDOWS  GWT_KIND('W', 'I', 'N', 'D')
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

enum { GWT_JOB_WORDS = sizeof(gwt_checkpoint_job) / 8 };

/* Parts are sent in pieces of this many bytes, so that no worker waits long without a
 * message, and memory stays small. */
enum { GWT_PIECE = 4 << 20 };

/* ---- saving and loading, by all workers together ------------------------------- */

/* Writes the next checkpoint of the job and removes those that are too old. */
gw_status gwt_checkpoint_save(const gwt_worker *w);

/* Restores w, which is set up but has not begun, from the file that
 * gwt_checkpoints_find() found on rank 0. *metrics_len is how much of metrics.jsonl
 * belongs to it. */
gw_status gwt_checkpoint_load(gwt_worker *w, uint64_t *metrics_len);

/* Copies every counter and mean of w to the words of a WORK section, or back. Older
 * files lack the last words and leave these fields unchanged. */
enum { GWT_WORKER_WORDS = 21, GWT_WORKER_WORDS_ONCE = 20 };
void gwt_worker_to_words(const gwt_worker *w, uint64_t word[GWT_WORKER_WORDS]);
void gwt_worker_from_words(gwt_worker *w, const uint64_t word[GWT_WORKER_WORDS]);

/* Reads the counters of the job, and checks that all sections exist and have the
 * lengths that follow from them. GW_ERR_DATA. */
gw_status gwt_checkpoint_open(gwt_sections *in, const char *path,
                              gwt_checkpoint_job *job);
gw_status gwt_checkpoint_check(const gwt_sections *in, gwt_checkpoint_job *job);

/* Steps done, counted as a job of that many workers counts them: the same place in
 * the same epoch, to less than a step. */
uint64_t gwt_checkpoint_steps(const gwt_checkpoint_job *saved, const gwt_job *job);

/* ---- what must be the same --------------------------------------------------- */

/* Writes the settings on which the result depends as lines of text; returns their
 * length. */
size_t gwt_settings_write(const gwt_job *job, char text[GWT_SETTINGS_CAP]);

/* Writes these, and after them the settings that a resumed run takes over but may
 * change, such as --link: what a checkpoint holds. */
size_t gwt_settings_save(const gwt_job *job, char text[GWT_SETTINGS_CAP]);

/* Turns the settings of a checkpoint, text of len bytes, into lines "--flag value" of
 * the flags that began the run. */
void gwt_settings_flags(const char *saved, size_t len, char flags[GWT_SETTINGS_CAP]);

/* GW_ERR_ARG names every setting in which the checkpoint, of that name, and the job
 * differ. saved is text of len bytes. */
gw_status gwt_settings_compare(const gwt_job *job, const char *name, const char *saved,
                               size_t len);

/* If the job asks for the same method, makes it continue with the spec and the momentum
 * of the checkpoint of that name, whatever the current advice is. GW_ERR_DATA. */
gw_status gwt_settings_take(gwt_job *job, const char *name, const char *saved,
                            size_t len);

/* Whether the settings are from a version that did not save the number of threads. */
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

/* Whether there are any checkpoints; removes all of them. */
int gwt_checkpoints_any(const gwt_job *job);
void gwt_checkpoints_clear(const gwt_job *job);

/* Finds the newest good checkpoint for --resume and stores its name and step in the
 * job. Damaged ones that are newer are renamed and listed in job->warnings.
 * GW_ERR_SYSTEM: one cannot be read; it is left as it is. */
gw_status gwt_checkpoints_find(gwt_job *job);

/* Checks that --out names a directory with checkpoints, for --resume. GW_ERR_ARG,
 * GW_ERR_SYSTEM. */
gw_status gwt_resume_check(const char *out);

/* Whether there are any in that directory. */
int gwt_checkpoints_any_in(const char *directory);

/* Reads the settings in an open checkpoint; *len bytes. GW_ERR_DATA. */
gw_status gwt_checkpoint_settings(const gwt_sections *in, char text[GWT_SETTINGS_CAP],
                                  size_t *len);

/* Finds the newest good checkpoint in any directory; newer ones must be damaged.
 * GW_ERR_SYSTEM if there is none, or if one cannot be read. */
gw_status gwt_checkpoints_newest(const char *directory, char path[GWT_FILE_CAP]);

#endif
