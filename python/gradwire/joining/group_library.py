# SPDX-License-Identifier: Apache-2.0
"""libgradwire-group as ctypes sees it, and the key of a job."""
from __future__ import annotations

import ctypes
import os
import stat
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Optional, Union

from .._library import beside

NAME = "libgradwire-group.so"

Tell = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class GroupOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("meeting", c_char_p), ("job", c_char_p),
                ("key", c_char_p), ("name", c_char_p), ("address", c_char_p), ("port", c_int),
                ("min_workers", c_int), ("max_workers", c_int), ("plain", c_int),
                ("out_only", c_int), ("streams", c_int), ("learn_timeout", c_int),
                ("timeout_seconds", c_double), ("tell", Tell), ("arg", c_void_p)]


class Progress(Structure):
    _fields_ = [("struct_size", c_size_t), ("step", c_uint64), ("steps", c_uint64),
                ("loss", c_double), ("samples", c_double), ("bytes_sent", c_uint64)]


class MeetingOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("listen", c_char_p), ("job", c_char_p),
                ("key", c_char_p), ("timeout_seconds", c_double), ("tell", Tell), ("arg", c_void_p)]


_library: Optional[ctypes.CDLL] = None


def load() -> ctypes.CDLL:
    """The library is loaded when a job is joined: it brings OpenSSL along."""
    global _library
    if _library is not None:
        return _library
    path = beside(NAME)
    if path is None:
        raise ImportError(f"there is no {NAME} beside libgradwire.so, because OpenSSL was missing when "
                          "it was built; install libssl-dev, then 'pip install .' or make")
    try:
        found = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"{NAME} needs OpenSSL 3, which this machine lacks ({error})") from None
    for function, result, arguments in (
            ("gw_group_join", c_int, [POINTER(c_void_p), POINTER(GroupOptions)]),
            ("gw_group_next", c_int, [c_void_p, POINTER(c_void_p)]),
            ("gw_group_due", c_int, [c_void_p]),
            ("gw_group_view", c_uint64, [c_void_p]),
            ("gw_group_report", None, [c_void_p, POINTER(Progress)]),
            ("gw_group_interrupt", None, [c_void_p]),
            ("gw_group_leaving", None, [c_void_p]),
            ("gw_group_leave", None, [c_void_p]),
            ("gw_meeting_open", c_int, [POINTER(c_void_p), POINTER(MeetingOptions)]),
            ("gw_meeting_port", c_int, [c_void_p]),
            ("gw_meeting_close", None, [c_void_p])):
        declared = getattr(found, function)
        declared.restype, declared.argtypes = result, arguments
    _library = found
    return found


def _first_line(key_file: Union[str, Path]) -> str:
    """Others who can use the file could join the job."""
    with open(key_file) as file:
        info = os.fstat(file.fileno())
        if stat.S_ISREG(info.st_mode) and info.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ValueError(f"{key_file} can be used by others on this machine; run 'chmod 600 {key_file}'")
        return file.readline().rstrip("\r\n")


def key_bytes(key: Optional[str], key_file: Union[str, Path, None]) -> bytes:
    """The job's key, from wherever it is."""
    if key is not None and key_file is not None:
        raise ValueError("give only one of key= and key_file=")
    if key_file is not None:
        key = _first_line(key_file)
    found = key if key is not None else os.environ.get("GRADWIRE_KEY")
    if not found:
        raise ValueError("there is no key: give key= or key_file=, or set GRADWIRE_KEY; "
                         "'gradwire meet --new-key FILE' makes one")
    return found.encode()
