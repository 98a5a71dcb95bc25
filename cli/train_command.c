/* SPDX-License-Identifier: Apache-2.0
 *
 * train_command.c - "gradwire train": one run. */
#define _GNU_SOURCE
#include "commands.h"
#include "run/agree.h"
#include "common.h"
#include "flags.h"
#include "group/join.h"
#include "launch.h"
#include "list_method.h"
#include "progress.h"
#include "run/checkpoint.h"
#include "terminal.h"
#include "train_table.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

typedef struct settings {
    gwt_config run;
    gwc_join_options join;
    gwc_joined *joined;
    int json, quiet;
    char saved[GWT_SETTINGS_CAP]; /* with --resume, those of the checkpoint */
} settings;

#define AT(field) offsetof(settings, field)

/* Lists of words must be in the order of gw_spawn, gw_nonfinite and
 * gwt_augment_word. */
static const gwc_flag flags[] = {
    {.help = "Model and data"},
    {"model", "NAME", "fnn3", "the model; see 'gradwire list'", GWC_TEXT, AT(run.model),
     0, 0},
    {"data", "NAME", "fashion-mnist", "the data set; see 'gradwire list'", GWC_TEXT,
     AT(run.data), 0, 0},
    {"data-dir", "DIR", NULL, "directory that has the data set's files", GWC_TEXT,
     AT(run.data_dir), 0, 0},
    {"limit", "N", NULL, "train with the first N samples only", GWC_COUNT,
     AT(run.limit), 1, 1e15},
    {"augment", "auto|none|crop|flip|both", "auto",
     "augment training images: crop shifts them by up to 4\n"
     "pixels, flip mirrors half of them, both does both;\n"
     "auto: both for cifar10, otherwise none",
     GWC_CHOICE, AT(run.augment), 0, 0},
    {"epochs", "N", "3",
     "passes over the training data; a pass leaves out\n"
     "samples that do not fill a step of all workers",
     GWC_COUNT, AT(run.epochs), 1, 1e9},
    {"steps", "N", NULL, "train for N steps instead of --epochs passes", GWC_COUNT,
     AT(run.steps), 1, 1e15},
    {"batch", "N", "32", "samples per worker and step", GWC_COUNT, AT(run.batch), 1,
     1e6},
    {"sequence", "N", "35", "tokens per sample, for text", GWC_COUNT, AT(run.sequence),
     1, 1e5},
    {"dropout", "P", "0", "fraction of values to drop, for language models", GWC_REAL,
     AT(run.dropout), 0, 0.95},
    {"seed", "N", "1", "seed of initial weights, sample order, rounding", GWC_COUNT,
     AT(run.seed), 0, 1e19},

    {.help = "Synchronisation"},
    {"workers", "N|MIN:MAX", NULL,
     "number of workers [4]; under mpirun, the number of\n"
     "processes that it started; with --join, MIN:MAX\n"
     "lets workers die, join and leave (docs/elastic.md)",
     GWC_RANGE, AT(run.workers), 1, 1024},
    {"sync", "SPEC", "dense", "the method, as a spec; see 'gradwire list'", GWC_TEXT,
     AT(run.sync), 0, 0},
    {"advice", "off|on", "on",
     "adapt the spec to the optimizer, and say so: apply\n"
     "sgd's momentum before a selection, or exchange the\n"
     "steps of adam and its kin; off: use --sync\n"
     "as given",
     GWC_CHOICE, AT(run.advice), 0, 0},
    {"link", "RATE[,DELAY]", NULL,
     "emulate a network with every worker on a host of its\n"
     "own: 1gbit,50us",
     GWC_TEXT, AT(run.link), 0, 0},
    {"nonfinite", "stop|skip|ignore", "stop",
     "if a gradient contains NaN or infinity, stop the\n"
     "run, skip the step, or do not check",
     GWC_CHOICE, AT(run.nonfinite), 0, 0},
    {"spawn", "processes|threads", NULL,
     "run each worker as a process or as a thread\n"
     "[processes]; not for use under mpirun",
     GWC_CHOICE, AT(run.spawn), 0, 0},
    {"collectives", "ours|native", "ours",
     "under mpirun, let gradwire or MPI (native) compute\n"
     "sums; MPI may round differently",
     GWC_CHOICE, AT(run.native), 0, 0},
    {"timeout", "SECONDS", "60", "give up when a worker is silent for this long",
     GWC_REAL, AT(run.timeout), 0.1, 1e6},
    {"threads", "N", "1", "compute threads per worker", GWC_INT, AT(run.threads), 1,
     1024},

    {.help = "Workers on several machines without MPI"},
    {"join", "tcp://HOST:PORT", NULL,
     "be one worker of the job that meets there, where\n"
     "'gradwire meet' runs, or at etcd://HOST:PORT/JOB",
     GWC_TEXT, AT(join.meeting), 0, 0},
    {"meet", "[HOST]:PORT", NULL, "run that meeting in this worker; others join it",
     GWC_TEXT, AT(join.meet), 0, 0},
    {"key-file", "FILE", NULL,
     "file with the job's key [the environment variable\n"
     "GRADWIRE_KEY]",
     GWC_TEXT, AT(join.key_file), 0, 0},
    {"job", "NAME", "job", "the job's name", GWC_TEXT, AT(join.job), 0, 0},
    {"address", "HOST", NULL,
     "where other workers reach this one [where it calls\n"
     "the meeting from]",
     GWC_TEXT, AT(join.address), 0, 0},
    {"port", "N", "0", "the port that it opens for them; 0: any that is free", GWC_INT,
     AT(join.port), 0, 65535},
    {"out-only", NULL, NULL,
     "others cannot call this worker: it calls them, or\n"
     "talks through one of them (docs/groups.md)",
     GWC_SWITCH, AT(join.out_only), 0, 0},
    {"uneven", NULL, NULL,
     "slower workers make fewer of the local steps between\n"
     "two exchanges, and weigh less (docs/elastic.md)",
     GWC_SWITCH, AT(run.uneven), 0, 0},
    {"pace", "SECONDS", "0",
     "let each step take so long at least, to emulate a\n"
     "slower machine",
     GWC_REAL, AT(run.pace), 0, 1e3},
    {"encrypt", "on|off", "on", "encrypt what workers send each other", GWC_CHOICE,
     AT(join.plain), 0, 0},
    {"streams", "N", "1",
     "connections to each other worker, for links that are\n"
     "long and wide (docs/groups.md)",
     GWC_INT, AT(join.streams), 1, 16},
    {"learn-timeout", NULL, NULL,
     "notice workers that hang sooner than --timeout says,\n"
     "by the usual time of a round (docs/elastic.md)",
     GWC_SWITCH, AT(join.learn_timeout), 0, 0},

    {.help = "Optimisation"},
    {"optimizer", "NAME", "sgd", "the optimizer; all are listed below", GWC_TEXT,
     AT(run.optimizer), 0, 0},
    {"lr", "RATE", "0.05", "the learning rate", GWC_REAL, AT(run.lr), 0, 1e6},
    {"momentum", "M", "0.9", "momentum of sgd", GWC_REAL, AT(run.hyper.momentum), 0,
     0.99999},
    {"nesterov", "off|on", "off", "make the momentum of sgd Nesterov's", GWC_CHOICE,
     AT(run.hyper.nesterov), 0, 0},
    {"weight-decay", "D", "0",
     "add D times the weight to its gradient; adamw\n"
     "shrinks the weight by lr times D instead (0.01 is\n"
     "usual)",
     GWC_REAL, AT(run.hyper.weight_decay), 0, 1e6},
    {"clip", "NORM", "0",
     "clip the synchronised gradient to this norm;\n"
     "0: do not clip. If momentum or the optimizer runs\n"
     "before the exchange, each worker clips its own",
     GWC_REAL, AT(run.clip), 0, 1e9},
    {"lr-schedule", "SCHEDULE", "cosine",
     "how the learning rate changes; all are listed below", GWC_TEXT, AT(run.schedule),
     0, 0},
    {"warmup", "N|Nepochs", "0", "steps or epochs over which the rate rises", GWC_TEXT,
     AT(run.warmup), 0, 0},

    {.help = "Output and checkpoints"},
    {"out", "DIR", NULL,
     "directory for metrics.jsonl and summary.json\n"
     "[runs/MODEL-DATA-SYNC-N]",
     GWC_TEXT, AT(run.out), 0, 0},
    {"force", NULL, NULL, "overwrite a run that exists already", GWC_SWITCH,
     AT(run.force), 0, 0},
    {"checkpoint-every", "STEPS|Nepochs", NULL,
     "write a checkpoint at this interval, at the end and\n"
     "after Ctrl-C",
     GWC_TEXT, AT(run.checkpoint_every), 0, 0},
    {"keep", "N", "2", "number of checkpoints to keep", GWC_INT, AT(run.keep), 1, 1e6},
    {"resume", NULL, NULL,
     "resume from the newest good checkpoint in --out;\n"
     "flags that are not given come from it",
     GWC_SWITCH, AT(run.resume), 0, 0},
    {"init", "FILE", NULL,
     "start from these weights (safetensors) instead of\n"
     "random ones",
     GWC_TEXT, AT(run.init), 0, 0},
    {"export", "FILE", NULL, "write the trained weights to FILE as safetensors",
     GWC_TEXT, AT(run.export_to), 0, 0},
    {"record-gradient", "FILE", NULL,
     "write worker 0's gradient of the last step to FILE\n"
     "as raw float32, for 'gradwire simulate --gradients'",
     GWC_TEXT, AT(run.record_to), 0, 0},
    {"log", "csv|tensorboard", NULL,
     "write the log also as a table (metrics.csv) or for\n"
     "TensorBoard; csv,tensorboard: both",
     GWC_TEXT, AT(run.log), 0, 0},
    {"metrics", "FILE|[HOST:]PORT", NULL,
     "hand out figures of the run as OpenMetrics text: in\n"
     "FILE, or at a port of this machine, or of HOST",
     GWC_TEXT, AT(run.metrics), 0, 0},
    {"log-every", "STEPS", NULL, "log every STEPS steps [about fifty times per run]",
     GWC_COUNT, AT(run.log_every), 1, 1e15},
    {"eval-every", "STEPS|Nepochs", "1epochs",
     "evaluate at this interval and at the end; 0: only\n"
     "at the end",
     GWC_TEXT, AT(run.eval_every), 0, 0},
    {"trace", "FILE", NULL,
     "write a timeline of every worker's first steps to\n"
     "FILE, for Perfetto or Chrome (docs/runs.md)",
     GWC_TEXT, AT(run.trace), 0, 0},
    {"trace-steps", "N", "100", "number of steps in the timeline", GWC_COUNT,
     AT(run.trace_steps), 1, 1e5},
    {"json", NULL, NULL, "print the summary as JSON", GWC_SWITCH, AT(json), 0, 0},
    {"quiet", NULL, NULL, "do not show progress", GWC_SWITCH, AT(quiet), 0, 0},
};

static void print_help(void)
{
    puts(
        "Usage: gradwire train [FLAGS]\n"
        "\n"
        "Trains a model on this machine with several workers, which synchronise with\n"
        "the method that --sync names, and reports accuracy, time and traffic. Ctrl-C\n"
        "ends the run after the current step and still writes the summary. Defaults\n"
        "are in brackets.\n"
        "\n"
        "Under mpirun, mpiexec or srun every rank is a worker, on any number of\n"
        "machines; see docs/clusters.md. With --join or --meet it is one worker of a\n"
        "job whose workers find each other by themselves; see docs/groups.md.");
    gwc_flags_help(flags, COUNT(flags), stdout);
    putchar('\n');
    gwc_list_section("optimizers");
    gwc_list_section("schedules");
    puts("Examples\n"
         "  gradwire train\n"
         "  gradwire train --workers 8 --sync gtopk:0.01 --link 1gbit,50us\n"
         "  gradwire train --sync local:16+q:4 --epochs 10 --lr-schedule cosine\n"
         "  gradwire train --model lstm --data book.txt --lr 2 --clip 0.25\n"
         "  gradwire train --data csv:my-table.csv --out runs/first --json\n"
         "  gradwire train --resume --out runs/first\n"
         "  mpirun -n 8 --host a:4,b:4 gradwire train --sync gtopk:0.01\n"
         "  gradwire train --meet :7077 --key-file job.key --workers 2\n"
         "  gradwire train --join tcp://a:7077 --key-file job.key --workers 2");
}

/* ---- Ctrl-C ------------------------------------------------------------- */

/* The run that a signal stops, and the process that handles it. Workers are forked with
 * the handler installed, so they must ignore it. */
static gwt_job *volatile running;
static volatile sig_atomic_t asked;
static gwc_joined *volatile waiting; /* a worker that may wait for others */
static pid_t parent;

/* The first signal asks the run to stop; the second ends the process. */
static void on_signal(int number)
{
    (void)number;
    if (running == NULL || getpid() != parent)
        return;
    if (asked)
        _exit(GWC_STOPPED);
    asked = 1;
    gwt_job_stop(running);
    gwc_join_wake(waiting);
}

static void catch_signals(gwt_job *job)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    parent = getpid();
    running = job;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* A file that grows too large is an error of write(), with a message. */
    signal(SIGXFSZ, SIG_IGN);
}

/* ---- the command -------------------------------------------------------------------
 */

/* Only rank 0 prints. Where workers change, each says how it begins. */
static int speaks(const settings *set)
{
    return set->run.comm == NULL || gw_comm_rank(set->run.comm) == 0;
}

/* Whether it is this worker that knows what came out. */
static int ends_first(const settings *set, const gwt_job *job)
{
    return set->run.views != NULL ? gwt_job_summary(job)->first : speaks(set);
}

/* Progress is shown here and, if the run has joined a job, at its meeting. */
typedef struct watching {
    gwt_observer display;
    gwc_joined *joined;
} watching;

static void watch(void *arg, gwt_event event, const gwt_progress *progress)
{
    const watching *w = arg;

    w->display.tell(w->display.arg, event, progress);
    if (event == GWT_EVENT_LOG || event == GWT_EVENT_STEP)
        gwc_join_report(w->joined, progress);
}

static int run_job(const settings *set, gwt_job *job)
{
    gwc_display display = gwc_display_new(set->quiet);
    watching both = {gwc_display_observer(&display), set->joined};
    gwt_observer observer = {watch, &both};
    gw_status st;

    if (speaks(set))
        gwc_train_start(&set->run, job, set->quiet);
    catch_signals(job);
    st = gwt_job_run(job, &observer);
    running = NULL;
    if (st != GW_OK)
        return st == GW_ERR_STOPPED && asked ? GWC_STOPPED : GWC_FAILED;
    if (gwt_job_summary(job)->left && !set->quiet)
        fprintf(stderr, "note: this worker has left the job, which goes on; what it "
                        "had not sent was handed over\n");
    if (ends_first(set, job) && set->json)
        gwt_job_print(job, stdout);
    else if (ends_first(set, job))
        gwc_train_table(&set->run, job);
    if (ends_first(set, job))
        gwc_train_stopped(&set->run, job, set->quiet);
    return gwt_job_summary(job)->stopped || gwt_job_summary(job)->left ? GWC_STOPPED
                                                                       : GWC_DONE;
}

/* A flag that was not given has another default under mpirun. */
enum { NOT_GIVEN = -1 };

static gw_status fit_to_machine(settings *set)
{
    if (set->run.least != 0)
        return gw_fail(GW_ERR_ARG, "--workers MIN:MAX needs --join: only workers that "
                                   "meet somewhere can change");
    if (set->run.workers == NOT_GIVEN)
        set->run.workers = 4;
    if (set->run.spawn == NOT_GIVEN)
        set->run.spawn = GW_SPAWN_PROCESSES;
    if (set->run.native)
        return gw_fail(GW_ERR_ARG,
                       "--collectives native needs MPI; start gradwire with mpirun");
    return GW_OK;
}

static gw_status fit_to_ranks(settings *set, gw_comm *comm, const gwc_launch *launch)
{
    int size = gw_comm_workers(comm);

    set->run.comm = comm;
    if (gwc_joins(&set->join))
        return gw_fail(GW_ERR_ARG,
                       "--join and --meet cannot be used under %s, which has connected "
                       "the workers already; leave them out, or start each worker by "
                       "itself",
                       launch->by);
    if (set->run.least != 0)
        return gw_fail(GW_ERR_ARG, "--workers MIN:MAX needs --join, and not %s",
                       launch->by);
    if (set->run.workers != NOT_GIVEN && set->run.workers != size)
        return gw_fail(GW_ERR_ARG,
                       "--workers is %d, but %s started %d processes; leave out "
                       "--workers, or start as many processes as it says",
                       set->run.workers, launch->by, size);
    set->run.workers = size;
    if (set->run.spawn != NOT_GIVEN)
        return gw_fail(
            GW_ERR_ARG,
            "--spawn cannot be used under %s, which has started the workers already",
            launch->by);
    set->run.spawn = GW_SPAWN_PROCESSES;
    return GW_OK;
}

/* What --resume finds in the checkpoint counts where argv says nothing. A flag that
 * says where the run ends replaces both of them. */
static gw_status take_saved(settings *set, int argc, char **argv)
{
    const char *except[5] = {NULL};
    size_t n = 0;

    GWT_TRY(gwt_resume_flags(&set->run, set->saved));
    if (gwc_flags_given(flags, COUNT(flags), argc, argv, "steps") ||
        gwc_flags_given(flags, COUNT(flags), argc, argv, "epochs")) {
        except[n++] = "steps";
        except[n++] = "epochs";
    }
    if (set->run.comm != NULL) {
        except[n++] = "workers";
        except[n++] = "spawn";
    }
    return gwc_flags_fill(flags, COUNT(flags), argc, argv, set->saved, except, set);
}

static int train_here(settings *set, int argc, char **argv)
{
    gwt_job *job;
    int code;
    gw_status st = take_saved(set, argc, argv);

    if (st == GW_OK)
        st = fit_to_machine(set);
    if (st == GW_OK)
        st = gwt_job_new(&job, &set->run);
    if (st != GW_OK)
        return gwc_exit_code(st);
    code = run_job(set, job);
    gwt_job_free(job);
    return code;
}

/* Trains as one worker of comm, whose flags are good if st is. *agreed says whether
 * all workers end with the same code. */
static int train_over(settings *set, gw_comm *comm, gw_status st, int argc, char **argv,
                      int *agreed)
{
    gwt_job *job;
    int code;

    *agreed = 1;
    st = gwt_agree(comm, st);
    if (st == GW_OK)
        st = gwt_agree(comm, take_saved(set, argc, argv));
    if (st == GW_OK)
        st = gwt_job_new(&job, &set->run);
    if (st != GW_OK)
        return gwc_exit_code(st);
    code = run_job(set, job);
    gwt_job_free(job);
    *agreed = 0;
    return code;
}

/* st is the result of reading this rank's flags. A rank whose flags are wrong still
 * joins the others, to tell them. */
static int train_as_rank(settings *set, gw_status st, const gwc_launch *launch,
                         int argc, char **argv)
{
    gw_comm *comm;
    int agreed;

    gwc_launch_guard(launch);
    gw_status joined =
        gwc_launch_join(&comm, launch, st == GW_OK ? set->run.timeout : 0,
                        st == GW_OK && set->run.native);
    if (joined != GW_OK)
        return gwc_launch_alone(launch, gwc_exit_code(joined));
    if (st == GW_OK)
        st = fit_to_ranks(set, comm, launch);
    int code = train_over(set, comm, st, argc, argv, &agreed);
    return gwc_launch_end(comm, code, agreed);
}

static gwc_host_end host_end(int code, int left)
{
    if (left)
        return GWC_HOST_JOB_GOES_ON;
    return code == GWC_DONE || code == GWC_STOPPED ? GWC_HOST_JOB_IS_OVER
                                                   : GWC_HOST_FAILED;
}

/* Every worker prints its own errors: it has a terminal of its own. */
static int train_joined(settings *set, int argc, char **argv)
{
    gw_comm *comm;
    int agreed;
    gw_status st = gwc_join_fit(&set->run);

    if (st == GW_OK)
        st = gwc_join(&set->joined, &comm, &set->join, set->run.workers,
                      set->run.timeout, set->quiet);
    if (st != GW_OK)
        return gwc_exit_code(st);
    set->run.comm = comm;
    int code = train_over(set, comm, GW_OK, argc, argv, &agreed);
    gw_comm_free(comm);
    gwc_join_leave(set->joined, host_end(code, 0));
    return code;
}

/* Trains as one of several workers that may change. It joins the others when it has
 * its data and its model, so that they do not wait for these. */
static int train_changing(settings *set, int argc, char **argv)
{
    gw_status st = gwc_join_fit(&set->run);
    gwt_views views = {
        .next = gwc_join_next, .due = gwc_join_due, .tell = gwc_join_tell};
    gwt_job *job = NULL;

    /* Only a worker with the run directory knows what the checkpoint says. */
    if (st == GW_OK && set->run.resume && gwt_resume_check(set->run.out) == GW_OK)
        st = take_saved(set, argc, argv);
    if (st == GW_OK)
        st = gwc_join_later(&set->joined, &set->join, set->run.least, set->run.workers,
                            set->run.timeout, set->quiet);
    views.ctx = set->joined;
    set->run.views = &views;
    if (st == GW_OK)
        st = gwt_job_new(&job, &set->run);
    waiting = set->joined;
    int code = st == GW_OK ? run_job(set, job) : gwc_exit_code(st);
    waiting = NULL;
    gwc_host_end end = host_end(code, st == GW_OK && gwt_job_summary(job)->left);
    gwt_job_free(job);
    gwc_join_leave(set->joined, end);
    return code;
}

static int run_train(int argc, char **argv)
{
    gwc_launch launch = gwc_launch_look();
    settings set;
    int help;
    gw_status st;

    memset(&set, 0, sizeof set);
    set.run.workers = set.run.spawn = NOT_GIVEN;
    st = gwc_flags_read(flags, COUNT(flags), "train", argc, argv, &set, &help);
    if (st == GW_OK && help) {
        if (launch.by == NULL || launch.rank == 0)
            print_help();
        return GWC_DONE;
    }
    if (st == GW_OK && !gwc_joins(&set.join))
        st = gwc_join_unused(flags, COUNT(flags), argc, argv);
    if (launch.by != NULL)
        return train_as_rank(&set, st, &launch, argc, argv);
    if (st != GW_OK)
        return GWC_USAGE;
    if (gwc_joins(&set.join) && set.run.least != 0)
        return train_changing(&set, argc, argv);
    return gwc_joins(&set.join) ? train_joined(&set, argc, argv)
                                : train_here(&set, argc, argv);
}

gw_status gwc_train_check(int argc, char **argv)
{
    settings set;
    int help;

    memset(&set, 0, sizeof set);
    set.run.workers = set.run.spawn = NOT_GIVEN;
    GWT_TRY(gwc_flags_read(flags, COUNT(flags), "train", argc, argv, &set, &help));
    if (!gwc_joins(&set.join))
        GWT_TRY(gwc_join_unused(flags, COUNT(flags), argc, argv));
    return gwt_config_check(&set.run);
}

const gwc_command gwc_command_train = {
    .name = "train",
    .summary = "train a model with several workers and report the cost",
    .run = run_train,
    .by_ranks = 1,
    .flags = flags,
    .flag_count = COUNT(flags),
};
