"""Transactional sends: delivered only if a local transaction succeeds (P-60 to P-62).

    class Booking:
        async def execute_local_transaction(self, message, argument):
            await database.book(argument)           # raises: the broker will ask
            return TransactionState.COMMIT

        async def check_local_transaction(self, message):
            booked = await database.is_booked(message.keys)
            return TransactionState.COMMIT if booked else TransactionState.ROLLBACK

    async with TransactionProducer("bookings", Booking(), nameservers="127.0.0.1:9876") as producer:
        await producer.send_in_transaction(Message("booked", b"...", keys="seat-12"), "seat-12")

The broker stores a *half message*, which no consumer sees; the local transaction runs; its outcome
makes the broker commit or roll back the message. When the outcome does not arrive, the broker asks
a producer of the group, which need not be the one that sent it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, unique
from typing import Any, Final, Protocol, Unpack

import structlog

from pocketmq.client.listener_threads import ListenerThreads, PooledThreads
from pocketmq.client.producer.options import ProducerOptions
from pocketmq.client.producer.producer import Producer
from pocketmq.client.producer.send_result import SendResult, SendStatus
from pocketmq.protocol.dispatch import Peer
from pocketmq.protocol.errors import IllegalMessageError
from pocketmq.protocol.headers.transactions import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
)
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.ids import offset_of_msg_id
from pocketmq.protocol.messages.message import Message, MessageExt, MessageQueue
from pocketmq.protocol.messages.validation import is_delayed
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.runtime.errors import CallerError, PocketMQError

log = structlog.get_logger()

MAX_CHECKS: Final = 2_000
"""Questions of brokers that may be under way; more are dropped, and asked again."""

MAX_THREADS: Final = 4
"""In which plain functions of a listener run."""


LISTENER_METHODS: Final = ("execute_local_transaction", "check_local_transaction")
"""Of a `TransactionListener`."""


@unique
class TransactionState(Enum):
    """Outcome of a local transaction; the numbers of END_TRANSACTION (37)."""

    COMMIT = MessageSysFlag.TRANSACTION_COMMIT
    """Deliver the message."""
    ROLLBACK = MessageSysFlag.TRANSACTION_ROLLBACK
    """Forget it."""
    UNKNOWN = MessageSysFlag.TRANSACTION_NONE
    """Ask again later."""


class TransactionListener(Protocol):
    """The application's two answers. Each may be async; a plain function runs in a thread."""

    def execute_local_transaction(
        self, message: Message, argument: object
    ) -> TransactionState | Awaitable[TransactionState]:
        """Do what the message announces. What is raised means UNKNOWN."""
        ...

    def check_local_transaction(
        self, message: MessageExt
    ) -> TransactionState | Awaitable[TransactionState]:
        """Whether it was done, maybe by another process. What is raised means UNKNOWN."""
        ...


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """What `send_in_transaction` ends with."""

    send: SendResult
    """Where the half message is stored."""
    state: TransactionState
    """The outcome sent to the broker. If it does not arrive there, the broker asks."""
    error: BaseException | None = None
    """What the local transaction raised; the state is UNKNOWN then."""


class _Asked:
    """One of a listener's two functions, looked at once."""

    def __init__(self, event: str, function: Callable[..., Any]) -> None:
        self.event = event
        """Of the log line when it fails."""
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)


class TransactionProducer(Producer):
    """A producer whose messages wait for local transactions.

    Args:
        group: Producer group. Every member must be able to answer for each other's messages.
        listener: Runs and checks local transactions.
        threads: Where plain functions of the listener run; a small pool by default.
        options: See `Producer`.

    Raises:
        CallerError: The listener lacks one of its two methods.
    """

    def __init__(
        self,
        group: str,
        listener: TransactionListener,
        *,
        threads: ListenerThreads | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        # Before anything is made of it: usually the group's name was passed in its place.
        lacks = [each for each in LISTENER_METHODS if not callable(getattr(listener, each, None))]
        if lacks:
            raise CallerError(
                f"listener is {listener!r:.80}, which has no method "
                f"{' and no method '.join(lacks)}; pass an object with the methods "
                f"{' and '.join(LISTENER_METHODS)}"
            )
        super().__init__(group, **options)
        self._execute = _Asked("transaction.local_part_failed", listener.execute_local_transaction)
        self._check_state = _Asked("transaction.check_failed", listener.check_local_transaction)
        self._threads = threads or PooledThreads(f"transactions of {group}", MAX_THREADS)
        self._checks = 0

    async def start(self) -> None:
        """Join, and tell all brokers: they also ask a member that has not sent yet (P-62).

        Raises:
            DuplicateGroupError: this client id has a producer of the group already.
        """
        await super().start()
        instance, model = self._started(), self.settings.create_topic_key
        # With this topic, heartbeats also reach brokers to which nothing was sent yet: they may
        # hold half messages of members that are gone.
        self.published_topics.add(model)  # which all brokers have that make topics by themselves
        try:
            await instance.lookups.refresh_route(model)
        except PocketMQError as exc:
            instance.lookups.route_failed(model, exc)
        await instance.heartbeat()

    async def stop(self) -> None:
        await super().stop()
        self._threads.close()

    async def send_in_transaction(
        self,
        message: Message,
        argument: object = None,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> TransactionResult:
        """Store a half message, run the local transaction, and send its outcome to the broker.

        Args:
            message: Up to RocketMQ 5.4 it loses its delay level, which a half message cannot have.
            argument: For the listener.
            queue: Where the message goes when it is committed.
            timeout_ms: Real milliseconds for storing the half message.

        Raises:
            IllegalMessageError: the message breaks a limit, or, from 5.5 on, is delayed.
            Others: see `Producer.send`; the local transaction was not run.
        """
        # The broker notes here where a half message was stored first; a producer's value could
        # point anywhere.
        if names.TRANSACTION_PREPARED_QUEUE_OFFSET in message.properties:
            raise IllegalMessageError(
                f"{names.TRANSACTION_PREPARED_QUEUE_OFFSET} is the broker's", topic=message.topic
            )
        if self.profile.client.transactions_refuse_delays and is_delayed(message):
            raise IllegalMessageError(
                "a message of a transaction cannot be delayed; send it without a delay",
                topic=message.topic,
            )
        # With it the delay service would move the half message, instead of its commit.
        message.properties.pop(names.DELAY, None)
        message.properties[names.TRANSACTION_PREPARED] = "true"
        message.properties[names.PRODUCER_GROUP] = self._group
        sent = await self.send(message, queue=queue, timeout_ms=timeout_ms)
        error: BaseException | None = None
        if sent.status is SendStatus.SEND_OK:
            state, error = await self._answer_of(self._execute, message, argument)
        else:
            # The local part was not run, so there is nothing to undo.
            state = TransactionState.ROLLBACK  # it may be lost with the broker (P-60)
        await self._end(message, sent, state)
        return TransactionResult(sent, state, error)

    def check_transaction(
        self, peer: Peer, header: CheckTransactionStateRequestHeader, message: MessageExt
    ) -> None:
        """A broker asks; the answer follows, to the same broker (P-62)."""
        instance = self._instance
        # Each check waits for the application, and a broker may ask faster than that answers. A
        # dropped check comes again in 30 s.
        if instance is None or self._checks >= MAX_CHECKS:
            log.warning("transaction.check_dropped", group=self._group, under_way=self._checks)
            return
        self._checks += 1
        # A check may take long and would keep the whole frame in memory.
        message.detach()
        instance.tasks.start(self._check(peer, header, message), name=f"check of {self._group}")

    # -- inside ---------------------------------------------------------------------------------

    async def _check(
        self, peer: Peer, header: CheckTransactionStateRequestHeader, message: MessageExt
    ) -> None:
        try:
            state, _ = await self._answer_of(self._check_state, message)
        finally:
            self._checks -= 1
        # The connection has ended: the broker asks some member again after its own interval.
        if not peer.is_open:
            return
        peer.oneway(
            EndTransactionRequestHeader(
                producer_group=self._group,
                tran_state_table_offset=header.tran_state_table_offset,
                commit_log_offset=header.commit_log_offset,
                commit_or_rollback=state.value,
                msg_id=message.properties.get(names.UNIQ_KEY) or message.offset_msg_id,
                from_transaction_check=True,
                transaction_id=header.transaction_id,
                topic=header.topic,
                bname=header.bname,
            )
        )

    async def _answer_of(
        self, asked: _Asked, *arguments: object
    ) -> tuple[TransactionState, BaseException | None]:
        """The listener's answer, UNKNOWN with what it raised; on the loop only if it is async."""
        event, function = asked.event, asked.function
        try:
            if asked.is_async:
                answer = await function(*arguments)
            else:
                answer = await self._threads.run(lambda: function(*arguments))
                if inspect.isawaitable(answer):
                    answer = await answer
        except Exception as exc:
            log.exception(event, group=self._group)
            # Nobody knows whether the local part took effect; only the check can tell.
            return TransactionState.UNKNOWN, exc
        if isinstance(answer, TransactionState):
            return answer, None
        log.warning(
            event, group=self._group, answer=repr(answer)[:80], advice="return a TransactionState"
        )
        return TransactionState.UNKNOWN, None

    async def _end(self, message: Message, sent: SendResult, state: TransactionState) -> None:
        """Send the outcome to the broker, oneway; if it does not arrive, the broker asks (P-61)."""
        physical_offset = offset_of_msg_id(sent.offset_msg_id)
        header = EndTransactionRequestHeader(
            producer_group=self._group,
            tran_state_table_offset=sent.queue_offset,
            commit_log_offset=physical_offset,
            commit_or_rollback=state.value,
            msg_id=sent.msg_id,
            transaction_id=sent.transaction_id,
            topic=message.topic,
            bname=sent.queue.broker_name,
        )
        try:
            delivery = self._delivery
            channel = delivery.open_channel(sent.queue) or await delivery.connect(sent.queue)
            channel.oneway(header)
        except PocketMQError as exc:
            log.warning(
                "transaction.end_not_sent",
                group=self._group,
                msg_id=sent.msg_id,
                state=state.name,
                reason=str(exc),
            )
