"""`MemberDoor`: what a port answers whom, where members must prove who they are.

port          everybody                           members, over a connection they have proven
nameserver    nothing; with                       everything
              `strangers_read_routes` routes,
              clusters, names of topics
controller    nothing                             everything
broker        what its users and rules allow      also what controllers, nameservers and other
                                                  replicas tell it, which nobody else may
replication   nothing                             the log (`protocol/transport/member_streams.py`)

Where users are on, PocketMQ's own requests need a super user's signature beside the proof
(`access/own_requests.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from pocketmq.operation.access.denials import FirstOfKind
from pocketmq.operation.access.own_requests import OwnRequestsDoor
from pocketmq.operation.membership.members import Members
from pocketmq.protocol.budget import BudgetSource
from pocketmq.protocol.codes import RequestCode, ResponseCode, request_name
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher, Peer
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.guarded_dispatch import Guard, GuardedDispatcher
from pocketmq.protocol.releases import Knows, everything

log = structlog.get_logger()

PROOF: Final = frozenset({RequestCode.GET_MEMBER_CHALLENGE, RequestCode.PROVE_MEMBER})

ROUTES: Final[frozenset[int]] = frozenset(
    {
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_BROKER_MEMBER_GROUP,
        RequestCode.GET_KV_CONFIG,  # which topics are ordered, where
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        RequestCode.GET_PROXIES,
    }
)
"""What clients ask a nameserver. All of it only reads; RocketMQ's clients cannot prove anything."""


def nameserver_open(*, strangers_read_routes: bool) -> frozenset[int]:
    """What everybody may ask a nameserver."""
    return PROOF | ROUTES if strangers_read_routes else PROOF


CONTROLLER_OPEN: Final[frozenset[int]] = PROOF
"""No client asks a controller."""

OF_MEMBERS_AT_BROKER: Final = frozenset(
    {
        RequestCode.NOTIFY_BROKER_ROLE_CHANGED,
        RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE,
        RequestCode.EXCHANGE_BROKER_HA_INFO,
        RequestCode.RESET_MASTER_FLUSH_OFFSET,
    }
)
"""Who sends one of them can have a broker follow whom he likes. A member needs no user for them:
controllers and nameservers have none."""


_FOR_OTHERS: Final = (
    ". For clients that cannot prove anything, set strangers_read_routes at the nameservers"
)


class MemberDoor:
    """A guard that lets strangers ask some codes only.

    Args:
        members: Who has proven what.
        is_open: Whether everybody may send this code.
    """

    def __init__(self, members: Members, is_open: Callable[[int], bool]) -> None:
        self._members = members
        self._is_open = is_open
        self._is_first = FirstOfKind()

    def check(self, peer: Peer, request: Command) -> None:
        """Return if the request may be processed.

        Raises:
            BadRequestError: it is for members, and this peer has not proven to be one.
        """
        code = request.code
        # Check the code first: where routes are open, nearly all requests are for them.
        if self._is_open(code) or peer in self._members:
            return
        if self._is_first(code):
            log.warning("request.of_stranger", peer=peer.address, request=request_name(code))
        # Refuse instead of closing: the user of a tool without the secret reads what to do.
        raise BadRequestError(
            f"{request_name(code)} is only for members of the cluster, but this connection has "
            "not proven that it knows the cluster's member secret. If you start a role, set "
            "members_must_prove, member_secret_file and TLS. If you start a client or a command, "
            f"set POCKETMQ_MEMBER_SECRET_FILE and TLS{_FOR_OTHERS if code in ROUTES else ''}",
            code=ResponseCode.NO_PERMISSION,
        )


class BrokerDoor:
    """What members tell a broker is theirs alone; of all else the broker's own guard decides.

    Args:
        members: Who has proven what.
        guard: Checks users and rules; None: anybody may do anything.
    """

    def __init__(self, members: Members, guard: Guard | None) -> None:
        self._door = MemberDoor(members, lambda code: False)
        self._guard = guard

    def check(self, peer: Peer, request: Command) -> None:
        """Return if the request may be processed; raises its refusal if not."""
        code = request.code
        # Check members before users: controllers have no user, and even a super user must not
        # change the roles of replicas.
        if code in OF_MEMBERS_AT_BROKER:
            self._door.check(peer, request)
        # A peer that is proving its membership has no user yet.
        elif self._guard is not None and code not in PROOF:
            self._guard.check(peer, request)


def guarded(
    members: Members | None,
    is_open: frozenset[int],
    own_requests: OwnRequestsDoor | None,
    budget: BudgetSource,
    knows: Knows = everything,
) -> Dispatcher:
    """The dispatcher of a nameserver, of a controller, or of a client's own port.

    Args:
        members: None: everybody is taken for one.
        is_open: Codes that strangers may send.
        own_requests: Checks PocketMQ's own requests; None: nobody has to sign them.
        budget: As `Dispatcher`.
        knows: As `Dispatcher`.
    """
    guard: Guard | None = own_requests
    if members is not None:
        door = MemberDoor(members, is_open.__contains__)
        # The members' door first: a stranger is not told which users there are.
        guard = door if own_requests is None else _Both(door, own_requests)
    # Without a guard, a plain dispatcher saves a check for each request.
    return Dispatcher(budget, knows) if guard is None else GuardedDispatcher(guard, budget, knows)


class _Both:
    """Asks one guard after the other."""

    def __init__(self, first: Guard, second: Guard) -> None:
        self._first = first
        self._second = second

    def check(self, peer: Peer, request: Command) -> None:
        self._first.check(peer, request)
        self._second.check(peer, request)
