"""Builds the queries subject."""

from __future__ import annotations

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.queries.query_processor import QueryProcessor
from pocketmq.broker.subject import Subject


def assemble_queries(core: BrokerCore) -> Subject:
    """Reads the store."""
    tags_are_indexed = core.profile.broker.tags_are_indexed
    return Subject(processors=(QueryProcessor(core.store, tags_are_indexed=tags_are_indexed),))
