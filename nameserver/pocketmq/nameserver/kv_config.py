"""Namespaces of keys and values that administrators keep in the nameserver (N-18, N-33)."""

from __future__ import annotations

from collections.abc import Mapping

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace of ordered topics: topic -> `broker-a:4;broker-b:4`."""

KvTable = Mapping[str, Mapping[str, str]]
"""Namespace -> key -> value."""


class KvConfig:
    """The table; every change has to be written to its file by the caller."""

    def __init__(self, table: KvTable | None = None) -> None:
        self._table: dict[str, dict[str, str]] = {}
        if table:
            self.replace(table)

    def replace(self, table: KvTable) -> None:
        """Take over what a file holds."""
        self._table = {namespace: dict(keys) for namespace, keys in table.items() if keys}

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set one value."""
        self._table.setdefault(namespace, {})[key] = value

    def get(self, namespace: str, key: str) -> str | None:
        """One value."""
        return self._table.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Forget one key, and its namespace with the last; a key that is not there is no error."""
        keys = self._table.get(namespace, {})
        keys.pop(key, None)
        if not keys:
            self._table.pop(namespace, None)

    def namespace(self, namespace: str) -> dict[str, str]:
        """All keys of a namespace; empty when there is none."""
        return dict(self._table.get(namespace, {}))

    def snapshot(self) -> dict[str, dict[str, str]]:
        """A copy of everything, for the file."""
        return {namespace: dict(keys) for namespace, keys in self._table.items()}
