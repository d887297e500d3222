"""Our gRPC messages are those of RocketMQ's SDKs (G-3), and both live in one process."""

from __future__ import annotations

import ast

import pytest

from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import Code, MessageType
from pocketmq.proxy.protos.pool import POOL
from pocketmq.proxy.protos.shapes import MESSAGES, PACKAGE, SERVICE
from support.official_sdk import run_sdk

OURS = "from pocketmq.proxy.protos import pool"
THEIRS = "from rocketmq.grpc_protocol import definition_pb2, service_pb2"

DESCRIBE = """
def fields(message):
    for field in message.fields:
        of = field.message_type or field.enum_type
        yield (message.full_name, field.number, field.name, field.type, field.is_repeated,
               field.has_presence, of and of.full_name,
               field.containing_oneof and field.containing_oneof.name)
    for nested in message.nested_types:
        yield from fields(nested)
    for enum in message.enum_types:
        yield from values(enum)

def values(enum):
    for value in enum.values:
        yield (enum.full_name, value.number, value.name)

def described(file):
    for message in file.message_types_by_name.values():
        yield from fields(message)
    for enum in file.enum_types_by_name.values():
        yield from values(enum)
    for service in file.services_by_name.values():
        for rpc in service.methods:
            yield (service.full_name, rpc.name, rpc.input_type.full_name,
                   rpc.output_type.full_name, rpc.client_streaming, rpc.server_streaming)

ours = set(described(pool.POOL.FindFileByName(pool.FILE)))
theirs = {*described(definition_pb2.DESCRIPTOR), *described(service_pb2.DESCRIPTOR)}
print([sorted(ours - theirs, key=str), sorted(theirs - ours, key=str)])
"""


NEWER = {
    (f"{PACKAGE}.Code", "INVALID_CLIENT_PROPERTIES"),
    (f"{PACKAGE}.Settings", "client_properties"),
    (f"{PACKAGE}.Settings.ClientPropertiesEntry", "key"),
    (f"{PACKAGE}.Settings.ClientPropertiesEntry", "value"),
}
"""What the newest protos have (G-3), and the SDK's release does not."""


@pytest.mark.cluster
@pytest.mark.timeout(900)  # the first run on a machine installs the SDK
@pytest.mark.parametrize("order", [(OURS, THEIRS), (THEIRS, OURS)])
def test_they_are_those_of_the_official_sdk_in_one_process(order: tuple[str, str]) -> None:
    ours_only, theirs_only = ast.literal_eval(run_sdk("\n".join(order) + DESCRIBE))
    assert theirs_only == []
    assert {(each[0], each[2]) for each in ours_only} == NEWER


def test_a_message_has_the_bytes_that_protobuf_prescribes() -> None:
    status = pb.Status(code=Code.OK, message="OK")
    assert status.SerializeToString() == b"\x08\xa0\x9c\x01\x12\x02OK"
    properties = pb.SystemProperties(message_type=MessageType.DELAY, tag="")
    assert properties.SerializeToString() == b"\x0a\x00\x30\x03"  # an empty tag is one, too


def test_a_service_has_all_seventeen_rpcs() -> None:
    service = POOL.FindServiceByName(f"{PACKAGE}.{SERVICE}")
    assert len(service.methods) == 17
    telemetry = service.methods_by_name["Telemetry"]
    assert (telemetry.client_streaming, telemetry.server_streaming) == (True, True)


@pytest.mark.parametrize("name", MESSAGES)
def test_each_message_is_made_and_read_again(name: str) -> None:
    made = getattr(pb, name)()
    assert made.DESCRIPTOR.full_name == f"{PACKAGE}.{name}"
    assert getattr(pb, name).FromString(made.SerializeToString()) == made
