"""What a fork server is asked for, and which modules it imports for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

NAMESERVER = "pocketmq.nameserver"
CONTROLLER = "pocketmq.controller"
BROKER = "pocketmq.broker"
PROXY = "pocketmq.proxy"

_SEAMS = ("pocketmq.operation.role_seams",)
"""What `seams_of` imports while a role starts."""

IMPORTS: Mapping[str, tuple[str, ...]] = {
    NAMESERVER: (f"{NAMESERVER}.__main__", f"{NAMESERVER}.server", *_SEAMS, "uvloop"),
    CONTROLLER: (f"{CONTROLLER}.__main__", f"{CONTROLLER}.server", *_SEAMS, "uvloop"),
    BROKER: (
        *(f"{BROKER}.__main__", f"{BROKER}.server", *_SEAMS, "uvloop"),
        *(f"{BROKER}.store.disk.fault_disk", f"{BROKER}.store.disk.ruled_disk", "encodings.idna"),
    ),
    # gRPC starts threads with its first server or channel, and none when it is imported
    PROXY: (f"{PROXY}.__main__", f"{PROXY}.assembly.proxy", *_SEAMS, "uvloop"),
}
"""The roles that can be forked, as `python -m` knows them, and the modules that each one needs."""

OPTIONAL = ("uvloop",)
"""What a role goes on without."""

READY = b"ready"
GO = b"go"
MOST_BYTES = 1 << 20
"""Of one request; the kernel's own limit for a message is lower."""


class ForkRefusedError(Exception):
    """A fork server cannot fork this; it is to be executed instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest:
    """One role to fork. With it travel its answering socket, standard output and error."""

    module: str
    """A key of `IMPORTS`."""
    arguments: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment."""
    folder: str
    """The working directory."""

    def encode(self) -> bytes:
        """As JSON, which can hold names that are no UTF-8."""
        # JSON escapes surrogates, so words that are no UTF-8 arrive unchanged.
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> ForkRequest:
        """The request of these bytes."""
        found = json.loads(data)
        return cls(
            module=found["module"],
            arguments=tuple(found["arguments"]),
            env=found["env"],
            folder=found["folder"],
        )
