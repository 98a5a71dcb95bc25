# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as exceptions: one class for each thing a program may want to
tell apart. All are RuntimeErrors and carry the library's sentence."""
from __future__ import annotations


class GradwireError(RuntimeError):
    """The library reported a failure. `status` is its number in gradwire.h."""

    status: int = 0

    def __init__(self, message: str, status: int = 0):
        super().__init__(message)
        self.status = status


class SpecError(GradwireError, ValueError):
    """The spec is invalid. The message names the wrong word and what is expected."""


class ArgumentError(GradwireError, ValueError):
    """An argument is invalid."""


class PeerError(GradwireError):
    """Another worker is gone or does not answer. The message names its rank."""


class MismatchError(GradwireError):
    """The workers were started with different settings."""


class DifferError(GradwireError):
    """The workers' models differ but should be equal. The message names the step and the
    workers."""


class NonFiniteError(GradwireError):
    """A gradient or a model holds NaN or infinity. The message names the worker, the step
    and the tensor."""


class DataError(GradwireError, ValueError):
    """A message or a saved state is damaged or does not match."""
