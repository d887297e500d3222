"""Which column of a data frame becomes which part of a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pocketmq.pipeline.errors import ColumnsError, near
from pocketmq.pipeline.options.schema import KAFKA, MESSAGE

TEXT: Final = ("string",)
ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "topic": TEXT,
    "properties": ("map<string,string>", "array<struct<key:string,value:binary>>"),
    "queueId": ("int", "bigint"),
    "brokerName": TEXT,
    "partition": ("int", "bigint"),
    "shardingKey": TEXT,
    "delayLevel": ("int", "bigint"),
    "delayMs": ("int", "bigint"),
    "deliverTimestamp": ("timestamp",),
    "flag": ("int", "bigint"),
}
"""The sink's columns and their types; options may choose other columns for tags and keys."""

KAFKA_NAMES: Final[Mapping[str, str]] = {"value": "body", "headers": "properties"}
KEY_TYPES: Final = ("string", "binary", "array<string>")


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The column of the data frame for each of the sink's columns."""

    place: Mapping[str, int]
    """Column of the sink -> index in the data frame."""
    tags: int | None
    keys: tuple[int, ...]
    origin: tuple[int, ...] = ()
    """Of a table that was read: the columns that name the queue which a row was in."""

    @classmethod
    def of(
        cls, schema: Mapping[str, str], *, topic: str, tag_column: str, key_columns: Sequence[str]
    ) -> SinkColumns:
        """Assign the data frame's columns to those of the sink.

        The sources' own columns that say nothing of a new message are left out, so that a table
        that was read can be written. Its rows do not go back to the queues of their numbers: rows
        that shared a queue share one again. A table was read if it has the queues' offsets.

        Args:
            schema: Column names and Spark types.
            topic: Option `topic`; if empty there must be a column `topic`.
            tag_column: Column with the tag; the default one need not exist.
            key_columns: Columns with keys; the default one need not exist.

        Raises:
            ColumnsError: A column is unknown or has the wrong type, or a required one is missing.
        """
        place: dict[str, int] = {}
        keys: list[int] = []
        tags = None
        by_lower = {role.lower(): role for role in (*ROLES, *KAFKA_NAMES)}
        origin = _origin(schema)
        key_names = {name.lower() for name in key_columns} | {"key"}
        for index, (name, kind) in enumerate(schema.items()):
            lower = name.lower()
            if lower in key_names:
                _check_type(name, kind, KEY_TYPES)
                keys.append(index)
            elif lower == tag_column.lower():
                _check_type(name, kind, TEXT)
                tags = index
            # Before the roles: in a table that was read, `queueId` is where the row was, not where
            # it should go.
            elif index in origin or lower in _SAYS_NOTHING:
                continue
            elif lower in by_lower:
                role = KAFKA_NAMES.get(by_lower[lower], by_lower[lower])
                if role in place:
                    raise ColumnsError(
                        f"pocketmq: two columns are both used as {role!r}; leave out one of the two"
                    )
                _check_type(name, kind, ROLES[role])
                place[role] = index
            elif lower in ("tags", "keys"):
                continue  # other columns were chosen for them
            else:
                every = [*ROLES, tag_column, *key_columns]
                meant = near(name, every)
                hint = f"did you mean {meant[0]!r}?" if meant else f"it knows {', '.join(every)}"
                raise ColumnsError(f"pocketmq: the sink knows no column {name!r}; {hint}")
        # A partition number already names both broker and queue.
        for other in ("queueId", "brokerName"):
            if "partition" in place and other in place:
                both = f"columns 'partition' and {other!r} both name the queue"
                raise ColumnsError(f"pocketmq: {both}; leave one out")
        if "body" not in place:
            raise ColumnsError("pocketmq: the sink needs a column 'body' of type binary or string")
        if not topic and "topic" not in place:
            raise ColumnsError("pocketmq: the sink needs the option 'topic' or a column 'topic'")
        missing = {name.lower() for name in (tag_column, *key_columns)} - {
            name.lower() for name in schema
        }
        # The default columns may be missing, chosen ones may not.
        for name in missing - {"tags", "keys"}:
            raise ColumnsError(
                f"pocketmq: tagColumn or keyColumns names the column {name!r}, which the data "
                "does not have"
            )
        return cls(place, tags, tuple(keys), origin)


_SAYS_NOTHING: Final = frozenset(
    name.lower() for name in (*MESSAGE, *KAFKA) if name not in {*ROLES, *KAFKA_NAMES}
) - {"tags", "keys", "key"}
"""The sources' own columns that no message can be given."""


def _origin(schema: Mapping[str, str]) -> tuple[int, ...]:
    """Columns that name the queue of a row, if this is a table that was read."""
    index = {name.lower(): place for place, name in enumerate(schema)}
    for mark, columns in (
        ("queueoffset", ("topic", "brokername", "queueid")),
        ("offset", ("topic", "partition")),
    ):
        if mark in index and columns[-1] in index:
            return tuple(index[name] for name in columns if name in index and name != "topic")
    return ()


def _check_type(name: str, kind: str, allowed: Sequence[str]) -> None:
    if kind not in allowed:
        raise ColumnsError(
            f"pocketmq: column {name!r} has the type {kind}, but must be {' or '.join(allowed)}"
        )
