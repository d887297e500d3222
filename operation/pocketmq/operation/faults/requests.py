"""Fault rules on their way to a role, and what became of them: two requests of PocketMQ's own."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.operation.faults.rule import FaultRule, Firing
from pocketmq.protocol.body import BodyStruct, always
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.scalars import Int64


class FaultOrders(BodyStruct, kw_only=True):
    """SET_FAULTS (30004): all rules of a cluster; a role takes those that concern it."""

    rules: list[FaultRule] = always(list)
    addresses: dict[str, str] = always(dict)
    """Of each role by name."""
    role: str = ""
    """Whom they are sent to, by the name that rules use: replicas of one broker name have several.
    Empty: the role goes by the name that it was started with."""
    streams: dict[str, list[str]] = always(dict)
    """Further addresses of a role by name: where slaves follow it."""


class FaultReport(BodyStruct, kw_only=True):
    """The answer to GET_FAULTS (30005)."""

    counts: dict[str, int] = always(dict)
    """How often each rule fired at this role, by id."""
    firings: list[Firing] = always(list)
    """The last ones that were asked for, oldest first."""
    stream_ports: list[int] = always(list)
    """Where the role takes connections that carry no remoting frames: where slaves follow it."""


class SetFaultsRequestHeader(Header, kw_only=True):
    """SET_FAULTS: the fault rules that hold from now on."""

    CODE: ClassVar[int] = RequestCode.SET_FAULTS
    BODY = FaultOrders


class GetFaultsRequestHeader(Header, kw_only=True):
    """GET_FAULTS: which rules fired, and how often."""

    CODE: ClassVar[int] = RequestCode.GET_FAULTS
    RESPONSE_BODY = FaultReport

    after: Int64 = 0
    """Firings up to this number are known."""
