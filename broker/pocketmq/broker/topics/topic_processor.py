"""Topics for admin tools (B-12 to B-16, E-29).

UPDATE_AND_CREATE_TOPIC (17), UPDATE_AND_CREATE_TOPIC_LIST (18), GET_ALL_TOPIC_CONFIG (21),
DELETE_TOPIC_IN_BROKER (215), GET_SYSTEM_TOPIC_LIST_FROM_BROKER (305), GET_TOPIC_CONFIG (351).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, cast

import msgspec

from pocketmq.broker.attributes import AttributeRules
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.tables.saved_tables import SavedTable
from pocketmq.broker.topics.announcements import Announcements
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.bodies.route import TopicList
from pocketmq.protocol.bodies.topics import CreateTopicListBody, TopicConfig
from pocketmq.protocol.body import decode_request_body, encode_body
from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.headers.topics import (
    DeleteTopicRequestHeader,
    GetTopicConfigRequestHeader,
    UpdateAndCreateTopicRequestHeader,
)
from pocketmq.protocol.messages.validation import check_topic
from pocketmq.protocol.scalars import Perm
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.signals import Signal


class TopicProcessor:
    """Creates, changes, deletes and lists topics.

    Args:
        topics: the table.
        topics_file: answers wait until a change is on the disk.
        announcements: and until the name servers know it.
        deleted: signals that a topic was deleted, with its queues and held pulls.
        clock: stamps changes.
        attributes: which attributes a topic may have.
        budget: how many queues a topic may have, and how many topics one request may change.
        invalid_parameter_code: answer to illegal names, by profile.
        max_retry_topic_chars: longest retry or dead letter topic, by profile.
        order_is_read: whether a request says if a topic is ordered, by profile.
        fields_of_5x: whether the table is answered with them, by profile.
    """

    def __init__(
        self,
        topics: TopicConfigManager,
        topics_file: SavedTable,
        announcements: Announcements,
        deleted: Signal[[str]],
        clock: Clock,
        attributes: AttributeRules,
        *,
        budget: BudgetSource = default_budget,
        invalid_parameter_code: int,
        max_retry_topic_chars: int,
        order_is_read: bool,
        fields_of_5x: bool,
    ) -> None:
        self._topics = topics
        self._attributes = attributes
        self._budget = budget
        self._max_retry_chars = max_retry_topic_chars
        self._topics_file = topics_file
        self._announcements = announcements
        self._deleted = deleted
        self._clock = clock
        self._invalid_code = invalid_parameter_code
        self._order_is_read = order_is_read
        self._fields_of_5x = fields_of_5x

    @handles(RequestCode.UPDATE_AND_CREATE_TOPIC)
    def update_and_create(self, peer: Peer, request: Command) -> Reply:
        """Create or change a topic; answered when it is stored and registered."""
        header = request.header(UpdateAndCreateTopicRequestHeader)
        self._check_name(header.topic)
        if header.topic_filter_type not in ("SINGLE_TAG", "MULTI_TAG"):
            raise self._invalid(f"topicFilterType {header.topic_filter_type} does not exist")
        config = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=cast('Literal["SINGLE_TAG", "MULTI_TAG"]', header.topic_filter_type),
            topic_sys_flag=header.topic_sys_flag,
            order=header.order and self._order_is_read,
        )
        changes = filter(None, (header.attributes or "").split(","))
        return self._put(peer, request, [self._checked(config, changes)])

    @handles(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST)
    def update_and_create_all(self, peer: Peer, request: Command) -> Reply:
        """Create or change several topics: all of them, or none when one is not as it must be."""
        body = decode_request_body(request, CreateTopicListBody)
        self._budget().check(
            "records_per_request",
            len(body.topic_config_list),
            "topics of one request",
            code=self._invalid_code,
        )
        configs = []
        for config in body.topic_config_list:
            self._check_name(config.topic_name)
            changes = [f"{key}={value}" for key, value in config.attributes.items()]
            configs.append(self._checked(config, changes))
        return self._put(peer, request, configs)

    def _checked(self, config: TopicConfig, changes: Iterable[str]) -> TopicConfig:
        """The topic with its attributes changed."""
        topic = config.topic_name
        if not Perm.is_valid(config.perm):
            raise self._invalid(f"perm must be from 0 to 7, but is {config.perm}")
        for nums in (config.read_queue_nums, config.write_queue_nums):
            if nums < 0:
                raise self._invalid(f"the number of queues must be 0 or more, but is {nums}")
        self._budget().check(
            "queues_per_topic",
            max(config.read_queue_nums, config.write_queue_nums),
            f"queues of topic {topic}",
            advice="choose fewer",
            code=self._invalid_code,
        )
        old = self._topics.get(topic)
        attributes = self._attributes.changed(None if old is None else old.attributes, changes)
        return msgspec.structs.replace(config, attributes=attributes)

    def _put(self, peer: Peer, request: Command, configs: Iterable[TopicConfig]) -> Reply:
        """Answer when all is stored and told, also what an earlier request has changed just now."""
        now_ms = self._clock.time_ms()
        for config in configs:
            self._topics.put(config, now_ms)
        self._topics_file.when_saved(
            lambda: self._announcements.when_told(lambda: peer.reply(request, request.reply()))
        )
        return None

    @handles(RequestCode.DELETE_TOPIC_IN_BROKER)
    def delete(self, peer: Peer, request: Command) -> Reply:
        """Remove a topic with its queues and, by profile, its offsets (B-16).

        Its route stays until DELETE_TOPIC_IN_NAMESRV (216).
        """
        topic = request.header(DeleteTopicRequestHeader).topic
        self._check_name(topic)
        self._topics.delete(topic, self._clock.time_ms())
        self._deleted.emit(topic)
        if self._topics_file.is_saved:
            return request.reply()
        self._topics_file.when_saved(lambda: peer.reply(request, request.reply()))
        return None

    @handles(RequestCode.GET_ALL_TOPIC_CONFIG)
    def all_configs(self, _peer: Peer, request: Command) -> Reply:
        """The whole table with its version."""
        table = self._topics.wrapper()
        return request.reply(body=encode_body(table, request.encoding, has_5x=self._fields_of_5x))

    @handles(RequestCode.GET_TOPIC_CONFIG)
    def config(self, _peer: Peer, request: Command) -> Reply:
        """One topic's configuration."""
        topic = request.header(GetTopicConfigRequestHeader).topic
        config = self._topics.get(topic)
        if config is None:
            raise RequestRefusedError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist on this broker"
            )
        return request.reply(body=encode_body(config, request.encoding))

    @handles(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    def system_topics(self, _peer: Peer, request: Command) -> Reply:
        """Topics that the broker keeps for itself."""
        body = TopicList(topic_list=sorted(self._topics.reserved_topics))
        return request.reply(body=encode_body(body, request.encoding))

    # -- inside ---------------------------------------------------------------------------------

    def _check_name(self, topic: str) -> None:
        try:
            check_topic(topic, max_retry_chars=self._max_retry_chars)
        except IllegalNameError as exc:
            raise self._invalid(str(exc)) from exc
        if self._topics.is_system(topic):
            raise self._invalid(
                f"topic {topic} is a system topic of the broker and cannot be changed"
            )

    def _invalid(self, remark: str) -> RequestRefusedError:
        return RequestRefusedError(self._invalid_code, remark)
