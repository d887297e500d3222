"""Allocation strategies by their names on the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pocketmq.protocol.allocation import by_name
from pocketmq.protocol.allocation.averagely import AllocateMessageQueueAveragely
from pocketmq.protocol.allocation.by_config import AllocateMessageQueueByConfig
from pocketmq.protocol.allocation.machine_room import AllocateMessageQueueByMachineRoom, room_of
from pocketmq.protocol.allocation.machine_room_nearby import AllocateMachineRoomNearby
from pocketmq.protocol.allocation.preview import StrategyOf
from pocketmq.protocol.allocation.strategy import AllocateMessageQueueStrategy
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import ConfigError

ALL_STRATEGIES: Final = (*by_name.STRATEGIES, "config", "machine-room", "machine-room-nearby")


def strategy_named(name: str) -> AllocateMessageQueueStrategy:
    """A strategy without configuration by its name, or a user's class given as `module:Class`.

    Raises:
        ConfigError: There is none of this name.
    """
    if ":" in name and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does: the user's module is in this folder
    return by_name.strategy_named(name)


class RoomsInNames:
    """Machine rooms by names: broker or client `room@name` is in `room`."""

    def broker_deploy_in(self, message_queue: MessageQueue) -> str:
        return room_of(message_queue.broker_name) or ""

    def consumer_deploy_in(self, client_id: str) -> str:
        return room_of(client_id) or ""


@dataclass(frozen=True, slots=True)
class Imagined:
    """An imaginary group: how many clients, in which rooms, with which fixed queues."""

    clients: int
    rooms: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    """For strategy `config`: `consumer-1=broker-a/0,broker-a/1` for each client with queues."""

    def client_ids(self) -> list[str]:
        """`consumer-1`, ...; with rooms `room@consumer-1`, the rooms in turn."""
        # Padded with zeros, since ids are sorted as text: `consumer-10` would come before
        # `consumer-2`.
        width = len(str(self.clients))
        names = [f"consumer-{number + 1:0{width}}" for number in range(self.clients)]
        if not self.rooms:
            return names
        # The strategies for machine rooms expect the room in front.
        return [f"{self.rooms[at % len(self.rooms)]}@{name}" for at, name in enumerate(names)]

    def strategy_of(self, name: str, topic: str) -> StrategyOf:
        """The strategy of each client.

        Raises:
            ConfigError: There is none of this name, or it needs an option that is missing.
        """
        if name in ("config", AllocateMessageQueueByConfig.name):
            if not self.fixed:
                raise ConfigError(
                    "strategy", "config needs each client's queues",
                    advice="add --fixed consumer-1=broker-a/0,broker-a/1 for each client",
                )  # fmt: skip
            lists = dict(_fixed(text, topic) for text in self.fixed)
            # A client without an entry gets no queues, as in RocketMQ.
            return lambda client_id: AllocateMessageQueueByConfig(lists.get(client_id))
        strategy: AllocateMessageQueueStrategy
        if name in ("machine-room", AllocateMessageQueueByMachineRoom.name):
            strategy = AllocateMessageQueueByMachineRoom(self._needed_rooms(name))
        elif name in ("machine-room-nearby", "MACHINE_ROOM_NEARBY"):
            # Only a check: this strategy reads the rooms from the names, which have them only with
            # --rooms.
            self._needed_rooms(name)
            strategy = AllocateMachineRoomNearby(AllocateMessageQueueAveragely(), RoomsInNames())
        else:
            try:
                strategy = strategy_named(name)
            except ConfigError as exc:
                # For a user's own class the error itself says more than a list of names.
                if ":" in name:
                    raise
                raise ConfigError(
                    "strategy", f"there is no {name!r}",
                    advice=f"choose from {', '.join(ALL_STRATEGIES)}, or write module:Class to "
                    "use your own strategy",
                ) from exc  # fmt: skip
        return lambda _client_id: strategy

    def _needed_rooms(self, name: str) -> Sequence[str]:
        if not self.rooms:
            raise ConfigError(
                "strategy", f"{name} needs rooms",
                advice="add --rooms east,west; each broker's name must begin with its room, as "
                "in east@broker-a",
            )  # fmt: skip
        return self.rooms


def _fixed(text: str, topic: str) -> tuple[str, list[MessageQueue]]:
    """Parse `consumer-1=broker-a/0,broker-a/1` into a client id and its queues."""
    client_id, equals, listed = text.partition("=")
    queues = []
    for place in listed.split(","):
        # From the right, as a broker's name may contain a slash.
        broker, slash, number = place.strip().rpartition("/")
        if not (client_id and equals and broker and slash and number.isdecimal()):
            raise ConfigError(
                "fixed",
                f"{text!r} names no queues",
                advice="write consumer-1=broker-a/0,broker-a/1",
            )
        queues.append(MessageQueue(topic, broker, int(number)))
    return client_id, queues
