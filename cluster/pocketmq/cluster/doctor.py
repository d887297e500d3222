"""Looks a cluster over for `pocketmq doctor`: what is wrong, and what to type.

Every check asks what clients ask, from where the command runs: an address that does not answer here
does not answer a client here either.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, Literal

from pocketmq.broker.store.config import StoreConfig
from pocketmq.client import Admin
from pocketmq.client.config import credentials_of, network_of
from pocketmq.cluster.control import ControlledProcess
from pocketmq.cluster.own_topics import peoples_topics
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.addresses import host_of
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import ClockMemberError, PocketMQError
from pocketmq.runtime.words import counted

State = Literal["ok", "note", "wrong"]

CLOCK_OFF_MS: Final = 5_000
"""By which a broker's clock may differ from this machine's; brokers tell theirs in seconds."""
_STORE: Final = StoreConfig()
DISK_FULL_AT: Final = _STORE.warning_ratio
"""Part of the disk in use, from which a broker with default options refuses messages."""
DISK_CLEANED_AT: Final = _STORE.max_used_ratio
"""From which it deletes the oldest files at any hour."""

_RUNTIME = re.compile(r"([\d,]+) days, (\d+) hours, (\d+) minutes, (\d+) seconds")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    what: str
    """`nameserver`, `address`, `clock`, `disk`, `version` or `route`."""
    of: str
    state: State
    found: str
    advice: str = ""
    """What to type or to change; empty of what is well."""


async def examine(nameservers: Sequence[str], clock: Clock) -> list[Check]:
    """Ask nameservers and brokers.

    Args:
        nameservers: `host:port` each.
        clock: This machine's.
    """
    checks: list[Check] = []
    known: dict[str, dict[str, dict[int, str]]] = {}
    for address in nameservers:
        try:
            # One by one: a client of all nameservers would hide one that does not answer.
            async with Admin(nameservers=address) as admin:
                known[address] = await admin.brokers(masters_only=False)
        except (PocketMQError, OSError) as exc:
            checks.append(_silent_nameserver(address, exc))
        else:
            count = len(known[address])
            checks.append(
                Check("nameserver", address, "ok", f"it knows {counted(count, 'broker')}")
            )
    checks += lacking(known)
    if not known:
        return checks
    brokers: dict[str, dict[int, str]] = {}
    for each in known.values():  # one may know a master that another does not
        for name, ids in each.items():
            brokers.setdefault(name, {}).update(ids)
    own = RemotingClient(network_of(os.environ), credentials=credentials_of(None, os.environ))
    async with AsyncExitStack() as stack, Admin(nameservers=list(known)) as admin:
        # This client is closed after `Admin`, which is entered later.
        stack.push_async_callback(own.close)
        figures: dict[str, Mapping[str, str]] = {}
        for name, replicas in sorted(brokers.items()):
            for number, address in sorted(replicas.items()):
                who = name if number == 0 else f"{name} slave {number}"
                try:
                    # At the registered address, as clients do, since that address may be wrong.
                    found = await admin.broker_runtime_info(name, address=address)
                except (PocketMQError, OSError) as exc:
                    checks.append(_silent_broker(who, address, exc))
                    continue
                figures[who] = found
                checks.append(reachable(who, address))
                # A manual clock differs on purpose, and is not reported as wrong.
                is_manual = await _is_manual(ControlledProcess(who, address, own))
                checks += of_figures(who, found, clock.time_ms(), is_manual=is_manual)
        checks += versions(figures)
        checks += await _routes(admin, brokers)
    return checks


async def _is_manual(broker: ControlledProcess) -> bool | None:
    """Whether its clock only moves when somebody moves it; None if it tells only others.

    RocketMQ's brokers do not know the question.
    """
    try:
        return (await broker.clock()).manual
    except ClockMemberError as exc:
        return None if exc.refused else False


def _silent_nameserver(address: str, exc: Exception) -> Check:
    # It runs, and its refusal says what is missing.
    if isinstance(exc, BrokerError):
        return Check("nameserver", address, "wrong", str(exc), "give what it asks for")
    advice = f"start it (`pocketmq nameserver --port {address.rpartition(':')[2]}`), or correct -n"
    return Check("nameserver", address, "wrong", str(exc), advice)


def _silent_broker(who: str, address: str, exc: Exception) -> Check:
    # It answered with a refusal, so the address is right but the keys are not.
    if isinstance(exc, BrokerError):
        return Check("address", who, "wrong", str(exc), "give keys of a user who may ask it")
    return Check(
        "address",
        who,
        "wrong",
        f"it is registered as {address}, which does not answer here",
        "start it; or have it register an address that clients reach (`--broker-ip1`)",
    )


def lacking(known: Mapping[str, Mapping[str, Mapping[int, str]]]) -> list[Check]:
    """Nameservers that do not know a broker which another one knows. Pure.

    Args:
        known: By nameserver: broker name -> broker id -> address.
    """
    names = sorted({name for each in known.values() for name in each})
    if known and not names:
        # All nameservers lack all brokers: one finding is enough.
        advice = "start one: `pocketmq broker`, or all of it: `pocketmq up`"
        return [Check("broker", "all", "wrong", "no broker is registered", advice)]
    found = []
    for address, brokers in known.items():
        if missing := [name for name in names if name not in brokers]:
            advice = f"give {missing[0]} every nameserver (`--nameservers`)"
            lacks = f"it does not know {', '.join(missing)}"
            found.append(Check("nameserver", address, "wrong", lacks, advice))
    return found


def reachable(who: str, address: str) -> Check:
    """A broker that answers here; others may be elsewhere. Pure."""
    if host_of(address) in ("127.0.0.1", "::1", "localhost"):
        advice = "for other machines and containers: `pocketmq up --host ADDRESS`"
        return Check("address", who, "note", f"{address} is this machine's only", advice)
    return Check("address", who, "ok", f"{address} answers")


def of_figures(
    who: str, figures: Mapping[str, str], now_ms: int, *, is_manual: bool | None = False
) -> list[Check]:
    """A broker's clock and disk. Pure.

    Args:
        who: Broker name, and slave's number.
        figures: Of GET_BROKER_RUNTIME_INFO (28).
        now_ms: This machine's time in epoch ms.
        is_manual: Its clock is meant to differ; None if that is not known.
    """
    checks = []
    if ran := _RUNTIME.search(figures.get("runtime", "")):
        days, hours, minutes, seconds = (int(each.replace(",", "")) for each in ran.groups())
        ran_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        # A broker does not report its time, but when it started and how long it has run.
        off_s = (int(figures["bootTimestamp"]) - now_ms) / 1000 + ran_s
        if abs(off_s) * 1000 > CLOCK_OFF_MS:
            told = f"{abs(off_s):,.0f} s {'ahead of' if off_s > 0 else 'behind'} this machine's"
            if is_manual is None:
                advice = "give a super user's keys to see whether its clock is manual"
                checks.append(Check("clock", who, "note", told, advice))
            elif is_manual:
                advice = "`pocketmq clock advance` moves it"
                checks.append(Check("clock", who, "note", f"manual, {told}", advice))
            else:
                checks.append(Check("clock", who, "wrong", told, "set the clocks (NTP)"))
        else:
            checks.append(Check("clock", who, "ok", "as this machine's"))
    ratio = float(figures.get("commitLogDiskRatio", "-1"))
    if ratio >= DISK_FULL_AT:
        advice = "make room: from 90 % on it may refuse messages"
        checks.append(Check("disk", who, "wrong", f"{ratio:.0%} in use", advice))
    elif ratio >= DISK_CLEANED_AT:
        advice = "make room: from 75 % on the oldest messages are deleted at any hour"
        checks.append(Check("disk", who, "note", f"{ratio:.0%} in use", advice))
    elif ratio >= 0:
        checks.append(Check("disk", who, "ok", f"{ratio:.0%} in use"))
    return checks


def versions(figures: Mapping[str, Mapping[str, str]]) -> list[Check]:
    """Whether all brokers are of one release. Pure."""
    found = {who: each.get("brokerVersionDesc", "unknown") for who, each in figures.items()}
    kinds = sorted(set(found.values()))
    if len(kinds) == 1:
        return [Check("version", "all brokers", "ok", kinds[0])]
    advice = "run one release: clients see other rules at each broker"
    told = ", ".join(f"{who} {kind}" for who, kind in sorted(found.items()))
    # Without an answer of any broker there are no versions to compare.
    return [Check("version", "all brokers", "note", told, advice)] if found else []


async def _routes(admin: Admin, brokers: Mapping[str, Mapping[int, str]]) -> list[Check]:
    checks = []
    topics = await peoples_topics(admin)
    for topic in topics:
        route = await admin.route(topic)
        names = [] if route is None else [each.broker_name for each in route.queue_datas]
        # A topic without queues may remain in a nameserver whose brokers have gone.
        if not names:
            advice = f"create it: `pocketmq topic create {topic}`"
            checks.append(Check("route", topic, "wrong", "no broker has its queues", advice))
        for name in names:
            # Slaves serve reads of such a queue, but it takes no messages.
            if 0 not in brokers.get(name, {}):
                advice = f"start {name}, or make one of its slaves the master"
                told = f"queues of it are on {name}, which has no master"
                checks.append(Check("route", topic, "wrong", told, advice))
    if not checks:
        all_of_them = counted(len(topics), "topic")
        checks.append(Check("route", all_of_them, "ok", "every queue has a master"))
    return checks
