"""`Replicas`: replicas of each broker name, the master, who is in sync (D-20 to D-27). Pure.

The state that controllers agree on. `apply` decides a command and changes the state; it is called
with the same commands in the same order on each controller. Everything else only reads.

    two replicas register, the first asks for a master     epoch 1, master 1, in sync {1}, set 1
    1 tells that 2 has caught up                           epoch 1, master 1, in sync {1, 2}, set 2
    1 dies                                                 epoch 2, master 2, in sync {2}, set 3
    2 dies as well; 1 is back                              epoch 3, no master: 1 may lack messages
    2 is back and asks                                     epoch 4, master 2, in sync {2}, set 4
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from pocketmq.controller import commands
from pocketmq.controller.election import elect
from pocketmq.controller.limits import Kept, text_bytes
from pocketmq.controller.replica_group import FIRST_ID, Replica, ReplicaGroup
from pocketmq.operation.events.roles import Elected
from pocketmq.protocol.bodies.controller import (
    ElectMasterResponseBody,
    ReplicaIdentity,
    ReplicasInfo,
    SyncStateSet,
)
from pocketmq.protocol.bodies.route import BrokerMemberGroup
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.controller import (
    AlterSyncStateSetResponseHeader,
    ApplyBrokerIdResponseHeader,
    ElectMasterResponseHeader,
)
from pocketmq.runtime.words import counted

BY_CONTROLLER = -1


class Outcome(msgspec.Struct, frozen=True):
    """What a command came to."""

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    header: Header | None = None
    body: SyncStateSet | ElectMasterResponseBody | None = None
    elected: str = ""
    """The broker name that has a new master,"""
    why: Elected | None = None
    """and why."""


class Replicas:
    """The state, and what it says."""

    def __init__(self) -> None:
        self.groups: dict[str, ReplicaGroup] = {}
        self.kept = Kept()
        """How much it all is."""

    # -- reading --------------------------------------------------------------------------------

    def get(self, name: str) -> ReplicaGroup | None:
        """What is known of a broker name."""
        return self.groups.get(name)

    def next_id(self, name: str) -> int:
        """An id that nobody has yet (D-20)."""
        group = self.groups.get(name)
        return FIRST_ID if group is None else group.next_id

    def info(self, name: str, alive: Collection[int]) -> ReplicasInfo | None:
        """What tools are shown of a broker name."""
        group = self.groups.get(name)
        if group is None:
            return None
        identities = {
            each: ReplicaIdentity(
                broker_name=name,
                broker_id=each,
                broker_address=replica.address,
                alive=each in alive,
            )
            for each, replica in sorted(group.replicas.items())
        }
        return ReplicasInfo(
            master_broker_id=group.master_id,
            master_address=group.address_of(group.master_id),
            master_epoch=group.master_epoch,
            sync_state_set_epoch=group.set_epoch,
            in_sync_replicas=[who for each, who in identities.items() if each in group.in_sync],
            not_in_sync_replicas=[
                who for each, who in identities.items() if each not in group.in_sync
            ],
        )

    def with_master(self) -> Iterator[tuple[str, ReplicaGroup]]:
        """The broker names that have a master, alive or not."""
        for name, group in self.groups.items():
            if group.master_id is not None:
                yield name, group

    def snapshot(self) -> str:
        """The whole state as a text."""
        plain = msgspec.to_builtins(self.groups, str_keys=True)
        return msgspec.json.encode(plain, order="deterministic").decode()

    def restore(self, text: str) -> None:
        """Become what `snapshot` told.

        Raises:
            msgspec.MsgspecError: the text is none.
        """
        self.groups = msgspec.json.decode(text, type=dict[str, ReplicaGroup]) if text else {}
        self.kept = Kept()
        for name, group in self.groups.items():
            self.kept.add(text_bytes(name, group.cluster), names=1)
            for replica in group.replicas.values():
                self.kept.add(replica.size_bytes, replicas=1)

    # -- changing -------------------------------------------------------------------------------

    def apply(self, command: commands.Command) -> Outcome:
        """Decide a command."""
        match command:
            case commands.ApplyId():
                return self._apply_id(command)
            case commands.SetAddress():
                return self._set_address(command)
            case commands.Elect():
                return self._elect(command)
            case commands.AlterSet():
                outcome = self._alter_set(command)
                # Java's `int` is never null: refusals tell 0.
                header = outcome.header or AlterSyncStateSetResponseHeader()
                return msgspec.structs.replace(outcome, header=header)
            case commands.Clean():
                return self._clean(command)

    def _apply_id(self, command: commands.ApplyId) -> Outcome:
        broker_id, name = command.broker_id, command.name
        group = self.groups.get(name)
        # RocketMQ tells the names on refusals too.
        header = ApplyBrokerIdResponseHeader(cluster_name=command.cluster, broker_name=name)
        if group is None:
            # A broker name begins with id 1: any other id would leave a gap that nobody could take
            # (D-20).
            if broker_id != FIRST_ID:
                return Outcome(
                    ResponseCode.CONTROLLER_BROKER_ID_INVALID,
                    f"nobody of {name} is registered yet, so the first id is {FIRST_ID} and not"
                    f" {broker_id}; ask for the next id",
                    header,
                )
        elif group.cluster != command.cluster:
            return _other_cluster(name, group, command.cluster)
        holder = None if group is None else group.replicas.get(broker_id)
        # The check code shows whether it is the same broker: an id belongs to one store (D-21,
        # F-30).
        if holder is not None and holder.check_code != command.check_code:
            return Outcome(
                ResponseCode.CONTROLLER_BROKER_ID_INVALID,
                f"id {broker_id} of {name} belongs to the broker at {holder.address}; ask for the"
                " next id",
                header,
            )
        if holder is None:
            refused = self._add(command, group)
            if refused is not None:
                return refused
        return Outcome(header=header)

    def _add(self, command: commands.ApplyId, group: ReplicaGroup | None) -> Outcome | None:
        """A new replica, and its name if that is new too; the outcome if there is no room."""
        name, most = command.name, command.limits.replicas_per_name
        if command.broker_id < FIRST_ID or (group is not None and len(group.replicas) >= most):
            return _refused(
                f"{name} may have {counted(most, 'replica')} (budget.replicas_per_name), with ids"
                " from 1 on"
            )
        # RocketMQ's check codes begin with the address, which the broker may change later.
        replica = Replica(command.check_code.partition(";")[0], command.check_code)
        names, size_bytes = 0, replica.size_bytes
        if group is None:
            names, size_bytes = 1, size_bytes + text_bytes(name, command.cluster)
        why = self.kept.refusal(command.limits, size_bytes, names=names, replicas=1)
        if why is not None:
            return _refused(why)
        self.kept.add(size_bytes, names=names, replicas=1)
        if group is None:
            group = self.groups[name] = ReplicaGroup(command.cluster)
        group.replicas[command.broker_id] = replica
        # An id is never given again, even if its broker is gone: a later broker has another log.
        group.next_id += 1
        return None

    def _set_address(self, command: commands.SetAddress) -> Outcome:
        group = self.groups.get(command.name)
        replica = None if group is None else group.replicas.get(command.broker_id)
        if replica is None:
            return not_registered(command.name, command.broker_id)
        more_bytes = text_bytes(command.address) - text_bytes(replica.address)
        why = self.kept.refusal(command.limits, more_bytes)
        if why is not None:
            return _refused(why)
        self.kept.add(more_bytes)
        replica.address = command.address
        return Outcome()

    def _elect(self, command: commands.Elect) -> Outcome:
        name, asked_by = command.name, command.asked_by
        group = self.groups.get(name)
        if group is None:
            return not_registered(name, None)
        if command.cluster and command.cluster != group.cluster:
            return _other_cluster(name, group, command.cluster)
        if asked_by != BY_CONTROLLER and asked_by not in group.replicas:
            return not_registered(name, asked_by)
        # Another election came first, and its master stays.
        if command.expected_epoch is not None and command.expected_epoch != group.master_epoch:
            return self._master_stays(name, group)
        candidates = {
            each.broker_id: each for each in command.candidates if each.broker_id in group.replicas
        }
        if group.master_epoch == 0 and asked_by != BY_CONTROLLER:
            chosen: int | None = asked_by  # nothing was ever acknowledged: the first asker
        else:
            chosen = elect(
                candidates,
                group.in_sync,
                old_master=group.master_id,
                preferred=asked_by if command.is_designated else None,
                allow_unclean=command.allow_unclean,
            )
        if chosen is None:
            return self._nobody_elected(name, group, asked_by)
        if chosen == group.master_id:
            return self._master_stays(name, group)
        why = _why(command, is_first=group.master_epoch == 0)
        group.master_id = chosen
        group.master_epoch += 1
        # The set begins with the new master alone; others join when they have caught up (D-27).
        group.in_sync = {chosen}
        group.set_epoch += 1
        header, body = self._election(name, group)
        return Outcome(header=header, body=body, elected=name, why=why)

    def _nobody_elected(self, name: str, group: ReplicaGroup, asked_by: int) -> Outcome:
        why = f"no living replica of {name} is in sync; in sync: {sorted(group.in_sync)}"
        # A broker that asks is refused. For the controller itself the name has no master any more:
        # brokers that poll see this, and ask for an election.
        if asked_by != BY_CONTROLLER:
            return Outcome(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, why)
        if group.master_id is not None:
            group.master_id = None
            group.master_epoch += 1
        return Outcome(ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, why)

    def _master_stays(self, name: str, group: ReplicaGroup) -> Outcome:
        # The answer names the master, so that the asker can follow it at once. The members are
        # those to be told of an election, and there was none.
        header, _ = self._election(name, group)
        body = ElectMasterResponseBody(sync_state_set=set(group.in_sync))
        remark = f"replica {group.master_id} of {name} is and stays master"
        return Outcome(ResponseCode.CONTROLLER_MASTER_STILL_EXIST, remark, header, body)

    def _election(
        self, name: str, group: ReplicaGroup
    ) -> tuple[ElectMasterResponseHeader, ElectMasterResponseBody]:
        header = ElectMasterResponseHeader(
            master_broker_id=group.master_id,
            master_address=group.address_of(group.master_id),
            master_epoch=group.master_epoch,
            sync_state_set_epoch=group.set_epoch,
        )
        addresses = {each: replica.address for each, replica in group.replicas.items()}
        members = BrokerMemberGroup(cluster=group.cluster, broker_name=name, broker_addrs=addresses)
        body = ElectMasterResponseBody(
            broker_member_group=members, sync_state_set=set(group.in_sync)
        )
        return header, body

    def _alter_set(self, command: commands.AlterSet) -> Outcome:
        """In RocketMQ's order of checks (D-24)."""
        group = self.groups.get(command.name)
        if group is None:
            return _not_altered(f"{command.name} is not registered")
        wanted = set(command.in_sync)
        # RocketMQ refuses an equal set before any other check.
        if wanted == group.in_sync:
            return _not_altered("that is the set already")
        # Only the master of this epoch says who is in sync (D-24).
        if group.master_id is None or group.master_id != command.master_id:
            return Outcome(
                ResponseCode.CONTROLLER_INVALID_MASTER,
                f"master of {command.name} is {group.master_id}, not {command.master_id}",
            )
        if group.master_epoch != command.master_epoch:
            return Outcome(
                ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
                f"the master's epoch is {group.master_epoch}, not {command.master_epoch}",
            )
        # Another set was decided meanwhile, which this master does not know yet.
        if group.set_epoch != command.set_epoch:
            return Outcome(
                ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
                f"the set's epoch is {group.set_epoch}, not {command.set_epoch}",
            )
        # All must be registered and alive: puts would wait for one that is gone.
        for each in sorted(wanted):
            if each not in group.replicas:
                return Outcome(
                    ResponseCode.CONTROLLER_INVALID_REPLICAS, f"replica {each} is not registered"
                )
            if each not in command.alive:
                return Outcome(
                    ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, f"replica {each} sends no heartbeats"
                )
        if group.master_id not in wanted:
            return _not_altered(f"the master {group.master_id} must be in the set")
        group.in_sync = wanted
        group.set_epoch += 1
        return Outcome(
            header=AlterSyncStateSetResponseHeader(new_sync_state_set_epoch=group.set_epoch),
            body=group.sync_state_set(),
        )

    def _clean(self, command: commands.Clean) -> Outcome:
        name, ids = command.name, set(command.broker_ids)
        group = self.groups.get(name)
        if group is None:
            return _not_cleaned(f"{name} is not registered")
        if command.cluster and command.cluster != group.cluster:
            return _other_cluster(name, group, command.cluster)
        # Unless forced, this keeps masters, living replicas and the last ones in sync (D-26).
        if not command.is_forced:
            if not ids and group.master_id is not None:
                return _not_cleaned(f"{name} has a master, replica {group.master_id}")
            living = sorted(ids & set(command.alive))
            if living:
                return _not_cleaned(f"replicas {living} of {name} are alive")
            is_last = bool(group.in_sync) and group.in_sync <= ids
            if is_last and set(group.replicas) - ids:
                return _not_cleaned(
                    f"without {sorted(ids)} nobody of {name} is in sync; clean the whole name, or"
                    " force it with isCleanLivingBroker and elect another by unclean election"
                )
        for each in ids or list(group.replicas):
            replica = group.replicas.pop(each, None)
            if replica is not None:
                self.kept.add(-replica.size_bytes, replicas=-1)
            group.in_sync.discard(each)
            if group.master_id == each:
                group.master_id = None
        # A name without replicas is removed, so that another cluster may take it.
        if not group.replicas:
            self.kept.add(-text_bytes(name, group.cluster), names=-1)
            del self.groups[name]
        return Outcome()


def not_registered(name: str, broker_id: int | None) -> Outcome:
    """A broker must claim an id first (2010)."""
    who = name if broker_id is None else f"id {broker_id} of {name}"
    remark = f"{who} is not registered with the controllers; apply for an id first"
    return Outcome(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark)


def _other_cluster(name: str, group: ReplicaGroup, cluster: str) -> Outcome:
    return _refused(
        f"{name} belongs to cluster {group.cluster}, and the request names cluster {cluster};"
        " choose another broker name, or give each cluster its own controllers"
    )


def _refused(remark: str) -> Outcome:
    return Outcome(ResponseCode.CONTROLLER_INVALID_REQUEST, remark)


def _not_altered(remark: str) -> Outcome:
    return Outcome(ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, remark)


def _not_cleaned(remark: str) -> Outcome:
    return Outcome(ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, remark)


def _why(command: commands.Elect, *, is_first: bool) -> Elected:
    if is_first:
        return "first"
    if command.is_designated:
        return "designated"
    return "lost" if command.asked_by == BY_CONTROLLER else "asked"
