"""Sequences for controllers: replicas that join, live, lead and die, and who is in sync.

Each pair has broker names of its own, so thousands share two controllers. A replica is its name and
number; its address is a name that nobody resolves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager

from parity.drawing import Draw
from parity.steps import CLOSE, Step

MORTAL = ("{b0}", 1)
"""The one that dies: alone on connection 1, for RocketMQ loses one replica of a connection that
ends, whichever it finds, and remembers over which connection the first heartbeat came."""

REPLICAS = (MORTAL, MORTAL, ("{b0}", 2), ("{b0}", 2), ("{b0}", 3), ("{b1}", 1), ("{b1}", 2))
DEATH_MS = 500
"""In which both have found a dead master, and another one."""


class ControllerDraw(Draw):
    """One sequence of them in the making."""

    names_of: Set[str] = frozenset({
        "clusterName", "brokerName", "brokerAddress", "brokerAddr", "registerCheckCode",
    })  # fmt: skip
    names: Sequence[str] = (
        "", "ä{k9}", "{b9}" + "x" * 100, "{b9}|", " {b9}", "{b0}.1:10911", "{x0}",
    )  # fmt: skip
    unbent: Set[tuple[str, str]] = frozenset({
        # Whom RocketMQ takes for dead at once, or for the best of all by an overflow; and a second
        # broker under the id of one that lives.
        *(("BROKER_HEARTBEAT", name) for name in (
            "heartbeatTimeoutMills", "epoch", "maxOffset", "electionPriority", "brokerAddr",
            "brokerId",
        )),
        ("CONTROLLER_REGISTER_BROKER", "brokerAddress"), ("CONTROLLER_REGISTER_BROKER", "brokerId"),
        # Each of these has a sequence in `found.CONTROLLER_STAYS`.
        *((code, "clusterName") for code in (
            "BROKER_HEARTBEAT", "CONTROLLER_APPLY_BROKER_ID", "CONTROLLER_REGISTER_BROKER",
            "CONTROLLER_ELECT_MASTER", "CLEAN_BROKER_DATA",
        )),
        ("CONTROLLER_APPLY_BROKER_ID", "appliedBrokerId"), ("CONTROLLER_ELECT_MASTER", "brokerId"),
        ("CLEAN_BROKER_DATA", "isCleanLivingBroker"),
        # PocketMQ refuses a request without them before it looks for the name.
        ("CONTROLLER_ALTER_SYNC_STATE_SET", "masterBrokerId"),
        ("CONTROLLER_ALTER_SYNC_STATE_SET", "masterEpoch"),
    })  # fmt: skip

    def __init__(self, seed: int | str, *, rough: bool = False, bends: bool = True) -> None:
        super().__init__(seed, rough=rough, bends=bends)
        self.led: set[str] = set()
        """Names that had a master: only then RocketMQ keeps a name whose replica is cleaned."""

    @contextmanager
    def straight(self) -> Iterator[None]:
        """What is added meanwhile is not bent."""
        bends, self.bends = self.bends, False
        yield
        self.bends = bends

    def who(self, *among: tuple[str, int]) -> dict[str, object]:
        """A replica, as most headers name it."""
        name, number = self.one(*(among or REPLICAS))
        return {
            "clusterName": "{x0}", "brokerName": name, "brokerId": number,
            "appliedBrokerId": number, "brokerAddress": f"{name}.{number}:10911",
            "brokerAddr": f"{name}.{number}:10911",
            "registerCheckCode": f"{name}.{number}:10911;{{k{number}}}",
        }  # fmt: skip

    def lives(self, who: dict[str, object], **more: object) -> None:
        """A heartbeat: what it tells only rises."""
        told = {
            "epoch": 1, "maxOffset": 100 * len(self.steps), "confirmOffset": 50,
            "heartbeatTimeoutMills": 600_000, "electionPriority": self.one(1, 2, 2**31 - 1),
        }  # fmt: skip
        step = self.add("BROKER_HEARTBEAT", **who | told | more)
        is_mortal = (step.fields["brokerName"], step.fields.get("brokerId")) == (
            MORTAL[0], str(MORTAL[1])
        )  # fmt: skip
        self.change(step, connection=int(is_mortal))


def joins(draw: ControllerDraw) -> None:
    """A replica gets an id, tells its address and lives."""
    joins_as(draw, draw.who())


def joins_as(draw: ControllerDraw, who: dict[str, object]) -> None:
    """The same of one of them."""
    if draw.chance(0.3):
        draw.add("CONTROLLER_GET_NEXT_BROKER_ID", **who)
    draw.add("CONTROLLER_APPLY_BROKER_ID", **who)
    draw.add("CONTROLLER_REGISTER_BROKER", **who)
    draw.lives(who)


def applies(draw: ControllerDraw) -> None:
    """An id that another one may have, with another check code, or the next one."""
    who = draw.who()
    next_id = draw.add("CONTROLLER_GET_NEXT_BROKER_ID", **who)
    number = draw.one(1, 2, 4, 7, 2**63 - 1, f"{{{next_id.label}.ext.nextBrokerId}}")
    code = draw.one(who["registerCheckCode"], "{k7}", "{b1}.9:10911;{k8};")
    draw.add("CONTROLLER_APPLY_BROKER_ID", **who | {
        "appliedBrokerId": number, "registerCheckCode": code,
    })  # fmt: skip


def registers(draw: ControllerDraw) -> None:
    """Again."""
    draw.add("CONTROLLER_REGISTER_BROKER", **draw.who())


def beats(draw: ControllerDraw) -> None:
    """A sign of life."""
    draw.lives(draw.who())


def elects(draw: ControllerDraw) -> None:
    """A replica asks for a master, or a tool names one."""
    elects_as(draw, draw.who(*(each for each in REPLICAS if each[1] < 3)))


def elects_as(draw: ControllerDraw, who: dict[str, object]) -> None:
    """The same of one of them, which joins before: RocketMQ elects also who is unknown.

    Nobody joins a name before its first replica.
    """
    with draw.straight():
        if who["brokerId"] != 1:
            joins_as(draw, draw.who((str(who["brokerName"]), 1)))
        joins_as(draw, who)
    designated = draw.one("false", "false", "true")
    step = draw.add("CONTROLLER_ELECT_MASTER", **who, designateElect=designated)
    draw.led.add(step.fields["brokerName"])


def alters(draw: ControllerDraw) -> None:
    """A master tells who is in sync; sometimes it is none, or of another epoch."""
    who = draw.who()
    label = draw.add("CONTROLLER_REGISTER_BROKER", **who).label
    in_sync = draw.one([1, 2], [1, 2], [1, 2], [1, 2], [1], [2], [3], [1, 9], [])
    epoch: object = f"{{{label}.ext.syncStateSetEpoch}}" if draw.chance(0.9) else draw.one(0, 1, 9)
    body = f'{{"syncStateSet":{json.dumps(in_sync)},"syncStateSetEpoch":{epoch}}}'
    master, of = (f"{{{label}.ext.{name}}}" for name in ("masterBrokerId", "masterEpoch"))
    draw.add(
        "CONTROLLER_ALTER_SYNC_STATE_SET", body, **who,
        masterBrokerId=master if draw.chance(0.9) else draw.one(1, 2),
        masterEpoch=of if draw.chance(0.9) else draw.one(0, 1, 2),
    )  # fmt: skip


def dies(draw: ControllerDraw) -> None:
    """Its connection ends, or it is silent for longer than it said; it may be back elsewhere."""
    name, number = MORTAL
    who: dict[str, object] = {
        "clusterName": "{x0}", "brokerName": name, "brokerId": number,
        "brokerAddr": f"{name}.{number}:10911", "brokerAddress": f"{name}.7:10911",
    }  # fmt: skip
    if draw.chance(0.5):
        with draw.straight():
            draw.lives(who, heartbeatTimeoutMills=1)
        draw.wait(DEATH_MS)
    # RocketMQ has closed it if the replica was silent.
    draw.steps.append(Step(CLOSE, connection=1))
    draw.wait(DEATH_MS)
    # Asked until both answer alike: on a loaded machine one of them takes longer.
    draw.steps.append(Step("CONTROLLER_GET_SYNC_STATE_DATA", body=json.dumps([name])))
    if draw.chance(0.3):
        draw.add("CONTROLLER_REGISTER_BROKER", **who)


def cleans(draw: ControllerDraw) -> None:
    """A tool takes replicas away that are not in sync, or the whole name."""
    who = draw.who()
    ids = draw.one("", "", "a;b", "3;;9", " 9", "3", "9", "3;9;")
    if str(who["brokerName"]) not in draw.led:
        ids = draw.one("", "a;b", "3;;9")
    draw.add(
        "CLEAN_BROKER_DATA", **who, isCleanLivingBroker="false", brokerControllerIdsToClean=ids
    )
    if not ids:
        draw.led.discard(str(who["brokerName"]))


def reads(draw: ControllerDraw) -> None:
    """What tools show."""
    code = draw.one(
        "CONTROLLER_GET_REPLICA_INFO", "CONTROLLER_GET_REPLICA_INFO",
        "CONTROLLER_GET_SYNC_STATE_DATA", "CONTROLLER_GET_METADATA_INFO",
    )  # fmt: skip
    names = draw.one(["{b0}"], ["{b0}", "{b1}"], ["{b8}"], ["{b0}", "{b0}"], [])
    body = json.dumps(names) if code == "CONTROLLER_GET_SYNC_STATE_DATA" else ""
    draw.add(code, body, **draw.who())


def options(draw: ControllerDraw) -> None:
    """Options, but for those that change the answers to other pairs."""
    if draw.chance(0.4):
        draw.steps.append(Step("GET_CONTROLLER_CONFIG", label=draw.label()))
        return
    text = draw.one(
        "", "configStorePath=/tmp/x", "configBlackList=x", "rocketmqHome=x", "# nothing",
        "notifyBrokerRoleChanged=false", "notifyBrokerRoleChanged=false\nconfigStorePath=x",
    )  # fmt: skip
    draw.steps.append(Step("UPDATE_CONTROLLER_CONFIG", body=text, label=draw.label()))


def not_for_it(draw: ControllerDraw) -> None:
    """What a broker is asked, or a nameserver."""
    draw.add(draw.one("SEND_MESSAGE", "GET_MAX_OFFSET", "GET_BROKER_CLUSTER_INFO", "HEART_BEAT"))


ACTS: tuple[tuple[Callable[[ControllerDraw], None], int], ...] = (
    (joins, 8), (applies, 4), (registers, 3), (beats, 3), (elects, 6), (alters, 8), (dies, 4),
    (cleans, 4), (reads, 4), (options, 1), (not_for_it, 1),
)  # fmt: skip


def drawn(seed: int | str, *, rough: bool = False, bends: bool = True) -> list[Step]:
    """The sequence of a seed, as `drawing.drawn` does for brokers."""
    draw = ControllerDraw(seed, rough=rough, bends=bends)
    if draw.chance(0.7):
        elects_as(draw, draw.who(MORTAL))
        joins_as(draw, draw.who(("{b0}", 2)))
    acts, weights = zip(*ACTS, strict=True)
    for _ in range(draw.random.randint(3, 12)):
        draw.random.choices(acts, weights)[0](draw)
    return draw.steps


def state() -> list[Step]:
    """Masters, sets, next ids and who lives."""
    names = ("{b0}", "{b1}", "{b9}")
    return [
        *(Step("CONTROLLER_GET_REPLICA_INFO", {"brokerName": each}) for each in names),
        *(
            Step("CONTROLLER_GET_NEXT_BROKER_ID", {"clusterName": "{x0}", "brokerName": each})
            for each in names
        ),
        Step("CONTROLLER_GET_SYNC_STATE_DATA", body=json.dumps(names)),
        Step("CONTROLLER_GET_METADATA_INFO"),
    ]
