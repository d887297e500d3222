"""Options of a controller (D-50, D-56)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from pocketmq.operation.access.options import OwnRequestOptions
from pocketmq.runtime.addresses import address_text, split_address
from pocketmq.runtime.configuration.options import option
from pocketmq.runtime.errors import ConfigError

DEFAULT_PORT: Final = 9877

PROTECTED_OPTIONS: Final = frozenset(
    {
        "authenticationEnabled",
        "configBlackList",
        "configStorePath",
        "controllerStorePath",
        "rocketmqHome",
    }
)
"""Those that no request may change: the first lets strangers in, the others say which files are
written."""


@dataclass(frozen=True, kw_only=True)
class ControllerOptions:
    """Who it is, where it keeps what, and how it elects."""

    name: str = option("controller", help="Name of the role in its ready line and in logs.")
    host: str = option("127.0.0.1", help="Address to listen on, if the controller has no peers.")
    port: int = option(
        0,
        help=(
            "Port to listen on. 0: the port that --peers has for this controller. Without "
            "--peers, 0 means 9877."
        ),
        rule="D-50",
    )
    group: str = option(
        "DefaultControllerGroup",
        help=(
            "Name of the controllers' group. A controller refuses messages of controllers "
            "of other groups."
        ),
        rule="D-50",
        rocketmq_name="controllerDLegerGroup",
    )
    peers: str = option(
        "",
        help=(
            "Ids and addresses of all controllers, such as n0-host:9877;n1-host:9877. "
            "Empty: this controller has no peers."
        ),
        rule="D-50",
        rocketmq_name="controllerDLegerPeers",
    )
    self_id: str = option(
        "n0", help="Id that this controller has in --peers.", rule="D-50",
        rocketmq_name="controllerDLegerSelfId",
    )  # fmt: skip
    store_path: Path = option(
        Path("~/PocketMQController"),
        help="Folder of the journal. Each controller needs a folder of its own.",
        rule="D-50",
        rocketmq_name="controllerStorePath",
    )
    config_store_path: Path | None = option(
        None,
        help=(
            "File in which the controller stores the options that tools changed. Default: "
            "a file in the folder of the journal."
        ),
        rule="D-56",
    )
    election_timeout: int = option(
        1000,
        unit="ms",
        help=(
            "If the leading controller is silent for this time, the other controllers "
            "elect another leader."
        ),
        rule="D-50",
        rocketmq_name="jRaftElectionTimeoutMs",
        within=(100, 600_000),
    )
    scan_not_active_broker_interval: int = option(
        5000,
        unit="ms",
        help="Time between two checks for silent brokers.",
        rule="D-41",
        within=(100, 600_000),
    )
    scan_inactive_master_interval: int = option(
        5000,
        unit="ms",
        help="For this time after its start, the controller takes no broker for dead.",
        rule="D-45",
        within=(0, 600_000),
    )
    enable_elect_unclean_master: bool = option(
        False,
        help=(
            "If no replica in sync is alive, elect a replica that is not in sync. In this "
            "case, messages may be lost."
        ),
        rule="D-30",
        live=True,
    )
    notify_broker_role_changed: bool = option(
        True, help="After an election, notify the brokers at once.", rule="D-44", live=True
    )
    broker_close_grace: int = option(
        0,
        unit="ms",
        help=(
            "If a broker's connection closes, the controller waits this long for a new "
            "connection. If the broker does not connect again in this time, the broker "
            "counts as dead. With 0, the broker counts as dead at once. With 2000, a "
            "single reset connection causes no election."
        ),
        rule="W-11",
    )

    def members(self) -> dict[str, str]:
        """Id -> `host:port` of all controllers of the group.

        Raises:
            ConfigError: the peers cannot be read, or do not name this one.
        """
        # A single controller needs no peers: it is its own majority.
        if not self.peers:
            return {self.self_id: address_text(self.host, self.port or DEFAULT_PORT)}
        found: dict[str, str] = {}
        for peer in self.peers.strip(";").split(";"):
            name, _, address = peer.strip().partition("-")
            try:
                split_address(address)
            except ValueError as exc:
                raise ConfigError(
                    "peers", f"{peer!r}: {exc}", advice="write n0-host:9877;n1-host:9877"
                ) from exc
            if not name or name in found:
                # Ids name members in votes and in the journal, so no two members may share one.
                raise ConfigError(
                    "peers",
                    f"peer {peer!r} has no id, or the same id as another peer; give each peer its "
                    "own id",
                )
            found[name] = address
        if self.self_id not in found:
            raise ConfigError(
                "self_id",
                f"{self.self_id!r} must be one of the ids of the peers: {', '.join(found)}",
            )
        # The peers define the port, and they are the same for every member.
        if self.port and self.port != split_address(found[self.self_id])[1]:
            raise ConfigError(
                "port",
                f"port {self.port} is not the port of {self.self_id} in the peers; leave the port "
                "out",
            )
        return found

    @property
    def address(self) -> str:
        """Where this controller listens."""
        return self.members()[self.self_id]

    @property
    def options_file(self) -> Path:
        """`config_store_path`, or `controller.properties` in the store."""
        return (self.config_store_path or self.store_path / "controller.properties").expanduser()


@dataclass(frozen=True, kw_only=True)
class ControllerConfig(OwnRequestOptions, ControllerOptions):
    """What a controller can be told; RocketMQ's names and defaults where it has them."""

    section: ClassVar[str] = "controller"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.members()
