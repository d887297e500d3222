"""What is stored for a batch request: its messages in columns, with the broker's properties (B-19).

The messages of one batch differ in body and UNIQ_KEY, and little else:

    UNIQ_KEY 7F00...0001 WAIT true TAGS TagA
    UNIQ_KEY 7F00...0002 WAIT true TAGS TagA
    |-start-|-the key---|-----end----------|

So where bodies have one length too, start and end are read once and compared for the rest. Any
other batch is read message by message, with the same result. Bytes are passed on as they came; only
a message whose properties ask for more is decoded.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from pocketmq.broker.delays.delay import level_of
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.sending.send_checks import SendChecks
from pocketmq.broker.sending.sent_properties import MAX_REMEMBERED, Traits, read_sent
from pocketmq.broker.sending.stamp import BrokerStamp
from pocketmq.broker.store.stored_message import QueueBatch
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.batch import batch_columns, first_entry, keyed_entries
from pocketmq.protocol.messages.message import Buffer
from pocketmq.protocol.messages.properties import decode_properties, encode_again
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.messages.validation import MAX_TOPIC_CHARS
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.stored.record_batch import KeyedProperties

_SEPARATOR = b"\x02"
_KEY = b"UNIQ_KEY\x01"
_COPIED_BYTES = 65536
"""A body up to this length is copied once: slices of bytes cost half of what views do."""


class IncomingBatches:
    """Turns batch requests into batches for the store.

    Args:
        checks: what may be stored.
        stamp: the properties that the broker adds to messages.
        stamped: to those of a batch too, by profile; else these get a UNIQ_KEY only, if they have
            none.
        to_retry_topics: whether they may go there, by profile.
    """

    def __init__(
        self, checks: SendChecks, stamp: BrokerStamp, *, stamped: bool, to_retry_topics: bool
    ) -> None:
        self._checks = checks
        self._to_retry_topics = to_retry_topics
        self._stamp = stamp
        self._stamped = stamped
        self._suffix = stamp.suffix.encode() if stamped else b""

    def batch(
        self,
        body: Buffer,
        header: SendMessageRequestHeader | SendMessageRequestHeaderV2,
        born_host: bytes,
        now_ms: int,
    ) -> QueueBatch:
        """What to store for a batch.

        Args:
            body: of the request.
            header: of the request.
            born_host: packed address of the peer.
            now_ms: the time, in epoch ms.

        Raises:
            RequestRefusedError, BatchError: none of it must be stored.
        """
        plan = self._checks.plan_for(header, now_ms)
        if header.queue_id >= plan.queue_limit:
            raise self._checks.bad_queue(plan, header.queue_id)
        # Retry topics take single messages only, because each has its own number of tries; 4.9 does
        # not look (B-19).
        is_retry = plan.retry_group is not None and not self._to_retry_topics
        if is_retry or len(header.topic) > MAX_TOPIC_CHARS:
            raise RequestRefusedError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"a batch cannot be sent to topic {header.topic}: the topic is a retry topic, or "
                f"its name has more than {MAX_TOPIC_CHARS} characters",
            )
        batch = QueueBatch(
            plan.topic,
            plan.queue_of(header.queue_id),
            header.sys_flag & ~MessageSysFlag.TRANSACTION_MASK,
            header.born_timestamp,
            born_host,
            self._stamp.address.packed,
            header.reconsume_times,
            [],
            [],
            [],
            [],
            [],
            [],
            # Known only when all messages are read.
            wait_store_ok=False,
        )
        # The quick way changes nothing if it does not fit; the other one then reads the same bytes.
        if not self._read_keyed(body, batch):
            self._read_columns(body, batch)
        return batch

    def _read_keyed(self, body: Buffer, batch: QueueBatch) -> bool:
        """Fill the batch's columns when only body and UNIQ_KEY differ; False, and nothing done,
        otherwise."""
        # Each test of this way is one pass in C over all messages. What fails one is not refused,
        # but read by the other way, which alone knows errors: nothing is changed before the last.
        first = first_entry(body)
        key = None if first is None else _key_of(first.properties)
        if first is None or key is None:
            return False
        entries = keyed_entries(body, first, key.at, key.length)
        if entries is None or not _are_plain(entries.values):
            return False
        batch.bodies = entries.bodies
        batch.flags = [entries.flag] * len(entries.bodies)
        self._take_keyed(first.properties, entries.values, key, batch)
        batch.is_uniform = True
        return True

    def _read_columns(self, body: Buffer, batch: QueueBatch) -> None:
        """Fill the batch's columns, whatever is in them."""
        # Small bodies are copied, because slices of bytes cost less than views.
        columns = batch_columns(bytes(body) if len(body) <= _COPIED_BYTES else body)
        batch.flags, batch.bodies, properties = columns
        batch.properties = [self._read_one(text, batch) for text in properties]

    def _take_keyed(
        self, first: bytes, uniq_keys: list[bytes], key: _Key, batch: QueueBatch
    ) -> None:
        """Fill the columns that properties say; they are those of `first` but for the key."""
        count = len(uniq_keys)
        # What follows the key is the same for all, with the broker's own properties in it (B-19).
        behind = first[key.at + key.length :] + _behind(first, self._suffix)
        batch.properties = KeyedProperties(first[: key.at], uniq_keys, behind)
        batch.uniq_keys = uniq_keys
        batch.tags_codes = [key.traits.tags_code] * count
        batch.keys = [None] * count
        batch.wait_store_ok = key.traits.wait_store_ok

    def _read_one(self, text: bytes, batch: QueueBatch) -> bytes:
        """Add what one message's properties say; these as they are stored."""
        try:
            uniq_key, keys, traits = read_sent(text.decode())
        except UnicodeDecodeError:
            return self._read_special(text, batch)
        # Properties that ask for more than being stored are read in full.
        if not traits.is_plain:
            return self._read_special(text, batch)
        suffix = self._suffix
        # A message without a key gets one: clients and the index find the message by it.
        if uniq_key is None:
            uniq_key = self._stamp.new_key()
            suffix = _KEY + uniq_key.encode() + _SEPARATOR + suffix
        batch.uniq_keys.append(uniq_key.encode())
        batch.tags_codes.append(traits.tags_code)
        batch.keys.append(keys)
        # One message that waits makes the whole batch wait (B-144).
        batch.wait_store_ok |= traits.wait_store_ok
        return text + _behind(text, suffix)

    def _read_special(self, text: bytes, batch: QueueBatch) -> bytes:
        """A message whose properties ask for more than being stored, or may do so."""
        properties = decode_properties(text.decode("utf-8", "replace"))
        if (
            # Neither can be done to one message of a batch: it is refused as a whole (B-19).
            level_of(properties.get(names.DELAY)) > 0
            or properties.get(names.TRANSACTION_PREPARED) == "true"
        ):
            raise RequestRefusedError(
                ResponseCode.MESSAGE_ILLEGAL,
                "a message of a batch can be neither delayed nor part of a transaction",
            )
        # 4.9 adds nothing but a key to the messages of a batch (B-19).
        if self._stamped:
            self._stamp.add_to(properties)
        else:
            self._stamp.give_key(properties)
        batch.uniq_keys.append(properties[names.UNIQ_KEY].encode())
        batch.tags_codes.append(tags_code(properties.get(names.TAGS)))
        batch.keys.append(properties.get(names.KEYS))
        batch.wait_store_ok |= properties.get(names.WAIT) != "false"
        return encode_again(properties).encode()


def _behind(text: bytes, added: bytes) -> bytes:
    """Properties that follow `text`, with a separator before them where it ends without one."""
    return added if not added or text[-1:] in (b"", _SEPARATOR) else _SEPARATOR + added


class _Key(NamedTuple):
    """Where UNIQ_KEY is in properties that need no more than storing the message."""

    at: int
    length: int
    traits: Traits


def _key_of(properties: bytes) -> _Key | None:
    """None if there is no UNIQ_KEY, or if more than it may differ or matter."""
    at = properties.find(_KEY)
    # Only at the start of an entry: the name may also stand in a value.
    if at < 0 or (at and properties[at - 1 : at] != _SEPARATOR):
        return None
    begin = at + len(_KEY)
    end = properties.find(_SEPARATOR, begin)
    if end < 0:
        end = len(properties)
    others = properties[:at] + properties[end + 1 :]
    traits = _plain(others) if len(others) <= MAX_REMEMBERED else _read_plain(others)
    # An empty key counts as none: each message then needs a new one.
    return None if traits is None or end == begin else _Key(begin, end - begin, traits)


def _read_plain(others: bytes) -> Traits | None:
    """Traits of a message with these properties beside UNIQ_KEY; None if more than being stored is
    asked for, or if there are other keys."""
    try:
        uniq_key, keys, traits = read_sent(others.decode())
    except UnicodeDecodeError:
        return None
    # KEYS would differ from message to message, and so would the index entries.
    return traits if uniq_key is keys is None and traits.is_plain else None


_plain = lru_cache(maxsize=256)(_read_plain)


def _are_plain(uniq_keys: list[bytes]) -> bool:
    """Whether these are texts, and hide no other property."""
    joined = b"".join(uniq_keys)
    # A separator in a key would start another property.
    return joined.isascii() and _SEPARATOR not in joined
