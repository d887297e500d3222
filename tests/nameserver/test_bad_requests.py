"""Whatever is asked, a nameserver answers with a code of its own and goes on."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.header import REQUEST_HEADERS, Header
from pocketmq.protocol.headers.route import GetClusterInfoRequestHeader
from support.declared import instances
from support.nameserver_rig import nameserver
from support.own_logs import own_logs
from support.strategies import mutated

CODES = sorted(
    {103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327}
    | {100, 101, 102, 901, 904, RequestCode.GET_CLOCK, RequestCode.ROLE_STATUS}
    | {RequestCode.REGISTER_PROXY, RequestCode.GET_PROXIES}
)

junk = st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(max_size=4)


@st.composite
def requests(draw: st.DrawFn, code: int) -> Command:
    """A request of this code: sound, with some fields changed or dropped, with any body."""
    encoding = draw(st.sampled_from(list(Encoding)))
    cls = REQUEST_HEADERS[code]
    fields: dict[str, Any] = dict(Command(code, draw(instances(cls))).fields)
    for name in draw(st.sets(st.sampled_from(sorted(fields)), max_size=2)) if fields else ():
        fields[name] = draw(junk)
    body = draw(st.just(b"") | st.binary(max_size=30))
    if cls.BODY is not None:
        sound = instances(cls.BODY).map(lambda found: encode_body(found, encoding))
        body = draw(st.just(body) | sound | mutated(sound))
    fields = {name: value for name, value in fields.items() if draw(st.integers(0, 9))}
    if encoding is not Encoding.MSGPACK:
        fields = {name: value for name, value in fields.items() if value is not None}
    version = draw(st.sampled_from([0, 36, 399, 479]))
    return Command(code, fields, body, encoding=encoding, version=version)


async def test_the_list_of_codes_above_is_what_a_nameserver_answers() -> None:
    async with nameserver() as rig:
        others = {RequestCode.MOVE_CLOCK, RequestCode.GET_EVENTS}  # refused here, as it should be
        assert set(CODES) | others == rig.server.dispatcher.codes


@pytest.mark.parametrize("code", CODES, ids=lambda code: RequestCode(code).name)
@given(data=st.data())
@settings(max_examples=20)
async def test_any_request_is_answered_and_none_uncovers_a_bug(
    code: int, data: st.DataObject
) -> None:
    asked = data.draw(requests(code))
    async with nameserver() as rig:
        with own_logs() as logs:
            channel = await rig.channel(asked.encoding, version=asked.version)
            fields = cast("Header", asked.ext)  # any mapping: the codec does not mind
            reply = await channel.request(fields, asked.body_view, code=code)
            assert reply.code in (*range(4), ResponseCode.TOPIC_NOT_EXIST, 22, 29)
            await rig.ask(GetClusterInfoRequestHeader())
        assert [line for line in logs if line["event"] == "request.failed"] == []
