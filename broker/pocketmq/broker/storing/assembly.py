"""Builds the storing subject."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.replication.assembly import Replication
from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.broker.storing.rewrites import Rewrites, too_long_as_it_is
from pocketmq.broker.storing.safe_puts import SafePuts
from pocketmq.broker.subject import Subject
from pocketmq.broker.topics.assembly import Topics
from pocketmq.runtime.signals import Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Storing(Subject):
    """How messages get into the store."""

    puts: SafePuts
    rewrites: Rewrites
    """For every message that is sent, sent back, or put with its properties."""
    of_sends: Rewrites
    """For what producers send only, and before `rewrites`."""
    halves: Signal[[StoredMessage, int]]
    """(message, now in epoch ms): a producer sent half of a transaction, whose properties ask for
    nothing more and are encoded. Who listens makes the half message of it; `of_sends` is not asked.
    """


def assemble_storing(core: BrokerCore, topics: Topics, replication: Replication) -> Storing:
    """Made of the store, the file that new topics are saved in, and the slaves."""
    rewrites = Rewrites()
    # Added first: a delay would hide too long a topic until the message is due.
    rewrites.add(too_long_as_it_is(core.profile.broker.stored_retry_topic_max_bytes))
    return Storing(
        puts=SafePuts(
            core.store, topics.saved, replication.replicas, rewrites, core.stats, core.clock
        ),
        rewrites=rewrites,
        of_sends=Rewrites(),
        halves=Signal(),
    )
