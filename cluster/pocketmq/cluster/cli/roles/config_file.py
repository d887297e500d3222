"""Which keys of a TOML file a command reads: those of its roles that it does not choose itself."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from pocketmq.cluster.default_proxy import NoProxy, with_proxy
from pocketmq.cluster.spec import ClusterOptions, ProcessSpec, cluster_spec
from pocketmq.operation.membership.options import SecurityOptions
from pocketmq.protocol.budget import Budget
from pocketmq.runtime.configuration.config import load
from pocketmq.runtime.configuration.options import describe, section_of
from pocketmq.runtime.configuration.toml_keys import Key, refuse_unused
from pocketmq.runtime.process import RoleOptions

Role = Literal["nameserver", "controller", "broker", "proxy", "up"]

_BY_SUPERVISOR: Final = frozenset({"--port", "--exit-with-parent", "--clock", "--clock-start-ms"})
"""Flags that every role is given when it is started."""

_BESIDES: Final = {
    "data": ("store_path_root_dir",),
    "peers": ("host",),  # a controller that has peers listens where they say
}
"""Option that is given -> others that mean nothing then."""

_ELSEWHERE: Final = {
    "store_path_root_dir": "data",
    "kv_config_path": "data",
    "store_path": "data",
    "peers": "controllers",
    "self_id": "controllers",
    "enable_controller_mode": "controllers",
    "all_ack_in_sync_state_set": "replicas",
    "broker_role": "slaves",
    "broker_id": "slaves",
    "in_sync_replicas": "sync_slaves",
    "grpc_port": "proxy_port",
}
"""Option of a role -> what says so of the whole cluster, where it is called otherwise."""


def config_classes(role: Role) -> list[type[Any]]:
    """The option classes that a role loads, its own first."""
    if role == "up":
        return [ClusterOptions]
    if role == "nameserver":
        from pocketmq.nameserver.config import NameServerConfig

        return [NameServerConfig, Budget, SecurityOptions, RoleOptions]
    if role == "controller":
        from pocketmq.controller.config import ControllerConfig

        return [ControllerConfig, Budget, SecurityOptions, RoleOptions]
    if role == "proxy":
        from pocketmq.proxy.config import ProxyConfig

        return [ProxyConfig, Budget, SecurityOptions, RoleOptions]
    from pocketmq.broker.config import BrokerConfig
    from pocketmq.broker.store.config import StoreConfig

    return [BrokerConfig, StoreConfig, Budget, SecurityOptions, RoleOptions]


def refuse_unused_by(role: Role, path: Path, broker_conf: Path | None = None) -> None:
    """Refuse what `pocketmq <role> --config` would.

    Raises:
        ConfigError: It does not use a key of the file.
    """
    if role == "up":
        loaded = load(ClusterOptions, {}, os.environ, path)
        # As `up` does: whether there is a proxy decides which keys are used.
        refuse_unused_by_up(path, *with_proxy(loaded.config, loaded.origins))
        return
    classes = config_classes(role)
    if role == "nameserver":
        own = load(classes[0], {}, os.environ, path, broker_conf=broker_conf).config
        # Only with this option a nameserver also loads the controller's options.
        if own.enable_controller_in_namesrv:
            classes.append(config_classes("controller")[0])
    refuse_unused(path, classes, f"pocketmq {role}")


def refuse_unused_by_up(path: Path, options: ClusterOptions, no_proxy: NoProxy) -> None:
    """Refuse a file of which `pocketmq up`, and the roles that it starts, do not use all.

    Args:
        path: The file, which all of them read.
        options: What is started.
        no_proxy: Why there is no proxy, as `with_proxy` tells it.

    Raises:
        ConfigError: A key is used by nobody, or `up` chooses its value itself.
    """
    if no_proxy is NoProxy.NOT_INSTALLED:
        # Machines share a file, and where gRPC is installed, it is read whole.
        options = replace(options, proxy=True)
    # The folder and the ports do not matter: only the names of each role's flags are used.
    spec = cluster_spec(options, Path(), controller_ports=range(1, options.controllers + 1))
    brokers = (*spec.brokers, *spec.slaves)
    common = _BY_SUPERVISOR
    of_brokers = {"--nameservers"} | ({"--controllers"} if options.controllers else set())
    classes: list[type[Any]] = [ClusterOptions]
    chosen: dict[Key, str] = {}
    roles: tuple[tuple[Role, Sequence[ProcessSpec], Iterable[str]], ...] = (
        ("nameserver", spec.nameservers, common),
        ("broker", brokers, common | of_brokers),
        ("controller", spec.controllers, common),
        ("proxy", spec.proxies, common | {"--nameservers"}),
    )
    for role, processes, more in roles:
        # Without such a process a table such as [proxy] is unused, and is refused.
        if not processes:
            continue
        # Flags that all processes get: if only some get one, the others use the file's value.
        flags = set.intersection(*(set(each.arguments) for each in processes)) | set(more)
        for config_class in config_classes(role):
            if config_class not in classes:
                # Roles share classes such as `Budget`; errors list them in this order.
                classes.append(config_class)
            chosen |= _chosen(role, config_class, flags)
    refuse_unused(path, classes, "pocketmq up", chosen=chosen, idle=_idle(options, no_proxy))


def _idle(options: ClusterOptions, no_proxy: str) -> dict[Key, str]:
    """Options of the cluster that others of its options leave without effect, and why."""
    ports = ("nameserver_port", "controller_port", "broker_port", "proxy_port")
    cases = (
        (options.any_port, ports, "the system chooses all ports"),
        (not options.controllers, ("controller_port",), "there are no controllers"),
        (not options.proxy, ("proxy_port",), no_proxy or "there is no proxy"),
        (not options.brokers, ("broker_port", "cluster_name"), "there are no brokers"),
        (options.clock == "real", ("clock_start_ms",), "the clock is not manual"),
        (options.control_port < 0, ("control_host",), "there is no control address"),
    )
    return {
        (ClusterOptions.section, name): why for idle, names, why in cases if idle for name in names
    }


def _chosen(role: Role, config_class: type[Any], flags: set[str]) -> dict[Key, str]:
    """Options of a class for which there is a flag, and what says so of the whole cluster."""
    given = {name.removeprefix("--").replace("-", "_") for name in flags if name.startswith("--")}
    for name, others in _BESIDES.items():
        if name in given:
            given.update(others)
    of_cluster = {each.name for each in describe(ClusterOptions)}
    found: dict[Key, str] = {}
    for each in describe(config_class):
        if each.name in given:
            # The role's own name first, as `broker_port` says more than `port`.
            named = (f"{role}_{each.name}", each.name, _ELSEWHERE.get(each.name, ""))
            there = next((name for name in named if name in of_cluster), "")
            # Empty if no option of the cluster does this: the key is then refused without advice.
            key = (section_of(config_class), each.name)
            found[key] = f"[{ClusterOptions.section}] {there}" if there else ""
    return found
