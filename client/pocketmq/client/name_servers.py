"""Which name server is asked (P-9): a shuffled list, one address until it fails, then the next."""

from __future__ import annotations

import random
from collections.abc import Sequence


class NameServers:
    """The configured name servers of one client.

    Args:
        addresses: `host:port` each.
        rng: Shuffles them and draws the start; a seeded one makes a client's choice repeatable.
    """

    def __init__(self, addresses: Sequence[str], *, rng: random.Random | None = None) -> None:
        rng = rng or random.Random()
        self.addresses = list(addresses)
        rng.shuffle(self.addresses)
        self._index = rng.randrange(999)

    def __len__(self) -> int:
        return len(self.addresses)

    @property
    def current(self) -> str:
        """The address in use."""
        return self.addresses[self._index % len(self.addresses)]

    def failed(self, address: str) -> None:
        """Go on to the next one, unless somebody else already did."""
        if address == self.current:
            self._index += 1


def parse_addresses(text: str | Sequence[str] | None) -> tuple[str, ...]:
    """`host:port;host:port`, or a sequence of `host:port`, each once and in order (P-9)."""
    if text is None:
        return ()
    parts = text.split(";") if isinstance(text, str) else text
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
