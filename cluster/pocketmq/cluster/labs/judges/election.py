"""Lab 8: the judge plays replicas; a real controller elects, and the program must agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from pocketmq.cluster.labs.program import Program
from pocketmq.cluster.labs.trial import Trial
from pocketmq.protocol.bodies.controller import SyncStateSet
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.controller import (
    AlterSyncStateSetRequestHeader,
    ApplyBrokerIdRequestHeader,
    ElectMasterRequestHeader,
    GetReplicaInfoRequestHeader,
    GetReplicaInfoResponseHeader,
    RegisterBrokerToControllerRequestHeader,
    UpdateControllerConfigRequestHeader,
)
from pocketmq.protocol.headers.route import BrokerHeartbeatRequestHeader
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.remoting import expect
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.words import counted

CLUSTER: Final = "DefaultCluster"
CLEAN: Final = 24
UNCLEAN: Final = 12

SILENT_MS: Final = 10_000
LONG_MS: Final = 3_600_000
DEAD_AFTER_S: Final = 16
"""10 s of silence and a scan of 5 s."""

READ_WHY: Final = (
    "a master that is dead stays recorded until somebody is elected; only an election changes "
    "master and epoch, and after it only the new master is in sync (D-33)"
)
RULE_WHY: Final = (
    "a living master stays. Else, of the living replicas that are in sync, the one with the newest "
    "epoch; then the longest log; then the smallest priority; then the smallest id (D-30 to D-32)"
)
UNCLEAN_WHY: Final = (
    "with enableElectUncleanMaster the same rule is tried once more with all living replicas, but "
    "only when it found none among those in sync; what they lack is lost (D-30)"
)


class Replica(NamedTuple):
    """A replica as its last heartbeat told, and whether it still lives."""

    id: int
    alive: bool
    epoch: int
    offset: int
    priority: int


class Group(NamedTuple):
    """The replicas of one broker name."""

    name: str
    master: int
    in_sync: list[int]
    replicas: list[Replica]

    def question(self, *, unclean: bool) -> dict[str, object]:
        """For the program."""
        replicas = [each._asdict() for each in self.replicas]
        return {
            "ask": "elect", "master": self.master, "in_sync": self.in_sync,
            "unclean": unclean, "replicas": replicas,
        }  # fmt: skip


async def judge(trial: Trial) -> None:
    """See the lab's page."""
    address = trial.cluster.roles.addresses["controller-1"]
    channel = await TcpNetwork().connect(address, Dispatcher())
    try:
        async with trial.program() as program:
            controllers = _Controllers(trial, channel)
            trial.record.stage()
            await _read(trial, program, controllers)
            for unclean, count in ((False, CLEAN), (True, UNCLEAN)):
                trial.record.stage()
                # The option belongs to the controllers, so it applies to all broker names of this
                # stage.
                await controllers.allow_unclean(unclean)
                await _elections(trial, program, controllers, count, unclean=unclean)
    finally:
        channel.close()


async def _read(trial: Trial, program: Program, controllers: _Controllers) -> None:
    """One broker name over half a minute, and questions about it."""
    name = trial.name("read")
    # Only the third replica stays alive; the others stop their heartbeats.
    one, two, three = (Replica(id, id == 3, 1, 100 * id, 1) for id in (1, 2, 3))
    began_ms = trial.cluster.time_ms()
    log: list[dict[str, object]] = []
    states: list[tuple[float, dict[str, object]]] = []

    async def note(**event: object) -> None:
        at_s = (trial.cluster.time_ms() - began_ms) / 1000
        log.append({"at_s": at_s, **event})
        # The real controller's answer is the right one; nothing is computed here.
        master, epoch, in_sync = await controllers.info(name)
        states.append((at_s, {"master": master, "epoch": epoch, "in_sync": in_sync}))

    async def elected() -> None:
        master, epoch, _ = await controllers.info(name)
        await note(event="elected", master=master, epoch=epoch)

    await controllers.begin(Group(name, 1, [1, 2], [one, two, three]))
    log.append({"at_s": 0, "event": "elected", "master": 1, "epoch": 1})
    await note(event="in_sync", ids=[1, 2])
    for passed_s in (5, 7):
        await trial.cluster.advance(passed_s)
        await controllers.beat(name, [two, three])
    await note(event="silent", id=1)
    # Replica 1 has sent nothing for twelve seconds already.
    await trial.cluster.advance(DEAD_AFTER_S - 12)
    await elected()
    await controllers.alter(name, 2, [2, 3], epoch=2, set_epoch=3)
    await note(event="in_sync", ids=[2, 3])
    await controllers.beat(name, [three])
    await trial.cluster.advance(DEAD_AFTER_S)
    await elected()
    for at_s, wanted in states:
        if [state for when, state in states if when == at_s][-1] is not wanted:
            continue  # something else happened at the same moment
        trial.record.expect(
            f"a log of {counted(len(log), 'event')}: who is master {at_s:g} s after the beginning",
            wanted=wanted,
            found=await program.ask({"ask": "read", "log": log, "at_s": at_s}, "master and epoch"),
            why=READ_WHY,
        )


async def _elections(
    trial: Trial, program: Program, controllers: _Controllers, count: int, *, unclean: bool
) -> None:
    word = "unclean" if unclean else "clean"
    groups = [_random_group(trial, f"{word}-{number}") for number in range(count)]
    for group in groups:
        # All are begun first, so that one move of the clock lets all silent replicas die.
        await controllers.begin(group)
    await trial.cluster.advance(DEAD_AFTER_S)
    trial.record.note(f"{count} broker names; {DEAD_AFTER_S} s later the silent replicas are dead")
    for group in groups:
        master, _, _ = await controllers.info(group.name)
        said = await program.ask(group.question(unclean=unclean), "the id of the master, or null")
        trial.record.expect(
            f"master {group.master}, in sync {group.in_sync}: {_text(group.replicas)}",
            wanted={"master": master}, found=said, why=UNCLEAN_WHY if unclean else RULE_WHY,
        )  # fmt: skip


def _random_group(trial: Trial, word: str) -> Group:
    random = trial.random
    ids = range(1, random.randint(3, 5) + 1)
    # The master is always in the in-sync set.
    in_sync = sorted({1, *random.sample(ids, random.randint(1, 3))})
    # Rarely: a master that lives stays master, which is the simplest case.
    master_lives = random.random() < 0.15
    replicas = [
        Replica(
            id,
            master_lives if id == 1 else random.random() < 0.65,
            # Small ranges cause many ties, so that each further rule is needed.
            random.choice((1, 2, 2)),
            100 * random.randint(7, 9),
            random.choice((1, 5)),
        )
        for id in ids
    ]
    return Group(trial.name(word), 1, in_sync, replicas)


def _text(replicas: Sequence[Replica]) -> str:
    return "; ".join(
        f"{each.id} {'lives' if each.alive else 'is dead'}, epoch {each.epoch}, offset "
        f"{each.offset}, priority {each.priority}"
        for each in replicas
    )


class _Controllers:
    """Asks the controller what brokers ask, for all replicas over one connection."""

    def __init__(self, trial: Trial, channel: Channel) -> None:
        self._court = trial
        self._channel = channel

    async def begin(self, group: Group) -> None:
        """Register all replicas, have the first elected, and tell who is in sync."""
        name = group.name
        for each in group.replicas:
            address = _address(each.id)
            await self._ask(
                ApplyBrokerIdRequestHeader(
                    cluster_name=CLUSTER, broker_name=name, applied_broker_id=each.id,
                    register_check_code=f"{address};1",
                )
            )  # fmt: skip
            await self._ask(
                RegisterBrokerToControllerRequestHeader(
                    cluster_name=CLUSTER, broker_name=name, broker_id=each.id,
                    broker_address=address,
                )
            )  # fmt: skip
        await self.beat(name, group.replicas)
        await self._ask(
            ElectMasterRequestHeader(cluster_name=CLUSTER, broker_name=name, broker_id=group.master)
        )
        # An election leaves the master alone in the set, so then nothing has to change.
        if group.in_sync != [group.master]:
            await self.alter(name, group.master, group.in_sync, epoch=1, set_epoch=1)

    async def beat(self, name: str, replicas: Sequence[Replica]) -> None:
        """A heartbeat of each; those that are to live promise none for an hour."""
        for each in replicas:
            await self._ask(
                BrokerHeartbeatRequestHeader(
                    cluster_name=CLUSTER,
                    broker_addr=_address(each.id),
                    broker_name=name,
                    broker_id=each.id,
                    epoch=each.epoch,
                    max_offset=each.offset,
                    confirm_offset=0,
                    heartbeat_timeout_mills=LONG_MS if each.alive else SILENT_MS,
                    election_priority=each.priority,
                )
            )

    async def alter(
        self, name: str, master: int, in_sync: Sequence[int], *, epoch: int, set_epoch: int
    ) -> None:
        """The master tells who is in sync."""
        body = SyncStateSet(sync_state_set=set(in_sync), sync_state_set_epoch=set_epoch)
        await self._ask(
            AlterSyncStateSetRequestHeader(
                broker_name=name, master_broker_id=master, master_epoch=epoch
            ),
            encode_body(body, self._channel.encoding),
        )

    async def info(self, name: str) -> tuple[int | None, int, list[int]]:
        """Master, epoch, and who is in sync."""
        reply = expect(await self._channel.request(GetReplicaInfoRequestHeader(broker_name=name)))
        header = reply.header(GetReplicaInfoResponseHeader)
        body = decode_body(reply.body_view, SyncStateSet, reply.encoding)
        return header.master_broker_id, header.master_epoch or 0, sorted(body.sync_state_set or ())

    async def allow_unclean(self, allowed: bool) -> None:
        """Change `enableElectUncleanMaster` of the running controller."""
        text = f"enableElectUncleanMaster={str(allowed).lower()}"
        await self._ask(UpdateControllerConfigRequestHeader(), text.encode())

    async def _ask(self, header: Header, body: bytes = b"") -> None:
        expect(await self._channel.request(header, body))


def _address(replica: int) -> str:
    return f"127.0.0.1:{20_000 + replica}"
