"""Verifies records of any kind by columns, by splitting all their properties.

For those without a shape (verify_shapes.py). It loads Arrow, and takes 1 us per record.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pocketmq.pipeline.columns.fixed_fields import Bytes, Ints, gather
from pocketmq.pipeline.columns.property_columns import PropertyColumns, read_properties
from pocketmq.pipeline.columns.record_columns import RecordColumns, binary, read_columns
from pocketmq.pipeline.verify_index import UNUSUAL
from pocketmq.pipeline.verify_shapes import ABSENT, KEY_NAMES, Mask, positive
from pocketmq.protocol.java import java_hash
from pocketmq.protocol.messages.subscription import tags_code


class PropertiesReader:
    """Compares records with their queue entries.

    Args:
        topics: The topic of each queue.
        topic_hashes: For each queue, Java's hash of `topic#`.
    """

    def __init__(self, topics: Sequence[bytes], topic_hashes: Sequence[int]) -> None:
        self._topics = topics
        self._topic_hashes = np.array(topic_hashes, np.int64)

    def read(
        self, buffer: Bytes, positions: Ints, sizes: Ints, queues: Ints, codes: Ints
    ) -> tuple[RecordColumns, Mask, list[Ints]]:
        """Read the records at `positions`.

        Args:
            buffer: The bytes in which they lie.
            positions: Where each begins.
            sizes: How long each is.
            queues: Index of its queue.
            codes: The tags code in its queue entry.

        Returns:
            The columns of the valid records; which of them have an intact tail, the topic of their
            queue and this tags code; and for each of `KEY_NAMES` the hash, `ABSENT` or `UNUSUAL`,
            and behind these the hash of the tag or `ABSENT`.
        """
        columns = read_columns(buffer, positions, sizes)
        queues = queues[columns.rows]
        # If its last byte is zero, the record's tail was not written (`check_record`).
        last = buffer[columns.positions + columns.sizes - 1]
        good: Mask = (last != 0) | (columns.properties_len == 0)
        good &= self._topics_fit(columns, queues)
        properties = read_properties(columns.properties())
        topics = self._topic_hashes[queues]
        tags_codes, of_tags = _tag_columns(properties, topics)
        good &= tags_codes == codes[columns.rows]
        hashes = [_key_hashes(properties, name.decode(), topics) for name in KEY_NAMES]
        return columns, good, [*hashes, of_tags]

    def _topics_fit(self, columns: RecordColumns, queues: Ints) -> Mask:
        names = binary(columns.buffer, columns.topic_at, columns.topic_len).dictionary_encode()
        known = {name: number for number, name in enumerate(names.dictionary.to_pylist())}
        of_queue = np.array([known.get(topic, -1) for topic in self._topics], np.int64)
        fits: Mask = _indices(names) == of_queue[queues]
        return fits


def _tag_columns(properties: PropertyColumns, topics: Ints) -> tuple[Ints, Ints]:
    """The `tags_code` of each row's tag, and the hash under which the index may have it.

    Args:
        properties: The rows' properties.
        topics: Hash of each row's `topic#`.
    """
    found = properties.find("TAGS")
    codes = np.full(properties.rows, tags_code(None), np.int64)
    hashes = np.full(properties.rows, ABSENT, np.int64)
    if len(found):
        rows = properties.row[found]
        places = properties.value_at[found], properties.value_len[found]
        tags = binary(properties.data, *places).dictionary_encode()
        texts = [str(tag, "utf-8", "replace") for tag in tags.dictionary.to_pylist()]
        codes[rows] = np.array([tags_code(text) for text in texts])[_indices(tags)]
        # As of keys: the hash of `topic#T#tag` by those of `topic#` and `T#tag`.
        keys = [f"T#{text}" for text in texts]
        of_keys = np.array([java_hash(key) for key in keys], np.int64)
        powers = np.array([pow(31, _utf16_len(key), 1 << 32) for key in keys], np.uint32)
        value = topics[rows].astype(np.uint32) * powers[_indices(tags)]
        value += of_keys[_indices(tags)].astype(np.uint32)
        hashes[rows] = np.where(places[1] > 0, positive(value), ABSENT)
    return codes, hashes


def _utf16_len(text: str) -> int:
    """Java's length of a text."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _indices(encoded: pa.DictionaryArray) -> npt.NDArray[np.int32]:
    """Each row's index in the dictionary. Arrow's own `to_numpy` would load pandas."""
    return np.frombuffer(encoded.indices.buffers()[1], np.int32, len(encoded))


def _key_hashes(properties: PropertyColumns, name: str, topics: Ints) -> Ints:
    """`index_file.key_hash` of each row's key; `ABSENT` without one, `UNUSUAL` unless it is plain.

    Java's hash is a polynomial, so that of `topic#key` can be computed from those of both parts.

    Args:
        properties: The rows' properties.
        name: The property with the key.
        topics: Hash of each row's `topic#`.
    """
    hashes = np.full(properties.rows, ABSENT, np.int64)
    found = properties.find(name)
    lengths = properties.value_len[found]
    for length in np.flatnonzero(np.bincount(lengths)).tolist():
        same = found[lengths == length]
        rows = properties.row[same]
        powers = np.array([pow(31, length - 1 - i, 1 << 32) for i in range(length)], np.uint32)
        letters = gather(properties.data, properties.value_at[same], np.dtype(f"V{length}"))
        letters = letters.view(np.uint8).reshape(len(same), length)
        plain = ((letters < 0x80) & (letters != ord(" "))).all(axis=1)
        value = letters.astype(np.uint32) @ powers
        value += topics[rows].astype(np.uint32) * np.uint32(pow(31, length, 1 << 32))
        hashes[rows] = np.where(plain, positive(value), UNUSUAL)
    return hashes
