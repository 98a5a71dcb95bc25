# SPDX-License-Identifier: Apache-2.0
"""ViewSync: a sync that goes on when workers die, join and leave (docs/elastic.md).

Its comm is that of the group's current view. enter() takes it to the next view and brings
all workers to one state. Between entries an exchange is made by all workers or by none:
a call that raises PeerError has changed nothing, and is made again after enter().
"""
from __future__ import annotations

import ctypes
import hashlib
import json
from typing import Any, Callable, Dict, List, Optional

from .._api import ERR_STOPPED, EnterOptions, Entry, HandFunction, check, lib, set_message
from ..comm import Comm
from ..errors import DataError, MismatchError, PeerError
from ..sync import LayoutLike, Sync
from .group import Group

# The most that a worker says of its settings, and that one hands to those who join.
_SETTINGS_MAX, _STATE_MAX = 1 << 16, 1 << 40


class ViewSync(Sync):
    """pack() returns what else belongs to the state, as bytes; unpack() takes it, on a
    worker that joins. Both are called at entries. The sync cannot be used before the first
    enter()."""

    def __init__(self, layout: LayoutLike, spec: str, group: Group, *,
                 pack: Callable[[], bytes], unpack: Callable[[bytes], None], **options: Any):
        self.group = group
        self.entry = Entry(struct_size=ctypes.sizeof(Entry))
        self._pack, self._unpack = pack, unpack
        self._taken: Optional[bytes] = None
        self._trained = False
        self._settings: Dict[str, Any] = {"spec": spec, **options}
        super().__init__(layout, spec, group.next(), **options)

    def _make(self, parts: Any) -> Optional[int]:
        """The sync is made when all have said that they want the same one: by _meet()."""
        shapes = "\n".join(f"{p.name} {p.shape}" for p in parts)
        self._settings["model"] = hashlib.sha256(shapes.encode()).hexdigest()[:16]
        return None

    # ---- entering --------------------------------------------------------------

    def enter(self, address: int, leaves: bool = False) -> Entry:
        """Enters the next view, or the first one, however many tries that takes. This
        worker's model is at that address, and is replaced on workers that join. Raises
        MismatchError if this worker's settings are not those of the job, and GradwireError
        with status ERR_STOPPED if it leaves and others are too few for a view."""
        if leaves:
            self.group.leaving()
        while True:
            if self._trained or not self.comm.is_open:
                self.comm = self.group.next()
            self._part_of_nobody()
            try:
                self._admit(self.comm)
                self._meet(self.comm, address, leaves)
            except PeerError:
                self.comm.close()
                continue
            if self.entry.leavers == 0 or self.entry.left:
                break
        self._used, self._half = True, False
        self.group.tell(self._line())
        return self.entry

    def _part_of_nobody(self) -> None:
        """A view's comm is closed before its sync goes on with the next."""
        self.comm._users.discard(self)

    def _admit(self, comm: Comm) -> None:
        """Those who differ from the job raise MismatchError; the others go on without
        them, by PeerError."""
        mine = {"trained": self._trained, "settings": self._settings}
        said = comm.allgather(json.dumps(mine).encode(), limit=_SETTINGS_MAX)
        all_say = [_read(data, rank) for rank, data in enumerate(said)]
        first = next((rank for rank, s in enumerate(all_say) if s["trained"]), 0)
        theirs = all_say[first]["settings"]
        if theirs != self._settings:
            wrong = [k for k in self._settings if theirs.get(k) != self._settings[k]]
            raise MismatchError("this worker has " + " and ".join(
                f"{k} {self._settings[k]}, but worker {first} has {theirs.get(k)}" for k in wrong))
        if any(s["settings"] != theirs for s in all_say):
            raise PeerError("a worker with other settings was sent away")

    def _meet(self, comm: Comm, address: int, leaves: bool) -> None:
        failed: List[BaseException] = []

        def hand(_: Any, pointer: int, entry: Any) -> int:
            try:
                self._hand(comm, entry)
                return 0
            except PeerError as error:
                set_message(error.status, str(error))
                return error.status
            except BaseException as error:  # goes on in the caller's thread
                failed.append(error)
                set_message(ERR_STOPPED, f"worker {comm.rank} cannot enter: {error}")
                return ERR_STOPPED

        called = HandFunction(hand)
        options = EnterOptions(ctypes.sizeof(EnterOptions), leaves, called, None)
        self._taken = None
        try:
            if self._pointer is None:
                self._pointer = super()._make(self.parts)
            pointer = ctypes.c_void_p(self._pointer)
            try:
                comm.run(lambda: check(lib.gw_sync_enter(
                    ctypes.byref(pointer), comm.pointer, address, ctypes.byref(options),
                    ctypes.byref(self.entry))))
            finally:
                self._pointer = pointer.value
        except BaseException as error:
            raise failed[0] if failed else error
        if self._taken is not None:
            self._unpack(self._taken)
        self._trained = True

    def _hand(self, comm: Comm, entry: Any) -> None:
        """The rest of the state goes from one worker to those who join."""
        e = entry.contents
        if not e.joiners:
            return
        mine = self._pack() if e.rank == e.source else b""
        length = comm._lengths(len(mine), _STATE_MAX)[e.source]
        room = ctypes.create_string_buffer(mine, length) if mine else (
            ctypes.create_string_buffer(length if e.joined else 1))
        check(lib.gw_entry_hand(comm.pointer, entry, room, length))
        if e.joined:
            self._taken = room.raw[:length]

    def _line(self) -> str:
        e = self.entry
        lost = f", residuals of norm {e.lost:.3g} are lost" if e.gone and e.lost else ""
        return (f"entry {e.number}: {e.workers} workers, {e.joiners} new, {e.gone} gone{lost}; "
                f"step {self.exchanged}")

    # ---- between entries -------------------------------------------------------

    @property
    def exchanged(self) -> int:
        """The step of the last exchange that all workers have made."""
        return int(lib.gw_sync_exchanged(self.pointer))

    def load_state_dict(self, states: Any) -> None:
        raise ValueError("a state cannot be loaded where workers come and go; attach to "
                         "comm=group.comm, whose workers do not change")


def _read(data: bytes, rank: int) -> Dict[str, Any]:
    try:
        said = json.loads(data)
        return {"trained": bool(said["trained"]), "settings": dict(said["settings"])}
    except (ValueError, TypeError, KeyError):
        raise DataError(f"worker {rank} does not say how it was started") from None
