"""The processes of a cluster, with their command lines and ports.

Pure: turns options into command lines. `supervisor.py` starts them.

Nameservers use ports from 9876 on, controllers from 9881 on, brokers 10911, 10921, ... and their
slaves the next ones: ten apart, because RocketMQ's brokers also use the two ports next to their
own. A proxy answers SDKs on 8081. With `any_port` the system chooses.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pocketmq.cluster.folder import MEMBER_FILE
from pocketmq.operation.tls.contexts import KeyPair, certificate_in
from pocketmq.runtime.addresses import address_text
from pocketmq.runtime.configuration.options import option
from pocketmq.runtime.profile import DEFAULT_PROFILE, ProfileName
from pocketmq.runtime.words import counted

NAMESERVER_MODULE = "pocketmq.nameserver"
CONTROLLER_MODULE = "pocketmq.controller"
BROKER_MODULE = "pocketmq.broker"
PROXY_MODULE = "pocketmq.proxy"

BROKER_PORT_STEP = 10
_BESIDE = (-2, 0, 1)
"""Ports that a broker may listen on, from its own: for clients up to 4.4, its own, for slaves."""

PROXY_NAME = "proxy-1"


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Options of `pocketmq up`; in TOML the table `[cluster]`."""

    section: ClassVar[str] = "cluster"

    nameservers: int = option(1, help="How many nameservers.")
    controllers: int = option(
        0,
        help="Number of controllers. With 3 controllers, one may fail. 0: no controllers.",
        rule="D-55",
    )
    brokers: int = option(1, help="How many brokers, called broker-a, broker-b, ...")
    replicas: int = option(
        1,
        help=(
            "Number of brokers (replicas) for each broker name. Above 1, the cluster needs "
            "controllers."
        ),
        rule="H-1",
    )
    slaves: int = option(
        0, help="Number of slaves of each broker. The first slave of broker-a is broker-a-s1."
    )
    sync_slaves: bool = option(
        False,
        help="With slaves: answer a send only when at least one slave has the message.",
        rule="B-141",
    )
    acting_master: bool = option(
        False,
        help="With slaves: while a broker name has no master, a slave acts as master, read only.",
        rule="Z-1",
    )
    host: str = option("127.0.0.1", help="Address to listen on.")
    nameserver_port: int = option(9876, help="Port of the first nameserver.", rule="N-1")
    controller_port: int = option(9881, help="Port of the first controller.", rule="D-50")
    broker_port: int = option(
        10911, help="Port of the first broker. Each further broker's port is 10 higher."
    )
    any_port: bool = option(False, help="Let the system choose all ports.")
    proxy: bool = option(
        False,
        help=(
            "Start a gRPC proxy for RocketMQ 5's SDKs. The proxy needs pocketmq[grpc]. By "
            "default, `pocketmq up` starts a proxy if pocketmq[grpc] is installed."
        ),
        rule="G-110",
    )
    proxy_port: int = option(8081, help="Port on which the proxy answers SDKs.", rule="G-110")
    cluster_name: str = option("DefaultCluster", help="Name of the cluster that brokers report.")
    data: Path | None = option(
        None,
        help=(
            "Folder in which stores and logs are kept. Its folder broker-a is a RocketMQ "
            "store root."
        ),
    )
    tls: bool = option(
        False,
        help="All ports of the roles accept only TLS. The cluster makes its own certificate.",
        rule="Y-1",
    )
    members_must_prove: bool = option(
        False,
        help=(
            "With tls: nameservers, controllers and replication ports accept requests only "
            "from processes that know the cluster's secret."
        ),
    )
    strangers_read_routes: bool = option(
        False,
        help=(
            "With members_must_prove: clients that do not know the secret, such as "
            "RocketMQ's, may still ask nameservers for routes, clusters and topic names."
        ),
    )
    users: Path | None = option(
        None,
        help=(
            "TOML or JSON file with users and rules. With this file, brokers check every "
            "request. Nameservers and controllers check only PocketMQ's own requests."
        ),
        rule="Y-40",
    )
    clock: Literal["real", "manual"] = option(
        "real", help="manual: time only moves by `pocketmq clock advance`."
    )
    clock_start_ms: int = option(
        0,
        unit="ms",
        help=(
            "Start time of a manual clock, in milliseconds since 1970. 0: the current "
            "time, rounded up to a whole second."
        ),
    )
    profile: ProfileName = option(
        DEFAULT_PROFILE, help="RocketMQ release whose rules hold where RocketMQ 4.9 and 5.x differ."
    )
    log_level: Literal["debug", "info", "warning", "error"] = option(
        "info", help="Lowest level in the processes' log files."
    )
    events: bool = option(
        False,
        help=(
            "Keep events from the start on. Without this option, roles keep events only "
            "while somebody watches the cluster."
        ),
    )
    control_port: int = option(
        9870,
        help=(
            "Port of the control address (HTTP). If it is taken, another port is used. -1: no "
            "control address."
        ),
    )
    control_host: str = option(
        "",
        help=(
            "Host on which the control address listens. Default: the value of the option "
            "host if it is a loopback address, else 127.0.0.1. An address that is not "
            "loopback needs a token."
        ),
    )

    def __post_init__(self) -> None:
        if self.nameservers < 1:
            raise ValueError(f"{self.nameservers} nameservers are too few; write 1 or more")
        if self.controllers < 0:
            raise ValueError(f"{self.controllers} controllers are too few; write 0 or more")
        # Without controllers nobody decides which replica is the master.
        if self.replicas > 1 and not self.controllers:
            raise ValueError(
                f"{self.replicas} replicas need controllers, but there are none; add "
                "--controllers 1, or better --controllers 3"
            )
        if self.replicas < 1:
            raise ValueError(f"{self.replicas} replicas are too few; write 1 or more")
        if self.slaves < 0:
            raise ValueError(f"{self.slaves} slaves are too few; write 0 or more")
        if self.slaves and self.controllers:
            raise ValueError(
                "--slaves cannot be combined with --controllers, because controllers choose the "
                "master; use --replicas instead of --slaves"
            )
        if self.sync_slaves and not self.slaves:
            raise ValueError(
                "--sync-slaves waits for slaves, but there are no slaves; add --slaves 1 or more"
            )
        if self.acting_master and not self.slaves:
            raise ValueError(
                "--acting-master lets a slave act as master, but there are no slaves; add "
                "--slaves 1 or more"
            )
        if self.members_must_prove and not self.tls:
            raise ValueError("--members-must-prove needs TLS connections; add --tls")
        if self.strangers_read_routes and not self.members_must_prove:
            raise ValueError("--strangers-read-routes needs --members-must-prove")
        if self.brokers < 0:
            raise ValueError(f"{self.brokers} brokers are too few; write 0 or more")
        if not self.brokers and (self.slaves or self.replicas > 1):
            raise ValueError(
                "--slaves and --replicas copy brokers, but there are no brokers; give --brokers "
                "1 or more"
            )
        if self.clock not in ("real", "manual"):  # a program without types may hand over anything
            raise ValueError(f"{self.clock!r} is not a kind of clock; write real or manual")


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process to start."""

    role: Literal["nameserver", "controller", "broker", "proxy", "client"]
    name: str
    module: str
    arguments: tuple[str, ...] = ()
    broker_name: str = ""
    """Of a broker: what its queues are known by."""
    program: tuple[str, ...] = ()
    """What runs in place of this Python and the module."""

    def command(self, *more: str) -> list[str]:
        """The command line."""
        program = self.program or (sys.executable, "-m", self.module)
        return [*program, *self.arguments, *more]


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """All server processes of a cluster, and the folder of their files."""

    nameservers: tuple[ProcessSpec, ...]
    brokers: tuple[ProcessSpec, ...]
    data: Path
    clock: Literal["real", "manual"] = "real"
    clock_start_ms: int = 0
    controllers: tuple[ProcessSpec, ...] = ()
    slaves: tuple[ProcessSpec, ...] = ()
    proxies: tuple[ProcessSpec, ...] = ()
    tls: KeyPair | None = None
    """What all roles show and trust, if they speak TLS only; the supervisor makes it."""
    member_secret: Path | None = None
    """File with what all roles know, if they must prove who they are; the supervisor makes it."""

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
    controller_ports: Sequence[int] = (),
) -> ClusterSpec:
    """The processes for these options.

    Args:
        options: The user's options.
        data: Folder of all files; the caller chooses one if `options.data` is None.
        config_path: TOML file from which each role reads its tables.
        broker_arguments: Added to each broker's command line.
        controller_ports: Free ones, for `any_port`: controllers must know each other's before
            they start.
    """
    common = ["--profile", options.profile, "--log-level", options.log_level]
    # Without this flag roles keep events only while somebody reads them.
    if options.events:
        common += ["--events"]
    if config_path is not None:
        common += ["--shared-config", str(config_path)]
    # Only the path: this function touches no file.
    tls = certificate_in(data / "tls") if options.tls else None
    if tls is not None:
        common += _tls(tls)
    # In the data folder, which all roles on this machine share.
    secret = data / MEMBER_FILE if options.members_must_prove else None
    if secret is not None:
        common += ["--members-must-prove", "--member-secret-file", str(secret)]
    # Of nameservers alone, which are all that it means something to.
    to_strangers = ["--strangers-read-routes"] if options.strangers_read_routes else []
    # RocketMQ's options of these names; without them nameservers return no acting master.
    shown = ["--support-acting-master", "--notify-min-broker-id-changed"]
    nameservers = tuple(
        ProcessSpec(
            "nameserver",
            name,
            NAMESERVER_MODULE,
            (
                *("--name", name, "--host", options.host),
                *("--port", str(0 if options.any_port else options.nameserver_port + at)),
                *("--kv-config-path", str(data / name / "kvConfig.json"), *common),
                *(shown if options.acting_master else ()),
                *to_strangers,
            ),
        )
        for at, name in enumerate(nameserver_names(options.nameservers))
    )
    controllers = _controllers(options, data, common, controller_ports)
    brokers = _brokers(options, data, [*common, *broker_arguments])
    slaves = _slaves(options, data, [*common, *broker_arguments])
    return ClusterSpec(
        nameservers,
        brokers,
        data,
        options.clock,
        options.clock_start_ms,
        controllers,
        slaves,
        _proxies(options, common),
        tls,
        secret,
    )


def chosen_ports(options: ClusterOptions) -> set[int]:
    """Ports on which a cluster listens that are no proxy's, unless the system chooses them."""
    all_brokers = options.brokers * (options.replicas + options.slaves)
    first = (
        range(options.nameserver_port, options.nameserver_port + options.nameservers),
        range(options.controller_port, options.controller_port + options.controllers),
        (
            options.broker_port + at * BROKER_PORT_STEP + beside
            for at in range(all_brokers)
            for beside in _BESIDE
        ),
    )
    return {options.control_port, *itertools.chain.from_iterable(first)}


def _proxies(options: ClusterOptions, common: Sequence[str]) -> tuple[ProcessSpec, ...]:
    if not options.proxy:
        return ()
    arguments = (
        *("--name", PROXY_NAME, "--host", options.host),
        *("--port", "0"),  # for tools; SDKs have the other one
        *("--grpc-port", str(0 if options.any_port else options.proxy_port)),
        *("--encoding", "msgpack", *common),
    )
    return (ProcessSpec("proxy", PROXY_NAME, PROXY_MODULE, arguments),)


def _tls(own: KeyPair) -> list[str]:
    """What has a role take TLS only, use it, and trust nobody but the cluster's roles."""
    certificate, key = str(own.certificate), str(own.key)
    return [
        *("--tls-server-mode", "enforcing", "--tls-enable", "--no-tls-test-mode-enable"),
        *("--tls-server-cert-path", certificate, "--tls-server-key-path", key),
        *("--tls-client-auth-server", "--tls-client-trust-cert-path", certificate),
    ]


def _brokers(options: ClusterOptions, data: Path, more: Sequence[str]) -> tuple[ProcessSpec, ...]:
    replicated = ["--enable-controller-mode"] if options.controllers else []
    if options.slaves:
        # The master tells consumers which replica to read from.
        replicated += ["--slave-read-enable", *_acting(options)]
    if options.sync_slaves:
        replicated += ["--broker-role", "SYNC_MASTER", "--in-sync-replicas", "2"]
    if options.replicas > 1:  # a message that was acknowledged survives each of them (D-90)
        replicated += ["--all-ack-in-sync-state-set"]
    found: list[ProcessSpec] = []
    for name in broker_names(options.brokers):
        for number in range(1, options.replicas + 1):
            own = name if number == 1 else f"{name}-{number}"
            # Ten apart, since each broker also uses the two ports next to its own.
            port = options.broker_port + len(found) * BROKER_PORT_STEP
            arguments = (
                *("--name", name, "--host", options.host),
                *("--port", str(0 if options.any_port else port)),
                *("--cluster-name", options.cluster_name),
                *("--data", str(data / own), *replicated, *more),
            )
            found.append(ProcessSpec("broker", own, BROKER_MODULE, arguments, name))
    return tuple(found)


def _slaves(options: ClusterOptions, data: Path, more: Sequence[str]) -> tuple[ProcessSpec, ...]:
    """Slaves without a controller; their ports follow the masters'."""
    found: list[ProcessSpec] = []
    # By number, so that the first slaves of all brokers have the ports after the masters'.
    for number in range(1, options.slaves + 1):
        for name in broker_names(options.brokers):
            own = slave_name(name, number)
            port = options.broker_port + (options.brokers + len(found)) * BROKER_PORT_STEP
            arguments = (
                *("--name", name, "--host", options.host),
                *("--port", str(0 if options.any_port else port)),
                *("--cluster-name", options.cluster_name),
                *("--broker-role", "SLAVE", "--broker-id", str(number), "--slave-read-enable"),
                *("--data", str(data / own), *_acting(options), *more),
            )
            found.append(ProcessSpec("broker", own, BROKER_MODULE, arguments, name))
    return tuple(found)


def _acting(options: ClusterOptions) -> tuple[str, ...]:
    if not options.acting_master:
        return ()
    # All brokers of one name, including the master.
    return ("--enable-slave-acting-master", "--total-replicas", str(options.slaves + 1))


def _controllers(
    options: ClusterOptions, data: Path, common: Sequence[str], free_ports: Sequence[int]
) -> tuple[ProcessSpec, ...]:
    first = options.controller_port
    # Controllers must know each other's ports before the start, so `any_port` needs free ones.
    ports = list(free_ports) if options.any_port else range(first, first + options.controllers)
    if len(ports) < options.controllers:
        raise ValueError(
            f"the controllers need {counted(options.controllers, 'free port')}, but only "
            f"{len(ports)} were given"
        )
    ids = [f"n{at}" for at in range(options.controllers)]
    peers = ";".join(
        f"{each}-{address_text(options.host, port)}" for each, port in zip(ids, ports, strict=False)
    )
    return tuple(
        ProcessSpec(
            "controller",
            name,
            CONTROLLER_MODULE,
            (
                *("--name", name, "--self-id", own_id, "--peers", peers),
                *("--store-path", str(data / name), *common),
            ),
        )
        for own_id, name in zip(ids, controller_names(options.controllers), strict=True)
    )


def slave_name(broker: str, number: int) -> str:
    """Process and folder of a broker's slave: `broker-a-s1`."""
    return f"{broker}-s{number}"


def nameserver_names(count: int) -> list[str]:
    """`nameserver-1`, `nameserver-2`, ..."""
    return [f"nameserver-{number}" for number in range(1, count + 1)]


def controller_names(count: int) -> list[str]:
    """`controller-1`, `controller-2`, ..."""
    return [f"controller-{number}" for number in range(1, count + 1)]


def broker_names(count: int) -> list[str]:
    """`broker-a` ... `broker-z`, then `broker-27`, ..."""
    return [
        f"broker-{chr(ord('a') + at)}" if at < 26 else f"broker-{at + 1}" for at in range(count)
    ]
