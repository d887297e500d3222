"""What messages that are sent and those that are received have in common: their properties."""

from __future__ import annotations

from pocketmq.protocol.messages import properties as names


class PropertyViews:
    """Well-known properties under Python names; subclasses have the dict."""

    __slots__ = ()

    @property
    def properties(self) -> dict[str, str]:
        """Names and values as they travel; change it freely until the message is sent."""
        raise NotImplementedError

    def get_property(self, name: str, default: str | None = None) -> str | None:
        """A property's value, or `default`."""
        return self.properties.get(name, default)

    @property
    def tags(self) -> str | None:
        """The message's one tag; subscriptions select by it."""
        return self.properties.get(names.TAGS)

    @property
    def keys(self) -> str | None:
        """Index keys as one string, separated by spaces."""
        return self.properties.get(names.KEYS)

    @property
    def key_list(self) -> list[str]:
        """Index keys one by one."""
        return self.properties.get(names.KEYS, "").split()

    @property
    def delay_level(self) -> int:
        """1..18, or 0 for at once; a value that is no number counts as 0."""
        return _number(self.properties.get(names.DELAY))

    @property
    def priority(self) -> int:
        """0, the lowest, and up; -1 without one or when it is no number (V-1)."""
        return names.priority_of(self.properties)

    @property
    def wait_store_ok(self) -> bool:
        """Whether the answer to the send waits for what the flush mode promises (WAIT)."""
        return self.properties.get(names.WAIT) != "false"

    @property
    def uniq_key(self) -> str | None:
        """The id that the sending client gave the message (UNIQ_KEY)."""
        return self.properties.get(names.UNIQ_KEY)


def _number(text: str | None) -> int:
    try:
        return int(text) if text else 0
    except ValueError:
        return 0
