"""What a replica does about the controllers' answers, step by step; controllers are the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.broker.controller_mode.controllers import Verdict
from pocketmq.broker.controller_mode.identity import Identity
from pocketmq.broker.controller_mode.manager import (
    NO_LEASE,
    TOO_FEW,
    ManagerRules,
    ReplicaManager,
)
from pocketmq.broker.lease import MasterLease
from pocketmq.broker.replication.role_changes import MasterAddresses, ReplicaProgress
from pocketmq.broker.replication.sync_state import SyncState
from pocketmq.broker.role import RoleState
from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.store.readiness import Readiness
from pocketmq.protocol.bodies.controller import SyncStateSet
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.errors import BrokerError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.signals import Signal
from support.eventually import eventually

LOG_END, LEASE_S = 500, 10.0


class Replica:
    """A broker in controller mode, of which only the manager is real."""

    def __init__(self, *, all_ack: bool = True, min_in_sync: int = 1, lease_s: float = 0) -> None:
        self.done: list[str] = []
        self.clock = ManualClock(0)
        self.role = RoleState(BrokerRole.SLAVE, 0, MasterLease(lease_s))
        self.readiness = Readiness()
        self.sync = SyncState(15.0)
        self.alters: Callable[[], Any] = self._never
        self.verdict = Verdict(1, "127.0.0.1:1", 1, frozenset({1}), 1)
        self.answers_after_s = 0.0
        self.known: Identity | None = Identity("C", "a", 1)
        store: Any = SimpleNamespace(
            readiness=self.readiness, confirmed_offset=0, about_to_put=Signal(),
            confirm=lambda offset: self.done.append(f"confirm {offset}"),
            commit_log=SimpleNamespace(max_offset=LOG_END),
        )  # fmt: skip
        config = SimpleNamespace(cluster_name="C", name="a")
        core: Any = SimpleNamespace(
            clock=self.clock, role=self.role, store=store, config=config, address="127.0.0.1:1"
        )
        roles = SimpleNamespace(
            become_master=self._lead, become_slave=self._follow, unfence=self.note("unfence"),
            progress=ReplicaProgress(1, LOG_END, 0), master=MasterAddresses(None, None),
        )  # fmt: skip
        replication: Any = SimpleNamespace(
            roles=roles, sync=self.sync, slaves=SimpleNamespace(acks_moved=Signal())
        )
        controllers: Any = SimpleNamespace(
            master_of=self._master_of, alter=self._alter, heartbeat=self._heartbeat,
            next_id=self._next_id, claim=self._claim, register=self._register,
        )  # fmt: skip
        files: Any = SimpleNamespace(
            load=self._load, claim=self._noted("claim noted"),
            confirmed=self._noted("confirmed noted"), refused=self.note("claim dropped"),
        )  # fmt: skip
        peers: Any = None
        rules = ManagerRules(
            heartbeat_s=1.0, timeout_ms=10_000, poll_s=5.0, all_ack=all_ack,
            min_in_sync=min_in_sync, priority=0,
        )  # fmt: skip
        self.manager = ReplicaManager(core, replication, controllers, peers, files, rules)
        self.claims = True

    def note(self, what: str) -> Callable[[], None]:
        return lambda: self.done.append(what)

    def _noted(self, what: str) -> Callable[..., Any]:
        async def note(*_: object) -> None:
            self.done.append(what)

        return note

    async def lead(self, *ids: int, epoch: int = 1, set_epoch: int = 1) -> None:
        """Be elected, with others in sync."""
        self.manager._who = Identity("C", "a", 1)
        self.sync.named(1)
        self.verdict = Verdict(1, "127.0.0.1:1", epoch, frozenset({1, *ids}), set_epoch)
        await self.manager.apply(self.verdict)

    def join(self, slave_id: int, offset: int) -> None:
        """A slave connects, and has so much."""
        connection = object()
        self.sync.connected(slave_id, connection)
        self.sync.reported(slave_id, connection, offset, self.clock.monotonic())

    async def _lead(self, epoch: int, *, is_confirmed: bool) -> None:
        reasons = "blocked" if TOO_FEW in self.readiness.reasons else "open"
        self.done.append(f"lead {epoch} {reasons}")
        self.role.set(BrokerRole.SYNC_MASTER, 0, epoch)

    async def _follow(self, broker_id: int, _where: object, epoch: int) -> None:
        self.done.append(f"follow {epoch}")
        self.role.set(BrokerRole.SLAVE, broker_id, epoch)

    async def _master_of(self, _name: str) -> Verdict:
        await self.clock.sleep(self.answers_after_s)
        return self.verdict

    async def _heartbeat(self, _header: object) -> None:
        self.done.append("heartbeat")

    async def _alter(self, _who: object, epoch: int, ids: frozenset[int], _set: int) -> Any:
        self.done.append(f"alter {epoch} {sorted(ids)}")
        return await self.alters()

    async def _never(self) -> Any:
        raise AssertionError("nobody asks")

    async def _load(self, _cluster: str, _name: str) -> Identity | None:
        return self.known

    async def _next_id(self, _cluster: str, _name: str) -> int:
        return 3

    async def _claim(self, claim: Identity) -> bool:
        self.done.append(f"claim {claim.broker_id}")
        return self.claims

    async def _register(self, _who: Identity, _address: str) -> Verdict:
        self.done.append("register")
        return self.verdict


def accepted(ids: set[int], set_epoch: int) -> Command:
    body = SyncStateSet(sync_state_set=ids, sync_state_set_epoch=set_epoch)
    return Command(0, None, body=encode_body(body, Encoding.JSON), encoding=Encoding.JSON)


async def test_a_claim_is_noted_before_it_is_made_and_confirmed_before_it_is_used() -> None:
    replica = Replica()
    replica.known = None
    assert await replica.manager._identity() == Identity("C", "a", 3)
    assert replica.done == ["claim noted", "claim 3", "confirmed noted"]
    replica.done.clear()
    replica.claims = False
    with pytest.raises(BrokerError):
        await replica.manager._identity()
    assert replica.done == ["claim noted", "claim 3", "claim dropped"]


async def test_a_broker_is_heard_of_before_it_follows_or_leads_and_takes_messages_last() -> None:
    replica = Replica()
    await replica.manager._join()
    assert replica.done[:3] == ["register", "heartbeat", "lead 1 open"]
    assert replica.done[-1] == "unfence"


async def test_a_master_with_too_few_in_sync_takes_no_message_from_the_first_moment_on() -> None:
    replica = Replica(min_in_sync=2)
    await replica.lead()
    assert replica.done[0] == "lead 1 blocked"
    assert replica.readiness.reasons == {TOO_FEW}


async def test_a_slave_is_held_up_by_nothing_that_is_a_masters() -> None:
    replica = Replica(min_in_sync=2)
    await replica.lead()
    replica.readiness.block(NO_LEASE)
    await replica.manager.apply(Verdict(2, "127.0.0.1:2", 2))
    assert replica.done[-1] == "follow 2"
    assert replica.readiness.reasons == frozenset()
    assert replica.sync.ids == frozenset()


async def test_while_a_set_is_proposed_consumers_see_what_both_sets_have() -> None:  # H-150
    replica = Replica()
    await replica.lead()
    replica.join(2, LOG_END)
    replica.done.clear()

    async def accept() -> Command:
        return accepted({1, 2}, 2)

    replica.alters = accept
    await replica.manager._check()
    assert replica.done == [f"confirm {LOG_END}", "alter 1 [1, 2]", f"confirm {LOG_END}"]
    assert (set(replica.sync.ids), replica.sync.set_epoch) == ({1, 2}, 2)


async def test_an_answer_about_an_epoch_that_is_over_changes_nothing() -> None:
    replica = Replica()
    await replica.lead()
    replica.join(2, LOG_END)
    answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
    replica.alters = lambda: answer
    check = asyncio.create_task(replica.manager._check())
    await eventually(lambda: replica.done[-1].startswith("alter"), "it proposes")
    await replica.lead(3, epoch=2, set_epoch=1)
    answer.set_result(accepted({1, 2}, 9))
    await check
    assert (set(replica.sync.ids), replica.sync.set_epoch) == ({1, 3}, 1)


async def test_after_a_refusal_a_later_answer_decides_but_none_from_before_a_new_proposal() -> None:
    replica = Replica()
    await replica.lead()
    replica.join(2, LOG_END)

    async def refuse() -> Command:
        return Command(ResponseCode.CONTROLLER_INVALID_REQUEST, None)

    replica.alters = refuse
    await replica.manager._check()
    replica.answers_after_s = 1.0
    poll = asyncio.create_task(replica.manager._poll())
    await replica.clock.move_to(500)
    await replica.manager._check()  # another proposal, while the poll is under way
    await replica.clock.move_to(1_500)
    await poll
    assert replica.sync.is_asking, "the second proposal is not answered by that"
    poll = asyncio.create_task(replica.manager._poll())
    await replica.clock.move_to(3_000)
    await poll
    assert not replica.sync.is_asking


async def test_a_lease_counts_from_the_question_and_not_from_its_answer() -> None:  # W-2
    replica = Replica(lease_s=LEASE_S)
    await replica.lead()
    replica.answers_after_s = 4.0
    await replica.clock.move_to(7_000)
    poll = asyncio.create_task(replica.manager._poll())
    await replica.clock.move_to(12_000)
    await poll
    assert replica.role.lease.ends_at == pytest.approx(7.0 + LEASE_S)
