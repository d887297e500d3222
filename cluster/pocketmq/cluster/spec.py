"""What a cluster consists of: which processes, with which command lines, on which ports.

Pure: from options to command lines. `supervisor.py` carries them out.

Nameservers take ports from 9876 on, brokers 10911, 10921, ...: RocketMQ's brokers also use the two
ports next to their own, so they stand ten apart. With `any_port` the system chooses.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pocketmq.runtime.options import option
from pocketmq.runtime.profile import DEFAULT_PROFILE, ProfileName

NAMESERVER_MODULE = "pocketmq.nameserver"
BROKER_MODULE = "pocketmq.broker"

BROKER_PORT_STEP = 10


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Options of `pocketmq up`; in TOML the table `[cluster]`."""

    section: ClassVar[str] = "cluster"

    nameservers: int = option(1, help="How many nameservers.")
    brokers: int = option(1, help="How many brokers, called broker-a, broker-b, ...")
    host: str = option("127.0.0.1", help="Address to listen on.")
    nameserver_port: int = option(9876, help="Port of the first nameserver.", rule="N-1")
    broker_port: int = option(10911, help="Port of the first broker; the next ones stand 10 apart.")
    any_port: bool = option(False, help="Let the system choose all ports.")
    cluster_name: str = option("DefaultCluster", help="Name of the cluster that brokers report.")
    data: Path | None = option(
        None, help="Keep stores and logs here: DIR/broker-a/ is a RocketMQ store root."
    )
    clock: Literal["real", "manual"] = option(
        "real", help="manual: time stands still until `pocketmq clock advance` moves it."
    )
    clock_start_ms: int = option(
        0, unit="ms", help="Where a manual clock begins, in epoch ms; 0 is the present."
    )
    profile: ProfileName = option(
        DEFAULT_PROFILE, help="RocketMQ line whose rules apply where 4.9 and 5.x differ."
    )
    log_level: Literal["debug", "info", "warning", "error"] = option(
        "info", help="Least level in the processes' log files."
    )
    control_port: int = option(
        9870, help="Port of the control address (HTTP); another one when it is taken. -1: none."
    )
    control_host: str = option(
        "127.0.0.1",
        help="Where the control address listens; open to other machines, it needs a token.",
    )

    def __post_init__(self) -> None:
        if self.nameservers < 1:
            raise ValueError(f"{self.nameservers} nameservers are too few; a cluster needs one")
        if self.brokers < 0:
            raise ValueError(f"{self.brokers} brokers are too few; write 0 or more")


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process to start."""

    role: Literal["nameserver", "broker", "client"]
    name: str
    module: str
    arguments: tuple[str, ...] = ()

    def command(self, *more: str) -> list[str]:
        """The command line, with this Python."""
        return [sys.executable, "-m", self.module, *self.arguments, *more]


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """All server processes of a cluster, and where they keep their files."""

    nameservers: tuple[ProcessSpec, ...]
    brokers: tuple[ProcessSpec, ...]
    data: Path
    clock: Literal["real", "manual"] = "real"
    clock_start_ms: int = 0

    @property
    def logs(self) -> Path:
        """Folder of the log files, one per process."""
        return self.data / "logs"


def cluster_spec(
    options: ClusterOptions,
    data: Path,
    *,
    config_path: Path | None = None,
    broker_arguments: Sequence[str] = (),
) -> ClusterSpec:
    """The processes that these options ask for.

    Args:
        options: What the user wants.
        data: Root of all files; the caller has chosen one if `options.data` is None.
        config_path: TOML file that every role reads its own tables from.
        broker_arguments: Added to each broker's command line.
    """
    common = ["--profile", options.profile, "--log-level", options.log_level]
    if config_path is not None:
        common += ["--config", str(config_path)]
    nameservers = tuple(
        ProcessSpec(
            "nameserver",
            name,
            NAMESERVER_MODULE,
            (
                *("--name", name, "--host", options.host),
                *("--port", str(0 if options.any_port else options.nameserver_port + at)),
                *("--kv-config-path", str(data / name / "kvConfig.json"), *common),
            ),
        )
        for at, name in enumerate(nameserver_names(options.nameservers))
    )
    brokers = tuple(
        ProcessSpec(
            "broker",
            name,
            BROKER_MODULE,
            (
                *("--name", name, "--host", options.host),
                *(
                    "--port",
                    str(0 if options.any_port else options.broker_port + at * BROKER_PORT_STEP),
                ),
                *("--cluster-name", options.cluster_name),
                *("--data", str(data / name), *common, *broker_arguments),
            ),
        )
        for at, name in enumerate(broker_names(options.brokers))
    )
    return ClusterSpec(nameservers, brokers, data, options.clock, options.clock_start_ms)


def _broker_port(options: ClusterOptions, at: int) -> int:
    return 0 if options.any_port else options.broker_port + at * BROKER_PORT_STEP


def nameserver_names(count: int) -> list[str]:
    """`nameserver-1`, `nameserver-2`, ..."""
    return [f"nameserver-{number}" for number in range(1, count + 1)]


def broker_names(count: int) -> list[str]:
    """`broker-a` ... `broker-z`, then `broker-27`, ..."""
    return [
        f"broker-{chr(ord('a') + at)}" if at < 26 else f"broker-{at + 1}" for at in range(count)
    ]
