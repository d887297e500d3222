"""Users, rules and requests, each case asked of PocketMQ's broker and of RocketMQ's own in one run.

user x action x resource x policy: each case makes a user of its own, gives it rules, and has it ask
for one thing. Both answer each of these steps alike, in code, and with the same words where they
refuse. What is not compared is the answer to what is allowed beyond its code.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pytest

from parity.brokers import Sides, both_brokers
from pocketmq.protocol.bodies.access import AclInfo, UserInfo
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Body, Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.access import (
    CreateAclRequestHeader,
    CreateUserRequestHeader,
    UpdateUserRequestHeader,
)
from pocketmq.protocol.headers.route import GetRouteInfoRequestHeader
from pocketmq.protocol.signing import ACCESS_KEY, SIGNATURE, Credentials, signature
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.tcp import TcpNetwork
from support.eventually import PATIENCE_S

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

SEED: Final = 39
COUNT: Final = 500
ADMIN: Final = Credentials("admin", "rooted")
LOCAL: Final = "org.apache.rocketmq.auth.{0}.provider.Local{1}MetadataProvider"
SETTINGS: Final[Mapping[str, object]] = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationMetadataProvider": LOCAL.format("authentication", "Authentication"),
    "authorizationMetadataProvider": LOCAL.format("authorization", "Authorization"),
    "initAuthenticationUser": json.dumps({"username": "admin", "password": "rooted"}),
}

ACTIONS = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List", "All")
NAMES = ("ord", "orders", "orders-eu", "billing")
PATTERNS = ("*", "Topic:*", "Group:*", "Cluster:*", "Topic:o*", "Topic:ord*", "Topic:orders*",
            "Group:o*", "Group:orders*", "Topic:orders", "Topic:orders-eu", "Group:orders",
            "Group:billing", "Topic:ord", "Cluster:DefaultCluster", "Cluster:D*",
            "topic:billing")  # fmt: skip
ADDRESSES = (None, None, None, None, ["127.0.0.1"], ["127.0.0.0/8"], ["10.0.0.0/8"], ["0.0.0.0/0"])
ASKED: Final[Mapping[str, tuple[int, ...]]] = {
    "Topic": (
        RequestCode.SEND_MESSAGE,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.DELETE_TOPIC_IN_BROKER,
    ),
    "Group": (RequestCode.GET_CONSUMER_CONNECTION_LIST, RequestCode.DELETE_SUBSCRIPTIONGROUP),
    "Both": (RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.PULL_MESSAGE),
    "Cluster": (RequestCode.AUTH_GET_USER, RequestCode.AUTH_GET_ACL, RequestCode.AUTH_DELETE_USER),
}


@dataclass(frozen=True)
class Case:
    """One user, its rules, and what it asks for."""

    user: UserInfo
    key: str
    """That it signs with."""
    acl: AclInfo | None
    code: int
    fields: Mapping[str, object]


def cases() -> list[Case]:
    """The same in each run."""
    dice = random.Random(SEED)
    return [_case(dice, number) for number in range(COUNT)]


def _case(dice: random.Random, number: int) -> Case:
    name = f"user{number}"
    kind = dice.choice(("Normal",) * 14 + ("Super",))
    status = dice.choice(("enable",) * 14 + ("disable",))
    policies = [
        {"policyType": each, "entries": [_entry(dice) for _ in range(dice.randint(1, 8))]}
        for each in dice.choice((["Custom"], ["Custom"], ["Custom", "Default"], ["Default"]))
    ]
    acl = {"subject": f"User:{name}", "policies": policies}
    return Case(
        UserInfo(username=name, password="right", user_type=kind, user_status=status),
        dice.choice(("right",) * 14 + ("wrong",)),
        None if dice.random() < 0.05 else msgspec.convert(acl, AclInfo),
        dice.choice(ASKED[dice.choice(("Topic", "Topic", "Group", "Both", "Cluster"))]),
        _fields(dice.choice(NAMES), dice.choice(NAMES)),
    )


def _entry(dice: random.Random) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": dice.choice(PATTERNS),
        "actions": dice.sample(ACTIONS, dice.choice((1, 3, 6))),
        "decision": dice.choice(("Allow", "Allow", "Deny")),
    }
    addresses = dice.choice(ADDRESSES)
    return entry if addresses is None else {**entry, "sourceIps": addresses}


def _fields(topic: str, group: str) -> dict[str, object]:
    """So many that every request has what it needs."""
    return {
        "topic": topic, "consumerGroup": group, "groupName": group, "producerGroup": "shop",
        "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0",
        "bornTimestamp": "1700000000000", "flag": "0", "properties": "", "reconsumeTimes": "0",
        "unitMode": "false", "queueOffset": "0", "maxMsgNums": "32", "commitOffset": "0",
        "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*",
        "readQueueNums": "4", "writeQueueNums": "4", "perm": "6", "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0", "order": "false", "username": "nobody", "subject": "User:nobody",
    }  # fmt: skip


class Signed(Credentials):
    """Signs fields that are sent as they are, in place of a header's."""

    def __init__(self, name: str, secret: str, fields: Mapping[str, object]) -> None:
        super().__init__(name, secret)
        self._fields: Mapping[str, object]
        object.__setattr__(self, "_fields", fields)

    def signed(
        self, header: Header, body: Body, encoding: Encoding = Encoding.JSON
    ) -> dict[str, object]:
        fields = {**self._fields, ACCESS_KEY: self.access_key}
        return {**fields, SIGNATURE: signature(fields, body, self.secret_key)}


Answers = Sequence[tuple[int, str | None]]


async def answers(channel: Channel, case: Case) -> Answers:
    """What a broker says of each step of a case."""
    found = []

    async def ask(who: Credentials, header: Header, body: bytes = b"", code: int = 0) -> None:
        channel.credentials = who
        reply = await channel.request(header, body, code=code or None, timeout_s=PATIENCE_S)
        is_refusal = reply.code == ResponseCode.NO_PERMISSION
        found.append((reply.code, reply.remark if is_refusal else None))

    name = case.user.username or ""
    body = encode_body(case.user, Encoding.JSON)
    await ask(ADMIN, CreateUserRequestHeader(username=name), body)
    if case.user.user_status == "disable":
        update = UpdateUserRequestHeader(username=name)
        await ask(ADMIN, update, encode_body(UserInfo(user_status="disable"), Encoding.JSON))
    if case.acl is not None:
        header = CreateAclRequestHeader(subject=case.acl.subject or "")
        await ask(ADMIN, header, encode_body(case.acl, Encoding.JSON))
    asked = GetRouteInfoRequestHeader(topic="sent as the fields of the case say")
    await ask(Signed(name, case.key, case.fields), asked, b"body", case.code)
    return found


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with both_brokers(tmp_path_factory.mktemp("parity-access"), SETTINGS) as running:
        yield running


async def test_five_hundred_cases_are_answered_as_rocketmq_5_3_3_does(sides: Sides) -> None:
    network = TcpNetwork()
    ours, theirs = [
        await network.connect(side.broker, Dispatcher(), encoding=Encoding.JSON)
        for side in (sides.ours, sides.theirs)
    ]
    differ, codes = [], Counter[int]()
    for case in cases():
        mine, real = await answers(ours, case), await answers(theirs, case)
        codes[real[-1][0]] += 1
        if mine != real:
            differ.append((case, mine, real))
    for channel in (ours, theirs):
        channel.close()
    assert not differ[:3], f"{len(differ)} of {COUNT}"
    assert 100 < codes[ResponseCode.NO_PERMISSION] < COUNT - 100, "both happen often"
