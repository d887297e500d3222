"""Who calls: what the headers of an RPC say (G-7)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from pocketmq.proxy.codes.names import is_blank
from pocketmq.proxy.codes.refusals import Refusal
from pocketmq.proxy.protos.enums import Code
from pocketmq.runtime.addresses import host_of

_NOT_SDKS: Final = "~"
"""In the name of a socket: the address is of whoever passed the SDK on."""

_CONNECTIONS: Final = 4_096
"""Whose peer is read once; of more, the ones that were silent longest are read again."""

_SHOWN: Final = 64
"""Characters that are kept of a language and of a version."""


@dataclass(frozen=True, slots=True)
class Caller:
    """One RPC's client."""

    client_id: str
    language: str
    """As the SDK writes it: Node's says HTTP."""
    version: str
    address: str
    """`host:port` of the peer."""

    @classmethod
    def of(cls, context: Any) -> Caller:
        """From gRPC's context.

        Raises:
            Refusal: CLIENT_ID_REQUIRED.
        """
        headers = headers_of(context)
        client_id = headers.get("x-mq-client-id", "")
        # Everything about a client is kept by its id.
        if is_blank(client_id):
            raise Refusal(Code.CLIENT_ID_REQUIRED, "client id cannot be empty")
        return cls(
            client_id,
            headers.get("x-mq-language", "")[:_SHOWN],
            headers.get("x-mq-client-version", "")[:_SHOWN],
            peer_address(context.peer()),
        )


def socket_name(number: int, address: str, *, is_sdks: bool) -> str:
    """How the `Front` names the socket of a connection: `7,127.0.0.1:5`, or `7~,127.0.0.1:5`."""
    return f"{number}{'' if is_sdks else _NOT_SDKS},{address}"


def peer_address(peer: str) -> str:
    """The address in `unix:/tmp/pmq-1/7,%5B::1%5D:5`, as the `Front` names its sockets."""
    return _read(peer)[0]


def source_of(peer: str) -> str | None:
    """The SDK's host, without the port; None where it is not known."""
    return _read(peer)[1]


# Kept, as one connection has the same peer in each of its calls.
@lru_cache(maxsize=_CONNECTIONS)
def _read(peer: str) -> tuple[str, str | None]:
    """The address and the source."""
    # gRPC writes the path of a Unix socket with its brackets and colons quoted.
    name, _, address = unquote(peer).rpartition(",")
    return address, None if name.endswith(_NOT_SDKS) else host_of(address)


def headers_of(context: Any) -> dict[str, str]:
    """The headers of an RPC; of those with one name the last counts, as in gRPC for Java."""
    return {
        name: value.decode(errors="replace") if isinstance(value, bytes) else value
        for name, value in context.invocation_metadata() or ()
    }
