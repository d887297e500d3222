"""Options of a proxy (G-110, G-113)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pocketmq.operation.access.options import inner_credentials
from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.addresses import split_address
from pocketmq.runtime.configuration.options import option
from pocketmq.runtime.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ProxyConfig:
    """What a proxy can be told; RocketMQ's names and defaults where it has them."""

    section: ClassVar[str] = "proxy"

    name: str = option("proxy-1", help="Name of the role in its ready line and in logs.")
    host: str = option("127.0.0.1", help="Address to listen on.")
    grpc_port: int = option(
        8081,
        help="Port for SDKs; 0 takes a free one.",
        rule="G-110",
        rocketmq_name="grpcServerPort",
    )
    port: int = option(
        0, help="Port to which tools send requests about this process. 0: any free port."
    )
    nameservers: tuple[str, ...] = option(
        ("127.0.0.1:9876",), help="Nameservers, host:port.", rocketmq_name="namesrvAddr"
    )
    advertise: str = option(
        "",
        help=(
            "Address of the proxy that SDKs get in routes, as host:port. Default: the "
            "address that the SDK connected to."
        ),
        rule="G-59",
    )
    encoding: Literal["json", "msgpack"] = option(
        "json",
        help=(
            "Encoding of requests to brokers: json or msgpack. Encoding as msgpack is "
            "faster, but only PocketMQ's brokers can read it."
        ),
    )
    certificate: Path | None = option(
        None,
        help=(
            "Folder with certificate.pem and key.pem for the proxy's ports. If these files "
            "are missing, the proxy makes the files, for which it needs pocketmq[tls]. "
            "Give certificate.pem to SDKs that check certificates."
        ),
        rule="G-8",
    )
    max_message_size: int = option(
        4 * 1024 * 1024, unit="bytes", help="Largest body that an SDK may send.", rule="G-113"
    )
    authentication_enabled: bool = option(
        False, help="Answer only calls that a user of the brokers has signed.", rule="G-140"
    )
    authorization_enabled: bool = option(
        False, help="Answer only calls that the calling user's rules allow.", rule="G-140"
    )
    authentication_whitelist: str = option(
        "",
        help=(
            "Names of requests that need no signature, separated by ','. An example of a "
            "name is apache.rocketmq.v2.QueryRouteRequest."
        ),
        rule="G-140",
    )
    authorization_whitelist: str = option(
        "", help="Names of requests that any user may send, separated by ','.", rule="G-140"
    )
    inner_client_authentication_credentials: str = option(
        "",
        help=(
            "Key of a super user, with which the proxy signs its requests to brokers: "
            '{"accessKey":"...","secretKey":"..."}.'
        ),
        rule="G-142",
        secret=True,
    )

    def __post_init__(self) -> None:
        if self.advertise:
            # Parsed only to find mistakes at the start, and not in every SDK's first route.
            split_address(self.advertise)
        # Brokers check only the proxy's signature, so unchecked SDKs would act as its user.
        if self.inner_credentials is not None and not self.authentication_enabled:
            raise ConfigError(
                "inner_client_authentication_credentials",
                "without authentication_enabled, every SDK would have the rights of the user in "
                "this option",
                advice="turn on authentication_enabled, as on the brokers",
            )
        if self.authorization_enabled and not self.authentication_enabled:
            raise ConfigError(
                "authorization_enabled",
                "without authentication_enabled, the proxy does not know the users of SDKs, so "
                "no SDK would have any right",
                advice="turn authentication_enabled on",
            )

    @property
    def inner_credentials(self) -> Credentials | None:
        """What signs requests to brokers.

        Raises:
            ConfigError: the option cannot be read.
        """
        return inner_credentials(self.inner_client_authentication_credentials)

    def whitelist(self, name: str) -> frozenset[str]:
        """The requests of one of the two lists."""
        text: str = getattr(self, name)
        return frozenset(each.strip() for each in text.split(",")) - {""}
