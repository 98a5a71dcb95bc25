# SPDX-License-Identifier: Apache-2.0
"""Runs a row that is kept once more and says whether its figure came again."""
import statistics

from support.runs import TASKS


def again(runs, task, workers, sync, tuned_as=None):
    """Runs the first seed of a row anew. Returns the exit code: 0 if it is within the
    spread of the seeds that are kept (the same on the same machine), 1 if not."""
    runs.dry = True
    kept = runs.seeds(task, workers, sync, tuned_as)
    if not kept:
        print(f"there is no stored result for {sync} on {task}")
        return 1
    want = {k: kept[0][k] for k in ("task", "part", "workers", "sync", "lr", "seed")}
    want["workers"] = int(want["workers"])
    made = runs.train(want)
    if made is None:
        return 1
    name = "perplexity" if TASKS[task].sample > 1 else "accuracy"
    old = [float(r[name]) for r in kept]
    room = 3 * statistics.stdev(old) if len(old) > 1 else 0.02 * old[0]
    good = abs(float(made[name]) - old[0]) <= room
    same = "the same model" if made["model_hash"] == kept[0]["model_hash"] else "another model"
    print(f"{task}, {workers} workers, {sync}, seed {want['seed']}: {name} {made[name]}, stored {kept[0][name]}, "
          f"tolerance {room:.3g}: {'holds' if good else 'DOES NOT HOLD'} ({same})")
    return 0 if good else 1
