"""Namespaces of keys and values that administrators keep in the nameserver (N-18, N-33)."""

from __future__ import annotations

from collections.abc import Mapping

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace of ordered topics: topic -> `broker-a:4;broker-b:4`."""

ENTRY_BYTES = 100
"""About what an entry takes beside its texts."""

KvTable = Mapping[str, Mapping[str, str]]
"""Namespace -> key -> value."""


class KvConfig:
    """The table; every change has to be written to its file by the caller."""

    def __init__(self, table: KvTable | None = None) -> None:
        self._table: dict[str, dict[str, str]] = {}
        self.size_bytes = 0
        """About; a character counts as a byte."""
        if table:
            self.replace(table)

    def replace(self, table: KvTable) -> None:
        """Take over what a file holds."""
        self._table = {namespace: dict(keys) for namespace, keys in table.items() if keys}
        self.size_bytes = sum(
            _size(namespace, key, value)
            for namespace, keys in self._table.items()
            for key, value in keys.items()
        )

    def growth(self, namespace: str, key: str, value: str) -> int:
        """How many bytes `put` would add; negative where it saves some."""
        old = self._table.get(namespace, {}).get(key)
        return _size(namespace, key, value) - (0 if old is None else _size(namespace, key, old))

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set one value."""
        self.size_bytes += self.growth(namespace, key, value)
        self._table.setdefault(namespace, {})[key] = value

    def get(self, namespace: str, key: str) -> str | None:
        """One value."""
        return self._table.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Forget one key, and its namespace with the last; a key that is not there is no error."""
        keys = self._table.get(namespace, {})
        old = keys.pop(key, None)
        if old is not None:
            self.size_bytes -= _size(namespace, key, old)
        if not keys:
            self._table.pop(namespace, None)

    def namespace(self, namespace: str) -> dict[str, str]:
        """All keys of a namespace; empty when there is none."""
        return dict(self._table.get(namespace, {}))

    def snapshot(self) -> dict[str, dict[str, str]]:
        """A copy of everything, for the file."""
        return {namespace: dict(keys) for namespace, keys in self._table.items()}


def _size(namespace: str, key: str, value: str) -> int:
    return ENTRY_BYTES + len(namespace) + len(key) + len(value)
