"""What tools ask: 1005, 1006, 1011, and the options, 1009 and 1010."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pocketmq.controller import commands
from pocketmq.controller.consensus import Consensus
from pocketmq.controller.errors import ControllerRefusedError
from pocketmq.controller.liveness import LiveBrokers
from pocketmq.controller.processors.bounds import Bounds
from pocketmq.controller.processors.deciding import decide
from pocketmq.operation.option_updates import OptionUpdates
from pocketmq.protocol.bodies.controller import BrokerReplicasInfo
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.headers.controller import (
    CleanControllerBrokerDataRequestHeader,
    GetMetaDataResponseHeader,
)
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.configuration.live_options import LiveOptions
from pocketmq.runtime.files.shared_writes import SharedWrites


class AdminProcessor:
    """Answers tools.

    Args:
        consensus: The group's state, and its way to change it.
        live: Who is alive.
        clock: When.
        bounds: Of what is asked.
        members: Id -> address of all controllers.
        group: Their name.
    """

    def __init__(
        self,
        consensus: Consensus,
        live: LiveBrokers,
        clock: Clock,
        bounds: Bounds,
        *,
        members: Mapping[str, str],
        group: str,
    ) -> None:
        self._consensus = consensus
        self._live = live
        self._clock = clock
        self._bounds = bounds
        self._members = members
        self._group = group

    @handles(RequestCode.CONTROLLER_GET_METADATA_INFO)
    def meta_data(self, _peer: Peer, request: Command) -> Reply:
        """Who leads, as this controller sees it (D-54)."""
        consensus = self._consensus
        leader = consensus.raft.leader
        if consensus.raft.is_leader and not consensus.serves:
            leader = ""  # it could not answer the next request
        return request.reply(
            GetMetaDataResponseHeader(
                group=self._group,
                controller_leader_id=leader or None,
                controller_leader_address=self._members.get(leader),
                is_leader=consensus.serves,
                peers="".join(f"{each}:{address};" for each, address in self._members.items()),
            )
        )

    @handles(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA)
    def sync_state_data(self, _peer: Peer, request: Command) -> Reply:
        """Replicas of some broker names; those that are unknown are left out."""
        # Only the leader knows the current state; other members may be behind.
        self._consensus.check_serving()
        self._bounds.check_body(request)
        table = BrokerReplicasInfo()
        replicas, now = self._consensus.replicas, self._clock.monotonic()
        for name in _names(request):
            group = replicas.get(name)
            if group is None:
                continue
            alive = [each for each in group.replicas if self._live.is_alive(name, each, now)]
            info = replicas.info(name, alive)
            if info is not None:
                table.replicas_info_table[name] = info
        return request.reply(body=encode_body(table, request.encoding))

    @handles(RequestCode.CLEAN_BROKER_DATA)
    def clean(self, peer: Peer, request: Command) -> Reply:
        """Forget replicas that will not come back (D-26)."""
        header = request.header(CleanControllerBrokerDataRequestHeader)
        self._consensus.check_serving()
        self._bounds.check_lengths(header.broker_name, header.cluster_name or "")
        ids = _ids(header.broker_controller_ids_to_clean or "")
        self._bounds.check_ids(ids)
        now = self._clock.monotonic()
        command = commands.Clean(
            header.cluster_name or "",
            header.broker_name,
            ids,
            header.is_clean_living_broker,
            [each for each in ids if self._live.is_alive(header.broker_name, each, now)],
        )
        return decide(self._consensus, peer, request, command)


class SettingsProcessor:
    """Shows and changes options (O-8).

    Args:
        options: what may be changed.
        writer: keeps it.
        port: where it listens, which stands for `port=0`.
    """

    def __init__(self, options: LiveOptions, writer: SharedWrites, port: int) -> None:
        self._port = port
        self._options = options
        self._updates = OptionUpdates(options, writer)

    @handles(RequestCode.GET_CONTROLLER_CONFIG)
    def show(self, _peer: Peer, request: Command) -> Reply:
        """Lines of `key=value`."""
        return request.reply(body=self._options.text(decided={"port": str(self._port)}).encode())

    @handles(RequestCode.UPDATE_CONTROLLER_CONFIG)
    def update(self, peer: Peer, request: Command) -> Reply:
        """Change what can be changed; the remark of the success names what was not."""
        return self._updates.update(peer, request)


def _names(request: Command) -> list[str]:
    """The body is a list of names, JSON, or msgpack in encoding 77; each counts once."""
    body = bytes(request.body_view)
    if not body:
        return []
    try:
        if request.encoding is Encoding.MSGPACK:
            names = msgspec.msgpack.decode(body, type=list[str])
        else:
            names = msgspec.json.decode(body, type=list[str])
    except msgspec.MsgspecError as exc:
        raise BadRequestError(f"the body must be a list of broker names: {exc}") from exc
    return list(dict.fromkeys(names))


def _ids(text: str) -> list[int]:
    """As Java reads them: no blanks around a number, and no empty one but at the end."""
    parts = text.rstrip(";").split(";") if text.strip() else []
    try:
        if any(each != each.strip() for each in parts):
            raise ValueError(text)
        return sorted({int(each) for each in parts})
    except ValueError:
        raise ControllerRefusedError(
            ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
            f"{text[:100]!r} must be broker ids, separated by semicolons, such as 1;2",
        ) from None
