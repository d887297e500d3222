"""Which gRPC proxies are in front of the cluster: they say so themselves, every 10 s.

RocketMQ's nameservers know no proxies. Here they do, so that an SDK that is pointed at a wrong port
can be passed on, and tools can ask proxies for their clients. Pure: the caller brings the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pocketmq.operation.grpc_ports.requests import ProxyAddress

EXPIRY_S: Final = 120.0
"""A proxy that was silent for longer is forgotten, as a broker is (N-2)."""

MOST: Final = 64
"""Proxies that are kept; of more the one heard of longest ago is forgotten."""


@dataclass(slots=True)
class _Known:
    proxy: ProxyAddress
    heard_at: float


class KnownProxies:
    """Proxies by their address for SDKs, the one heard of last at the end."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def heard(self, proxy: ProxyAddress, now: float) -> None:
        """A proxy says where it is; `now` in seconds of a monotonic clock."""
        # Moved to the end, so that the one silent for the longest is dropped first.
        self._known.pop(proxy.endpoints, None)
        self._known[proxy.endpoints] = _Known(proxy, now)
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def forget(self, endpoints: str) -> None:
        """A proxy says that it stops."""
        self._known.pop(endpoints, None)

    def alive(self, now: float) -> list[ProxyAddress]:
        """Those that were heard of, the last one first."""
        # Expired only when asked, so that nothing has to run in between.
        for endpoints, known in list(self._known.items()):
            if now - known.heard_at > EXPIRY_S:
                del self._known[endpoints]
        return [known.proxy for known in reversed(self._known.values())]
