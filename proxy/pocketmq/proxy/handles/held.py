"""The handles of messages that clients work on, and when each is renewed (G-96, G-97).

A consumer that asked for it gets its messages with 60 s of invisible time, and works as long as it
wants: before that time ends, the proxy asks the broker for more, and gets another handle each time.
The client knows the first handle only. So its ack is looked up here, by client, group, message id
and the message's place, and is sent with the newest one.

    add         a message was handed to a client
    due         which handles have to be renewed now, and for how long
    renewed     the broker gave more time;  failed: it was not to be asked;  ended: it refused
    take        the client is done with the message: it is not renewed any more
    leave       the client has gone: what it held is to be seen again soon

Pure: time comes from the caller, who carries out what `due` says.
"""

from __future__ import annotations

from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from pocketmq.proxy.handles.receipts import Receipt

AHEAD_MS: Final = 10_000
"""A handle is renewed when it holds no longer than this."""

LONGEST_MS: Final = 3 * 3_600_000
"""Since the message was popped: then its consumer has had it long enough."""

MAX_FAILURES: Final = 3
"""Renewals that may fail one after the other."""

CLEARED_MS: Final = 1_000
"""Until a message is seen again whose client has gone."""

STEPS_MS: Final = tuple(minutes * 60_000 for minutes in (1, 3, 5, 10, 30, 60))
"""For how long the first, second, ... renewal asks; the last one for all that follow."""

MAX_OF_A_CLIENT: Final = 65_536
"""Handles of one client and group that are renewed; SDKs hold 4,096 messages at most. What is
received beyond it is seen again when its 60 s are over."""

MAX_IN_ALL: Final = 1_000_000
"""Handles of all clients; about 1 GB."""


class Kind(Enum):
    """What is to be done about a handle."""

    RENEW = "renew"
    STOP = "stop"
    """It was renewed for `LONGEST_MS`: the message comes again by its group's backoff."""


class Held:
    """One message that a client works on.

    Args:
        client_id: Of the client.
        group: Its group.
        topic: The message's, as the client names it.
        message_id: The message's.
        receipt: The first handle, which the client has.
        reconsume_times: How often the message was tried before.
    """

    __slots__ = (
        "client_id",
        "done",
        "failures",
        "group",
        "message_id",
        "receipt",
        "reconsume_times",
        "renewals",
        "since_ms",
        "topic",
        "under_way",
    )

    def __init__(
        self,
        client_id: str,
        group: str,
        topic: str,
        message_id: str,
        receipt: Receipt,
        reconsume_times: int,
    ) -> None:
        self.client_id = client_id
        self.group = group
        self.topic = topic
        self.message_id = message_id
        self.receipt = receipt
        """The newest one."""
        self.reconsume_times = reconsume_times
        self.since_ms = receipt.popped_ms
        """When the message was popped, epoch ms."""
        self.renewals = 0
        self.failures = 0
        self.under_way = False
        """A request about it is sent and not answered yet."""
        self.done = False
        """It is not held any more."""


class Renewal(NamedTuple):
    """Something that is due."""

    held: Held
    kind: Kind
    invisible_ms: int
    """What to ask for; 0 for STOP: the group's backoff says it."""


_Place = tuple[str, int, int]
"""Broker name, queue id and offset in the queue: two deliveries of one message have the same."""

_Group = dict[str, dict[_Place, Held]]
"""Message id -> place -> handle."""


class HeldHandles:
    """All handles that are renewed."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = {}
        """(client id, group) -> what it holds."""
        self._counts: dict[tuple[str, str], int] = {}
        self._heap: list[tuple[int, int, Held]] = []
        """When each falls due. What was taken since stays until then, or until half are such."""
        self._number = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def clients(self) -> list[tuple[str, str]]:
        """(client id, group) of all that hold something."""
        return list(self._groups)

    def add(self, held: Held) -> bool:
        """A message was handed out; whether its handle will be renewed.

        A handle of the same message at the same place is replaced: the message was delivered again.
        """
        key = held.client_id, held.group
        group = self._groups.setdefault(key, {})
        count = self._counts.get(key, 0)
        places = group.setdefault(held.message_id, {})
        place = _place(held.receipt)
        before = places.get(place)
        # The old entry stays in the heap, and is skipped when it falls due.
        if before is not None:
            before.done = True
        elif count >= MAX_OF_A_CLIENT or self._count >= MAX_IN_ALL:
            # Remove what was made above for this handle alone: empty tables would stay for ever.
            if not places:
                del group[held.message_id]
            if not group:
                del self._groups[key]
            return False
        else:
            self._counts[key] = count + 1
            self._count += 1
        places[place] = held
        self._plan(held)
        return True

    def take(self, client_id: str, group: str, message_id: str, handle: str) -> Held | None:
        """End the renewal of a message; None when it is not held.

        If `under_way` is set, the newest handle is known when that request was answered.

        Raises:
            BadRequestError: the handle is none, and the client holds the message.
        """
        messages = self._groups.get((client_id, group))
        places = None if messages is None else messages.get(message_id)
        # Return before the handle is parsed: unknown messages must cost nothing here.
        if places is None:
            return None
        # Search by place and not by text: the client has the first handle, and the newest is held
        # here.
        held = places.get(_place(Receipt.parse(handle)))
        if held is not None:
            self._drop(held)
        return held

    def leave(self, client_id: str, group: str) -> list[Held]:
        """A client has gone: what it held, which the caller makes visible after `CLEARED_MS`."""
        messages = self._groups.get((client_id, group), {})
        gone = [held for places in messages.values() for held in places.values()]
        for held in gone:
            self._drop(held)
        return gone

    def due(self, now_ms: int) -> list[Renewal]:
        """What has to be done now; each is `under_way` until the caller says how it ended."""
        found: list[Renewal] = []
        heap = self._heap
        # Only the due ones are touched: there may be a million.
        while heap and heap[0][0] <= now_ms:
            held = heappop(heap)[2]
            if held.done:
                continue
            # After `MAX_FAILURES` the handle is dropped without a request: its time is over soon.
            if held.failures >= MAX_FAILURES:
                self._drop(held)
                continue
            # The handle is out of the heap until its answer comes, so it cannot fall due twice.
            held.under_way = True
            # Count from the pop and not from the last renewal: a consumer that hangs must not keep
            # a message for ever.
            if now_ms - held.since_ms < LONGEST_MS:
                step = STEPS_MS[min(held.renewals, len(STEPS_MS) - 1)]
                found.append(Renewal(held, Kind.RENEW, step))
            else:
                found.append(Renewal(held, Kind.STOP, 0))
        return found

    def renewed(self, held: Held, receipt: Receipt) -> None:
        """The broker gave more time; `receipt` is the newest handle."""
        held.under_way = False
        held.receipt = receipt
        held.renewals += 1
        # Only consecutive failures count.
        held.failures = 0
        # A message that was acknowledged meanwhile needs no further renewal.
        if not held.done:
            self._plan(held)

    def failed(self, held: Held) -> None:
        """The broker was not asked, or did not answer: the next call of `due` has it again."""
        held.under_way = False
        held.failures += 1
        if not held.done:
            # The due time has not changed, so the handle is due again at once.
            self._plan(held)

    def ended(self, held: Held) -> None:
        """It is not renewed any more: it was stopped, or the broker knows no such handle."""
        held.under_way = False
        if not held.done:
            self._drop(held)

    def _plan(self, held: Held) -> None:
        self._number += 1
        heappush(self._heap, (held.receipt.due_ms - AHEAD_MS, self._number, held))
        # Acknowledged handles stay in the heap until they would be due, and most messages are
        # acknowledged at once.
        if len(self._heap) > 2 * len(self) + 1_000:
            self._heap = [entry for entry in self._heap if not entry[2].done]
            heapify(self._heap)

    def _drop(self, held: Held) -> None:
        held.done = True
        key = held.client_id, held.group
        messages = self._groups[key]
        places = messages[held.message_id]
        del places[_place(held.receipt)]
        self._counts[key] -= 1
        self._count -= 1
        if not places:
            del messages[held.message_id]
        if not messages:
            del self._groups[key], self._counts[key]


def _place(receipt: Receipt) -> _Place:
    return receipt.broker_name, receipt.queue_id, receipt.queue_offset
