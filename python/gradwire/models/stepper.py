# SPDX-License-Identifier: Apache-2.0
"""The optimizer's step with what must happen around it.

PyTorch 2 has hooks for that; with earlier versions step() is wrapped. A step that must
be left out finds no gradients, which every optimizer takes for nothing to do; they are
put back afterwards.
"""
from __future__ import annotations

import contextlib
import sys
import types
import weakref
from typing import Any, Callable, Iterator, List, Optional, Tuple

import torch

from .optimizer import Moved, fitted


@contextlib.contextmanager
def _without_gradients(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    held: List[Tuple[Any, Any]] = [(p, p.grad) for group in optimizer.param_groups
                                   for p in group["params"]]
    try:
        for p, _ in held:
            p.grad = None
        yield
    finally:
        for p, gradient in held:
            p.grad = gradient


class Stepper:
    """Follows the steps of one optimizer until undo()."""

    def __init__(self, optimizer: torch.optim.Optimizer, exchange: Any,
                 moved: Optional[Moved]):
        self._optimizer = weakref.ref(optimizer)
        self._exchange = exchange
        self._moved = moved
        self._during = contextlib.ExitStack()  # what holds only while a step runs
        self._active = True
        self._rehearsal = False
        self._hooks: List[Any] = []
        if hasattr(optimizer, "register_step_pre_hook"):
            self._hook(optimizer)
        else:
            self._wrap(optimizer)

    # ---- around a step ---------------------------------------------------------

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> Tuple[Any, Any]:
        """Returns the arguments for the step. One with a closure makes its gradients
        only then."""
        self._during.close()  # of a step that failed
        self._rehearsal = _is_rehearsal()
        if self._rehearsal:
            if self._moved is not None:
                self._during.enter_context(self._moved.left_out())
            return args, kwargs
        closure = args[0] if args else kwargs.get("closure")
        if closure is not None:
            wrapped = self._closure(optimizer, closure)
            args, kwargs = ((wrapped, *args[1:]), kwargs) if args else (
                args, dict(kwargs, closure=wrapped))
        else:
            self._exchange.before_step()
            self._exchange.look()
            self._with_gradients(optimizer)
        if self._moved is not None:
            self._during.enter_context(self._moved.left_out())
        return args, kwargs

    def _closure(self, optimizer: Any, closure: Callable[[], Any]) -> Callable[[], Any]:
        def evaluate() -> Any:
            loss = closure()
            self._exchange.before_step()
            self._with_gradients(optimizer)
            return loss

        return evaluate

    def _with_gradients(self, optimizer: Any) -> None:
        """The exchange knows only now what becomes of this step."""
        if self._exchange.skip_step():
            self._during.enter_context(_without_gradients(optimizer))
        if self._moved is None:
            self._during.enter_context(fitted(optimizer, self._exchange.sync))

    def _after(self, optimizer: Any) -> None:
        self._during.close()
        if self._rehearsal:
            return
        self._exchange.model_step(float(optimizer.param_groups[0].get("lr", 0)))

    def step(self) -> None:
        """One more step, with the gradients that there are."""
        optimizer = self._optimizer()
        if optimizer is not None:
            optimizer.step()

    # ---- how it is told of them ------------------------------------------------

    def _hook(self, optimizer: Any) -> None:
        def before(optimizer: Any, args: Any, kwargs: Any) -> Any:
            args, kwargs = self._before(optimizer, args[1:], kwargs)
            return (optimizer, *args), kwargs  # PyTorch counts the optimizer among them

        self._hooks = [
            optimizer.register_step_pre_hook(before),
            optimizer.register_step_post_hook(lambda o, args, kwargs: self._after(o))]
        if hasattr(optimizer, "register_state_dict_pre_hook"):  # after a step that failed
            self._hooks.append(optimizer.register_state_dict_pre_hook(
                lambda _: self._during.close()))

    def _wrap(self, optimizer: Any) -> None:
        own = optimizer.__dict__.get("step")
        inner = optimizer.step
        outer = self

        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not outer._active:
                return inner(*args, **kwargs)
            args, kwargs = outer._before(self, args, kwargs)
            with outer._during:
                result = inner(*args, **kwargs)
            outer._after(self)
            return result

        # Schedulers look for marks on the step, and want a bound method.
        step.__dict__.update(getattr(inner, "__dict__", {}))
        self._own, self._bound = own, types.MethodType(step, optimizer)
        optimizer.step = self._bound

    def undo(self) -> None:
        self._active = False
        self._during.close()
        for hook in self._hooks:
            hook.remove()
        optimizer = self._optimizer()
        if self._hooks or optimizer is None or (
                optimizer.__dict__.get("step") is not self._bound):
            return  # somebody wrapped it further: it stays, and does nothing
        if self._own is None:
            del optimizer.__dict__["step"]
        else:
            optimizer.step = self._own  # type: ignore[method-assign]


def _is_rehearsal() -> bool:
    """Whether torch.distributed.checkpoint makes this step, at a rate of 0 and with zeros for
    gradients: get_state_dict() does, so that a new optimizer has states to load into. No step
    of the training is meant, so nobody else may take part."""
    module = sys.modules.get("torch.distributed.checkpoint.state_dict")
    code = getattr(getattr(module, "_init_optim_state", None), "__code__", None)
    frame: Any = sys._getframe() if code is not None else None
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None
