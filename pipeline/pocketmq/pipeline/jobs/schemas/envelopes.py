"""Change events of databases: Debezium's and Canal's JSON as rows before and after.

    Debezium   {"payload": {"op": "c|u|d|r", "before": ..., "after": ..., "source": {...}}}
               or the payload alone; a body `null` (or the property of a tombstone) ends a key
    Canal      {"type": "INSERT|UPDATE|DELETE", "data": [...], "old": [...], "pkNames": [...]}

One Canal message may have several rows. `old` has the columns that an UPDATE has changed; `before`
has all columns, as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError

OPERATIONS: Final[Mapping[str, str]] = {
    "c": "insert",
    "u": "update",
    "d": "delete",
    "r": "read",
    "INSERT": "insert",
    "UPDATE": "update",
    "DELETE": "delete",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One row of a database that has changed."""

    operation: str
    """`insert`, `update`, `delete` or `read` (a snapshot's)."""
    table: str
    """`database.table`."""
    key: tuple[Any, ...]
    """Values of the primary key; empty where the event does not say it."""
    old_key: tuple[Any, ...]
    """The same before the change, which may have changed the key."""
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    time_ms: int
    """Of the database."""


def changes(event: Mapping[str, Any], keys: Sequence[str] = ()) -> Iterator[Change]:
    """The changes of an event of either kind; none of a statement that is no change of rows.

    Args:
        event: A body as JSON.
        keys: Columns of the primary key, for Debezium's, whose bodies do not say it.

    Raises:
        BadBodyError: It is no such event.
    """
    try:
        yield from _changes(event, keys)
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as exc:
        raise BadBodyError(f"an event of another form: {exc!r}") from exc


def _changes(event: Mapping[str, Any], keys: Sequence[str]) -> Iterator[Change]:
    # Debezium wraps the payload when it sends a schema with it, and otherwise not.
    payload = event.get("payload", event)
    if isinstance(payload, Mapping) and "op" in payload:
        yield _debezium(payload, keys)
    elif "type" in event and ("data" in event or event.get("isDdl")):
        yield from _canal(event, keys)
    else:
        raise BadBodyError(
            "the body is neither a Debezium event (with the field op) nor a Canal event (with "
            "the fields type and data)"
        )


def _debezium(payload: Mapping[str, Any], keys: Sequence[str]) -> Change:
    operation = OPERATIONS.get(str(payload["op"]))
    before, after = payload.get("before"), payload.get("after")
    if operation is None:
        raise BadBodyError(f"operation {payload['op']!r} is unknown; it must be c, u, d or r")
    # The row that has the key: after a deletion there is none.
    row = before if operation == "delete" else after
    if not isinstance(row, dict):
        side = "before" if operation == "delete" else "after"
        raise BadBodyError(f"operation {operation} without {side!r}")
    source = payload.get("source") or {}
    table = ".".join(str(source[name]) for name in ("db", "table") if name in source)
    time_ms = int(source.get("ts_ms") or payload.get("ts_ms") or 0)
    key = _key(row, keys)
    # Without key columns nobody can tell whether the key has changed.
    old_key = _key(before, keys) if isinstance(before, dict) and keys else key
    return Change(operation, table, key, old_key, before, after, time_ms)


def _canal(event: Mapping[str, Any], keys: Sequence[str]) -> Iterator[Change]:
    operation = OPERATIONS.get(str(event["type"]))
    # DDL statements change tables, not rows.
    if event.get("isDdl") or operation is None:
        return
    rows, old = event.get("data"), event.get("old") or []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadBodyError("'data' is no list of rows")
    names = event.get("pkNames") or keys
    table = ".".join(str(event[name]) for name in ("database", "table") if name in event)
    for number, row in enumerate(rows):
        # `old` may be shorter than `data`, or null for a row: then no column is known to have
        # changed.
        changed = old[number] if number < len(old) else {}
        before = row if operation == "delete" else {**row, **(changed or {})}
        yield Change(
            operation,
            table,
            _key(row, names),
            _key(before, names),
            None if operation == "insert" else before,
            None if operation == "delete" else row,
            int(event.get("es") or event.get("ts") or 0),
        )


def _key(row: Mapping[str, Any], keys: Sequence[str]) -> tuple[Any, ...]:
    for name in keys:
        if name not in row:
            raise BadBodyError(f"the row has no key column {name!r}")
    return tuple(row[name] for name in keys)


class LastChanges:
    """The state of a table after changes, in the order in which they are given.

    Messages of one key must come in their order: they are in one queue.
    """

    def __init__(self) -> None:
        self.rows: dict[tuple[str, tuple[Any, ...]], dict[str, Any]] = {}

    def apply(self, change: Change) -> None:
        """Take one change in."""
        place = change.table, change.key
        if change.after is None:
            self.rows.pop(place, None)
            return
        # Otherwise the row would stay under its old key too.
        if change.old_key != change.key:
            self.rows.pop((change.table, change.old_key), None)
        self.rows[place] = change.after
