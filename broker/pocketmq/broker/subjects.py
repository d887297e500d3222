"""The broker's subjects, one line each. A new one is a folder and a line here.

They are built, started and asked in this order, and stopped in the reverse. A subject gets others
that it uses as arguments; events of others come through `core.signals`.
"""

from __future__ import annotations

from typing import TypeVar

from pocketmq.broker.access.assembly import assemble_access
from pocketmq.broker.acting_master.assembly import assemble_acting_master
from pocketmq.broker.admin.assembly import assemble_admin
from pocketmq.broker.controller_mode.assembly import assemble_controller_mode
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.delays.assembly import assemble_delays
from pocketmq.broker.filters.assembly import assemble_filters
from pocketmq.broker.groups.assembly import assemble_groups
from pocketmq.broker.kept_filters.assembly import assemble_kept_filters
from pocketmq.broker.locks.assembly import assemble_locks
from pocketmq.broker.metrics.assembly import assemble_metrics
from pocketmq.broker.offsets.assembly import assemble_offsets
from pocketmq.broker.overload.assembly import assemble_overload
from pocketmq.broker.overload.overload import Work
from pocketmq.broker.pop.assembly import assemble_pop
from pocketmq.broker.pulling.assembly import assemble_pulling
from pocketmq.broker.queries.assembly import assemble_queries
from pocketmq.broker.registration.assembly import assemble_registration
from pocketmq.broker.replication.assembly import assemble_replication
from pocketmq.broker.replies.assembly import assemble_replies
from pocketmq.broker.sending.assembly import assemble_sending, send_checks
from pocketmq.broker.slave_tables.assembly import Copied, assemble_slave_tables
from pocketmq.broker.storing.assembly import assemble_storing
from pocketmq.broker.subject import Service, Subject
from pocketmq.broker.timers.assembly import assemble_timers
from pocketmq.broker.topics.assembly import assemble_topics
from pocketmq.broker.transactions.assembly import assemble_transactions
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.transport.network import Network

SubjectT = TypeVar("SubjectT", bound=Subject)


class BrokerSubjects:
    """All subjects of one broker, their services, and who answers which request."""

    def __init__(self, core: BrokerCore, network: Network) -> None:
        self._all: list[Subject] = []
        # Connected first, so that observers learn of a role before its consequences.
        core.signals.role_changed.connect(core.tell_role)
        add = self._add
        # The order counts: tables are loaded and services start in it, and stop in reverse.
        self.overload = add(assemble_overload(core))
        self.access = add(assemble_access(core))
        self.replication = add(assemble_replication(core, network))
        self.controller_mode = add(assemble_controller_mode(core, network, self.replication))
        self.topics = add(assemble_topics(core))
        self.storing = add(assemble_storing(core, self.topics, self.replication))
        self.filters = add(assemble_filters(core))
        self.timers = add(assemble_timers(core, self.topics, self.storing))
        self.delays = add(assemble_delays(core, self.storing))
        self.groups = add(assemble_groups(core, self.topics, self.filters, self.overload))
        add(assemble_kept_filters(core, self.groups, self.filters))
        self.locks = add(assemble_locks(core))
        self.offsets = add(assemble_offsets(core, self.topics, self.groups))
        self.pulling = add(
            assemble_pulling(
                core,
                self.topics,
                self.groups,
                self.offsets,
                self.filters,
                self.storing,
                self.overload,
            )
        )
        self.pop = add(
            assemble_pop(
                core,
                self.topics,
                self.groups,
                self.offsets,
                self.filters,
                self.storing,
                self.timers,
                network,
            )
        )
        checks = send_checks(core, self.topics)
        self.sending = add(
            assemble_sending(
                core, self.topics, self.groups, self.locks, self.storing, self.overload, checks
            )
        )
        self.transactions = add(
            assemble_transactions(core, self.topics, self.groups, self.offsets, self.storing)
        )
        self.replies = add(assemble_replies(core, self.groups, self.storing, checks))
        self.queries = add(assemble_queries(core))
        self.admin = add(
            assemble_admin(
                core,
                self.topics,
                self.groups,
                self.offsets,
                self.delays,
                self.timers,
                self.overload,
                self.replication,
            )
        )
        add(
            assemble_metrics(
                core,
                self.topics,
                self.groups,
                self.offsets,
                self.timers,
                self.pop,
                self.transactions,
            )
        )
        self.slave_tables = add(
            assemble_slave_tables(
                core,
                network,
                self.replication,
                Copied(
                    topics=self.topics,
                    groups=self.groups,
                    offsets=self.offsets,
                    delays=self.delays,
                    timers=self.timers,
                    pop=self.pop,
                ),
            )
        )
        # Before the registration, so that name servers learn of this broker when it is prepared.
        add(assemble_acting_master(core, network, self.offsets, self.delays, self.replication))
        # Started last, so that clients are sent here when everything runs.
        self.registration = add(assemble_registration(core, network, self.topics, self.replication))

    def _add(self, subject: SubjectT) -> SubjectT:
        self._all.append(subject)
        return subject

    @property
    def services(self) -> list[Service]:
        """In the order in which they start."""
        return [service for subject in self._all for service in subject.services]

    def register(self, dispatcher: Dispatcher) -> None:
        """Add every processor.

        Raises:
            ValueError: two of them answer one request code.
        """
        readers, tools = Dispatcher(), Dispatcher()
        for subject in self._all:
            dispatcher.add(*subject.processors)
            readers.add(*subject.readers)
            tools.add(*subject.tools)
        for work, guarded in ((Work.PULL, readers), (Work.ADMIN, tools)):
            for code, processor in guarded.single.items():
                dispatcher.register(code, self.overload.guard.guarded(work, processor))
            for code, batch_processor in guarded.batch.items():
                guard = self.overload.guard.guarded_batch(work, batch_processor)
                dispatcher.register_batch(code, guard)
