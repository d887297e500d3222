"""The cluster that a test asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from pocketmq.cluster.steering.access import ClusterAccess
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.profile import DEFAULT_PROFILE, ProfileName

Mode = Literal["in-process", "processes"]
ClockKind = Literal["real", "manual"]

MAX_ADVANCE_S: Final = 31 * 86_400
"""Maximum seconds by which one call moves the clock; a mistyped number would take for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShape:
    """How many roles, where they run, and on which time.

    Raises:
        ConfigError: A word is none of those that are known, or a number is too small.
    """

    mode: Mode = "in-process"
    """`in-process`: each role in a thread of this process; `processes`: each one a process."""
    nameservers: int = 1
    brokers: int = 1
    """Number of brokers: broker-a, broker-b, ..."""
    proxy: bool = False
    """Whether there is a gRPC proxy for RocketMQ 5's SDKs: proxy-1."""
    clock: ClockKind = "real"
    """`manual`: time stands still until `advance`."""
    profile: ProfileName = DEFAULT_PROFILE
    host: str = "127.0.0.1"
    """Address on which all roles listen."""
    access: ClusterAccess | None = None
    """Who may do what; None: brokers look at no signature."""
    tls: bool = False
    """TLS on every port, and nothing else."""
    members_must_prove: bool = False
    """With TLS: nameservers and replication take requests of the cluster's own only."""
    strangers_read_routes: bool = False
    """With `members_must_prove`: everybody may still read routes and names of topics there."""

    def __post_init__(self) -> None:
        for name, given, known in (
            ("mode", self.mode, get_args(Mode)),
            ("clock", self.clock, get_args(ClockKind)),
        ):
            if given not in known:
                # Types do not prevent this: a program without type checks may pass anything.
                raise ConfigError(name, f"{given!r} is none", advice=f"write {' or '.join(known)}")
        if self.members_must_prove and not self.tls:
            raise ConfigError(
                "members_must_prove", "proofs need TLS connections", advice="add tls=True"
            )
        if self.strangers_read_routes and not self.members_must_prove:
            raise ConfigError(
                "strangers_read_routes",
                "nobody is a stranger here",
                advice="add members_must_prove=True",
            )
        for name, count, least in (
            ("nameservers", self.nameservers, 1),
            # Without brokers a cluster of nameservers can still be useful.
            ("brokers", self.brokers, 0),
        ):
            if count < least:
                raise ConfigError(name, f"{count} is too few", advice=f"write {least} or more")
