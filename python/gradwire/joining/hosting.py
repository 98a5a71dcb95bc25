# SPDX-License-Identifier: Apache-2.0
"""Meeting: the place where the workers of a job find each other, in a process of theirs."""
from __future__ import annotations

import ctypes
import os
import weakref
from ctypes import c_void_p
from pathlib import Path
from typing import Any, Callable, Optional, Union

from .._api import check
from .group_library import MeetingOptions, Tell, key_bytes, load

_open: "weakref.WeakSet[Meeting]" = weakref.WeakSet()


class Meeting:
    """A meeting that runs in a thread of this process until it is closed, as `gradwire meet`
    does in one of its own. Workers that have met go on without it, but nobody can join any
    more, and no view can be made when a worker is gone. It is a context manager.

    listen   "HOST:PORT", or ":PORT" for all interfaces; port 0 is any that is free
    key      the job's key, or key_file, a file with it; by default GRADWIRE_KEY
    job      the job's name
    timeout  seconds after which a worker that does not answer when a view ends is left out
    tell     called, in the meeting's thread, with lines about who comes and goes

    with gradwire.Meeting(":7077", key_file="job.key") as meeting:
        group = gradwire.join(f"tcp://127.0.0.1:{meeting.port}", key_file="job.key", workers=2)"""

    def __init__(self, listen: str = ":7077", *, key: Optional[str] = None,
                 key_file: Union[str, Path, None] = None, job: str = "job", timeout: float = 60.0,
                 tell: Optional[Callable[[str], Any]] = None):
        self._pointer: Optional[int] = None
        self._library = load()
        # C calls it as long as there is a meeting.
        self._told = Tell(lambda _, line: tell(line.decode()) and None) if tell is not None else Tell()
        options = MeetingOptions(ctypes.sizeof(MeetingOptions), listen.encode(), job.encode(),
                                 key_bytes(key, key_file), timeout, self._told, None)
        pointer = c_void_p()
        check(self._library.gw_meeting_open(ctypes.byref(pointer), ctypes.byref(options)))
        self._pointer = pointer.value
        _open.add(self)

    @property
    def port(self) -> int:
        """Where it listens."""
        if self._pointer is None:
            raise ValueError("this meeting is closed")
        return int(self._library.gw_meeting_port(self._pointer))

    def close(self) -> None:
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            self._library.gw_meeting_close(pointer)
        _open.discard(self)

    def __enter__(self) -> Meeting:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _close_all() -> None:
    for meeting in list(_open):
        meeting.close()


def _forget_all() -> None:
    """In a forked child: the thread and the port are the parent's."""
    for meeting in list(_open):
        meeting._pointer = None
    _open.clear()


def _register() -> None:
    import atexit
    atexit.register(_close_all)
    os.register_at_fork(after_in_child=_forget_all)


_register()
