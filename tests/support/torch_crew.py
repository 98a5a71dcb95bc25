# SPDX-License-Identifier: Apache-2.0
"""Runs a script as several workers of a torch.distributed job, without ports of its
own: they meet in a file. For tests of the Python package.

A test calls main(cases, sizes): started by ctest it starts itself again as workers,
as often as `sizes` says; as a worker it runs every case with the rank and the number
of workers. A worker that fails prints why, and the others are ended.
"""
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import traceback

LIMIT = 240  # seconds; ctest's own limit is 300


def skip_without(*modules):
    for name in modules:
        if importlib.util.find_spec(name) is None:
            print(f"skipped: there is no {name}")
            sys.exit(77)


def skip_without_torch2(*modules):
    """For tests of what only PyTorch 2 has, and of packages that need it."""
    skip_without("numpy", "torch", *modules)
    skip_before("2.0")


def torch_version():
    """PyTorch's, read without the seconds that an import takes."""
    return importlib.metadata.version("torch")


def is_at_least(version):
    """Whether PyTorch is of that version or later."""
    return tuple(map(int, torch_version().split(".")[:2])) >= tuple(map(int, version.split(".")))


def skip_before(version):
    """For what PyTorch has only since that version."""
    if not is_at_least(version):
        print(f"skipped: PyTorch {torch_version()} is older than {version}")
        sys.exit(77)


def environment(rank, workers, directory):
    return dict(os.environ, RANK=str(rank), WORLD_SIZE=str(workers),
                LOCAL_RANK=str(rank), CREW_DIRECTORY=directory, OMP_NUM_THREADS="1",
                OPENBLAS_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo",
                GRADWIRE_ADDRESS="127.0.0.1")


def end(process):
    if process.poll() is None:
        process.kill()
    process.wait()


def run(command, workers, expected=None):
    """Starts command for each rank; True if all end as expected: {rank: exit status},
    0 where nothing is said."""
    expected = expected or {}
    with tempfile.TemporaryDirectory() as directory:
        processes = [subprocess.Popen(command, env=environment(r, workers, directory))
                     for r in range(workers)]
        deadline, good = time.monotonic() + LIMIT, True
        try:
            for rank, process in enumerate(processes):
                status = process.wait(timeout=max(1, deadline - time.monotonic()))
                if status != expected.get(rank, 0):
                    print(f"worker {rank} of {workers} ended with {status}", flush=True)
                    return False
        except subprocess.TimeoutExpired:
            print(f"a worker of {workers} has not ended in {LIMIT} s", flush=True)
            return False
        finally:
            for process in processes:
                end(process)
    return good


def is_worker():
    return "CREW_DIRECTORY" in os.environ


def join_group():
    """This worker's rank and how many there are."""
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", rank=rank, world_size=workers,
                            init_method=f"file://{os.environ['CREW_DIRECTORY']}/store")
    return rank, workers


def main(cases, sizes):
    skip_without("numpy", "torch")
    if not is_worker():
        good = all([run([sys.executable, sys.argv[0]], workers) for workers in sizes])
        sys.exit(0 if good else 1)
    rank, workers = join_group()
    for case in cases:
        begin = time.monotonic()
        try:
            case(rank, workers)
        except BaseException:
            print(f"{case.__name__}, worker {rank} of {workers}:\n"
                  f"{traceback.format_exc()}", file=sys.stderr, flush=True)
            os._exit(1)
        if rank == 0:
            print(f"{workers} workers, {case.__name__}: "
                  f"{time.monotonic() - begin:.1f} s", flush=True)


def raises(kind, text, action):
    """The exception, of that kind and with that text, that action raises."""
    try:
        action()
    except kind as error:
        assert text in str(error), f"'{text}' is not in: {error}"
        assert "\n" not in str(error).strip(), f"more than a line: {error}"
        return error
    raise AssertionError(f"no {kind} with '{text}' was raised")
