"""What one peer, and all peers together, may cost a nameserver, broker, controller or proxy.

Every limit stands here and nowhere else; `pocketmq config show` shows them, and
docs/limits.md explains them. Each is far above what real clients do, and low enough that no
single request holds the event loop for 100 ms. What exceeds one is refused with an
`OverBudgetError`, whose text names the option.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Final, TypeAlias

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OverBudgetError
from pocketmq.runtime.configuration.options import option

MIB = 1024 * 1024

NAMESERVER = ("nameserver",)
BROKER = ("broker",)
CONTROLLER = ("controller",)
PROXY = ("proxy",)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What peers may cost; all roles take the same table, and each reads what concerns it."""

    section: ClassVar[str] = "budget"

    peer_memory_bytes: int = option(
        256 * MIB,
        unit="bytes",
        help=(
            "Maximum bytes that may wait for all peers together: unread answers, half frames, "
            "held pulls. With more, the connection that has the most is closed."
        ),
        live=True,
        within=(1, inf),
    )
    connection_bytes: int = option(
        64 * MIB,
        unit="bytes",
        help=(
            "Maximum bytes that wait to be sent on one connection. With more, the connection "
            "is closed."
        ),
        live=True,
        within=(1, inf),
    )
    header_bytes: int = option(
        256 * 1024,
        unit="bytes",
        help="Maximum bytes of a frame's header. A frame with a longer header is skipped.",
        live=True,
        within=(1, inf),
    )
    tls_handshakes: int = option(
        1_000,
        help=(
            "Maximum number of TLS handshakes at the same time. With more, the oldest "
            "handshake is closed."
        ),
        live=True,
        within=(1, inf),
    )
    body_bytes: int = option(
        MIB,
        unit="bytes",
        help="Maximum bytes of a request's structured body, such as a heartbeat.",
        live=True,
        within=(1, inf),
    )
    registration_bytes: int = option(
        4 * MIB,
        unit="bytes",
        help="Maximum bytes of the body of a broker's registration, also after decompression.",
        live=True,
        within=(1, inf),
        roles=NAMESERVER,
    )
    settings_bytes: int = option(
        64 * 1024,
        unit="bytes",
        help="Maximum bytes of the body of a request that changes options.",
        live=True,
        within=(1, inf),
    )
    topics_per_registration: int = option(
        10_000,
        help="Maximum number of topics that a broker registers at a nameserver.",
        live=True,
        within=(1, inf),
        roles=NAMESERVER,
    )
    queues_per_topic: int = option(
        16_384,
        help="Maximum number of queues of one topic, on brokers and in registrations.",
        live=True,
        within=(1, inf),
        roles=NAMESERVER + BROKER,
    )
    routes: int = option(
        200_000,
        help=(
            "Maximum number of topics that a nameserver keeps, counted once for each broker. "
            "Known topics may still change."
        ),
        live=True,
        within=(1, inf),
        roles=NAMESERVER,
    )
    brokers: int = option(
        2_000,
        help=(
            "Maximum number of brokers, and of broker names, that a nameserver keeps. Known "
            "brokers may still change."
        ),
        live=True,
        within=(1, inf),
        roles=NAMESERVER,
    )
    name_chars: int = option(
        1_024,
        help=(
            "Maximum length of names and addresses that are kept: of brokers, topics, groups, "
            "clients."
        ),
        live=True,
        within=(1, inf),
    )
    kv_bytes: int = option(
        4 * MIB,
        unit="bytes",
        help="Maximum bytes of a nameserver's key-value configuration, names and values.",
        live=True,
        within=(1, inf),
        roles=NAMESERVER,
    )
    groups_per_heartbeat: int = option(
        500,
        help="Maximum number of groups of consumers and of producers in one heartbeat.",
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    subscriptions_per_heartbeat: int = option(
        5_000,
        help="Maximum number of subscriptions in one heartbeat, for all its groups together.",
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    subscription_chars: int = option(
        16_384,
        help="Maximum length of a subscription's expression.",
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    held_pulls_per_connection: int = option(
        10_000,
        help="Maximum number of pulls of one connection that wait for messages at the same time.",
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    records: int = option(
        20_000,
        help=(
            "Number of topics, and of groups, up to which the broker creates new ones itself. "
            "After that, only tools create more."
        ),
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    records_per_request: int = option(
        1_000,
        help=(
            "Maximum number of topics, or groups, that a tool may create or change in one request."
        ),
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    queue_locks: int = option(
        100_000,
        help=(
            "Maximum number of queues that the orderly consumers of all groups lock at the "
            "same time."
        ),
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    offsets: int = option(
        100_000,
        help="Maximum number of offsets that a broker keeps: one for each group and queue.",
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    users: int = option(
        10_000,
        help="Maximum number of users that a broker keeps.",
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    rules_per_user: int = option(
        1_000,
        help=(
            "Maximum number of rules that a broker keeps for one user. Each address in a rule "
            "counts."
        ),
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    slaves: int = option(
        64,
        help=(
            "Maximum number of connections to a broker's replication port. Further "
            "connections are closed at once."
        ),
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    broker_names: int = option(
        10_000,
        help="Maximum number of broker names that a controller keeps.",
        live=True,
        within=(1, inf),
        roles=CONTROLLER,
    )
    replicas_per_name: int = option(
        64,
        help="Maximum number of replicas of one broker name that a controller keeps.",
        live=True,
        within=(1, inf),
        roles=CONTROLLER,
    )
    replicas: int = option(
        20_000,
        help=(
            "Maximum number of replicas that a controller keeps. The same maximum applies to the "
            "brokers whose heartbeats it keeps."
        ),
        live=True,
        within=(1, inf),
        roles=CONTROLLER,
    )
    replica_bytes: int = option(
        4 * MIB,
        unit="bytes",
        help=(
            "Maximum bytes of the names, addresses and claims of replicas that a controller keeps."
        ),
        live=True,
        within=(1, inf),
        roles=CONTROLLER,
    )

    grpc_calls: int = option(
        50_000,
        help="Maximum number of open calls of all SDKs. Further calls get RESOURCE_EXHAUSTED.",
        within=(1, inf),
        rule="G-136",
        roles=PROXY,
    )
    grpc_calls_per_connection: int = option(
        1_000,
        help=(
            "Maximum number of open calls of one connection (HTTP/2's streams). Further calls wait."
        ),
        within=(1, inf),
        rule="G-136",
        roles=PROXY,
    )
    grpc_metadata_bytes: int = option(
        16 * 1024,
        unit="bytes",
        help="Maximum bytes of a call's headers. A call with more gets RESOURCE_EXHAUSTED.",
        within=(1, inf),
        roles=PROXY,
    )
    grpc_request_bytes: int = option(
        MIB,
        unit="bytes",
        help=(
            "Maximum bytes of a request, without the message bodies that it sends. A longer "
            "request is refused and not read."
        ),
        within=(1, inf),
        roles=PROXY,
    )
    grpc_command_bytes: int = option(
        256 * 1024,
        unit="bytes",
        help=(
            "Maximum bytes of a command on Telemetry, such as a client's settings, which the "
            "proxy keeps."
        ),
        within=(1, inf),
        roles=PROXY,
    )
    grpc_topics: int = option(
        1_000,
        help=(
            "Maximum number of topics in a client's settings. With more, the client's stream ends."
        ),
        within=(1, inf),
        roles=PROXY,
    )
    grpc_clients: int = option(
        100_000,
        help=(
            "Maximum number of clients whose settings are kept. With more, the proxy forgets "
            "the clients that were silent longest."
        ),
        within=(1, inf),
        roles=PROXY,
    )
    grpc_clients_bytes: int = option(
        128 * MIB,
        unit="bytes",
        help=(
            "Maximum bytes of the settings, ids and groups of all clients. With more, the "
            "proxy forgets the clients that were silent longest."
        ),
        within=(1, inf),
        roles=PROXY,
    )

    def check(
        self,
        name: str,
        found: int,
        what: str,
        *,
        advice: str = "send less at once, or raise it",
        code: int = ResponseCode.INVALID_PARAMETER,
    ) -> None:
        """Pass what is within a limit.

        Args:
            name: of the option.
            found: how much there is.
            what: whose it is: "the heartbeat's groups".
            advice: what to do.
            code: answer of the wire.

        Raises:
            OverBudgetError: there is more than the limit.
        """
        limit: int = getattr(self, name)
        if found > limit:
            raise OverBudgetError(what, found, limit, f"{self.section}.{name}", advice, code)


BudgetSource: TypeAlias = Callable[[], Budget]
"""The budget as it is now; tools may change it while a role runs."""

DEFAULT_BUDGET: Final = Budget()


def default_budget() -> Budget:
    """What holds where no options are."""
    return DEFAULT_BUDGET
