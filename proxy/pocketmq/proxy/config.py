"""Options of a proxy (G-110, G-113)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pocketmq.runtime.addresses import split_address
from pocketmq.runtime.configuration.options import option


@dataclass(frozen=True, kw_only=True)
class ProxyConfig:
    """What a proxy can be told; RocketMQ's names and defaults where it has them."""

    section: ClassVar[str] = "proxy"

    name: str = option("proxy-1", help="Name in the ready line and in logs.")
    host: str = option("127.0.0.1", help="Address to listen on.")
    grpc_port: int = option(
        8081,
        help="Port for SDKs; 0 takes a free one.",
        rule="G-110",
        rocketmq_name="grpcServerPort",
    )
    port: int = option(0, help="Port for requests of tools to this process; 0 takes a free one.")
    nameservers: tuple[str, ...] = option(
        ("127.0.0.1:9876",), help="Nameservers, host:port.", rocketmq_name="namesrvAddr"
    )
    advertise: str = option(
        "", help="host:port in routes; by default the one that the asker used.", rule="G-59"
    )
    encoding: Literal["json", "msgpack"] = option(
        "json",
        help="Of requests to brokers: json, or msgpack, which is faster, and PocketMQ's only. "
        "RocketMQ's binary one has no room for the numbers of pop's requests.",
    )
    certificate: Path | None = option(
        None,
        help="Folder with certificate.pem and key.pem for the ports; they are made if they "
        "are not there, which needs pocketmq[tls]. SDKs that check certificates get the first.",
        rule="G-8",
    )
    max_message_size: int = option(
        4 * 1024 * 1024, unit="bytes", help="Largest body that an SDK may send.", rule="G-113"
    )

    def __post_init__(self) -> None:
        if self.advertise:
            split_address(self.advertise)
