"""Which clock a client takes when its maker names none.

It is the system's clock, except for clients of a cluster whose manual clock is moved from inside
this process (`pocketmq.testing`): whoever moves it registers the cluster's name servers here, and a
client of theirs then gets a clock that is moved together with the cluster's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pocketmq.runtime.clock import Clock, SystemClock

_SYSTEM_CLOCK = SystemClock()
_makers: dict[str, Callable[[], Clock]] = {}
"""By name server address."""


def register(nameservers: Sequence[str], make_clock: Callable[[], Clock]) -> None:
    """From now on, clients of these name servers get their clock here.

    Args:
        nameservers: `host:port` each.
        make_clock: Called for each client, in the thread that makes it.
    """
    for address in nameservers:
        _makers[address] = make_clock


def unregister(nameservers: Sequence[str]) -> None:
    """The cluster has ended, or its clock is moved no more."""
    for address in nameservers:
        _makers.pop(address, None)


def clock_for(nameservers: Sequence[str]) -> Clock:
    """The clock of a client of these name servers."""
    for address in nameservers:
        if address in _makers:
            return _makers[address]()
    return _SYSTEM_CLOCK
