# SPDX-License-Identifier: Apache-2.0
"""The thread that waits in the library.

Python handles signals in its main thread only, between two of its instructions. So the
main thread never waits in the library: it hands the work over and waits for the end of
it here, where Ctrl-C reaches it.
"""
from __future__ import annotations

import queue
import threading
import weakref
from typing import Any, Callable, Optional


class Job:
    """A piece of work, and what has come of it."""

    def __init__(self, work: Callable[[], Any]):
        self._work: Optional[Callable[[], Any]] = work
        self._over = threading.Event()
        self.result: Any = None
        self.error: Optional[BaseException] = None

    def run(self) -> None:
        assert self._work is not None
        try:
            self.result = self._work()
        except BaseException as error:  # for whoever waits
            self.error = error
        self._work = None  # holds tensors
        self._over.set()

    def wait(self) -> None:
        """Until it is over; signals are handled meanwhile, and may raise."""
        self._over.wait()

    def wait_out(self) -> None:
        """Until it is over, whatever else comes."""
        while not self._over.is_set():
            try:
                self._over.wait()
            except BaseException:  # the one that came first is on its way already
                continue


class Worker:
    """A thread that does one job after the other; it begins with the first."""

    def __init__(self) -> None:
        self._jobs: "queue.SimpleQueue[Optional[Job]]" = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None
        self._stop = weakref.finalize(self, self._jobs.put, None)

    def run(self, job: Job) -> Job:
        if not self._stop.alive:
            raise ValueError("this thread has ended")
        if self._thread is None:
            self._thread = threading.Thread(target=_work_off, args=(self._jobs,),
                                            name="gradwire", daemon=True)
            self._thread.start()
        self._jobs.put(job)
        return job

    def close(self) -> None:
        """Ends the thread, after the jobs that it has."""
        self._stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
            self._thread = None


def _work_off(jobs: "queue.SimpleQueue[Optional[Job]]") -> None:
    for job in iter(jobs.get, None):
        job.run()
        del job  # holds what the work returned
