"""The fields of a fault rule as keyword arguments."""

from __future__ import annotations

from typing import TypedDict


class FaultOptions(TypedDict, total=False):
    """See `pocketmq.operation.faults.rule.FaultRule`."""

    role: str
    other: str
    code: int | str
    topic: str
    group: str
    nth: int
    times: int
    probability: float
    seed: int
    with_code: int | str
    remark: str
    delay_ms: int
