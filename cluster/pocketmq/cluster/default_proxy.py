"""Whether `pocketmq up` starts a gRPC proxy where nobody says so, and on which port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum

from pocketmq.cluster.errors import ProcessStartError
from pocketmq.cluster.spec import ClusterOptions, chosen_ports
from pocketmq.proxy.installed import is_installed
from pocketmq.runtime.errors import EnvironmentFault, PocketMQError, PortInUseError
from pocketmq.runtime.ports import check_port_free


class NoProxy(StrEnum):
    """Why there is no proxy, as the line that says it."""

    NOT_MISSED = ""
    """There is one, or none is wanted."""
    NOT_INSTALLED = (
        "no proxy for RocketMQ 5's SDKs: pip install 'pocketmq[grpc]', or leave out this line by "
        "--no-proxy"
    )
    WITHOUT_BROKERS = "no proxy for RocketMQ 5's SDKs: there is no broker that it could ask"
    WITHOUT_POP = "no proxy for RocketMQ 5's SDKs: brokers of RocketMQ 4.9 cannot be popped from"


_DEFAULT = "default"


def with_proxy(
    options: ClusterOptions, origins: Mapping[str, str]
) -> tuple[ClusterOptions, NoProxy]:
    """The options with a proxy, if they do not speak of it; and why there is none.

    The proxy's port is 8081, or a free one where that is taken, or another role is to listen there,
    unless a port was chosen.

    Args:
        options: As they were loaded.
        origins: Where the value of each came from.
    """
    if origins["proxy"] == _DEFAULT:
        if not options.brokers:
            return options, NoProxy.WITHOUT_BROKERS
        if options.profile == "4.9":
            return options, NoProxy.WITHOUT_POP
        if not is_installed():
            return options, NoProxy.NOT_INSTALLED
        options = replace(options, proxy=True)
    # Only the default port may be replaced: a chosen port that is taken is an error.
    if options.proxy and origins["proxy_port"] == _DEFAULT and not options.any_port:
        # Another role of this cluster will take it, though nothing listens there yet.
        if options.proxy_port in chosen_ports(options):
            return replace(options, proxy_port=0), NoProxy.NOT_MISSED
        try:
            check_port_free(options.host, options.proxy_port)
        except PortInUseError:
            options = replace(options, proxy_port=0)
        except EnvironmentFault:
            pass  # the host is no address of this machine: whoever listens first says so
    return options, NoProxy.NOT_MISSED


def not_started(reason: PocketMQError) -> str:
    """The line that says why a proxy that nobody asked for is not there."""
    words = str(reason)
    if isinstance(reason, ProcessStartError) and reason.status != 1:
        # Its last words would be a traceback, or nothing.
        words = f"{reason.name} did not start; its log is {reason.log_path}"
    return f"no proxy for RocketMQ 5's SDKs: {words}"
