"""Telemetry, Heartbeat, NotifyClientTermination (G-20 to G-29, G-40, G-41, G-51, G-56)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import grpc
import structlog

from pocketmq.proxy.codes.names import check_group, check_topic
from pocketmq.proxy.codes.refusals import OK, Refusal, status, status_of
from pocketmq.proxy.edge.callers import Caller
from pocketmq.proxy.edge.checks import CheckedTopics
from pocketmq.proxy.edge.parts import Parts
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import ClientType, Code, MessageType
from pocketmq.proxy.settings.clients import CLIENT_TYPES, Client
from pocketmq.proxy.settings.merging import kept_of_consumer

log = structlog.get_logger()

MOST_WAITING: Final = 1_000
MOST_WAITING_BYTES: Final = 8 * 1024 * 1024
"""Commands that wait for a client that does not read, and their bytes; a further one is dropped."""

_CONSUMERS: Final = (ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER)
_FAILED: Final = "process client telemetryCommand failed. "
_NO_SETTINGS: Final = "cannot find client settings for this client"


class Telemetry:
    """Who is connected, and what they are told.

    Args:
        parts: Of the proxy.
        checked: Topics whose transactions brokers ask about.
        ended: Called with a client that has ended or was silent for too long.
    """

    def __init__(
        self, parts: Parts, checked: CheckedTopics, ended: Callable[[Client], None]
    ) -> None:
        self._parts = parts
        self._checked = checked
        self._ended = ended

    # -- the stream -----------------------------------------------------------------------------

    async def telemetry(self, commands: AsyncIterator[Any], context: Any) -> None:
        """One client's stream: each of its settings is answered, and commands go to it."""
        await context.send_initial_metadata(())  # Rust's SDK waits for it (G-13)
        outbox = _Outbox(context)
        # A task of its own: commands of brokers come while this stream waits for its client.
        writer = self._parts.tasks.start(outbox.run(), name="telemetry writer")
        client: Client | None = None
        try:
            async for said in commands:
                command: Any = said if isinstance(said, Refusal) else self._bounded(said)
                try:
                    if not isinstance(command, Refusal):
                        await self._parts.guard.check(context, command)
                    caller = Caller.of(context)
                except Refusal as exc:
                    await outbox.write(pb.TelemetryCommand(status=status_of(exc)))
                    # It ends the stream with status OK: SDKs read the reason from the command and
                    # not from gRPC (G-40).
                    return
                # One that is too long cannot be read, and one with too many topics holds the loop
                # if the guard looks at each.
                if isinstance(command, Refusal):
                    await context.abort(
                        grpc.StatusCode.INVALID_ARGUMENT, _FAILED + command.sentence
                    )
                if command.WhichOneof("command") == "settings":
                    client = await self._settings(caller, command.settings, outbox, context)
        finally:
            # Commands that were not written are lost: brokers ask again about a transaction.
            writer.cancel()
            # Only our own: the client may have opened its next stream before this one ended.
            if client is not None and client.write == outbox.put:
                client.write = None  # it may come back on another stream (G-41)

    def _bounded(self, command: Any) -> Any:
        """The command, or in place of settings with too many topics their `Refusal`."""
        settings, most = command.settings, self._parts.limits.topics_per_client
        # Entries and not names: one topic a thousand times costs as much to keep.
        named = max(len(settings.publishing.topics), len(settings.subscription.subscriptions))
        if named > most:
            return Refusal(
                Code.BAD_REQUEST, f"there are more than {most} topics (budget.grpc_topics)"
            )
        return command

    async def _settings(
        self, caller: Caller, settings: Any, outbox: _Outbox, context: Any
    ) -> Client:
        """Take a client's settings; faults end the stream (G-40)."""
        code, sentence = grpc.StatusCode.INTERNAL, ""
        try:
            client = await self._take(caller, settings, outbox.put)
            told = await self._parts.settings_of(client)
            # No further command is read until this is written: a client that does not read
            # cannot have answers pile up here.
            await outbox.write(pb.TelemetryCommand(status=OK, settings=told))
            return client
        except Refusal as exc:
            if Code.BAD_REQUEST <= exc.code < Code.INTERNAL_ERROR:
                code = grpc.StatusCode.INVALID_ARGUMENT
            sentence = exc.sentence
            # Settings with neither are refused before RocketMQ's proxy adds its text.
            if settings.WhichOneof("pub_sub") is not None:
                sentence = _FAILED + sentence
        except asyncio.CancelledError:
            raise
        except Exception as exc:
            log.exception("proxy.settings_failed", client_id=caller.client_id)
            sentence = f"{_FAILED}{exc}"
        await context.abort(code, sentence)
        raise AssertionError("abort raises")

    async def _take(self, caller: Caller, settings: Any, write: Callable[[Any], None]) -> Client:
        """Enter a client under its settings (G-26)."""
        parts, kind = self._parts, settings.WhichOneof("pub_sub")
        if kind is None:
            # Such settings would enter a client that is neither producer nor consumer.
            raise Refusal(
                Code.BAD_REQUEST, "there is no publishing or subscription data in settings"
            )
        if kind == "publishing":
            for topic in settings.publishing.topics:
                check_topic(topic.name)
            kept = pb.Settings()
            kept.CopyFrom(settings)  # a part of the command would keep all of it in memory
            client = parts.entered(caller, kept)
            # Its topics only now: a producer that sends to others later is not asked about them
            # (G-73).
            for topic in client.topics:
                if await parts.brokers.topic_type(topic) == MessageType.TRANSACTION.name:
                    await self._checked.add(topic)
            # Without topics nobody asks it anything, and another stream of the client may have
            # some.
            if client.topics:
                client.write = write
            return client
        group = settings.subscription.group.name
        check_group(group)
        # After the group, in the order in which RocketMQ's proxy refuses.
        if settings.client_type not in _CONSUMERS:
            name = _name_of(CLIENT_TYPES.get(settings.client_type))
            raise Refusal(Code.INTERNAL_SERVER_ERROR, f"Client type is not consumer, type: {name}")
        client = parts.entered(caller, kept_of_consumer(settings, parts.limits))
        parts.clients.join(client, group)
        client.write = write
        return client

    # -- calls ----------------------------------------------------------------------------------

    async def heartbeat(self, caller: Caller, request: Any) -> Any:
        """A client is alive (G-51).

        A consumer that is not known is entered, where RocketMQ's proxy refuses it: after a restart
        of the proxy some SDKs send their settings only after minutes (G-27).
        """
        parts = self._parts
        client = parts.clients.get(caller.client_id)
        # After a restart of the proxy; a producer has to send its settings, as only these name its
        # topics.
        if client is None:
            client = self._stranger(caller, request)
        if client.is_producer:
            parts.clients.heard(client)
            return pb.HeartbeatResponse(status=OK)
        if client.type not in _CONSUMERS:
            return pb.HeartbeatResponse(status=_unrecognized(client))
        check_group(request.group.name)
        # The heartbeat's group and not that of the settings: it is what the client consumes as now
        # (G-51).
        parts.clients.join(client, request.group.name)
        parts.clients.heard(client)
        return pb.HeartbeatResponse(status=OK)

    def _stranger(self, caller: Caller, request: Any) -> Client:
        if request.client_type not in _CONSUMERS:
            raise Refusal(Code.UNRECOGNIZED_CLIENT_TYPE, _NO_SETTINGS)
        return self._parts.consumer(caller, request.client_type, request.group.name)

    async def notify_client_termination(self, caller: Caller, request: Any) -> Any:
        """A client says that it ends (G-56)."""
        client = self._parts.clients.remove(caller.client_id)
        if client is None:
            raise Refusal(Code.UNRECOGNIZED_CLIENT_TYPE, _NO_SETTINGS)
        # Before anything is refused below: whatever group it names, the client has gone.
        self._ended(client)
        if not client.is_producer:
            if client.type not in _CONSUMERS:
                return pb.NotifyClientTerminationResponse(status=_unrecognized(client))
            check_group(request.group.name)
        return pb.NotifyClientTerminationResponse(status=OK)

    async def sweep(self) -> None:
        """Forget clients that were silent for too long, and topics without producers (G-41)."""
        for client in self._parts.clients.expire():
            log.info("proxy.client_expired", client_id=client.client_id, address=client.address)
            self._ended(client)
        await self._checked.sweep()


class _Outbox:
    """What one stream's client is told.

    Args:
        context: gRPC's, of the stream.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._waiting: asyncio.Queue[Any] = asyncio.Queue(MOST_WAITING)
        self._waiting_bytes = 0
        self._writing = asyncio.Lock()  # gRPC takes one write of a stream at a time

    def put(self, command: Any) -> None:
        """Have a command written when the client reads."""
        # What waits is counted in bytes too: one command holds a whole message.
        size = self._waiting_bytes + command.ByteSize()
        # A first one always passes, however large; else a large message could never be asked about.
        if self._waiting.full() or (self._waiting_bytes and size > MOST_WAITING_BYTES):
            log.warning("proxy.command_dropped", peer=self._context.peer())
            return
        self._waiting_bytes = size
        self._waiting.put_nowait(command)

    async def write(self, command: Any) -> None:
        """Write a command, as soon as the client reads."""
        async with self._writing:
            await self._context.write(command)

    async def run(self) -> None:
        """Write what is put."""
        while True:
            command = await self._waiting.get()
            await self.write(command)
            # After the write: what gRPC has not taken yet is still ours to hold.
            self._waiting_bytes -= command.ByteSize()


def _unrecognized(client: Client) -> Any:
    return status(Code.UNRECOGNIZED_CLIENT_TYPE, _name_of(client.type))


def _name_of(kind: ClientType | None) -> str:
    return "UNRECOGNIZED" if kind is None else kind.name
