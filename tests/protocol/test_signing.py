"""Signatures (Y-10 to Y-12): ours are RocketMQ's, byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from pocketmq.client.config import ClientConfig
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.protocol.headers.route import GetRouteInfoRequestHeader
from pocketmq.protocol.headers.send import SendMessageRequestHeaderV2
from pocketmq.protocol.signing import SIGNATURE, Credentials, is_signed, signature
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.errors import ConfigError
from support.golden import GOLDEN

SIGNED = [
    line.split("\t")
    for line in (GOLDEN / "signing" / "signed.tsv").read_text(encoding="utf-8").splitlines()
]
SHOP = Credentials("shop", "s3cret", "STS.token")


def read(frame: bytes) -> Command:
    [command] = FrameDecoder().feed(frame)
    return command


@pytest.mark.parametrize(("name", "access", "secret", "token", "frame"), SIGNED)
def test_a_request_signed_by_rocketmq_s_hook_has_the_signature_that_we_compute(
    name: str, access: str, secret: str, token: str, frame: str
) -> None:
    command = read(bytes.fromhex(frame))  # Y-10

    assert command.fields["AccessKey"] == access, name
    assert command.fields.get("SecurityToken", "") == token
    assert is_signed(command.fields, command.body_view, secret, command.version)
    assert not is_signed(command.fields, command.body_view, secret + "x", command.version)
    assert not is_signed(command.fields, b"another", secret, command.version)
    changed = {**command.fields, "added": "1"}
    assert not is_signed(changed, command.body_view, secret, command.version)


@pytest.mark.parametrize("encoding", list(Encoding), ids=lambda each: each.name.lower())
async def test_what_our_client_signs_verifies_as_it_arrives_in_every_encoding(
    encoding: Encoding,
) -> None:
    header = SendMessageRequestHeaderV2(
        producer_group="producers",
        topic="orders",
        default_topic="TBW102",
        default_topic_queue_nums=8,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties="KEYS\x01é",
    )
    seen = await sent(header, b"a body", encoding, SHOP)

    assert is_signed(seen.fields, seen.body_view, "s3cret", seen.version)
    assert seen.header(SendMessageRequestHeaderV2) == header
    texts: Mapping[str, Any] = {
        **header.to_text(), "AccessKey": "shop", "SecurityToken": "STS.token"
    }  # fmt: skip
    assert seen.fields[SIGNATURE] == signature(texts, b"a body", "s3cret")  # as encoding 0 carries


async def test_a_client_without_credentials_adds_nothing() -> None:
    header = GetRouteInfoRequestHeader(topic="orders")

    seen = await sent(header, b"", Encoding.JSON, None)

    assert seen.fields == header.to_text()


def test_what_marks_a_query_by_unique_key_is_not_signed_up_to_4_9() -> None:
    fields = {"topic": "T", "AccessKey": "shop"}  # Y-11
    flagged = {**fields, "_UNIQUE_KEY_QUERY": "true"}
    fields[SIGNATURE] = flagged[SIGNATURE] = signature(fields, b"", "s3cret")

    assert is_signed(flagged, b"", "s3cret", 399)
    assert not is_signed(flagged, b"", "s3cret", 400)


def test_secrets_are_not_printed() -> None:
    assert repr(SHOP) == "Credentials(access_key='shop')"


def test_credentials_come_from_the_caller_or_from_the_environment() -> None:
    env = {"POCKETMQ_ACCESS_KEY": "shop", "POCKETMQ_SECRET_KEY": "s3cret"}

    assert ClientConfig.of({}, env).credentials == Credentials("shop", "s3cret")
    given = ClientConfig.of({"credentials": ("other", "key")}, env).credentials
    assert given == Credentials("other", "key")
    assert ClientConfig.of({}, {}).credentials is None


@pytest.mark.parametrize("keys", [("shop", ""), ("", "s3cret"), ("shop",)])
def test_half_of_credentials_is_refused_without_showing_it(keys: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        ClientConfig.of({"credentials": keys}, {})

    assert "s3cret" not in str(refused.value)
    assert "POCKETMQ_SECRET_KEY" in str(refused.value)


async def sent(
    header: Any, body: bytes, encoding: Encoding, credentials: Credentials | None
) -> Command:
    """A request as the other end of a connection gets it."""
    network, dispatcher = MemoryNetwork(), Dispatcher()
    arrived: asyncio.Future[Command] = asyncio.get_running_loop().create_future()

    def keep(_peer: Any, request: Command) -> Command:
        if not arrived.done():
            arrived.set_result(request)
        return request.reply()

    dispatcher.register(header.CODE, keep)
    listener = await network.serve("127.0.0.1", 7000, dispatcher)
    client = RemotingClient(network, encoding=encoding, credentials=credentials)
    await client.call("127.0.0.1:7000", header, body)
    await client.close()
    await listener.close()
    return await arrived
