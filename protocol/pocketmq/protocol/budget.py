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
            "Maximum memory, in bytes, for all peers together: answers that a peer has not "
            "read, incomplete frames, and waiting pulls. With more, the connection that "
            "uses the most memory is closed."
        ),
        live=True,
        within=(1, inf),
    )
    connection_bytes: int = option(
        64 * MIB,
        unit="bytes",
        help=(
            "Maximum bytes that wait to be sent on one connection. If the peer reads so "
            "slowly that more bytes wait, the connection is closed."
        ),
        live=True,
        within=(1, inf),
    )
    header_bytes: int = option(
        256 * 1024,
        unit="bytes",
        help=(
            "Maximum bytes of a request's header. A request with a larger header gets "
            "INVALID_PARAMETER (29)."
        ),
        live=True,
        within=(1, inf),
    )
    tls_handshakes: int = option(
        1_000,
        help=(
            "Maximum number of TLS handshakes at the same time. With more, the connection "
            "with the oldest handshake is closed."
        ),
        live=True,
        within=(1, inf),
    )
    body_bytes: int = option(
        MIB,
        unit="bytes",
        help=(
            "Maximum bytes of the body of a request without messages, such as a heartbeat. "
            "With more, the answer is INVALID_PARAMETER (29)."
        ),
        live=True,
        within=(1, inf),
    )
    registration_bytes: int = option(
        4 * MIB,
        unit="bytes",
        help=(
            "Maximum bytes of the body of a broker's registration, before and after "
            "decompression. With more, the answer is INVALID_PARAMETER (29)."
        ),
        live=True,
        within=(1, inf),
        roles=NAMESERVER,
    )
    settings_bytes: int = option(
        64 * 1024,
        unit="bytes",
        help=(
            "Maximum bytes of the body of a request that changes options. With more, the "
            "answer is INVALID_PARAMETER (29)."
        ),
        live=True,
        within=(1, inf),
    )
    topics_per_registration: int = option(
        10_000,
        help=(
            "Maximum number of topics in one registration of a broker at a nameserver. "
            "With more, the answer is INVALID_PARAMETER (29)."
        ),
        live=True,
        within=(1, inf),
        roles=NAMESERVER,
    )
    queues_per_topic: int = option(
        16_384,
        help=(
            "Maximum number of queues of one topic. A request with more queues gets "
            "INVALID_PARAMETER (29), or from a broker of profile 4.9 SYSTEM_ERROR (1)."
        ),
        live=True,
        within=(1, inf),
        roles=NAMESERVER + BROKER,
    )
    routes: int = option(
        200_000,
        help=(
            "Maximum number of routes that a nameserver keeps. A topic has one route for "
            "each of its brokers. After that, a registration with a new route gets "
            "INVALID_PARAMETER (29). Known routes may still change."
        ),
        live=True,
        within=(1, inf),
        roles=NAMESERVER,
    )
    brokers: int = option(
        2_000,
        help=(
            "Maximum number of brokers that a nameserver keeps. The same maximum applies "
            "to broker names. After that, a new broker gets INVALID_PARAMETER (29). Known "
            "brokers may still change."
        ),
        live=True,
        within=(1, inf),
        roles=NAMESERVER,
    )
    name_chars: int = option(
        1_024,
        help=(
            "Maximum number of characters in an address, or in the name of a broker, "
            "topic, group or client. A request with a longer name or address is refused."
        ),
        live=True,
        within=(1, inf),
    )
    kv_bytes: int = option(
        4 * MIB,
        unit="bytes",
        help=(
            "Maximum bytes of all names and values in a nameserver's key-value "
            "configuration. With more, the answer is INVALID_PARAMETER (29)."
        ),
        live=True,
        within=(1, inf),
        roles=NAMESERVER,
    )
    groups_per_heartbeat: int = option(
        500,
        help=(
            "Maximum number of groups in one heartbeat. Groups of consumers and groups of "
            "producers are counted together. With more, the answer is INVALID_PARAMETER "
            "(29)."
        ),
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    subscriptions_per_heartbeat: int = option(
        5_000,
        help=(
            "Maximum number of subscriptions of all groups in one heartbeat. With more, "
            "the answer is INVALID_PARAMETER (29)."
        ),
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    subscription_chars: int = option(
        16_384,
        help=(
            "Maximum number of characters in a subscription's expression. A longer "
            "expression gets SUBSCRIPTION_PARSE_FAILED (23), or in a heartbeat "
            "INVALID_PARAMETER (29)."
        ),
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    held_pulls_per_connection: int = option(
        10_000,
        help=(
            "Maximum number of pulls of one connection that wait for messages at the same "
            "time. Further pulls get SYSTEM_BUSY (2)."
        ),
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    records: int = option(
        20_000,
        help=(
            "If a broker has this many topics, sends no longer create topics. If a broker "
            "has this many groups, consumers no longer create groups. Tools can still "
            "create topics and groups."
        ),
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    records_per_request: int = option(
        1_000,
        help=(
            "Maximum number of topics or groups that a tool may create or change in one "
            "request. With more, the answer is INVALID_PARAMETER (29)."
        ),
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    queue_locks: int = option(
        100_000,
        help=(
            "Maximum number of queues that the orderly consumers of all groups lock at the "
            "same time. With more, the answer is INVALID_PARAMETER (29)."
        ),
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    offsets: int = option(
        100_000,
        help=(
            "Maximum number of committed offsets that a broker keeps. Each group has one "
            "offset for each queue. With more, the answer is INVALID_PARAMETER (29)."
        ),
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    users: int = option(
        10_000,
        help=(
            "Maximum number of users that a broker keeps. With more, the answer is "
            "INVALID_PARAMETER (29)."
        ),
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    rules_per_user: int = option(
        1_000,
        help=(
            "Maximum number of rules that a broker keeps for one user. A rule with several "
            "addresses counts once for each address. With more, the answer is "
            "INVALID_PARAMETER (29)."
        ),
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    slaves: int = option(
        64,
        help=(
            "Maximum number of connections to a broker's replication port. A further "
            "connection is closed at once."
        ),
        live=True,
        within=(1, inf),
        roles=BROKER,
    )
    broker_names: int = option(
        10_000,
        help=(
            "Maximum number of broker names that a controller keeps. After that, a new "
            "broker name gets CONTROLLER_INVALID_REQUEST (2005). Known broker names may "
            "still change."
        ),
        live=True,
        within=(1, inf),
        roles=CONTROLLER,
    )
    replicas_per_name: int = option(
        64,
        help=(
            "Maximum number of replicas of one broker name that a controller keeps. After "
            "that, a new replica gets CONTROLLER_INVALID_REQUEST (2005)."
        ),
        live=True,
        within=(1, inf),
        roles=CONTROLLER,
    )
    replicas: int = option(
        20_000,
        help=(
            "Maximum number of replicas that a controller keeps. The same maximum applies "
            "to the brokers whose heartbeats the controller keeps. After that, a new "
            "replica is refused."
        ),
        live=True,
        within=(1, inf),
        roles=CONTROLLER,
    )
    replica_bytes: int = option(
        4 * MIB,
        unit="bytes",
        help=(
            "Maximum bytes of the names, addresses and other texts that a controller keeps "
            "for all replicas. After that, a new replica gets CONTROLLER_INVALID_REQUEST "
            "(2005)."
        ),
        live=True,
        within=(1, inf),
        roles=CONTROLLER,
    )

    grpc_calls: int = option(
        50_000,
        help=(
            "Maximum number of open calls of all SDKs together. Further calls get "
            "RESOURCE_EXHAUSTED."
        ),
        within=(1, inf),
        rule="G-136",
        roles=PROXY,
    )
    grpc_calls_per_connection: int = option(
        1_000,
        help=(
            "Maximum number of open calls (HTTP/2 streams) of one connection. Further "
            "calls wait until an open call ends."
        ),
        within=(1, inf),
        rule="G-136",
        roles=PROXY,
    )
    grpc_metadata_bytes: int = option(
        16 * 1024,
        unit="bytes",
        help=(
            "Maximum bytes of a call's headers. A call with larger headers gets RESOURCE_EXHAUSTED."
        ),
        within=(1, inf),
        roles=PROXY,
    )
    grpc_request_bytes: int = option(
        MIB,
        unit="bytes",
        help=(
            "Maximum bytes of a request, not counting the message bodies in the request. A "
            "larger request gets PAYLOAD_TOO_LARGE."
        ),
        within=(1, inf),
        roles=PROXY,
    )
    grpc_command_bytes: int = option(
        256 * 1024,
        unit="bytes",
        help=(
            "Maximum bytes of a command on an SDK's telemetry stream, such as the SDK's "
            "settings. After a larger command, the proxy closes the stream."
        ),
        within=(1, inf),
        roles=PROXY,
    )
    grpc_topics: int = option(
        1_000,
        help=(
            "Maximum number of topics in a client's settings. With more, the proxy closes "
            "the client's telemetry stream."
        ),
        within=(1, inf),
        roles=PROXY,
    )
    grpc_clients: int = option(
        100_000,
        help=(
            "Maximum number of clients whose settings the proxy keeps. With more, the "
            "proxy forgets the clients that sent nothing for the longest time."
        ),
        within=(1, inf),
        roles=PROXY,
    )
    grpc_clients_bytes: int = option(
        128 * MIB,
        unit="bytes",
        help=(
            "Maximum bytes of the settings, ids and groups of all clients together. With "
            "more, the proxy forgets the clients that sent nothing for the longest time."
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
