"""Builds the registration subject."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.broker.config import PERMISSION
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.registration.proxies import ProxyFinder
from pocketmq.broker.registration.registration import (
    BrokerIdentity,
    BrokerRegistration,
    RegistrationRules,
)
from pocketmq.broker.replication.assembly import Replication
from pocketmq.broker.subject import Subject
from pocketmq.broker.topics.assembly import Topics
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.remoting import RemotingClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration(Subject):
    """Registration with the name servers."""

    nameservers: BrokerRegistration
    proxies: ProxyFinder


def assemble_registration(
    core: BrokerCore, network: Network, topics: Topics, replication: Replication
) -> Registration:
    """Emits `master_told`; listens to `role_changed`, `topic_changed` and `nameserver_lost`, which
    its own connections emit."""
    config, profile, signals = core.config, core.profile, core.signals
    acts = config.enable_slave_acting_master
    client = RemotingClient(
        network,
        encoding=Encoding[config.encoding.upper()],
        version=profile.client_version,
        on_close=signals.nameserver_lost.emit,
        credentials=config.inner_credentials,
    )
    registration = BrokerRegistration(
        BrokerIdentity(config.cluster_name, config.name, core.role, core.address, replication.port),
        config.nameservers,
        client,
        topics.configs,
        topics.announcements,
        core.clock,
        RegistrationRules(
            period_s=config.register_period_s,
            timeout_s=profile.broker.register_timeout_ms / 1000,
            force=config.force_register,
            incremental=profile.broker.register_created_topics_incrementally,
            permission=lambda: core.config.broker_permission,
            enable_acting_master=acts or None,
            timeout_ms=config.broker_not_active_timeout_millis if acts else None,
            master_told=signals.master_told,
        ),
    )
    signals.role_changed.connect(registration.role_changed)
    signals.topic_changed.connect(registration.topic_changed)
    signals.nameserver_lost.connect(registration.nameserver_lost)
    core.options.changed.connect(
        lambda names: registration.permission_changed() if PERMISSION in names else None
    )
    return Registration(
        nameservers=registration,
        proxies=ProxyFinder(config.nameservers, client),
        services=(registration,),
    )
