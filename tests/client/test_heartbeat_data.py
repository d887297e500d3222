"""What a heartbeat says."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pocketmq.client.heartbeat import (
    ConsumeFromWhere,
    ConsumerMember,
    ConsumeType,
    MessageModel,
    heartbeat_data,
)
from pocketmq.protocol.bodies.clients import ConsumerData, HeartbeatData, ProducerData
from pocketmq.protocol.messages.subscription import SubscriptionData


@dataclass(frozen=True)
class Member:
    group: str = "g"
    consume_type: ConsumeType = ConsumeType.ACTIVELY
    message_model: MessageModel = MessageModel.BROADCASTING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.TIMESTAMP
    announced: tuple[SubscriptionData, ...] = (SubscriptionData.parse("T", "a", 1),)


TOLD = ConsumerData(
    group_name="g", consume_type="CONSUME_ACTIVELY", message_model="BROADCASTING",
    consume_from_where="CONSUME_FROM_TIMESTAMP",
    subscription_data_set=[SubscriptionData.parse("T", "a", 1)],
)  # fmt: skip


@pytest.mark.parametrize("groups", [[], ["p", "q"]])
@pytest.mark.parametrize("consumers", [[], [Member()]])
def test_whoever_is_there_is_told_of(groups: list[str], consumers: list[ConsumerMember]) -> None:
    # P-8: nobody has nothing to tell
    told = HeartbeatData(
        client_id="c",
        producer_data_set=[ProducerData(group_name=each) for each in groups],
        consumer_data_set=[TOLD] if consumers else [],
    )
    expected = told if groups or consumers else None
    assert heartbeat_data("c", groups, consumers) == expected
