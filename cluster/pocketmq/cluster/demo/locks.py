"""What `pocketmq demo --secure` changes: TLS only, users and rules, members who prove themselves.

processes          how they show who they are
roles              the certificate and the secret of the cluster
producers and      a user that may send to the topic and consume it, and nothing else; they
consumers, Spark   trust the cluster's certificate, and know no secret of its members
the director       the cluster's super user, and a member

Without it nobody signs: keys in the shell of whoever starts the demo are for another cluster.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pocketmq.client.config import (
    ACCESS_KEY_VARIABLE,
    CA_FILE_VARIABLE,
    SECRET_KEY_VARIABLE,
    TLS_VARIABLE,
    ClientOptions,
)
from pocketmq.cluster.demo.workers import TOPIC
from pocketmq.cluster.spec import ClusterSpec
from pocketmq.cluster.steering.access import ClusterAccess
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.operation.access.options import SUPER_USERS_VARIABLE

USER = "flights"

RULES = ((USER, f"Topic:{TOPIC}", "Pub,Sub,Get"), (USER, "Group:*", "Sub"))
"""What producers and consumers need; retries and dead letters go to topics of the group. Spark asks
for bounds of queues and for settings of the topic: Get."""

NO_KEYS: Final[Mapping[str, str]] = {
    ACCESS_KEY_VARIABLE: "",
    SECRET_KEY_VARIABLE: "",
    SUPER_USERS_VARIABLE: "",
}
"""Of producers, consumers and Spark where there are no users: a worker with keys would refuse to
tell the director its events."""


@dataclass(frozen=True, slots=True)
class Locks:
    """Who gets in."""

    access: ClusterAccess

    @classmethod
    def made(cls) -> Locks:
        """With a new password for the user."""
        return cls(ClusterAccess(users={USER: secrets.token_urlsafe(24)}, rules=RULES))

    def environment(self, spec: ClusterSpec) -> Mapping[str, str]:
        """Of producers, consumers and Spark."""
        assert spec.tls is not None
        return {
            ACCESS_KEY_VARIABLE: USER,
            SECRET_KEY_VARIABLE: self.access.users[USER],
            TLS_VARIABLE: "true",
            CA_FILE_VARIABLE: str(spec.tls.certificate),
        }

    def clients(self, cluster: Supervisor) -> ClientOptions:
        """Options of the director's own clients."""
        return {"network": cluster.network, "credentials": self.access.steering}

    async def make(self, cluster: Supervisor) -> None:
        """Make the user and its rules at every broker."""
        addresses = {each.name: each.address for each in cluster.of_role("broker")}
        # Brokers do not share users.
        await self.access.make(cluster.remoting, addresses)
