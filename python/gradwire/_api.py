# SPDX-License-Identifier: Apache-2.0
"""gradwire.h and gradwire_elastic.h in ctypes: the structs, the signatures, statuses as exceptions.

tests/python/test_python_api.py compares all of it with the header.
"""
from __future__ import annotations

import ctypes
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_float, c_int,
                    c_size_t, c_uint, c_uint8, c_uint32, c_uint64, c_void_p)
from typing import Dict, List, Tuple, Type

from . import errors
from ._library import load

# Numbers of gw_status, gw_spawn and gw_nonfinite.
OK, PENDING, SKIPPED = 0, 1, 2
ERR_ARG, ERR_NOMEM, ERR_SPACE, ERR_DATA, ERR_SPEC = -1, -2, -3, -4, -5
ERR_PEER, ERR_TIMEOUT, ERR_SYSTEM, ERR_NUMBER, ERR_MISMATCH = -6, -7, -8, -9, -10
ERR_ABSENT, ERR_STOPPED, ERR_DIFFER = -11, -12, -13
SPAWN_PROCESSES, SPAWN_THREADS = 0, 1
NONFINITE_STOP, NONFINITE_SKIP, NONFINITE_IGNORE, NONFINITE_END = 0, 1, 2, 3
# Bits of gw_trait, and the longest spec.
TRAIT_SENDS_GRADIENTS, TRAIT_SENDS_MODELS = 1 << 0, 1 << 1
TRAIT_SENDS_CHANGES, TRAIT_KEEPS_EQUAL = 1 << 2, 1 << 3
TRAIT_MEETS, TRAIT_DRIFTS = 1 << 4, 1 << 5
TRAIT_SPARSE, TRAIT_SAME_COORDINATES = 1 << 6, 1 << 7
TRAIT_CODED, TRAIT_GATHERS = 1 << 8, 1 << 9
TRAIT_OVERLAPS, TRAIT_NEEDS_MODEL = 1 << 10, 1 << 11
TRAIT_RESIDUAL, TRAIT_LIKE_MOMENTUM = 1 << 12, 1 << 13
TRAIT_ENDS_AVERAGED, TRAIT_POLYAK = 1 << 14, 1 << 15
TRAIT_OUTER_STEP, TRAIT_LATE = 1 << 16, 1 << 17
STAGES_MAX = 15

NONFINITE: Dict[str, int] = {
    "stop": NONFINITE_STOP, "skip": NONFINITE_SKIP, "ignore": NONFINITE_IGNORE}


class Request(Structure):
    _fields_ = [("pointer", c_void_p * 4), ("word", c_uint64 * 4)]


class Transport(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("name", c_char_p),
        ("send", CFUNCTYPE(c_int, c_void_p, c_int, c_void_p, c_size_t, POINTER(Request))),
        ("recv", CFUNCTYPE(c_int, c_void_p, c_int, c_void_p, c_size_t, POINTER(Request))),
        ("test", CFUNCTYPE(c_int, c_void_p, POINTER(Request), POINTER(c_size_t))),
        ("wait", CFUNCTYPE(c_int, c_void_p, c_double)),
        ("lost", CFUNCTYPE(c_int, c_void_p)),
        ("suspect", CFUNCTYPE(c_int, c_void_p)),
        ("host", CFUNCTYPE(c_char_p, c_void_p, c_int)),
        ("step", CFUNCTYPE(None, c_void_p, c_uint64)),
        ("abort", CFUNCTYPE(None, c_void_p, c_char_p)),
        ("close", CFUNCTYPE(None, c_void_p)),
        ("allreduce", CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)),
        ("finish", CFUNCTYPE(c_int, c_void_p, POINTER(Request), POINTER(c_size_t))),
        ("busy", CFUNCTYPE(None, c_void_p, c_double)), ("one_thread", c_int),
        ("pause", CFUNCTYPE(c_int, c_void_p, c_int))]


class CommOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("timeout_seconds", c_double)]


class LocalOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("workers", c_int), ("spawn", c_int),
                ("timeout_seconds", c_double), ("ring_bytes", c_size_t),
                ("link", c_char_p)]


class Traffic(Structure):
    _fields_ = [("bytes_sent", c_uint64), ("bytes_received", c_uint64),
                ("messages_sent", c_uint64), ("messages_received", c_uint64),
                ("wait_seconds", c_double)]


class Tensor(Structure):
    _fields_ = [("name", c_char_p), ("offset", c_size_t), ("rows", c_size_t),
                ("cols", c_size_t)]


class Piece(Structure):
    _fields_ = [("at", c_void_p), ("floats", c_size_t)]


class Entries(Structure):
    _fields_ = [("index", POINTER(c_uint32)), ("value", POINTER(c_float)),
                ("count", c_size_t)]


class SyncOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("nonfinite", c_int), ("seed", c_uint64)]


class Stats(Structure):
    _fields_ = [("steps", c_uint64), ("skipped", c_uint64),
                ("bytes_sent", c_uint64), ("bytes_received", c_uint64),
                ("messages_sent", c_uint64), ("messages_received", c_uint64),
                ("encode_seconds", c_double), ("wait_seconds", c_double),
                ("decode_seconds", c_double),
                ("lost_mass", c_double), ("applied_mass", c_double)]


class Health(Structure):
    _fields_ = [("struct_size", c_size_t), ("step", c_uint64), ("residual_norm", c_double),
                ("vector_norm", c_double), ("growth", c_double), ("since", c_uint64),
                ("runs_away", c_int), ("warning", c_char * 256)]


class SpecInfo(Structure):
    _fields_ = [("struct_size", c_size_t), ("traits", c_uint), ("bytes_per_param", c_double),
                ("period", c_uint64), ("growth", c_double),
                ("stages", c_char_p * (STAGES_MAX + 1)), ("memories", c_size_t),
                ("fragments", c_uint64), ("delay", c_uint64), ("resync", c_uint64)]


class MemoryInfo(Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("bit", c_uint),
                ("handing", c_int), ("floats", c_size_t)]


class OptimizerInfo(Structure):
    _fields_ = [("struct_size", c_size_t), ("adaptive", c_int), ("momentum", c_double),
                ("dampening", c_double), ("nesterov", c_int), ("workers", c_int),
                ("beta1", c_double), ("steps", c_uint64)]


class Advice(Structure):
    _fields_ = [("struct_size", c_size_t), ("takes_momentum", c_int),
                ("spec", c_char * 256), ("reason", c_char * 256),
                ("warning", c_char * 256)]


class StageInfo(Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("summary", c_char_p),
                ("example", c_char_p), ("cost", c_char_p), ("expect", c_char_p),
                ("keys", c_size_t), ("recipe", c_int)]


class KeyInfo(Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("fallback", c_char_p),
                ("range", c_char_p), ("meaning", c_char_p)]


class Entry(Structure):
    _fields_ = [("struct_size", c_size_t), ("number", c_uint64), ("rank", c_int),
                ("workers", c_int), ("source", c_int), ("joined", c_int), ("joiners", c_int),
                ("leavers", c_int), ("gone", c_int), ("left", c_int), ("lost", c_double),
                ("step", c_uint64), ("check", c_uint32), ("ids", POINTER(c_uint64)),
                ("takes", POINTER(c_uint8))]


HandFunction = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(Entry))


class EnterOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("leaves", c_int), ("hand", HandFunction),
                ("arg", c_void_p)]


# C's name of each struct above.
STRUCTS: Dict[str, Type[Structure]] = {
    "gw_request": Request, "gw_transport": Transport,
    "gw_comm_options": CommOptions, "gw_local_options": LocalOptions,
    "gw_traffic": Traffic, "gw_tensor": Tensor, "gw_sync_options": SyncOptions,
    "gw_piece": Piece, "gw_entries": Entries, "gw_spec_info": SpecInfo, "gw_memory_info": MemoryInfo, "gw_stage_info": StageInfo,
    "gw_key_info": KeyInfo, "gw_optimizer_info": OptimizerInfo, "gw_advice": Advice,
    "gw_stats": Stats, "gw_health": Health, "gw_entry": Entry,
    "gw_enter_options": EnterOptions}

_floats = c_void_p
_out = POINTER(c_void_p)

# Result and arguments of each function that is used.
FUNCTIONS: Dict[str, Tuple] = {
    "gw_error_message": (c_char_p,),
    "gw_version": (c_char_p,),
    "gw_isa": (c_char_p,),
    "gw_comm_sockets": (c_int, _out, POINTER(c_int), POINTER(c_char_p), c_int, c_int,
                        POINTER(CommOptions)),
    "gw_comm_new": (c_int, _out, POINTER(Transport), c_void_p, c_int, c_int,
                    POINTER(CommOptions)),
    "gw_comm_link": (c_int, c_void_p, c_char_p),
    "gw_comm_free": (None, c_void_p),
    "gw_comm_fail": (c_int, c_void_p, c_int),
    "gw_comm_interrupt": (None, c_void_p),
    "gw_comm_pause": (None, c_void_p),
    "gw_comm_rank": (c_int, c_void_p),
    "gw_comm_workers": (c_int, c_void_p),
    "gw_comm_transport": (c_char_p, c_void_p),
    "gw_comm_traffic": (Traffic, c_void_p),
    "gw_barrier": (c_int, c_void_p),
    "gw_broadcast": (c_int, c_void_p, c_void_p, c_size_t, c_int),
    "gw_transfer": (c_int, c_void_p, c_int, c_void_p, c_int, c_void_p, c_size_t),
    "gw_allreduce": (c_int, c_void_p, _floats, c_size_t),
    "gw_allgather": (c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t,
                     POINTER(c_size_t)),
    "gw_local_group_new": (c_int, _out, POINTER(LocalOptions)),
    "gw_local_join": (c_int, _out, c_void_p, c_int),
    "gw_local_group_free": (None, c_void_p),
    "gw_layout_new": (c_int, _out, POINTER(Tensor), c_size_t),
    "gw_layout_free": (None, c_void_p),
    "gw_sync_new": (c_int, _out, c_char_p, c_void_p, c_void_p, POINTER(SyncOptions)),
    "gw_sync_free": (None, c_void_p),
    "gw_spec_check": (c_int, c_char_p, c_char_p, c_size_t),
    "gw_recipe_name": (c_char_p, c_size_t),
    "gw_recipe_summary": (c_char_p, c_size_t),
    "gw_recipe_example": (c_char_p, c_size_t),
    "gw_spec_describe": (c_int, c_char_p, POINTER(SpecInfo)),
    "gw_sync_set_rate": (c_int, c_void_p, c_double),
    "gw_memory_describe": (c_int, c_char_p, c_size_t, POINTER(MemoryInfo)),
    "gw_spec_advise": (c_int, c_char_p, POINTER(OptimizerInfo), POINTER(Advice)),
    "gw_stage_describe": (c_int, c_char_p, POINTER(StageInfo)),
    "gw_key_describe": (c_int, c_char_p, c_size_t, POINTER(KeyInfo)),
    "gw_sync_start": (c_int, c_void_p, _floats),
    "gw_sync_gradient": (c_int, c_void_p, _floats),
    "gw_sync_gradient_pieces": (c_int, c_void_p, POINTER(Piece), c_size_t),
    "gw_sync_gradient_part": (c_int, c_void_p, _floats, c_size_t),
    "gw_sync_overlaps": (c_int, c_void_p),
    "gw_sync_takes_entries": (c_int, c_void_p),
    "gw_sync_entries_due": (c_size_t, c_void_p),
    "gw_sync_entries": (c_int, c_void_p, POINTER(Entries), POINTER(Entries),
                        POINTER(Entries)),
    "gw_sync_model": (c_int, c_void_p, _floats),
    "gw_sync_model_due": (c_int, c_void_p),
    "gw_sync_scale": (c_double, c_void_p),
    "gw_sync_momentum": (c_double, c_void_p),
    "gw_sync_finish": (c_int, c_void_p, _floats),
    "gw_sync_pending": (c_int, c_void_p),
    "gw_sync_drain": (c_int, c_void_p, _floats),
    "gw_sync_keeps_equal": (c_int, c_void_p),
    "gw_sync_spec": (c_char_p, c_void_p),
    "gw_sync_stats": (Stats, c_void_p),
    "gw_sync_set_momentum": (c_int, c_void_p, c_double),
    "gw_sync_residual_norm": (c_double, c_void_p),
    "gw_sync_health": (c_int, c_void_p, POINTER(Health)),
    "gw_sync_state_len": (c_size_t, c_void_p),
    "gw_sync_save": (c_int, c_void_p, c_void_p, c_size_t),
    "gw_sync_load_one": (c_int, c_void_p, c_void_p, c_size_t, c_size_t, c_size_t),
    "gw_state_seal": (c_int, c_void_p, c_size_t),
    "gw_sync_enter": (c_int, _out, c_void_p, _floats, POINTER(EnterOptions), POINTER(Entry)),
    "gw_entry_hand": (c_int, c_void_p, POINTER(Entry), c_void_p, c_size_t),
    "gw_sync_exchanged": (c_uint64, c_void_p),
}

lib = load()
for _name, (_result, *_arguments) in FUNCTIONS.items():
    _function = getattr(lib, _name)
    _function.restype = _result
    _function.argtypes = _arguments

# Takes arguments as printf() does; here it gets none.
lib.gw_fail.restype, lib.gw_fail.argtypes = c_int, [c_int, c_char_p]


def set_message(status: int, text: str) -> None:
    """Makes text the last message of this thread."""
    line = " ".join(text.split())
    lib.gw_fail(status, line.replace("%", "%%").replace("\0", "?").encode(errors="replace"))


_CLASSES = {
    ERR_ARG: errors.ArgumentError, ERR_DATA: errors.DataError,
    ERR_SPEC: errors.SpecError, ERR_PEER: errors.PeerError,
    ERR_TIMEOUT: errors.PeerError, ERR_NUMBER: errors.NonFiniteError,
    ERR_MISMATCH: errors.MismatchError, ERR_DIFFER: errors.DifferError}


def check(status: int) -> int:
    """Returns status if it is not a failure. Otherwise raises the exception for it, with
    the last message of this thread."""
    if status >= 0:
        return status
    message = lib.gw_error_message().decode(errors="replace")
    if status == ERR_NOMEM:
        raise MemoryError(message)
    raise _CLASSES.get(status, errors.GradwireError)(message, status)


def version() -> str:
    """Returns the version of the library."""
    return lib.gw_version().decode()


def isa() -> str:
    """Returns the vector instructions in use: "avx512", "avx2", "neon" or "c"."""
    return lib.gw_isa().decode()


def recipes() -> List[Tuple[str, str]]:
    """Returns name and summary of every recipe that a spec can begin with."""
    found: List[Tuple[str, str]] = []
    while lib.gw_recipe_name(len(found)) is not None:
        i = len(found)
        found.append((lib.gw_recipe_name(i).decode(), lib.gw_recipe_summary(i).decode()))
    return found


def examples() -> List[str]:
    """Returns the shortest spec for each recipe, in the order of recipes()."""
    return [lib.gw_recipe_example(i).decode() for i in range(len(recipes()))]
