"""Who is connected, with which settings, and in which groups (G-25, G-26, G-41, G-51).

A client is known by its id from its first settings until NotifyClientTermination or 120 s without
a heartbeat. The end of its Telemetry stream changes nothing of that: it may come back on another.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pocketmq.operation.events.groups import SdkJoined, SdkLeft
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.proxy.codes.refusals import Refusal
from pocketmq.proxy.protos.enums import ClientType, Code
from pocketmq.proxy.settings.limits import Limits

MOST_GROUPS: Final = 64
"""Consumer groups of one client; an SDK gives each consumer object an id, and one group."""

CLIENT_TYPES: Final = {each.value: each for each in ClientType}


@dataclass(slots=True, eq=False)
class Client:
    """One producer or consumer object of an SDK."""

    client_id: str
    settings: Any
    """As kept: what it said, and for a consumer a fresh group's values under it."""
    language: str = ""
    version: str = ""
    address: str = ""
    """Its host and port, as the proxy saw it last."""
    beat_ms: int = 0
    """When it was heard of last, by the clock."""
    write: Callable[[Any], None] | None = None
    """Puts a `TelemetryCommand` on its stream; None while it has none."""
    groups: set[str] = field(default_factory=set)
    """Consumer groups that it is a member of."""
    kept_bytes: int = 0
    """Of its settings and of all texts above, encoded."""

    @property
    def type(self) -> ClientType | None:
        """What it is; None for a kind that is newer than our messages."""
        return CLIENT_TYPES.get(self.settings.client_type)

    @property
    def sdk(self) -> str:
        """Language and version, as `GO 5.1.4`."""
        return f"{self.language} {self.version}".strip() or "OTHER"

    @property
    def is_producer(self) -> bool:
        """Whether its settings are a publisher's."""
        return bool(self.settings.HasField("publishing"))

    @property
    def topics(self) -> list[str]:
        """What it publishes to."""
        return [topic.name for topic in self.settings.publishing.topics]


class Clients:
    """All clients of one proxy, by their ids.

    Args:
        limits: How many are kept, and how much of them.
        time_ms: Epoch ms of the clock.
        name: Of the proxy.
        events: Takes who comes and goes.
    """

    def __init__(
        self,
        limits: Limits,
        time_ms: Callable[[], int],
        *,
        name: str = "",
        events: EventSink = NO_EVENTS,
    ) -> None:
        self._limits = limits
        self._time_ms = time_ms
        self._name = name
        self._events = events
        self._clients: OrderedDict[str, Client] = OrderedDict()
        self._kept_bytes = 0

    def __len__(self) -> int:
        return len(self._clients)

    def get(self, client_id: str) -> Client | None:
        """The client of an id."""
        return self._clients.get(client_id)

    def all(self) -> list[Client]:
        """Everyone, the one that was heard of last at the end."""
        return list(self._clients.values())

    def said(
        self,
        client_id: str,
        settings: Any,
        *,
        language: str = "",
        version: str = "",
        address: str = "",
    ) -> Client:
        """A client sent settings: they replace those before."""
        client = self._clients.get(client_id)
        is_new = client is None
        if client is None:
            client = self._clients[client_id] = Client(client_id, settings)
        client.settings = settings
        client.language, client.version, client.address = language, version, address
        self._count(client)
        # A consumer is reported when it joins its group.
        if is_new and client.is_producer:
            self._joined(client)
        return client

    def join(self, client: Client, group: str) -> None:
        """A client becomes a member of a group.

        Raises:
            Refusal: BAD_REQUEST: it is in too many.
        """
        if group in client.groups:
            return
        # Bounded: each heartbeat may name a new group.
        if len(client.groups) >= MOST_GROUPS:
            raise Refusal(
                Code.BAD_REQUEST,
                f"a client can be in at most {MOST_GROUPS} groups; use another client for this "
                "group",
            )
        client.groups.add(group)
        # Report the client first: `_count` may forget it again.
        self._joined(client, group)
        if client.client_id in self._clients:  # it may have been forgotten meanwhile
            self._count(client)

    def _count(self, client: Client) -> None:
        """Its bytes have changed; while all have too many, the one heard of longest ago goes."""
        self._kept_bytes -= client.kept_bytes
        said = (client.client_id, client.language, client.version, client.address)
        client.kept_bytes = client.settings.ByteSize() + sum(
            len(text.encode()) for text in (*said, *client.groups)
        )
        self._kept_bytes += client.kept_bytes
        # Move the client to the end first, or the loop below might forget it.
        self.heard(client)
        limits = self._limits
        # The client that was silent longest is forgotten: if it is alive, its next heartbeat brings
        # it back.
        while (
            len(self._clients) > limits.clients_remembered
            or self._kept_bytes > limits.settings_bytes
        ):
            self._forget_oldest()

    def heard(self, client: Client) -> None:
        """A client is alive."""
        client.beat_ms = self._time_ms()
        # The client may have been forgotten while its heartbeat waited for a broker.
        if client.client_id in self._clients:
            self._clients.move_to_end(client.client_id)

    def remove(self, client_id: str) -> Client | None:
        """A client says that it ends; what was known of it."""
        client = self._clients.pop(client_id, None)
        if client is not None:
            self._kept_bytes -= client.kept_bytes
            self._left(client, "unregistered")
        return client

    def expire(self) -> list[Client]:
        """Forget who was silent for too long, and name them."""
        before = self._time_ms() - self._limits.client_expire_ms
        gone = []
        while self._clients and next(iter(self._clients.values())).beat_ms < before:
            gone.append(self._forget_oldest())
        return gone

    def _forget_oldest(self) -> Client:
        client = self._clients.popitem(last=False)[1]
        self._kept_bytes -= client.kept_bytes
        self._left(client, "silent")
        return client

    def _joined(self, client: Client, group: str | None = None) -> None:
        if self._events.is_on:
            self._events.emit(
                SdkJoined(
                    *self._events.stamp(),
                    client_id=client.client_id,
                    proxy=self._name,
                    kind="producer" if group is None else "consumer",
                    sdk=client.sdk,
                    group=group,
                )
            )

    def _left(self, client: Client, how: Literal["unregistered", "silent"]) -> None:
        if self._events.is_on:
            self._events.emit(
                SdkLeft(
                    *self._events.stamp(), client_id=client.client_id, proxy=self._name, how=how
                )
            )

    def publishers(self, topic: str) -> list[Client]:
        """Who publishes to a topic and can be asked, the one heard of last at the end."""
        # Only clients with a stream: any other would swallow the broker's question.
        return [
            client
            for client in self._clients.values()
            if client.write is not None and client.is_producer and topic in client.topics
        ]

    def published_topics(self) -> set[str]:
        """All topics that somebody publishes to."""
        return {topic for client in self._clients.values() for topic in _topics_of(client)}

    def members(self, group: str) -> list[Client]:
        """Who is in a consumer group."""
        return [client for client in self._clients.values() if group in client.groups]


def _topics_of(client: Client) -> Iterable[str]:
    return client.topics if client.is_producer else ()
