"""`Signal`: how one part of a process tells others, whom it does not know, that something happened.

    arrived: Signal[[str, int]] = Signal()
    arrived.connect(lambda topic, queue_id: print(topic, queue_id))   # at assembly
    arrived.emit("orders", 3)                                          # synchronous, in order

A signal is made first and passed to the constructors of who emits it and of who listens, so
neither holds the other. What an emitter needs an answer to is no signal but an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Signal(Generic[P]):
    """Calls its listeners in the order in which they were connected.

    An error in a listener is the emitter's: it goes on to the caller of `emit`, and the listeners
    behind it do not hear.
    """

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: tuple[Callable[P, object], ...] = ()

    def connect(self, listener: Callable[P, object]) -> None:
        """Call `listener` at every `emit` from now on."""
        self._listeners = (*self._listeners, listener)

    def emit(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell everybody."""
        for listener in self._listeners:
            listener(*args, **kwargs)
