"""One conversation over both networks: what a channel promises, whatever carries the bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from pocketmq.protocol.budget import Budget
from pocketmq.protocol.codes import LanguageCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply, handles, handles_batch
from pocketmq.protocol.errors import (
    BrokerError,
    FrameError,
    RequestTimeoutError,
)
from pocketmq.protocol.peer_memory import PeerMemory
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.remoting import expect
from pocketmq.protocol.transport.tcp import TcpNetwork
from support.eventually import eventually
from support.own_logs import own_logs
from support.wire_pair import (
    BROKEN,
    CALL_BACK,
    ECHO,
    HUGE,
    SILENT,
    UNSENDABLE,
    Echo,
    RawPeer,
    Word,
    connected,
    request_bytes,
    served,
)

ENCODINGS = list(Encoding)


# -- questions and answers ------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.name)
async def test_an_answer_comes_in_the_encoding_of_the_question(
    network: Network, encoding: Encoding
) -> None:
    async with (
        served(network, Echo().dispatcher, version=409) as (_, address),
        connected(network, address, encoding=encoding) as channel,
    ):
        reply = await channel.request(Word(word="größer"), b"body")
        assert (reply.code, reply.encoding) == (0, encoding)
        assert reply.header(Word).word == "größer"
        assert bytes(reply.body_view) == b"body"
        assert (reply.version, reply.language) == (409, LanguageCode.PYTHON)


async def test_many_requests_at_once_each_get_their_own_answer(network: Network) -> None:
    async with (
        served(network, Echo().dispatcher) as (_, address),
        connected(network, address) as channel,
    ):
        words = [str(number) for number in range(300)]
        replies = await asyncio.gather(*(channel.request(Word(word=word)) for word in words))
        assert [reply.header(Word).word for reply in replies] == words


async def test_three_encodings_may_share_a_connection(network: Network) -> None:
    async with (
        served(network, Echo().dispatcher) as (_, address),
        connected(network, address) as channel,
    ):
        for encoding in (*ENCODINGS, *ENCODINGS):
            channel.encoding = encoding
            assert (await channel.request(Word(word="x"))).encoding is encoding


async def test_a_held_answer_may_come_late_and_out_of_order(network: Network) -> None:
    echo = Echo()
    async with (
        served(network, echo.dispatcher) as (_, address),
        connected(network, address) as channel,
    ):
        held = [channel.request(Word(word=str(n)), code=SILENT) for n in range(3)]
        await channel.request(Word())
        assert not any(future.done() for future in held)
        for peer, request in reversed(echo.waiting):
            peer.reply(request, request.reply(request.header(Word)))
        replies = await asyncio.gather(*held)
        assert [reply.header(Word).word for reply in replies] == ["0", "1", "2"]


async def test_a_one_way_request_is_never_answered_not_even_with_an_error(
    network: Network,
) -> None:  # E-5
    echo, strangers = Echo(), []
    ours = Dispatcher()
    async with (
        served(network, echo.dispatcher) as (_, address),
        connected(network, address, ours) as channel,
    ):
        for code in (ECHO, BROKEN, SILENT, 12345):
            channel.oneway(Word(), code=code)
        with own_logs() as logs:
            await channel.request(Word())
            for peer, request in echo.waiting:
                peer.reply(request, request.reply())
            await channel.request(Word())
        strangers = [line for line in logs if line["event"] == "reply.dropped"]
    assert strangers == []


async def test_requests_flow_both_ways_on_one_connection(network: Network) -> None:
    ours, told = Dispatcher(), []

    def listen(_peer: Peer, request: Command) -> Reply:
        told.append((request.header(Word).word, request.encoding))
        return None

    ours.register(ECHO, listen)
    async with (
        served(network, Echo().dispatcher) as (_, address),
        connected(network, address, ours, encoding=Encoding.JSON) as channel,
    ):
        await channel.request(Word(), code=CALL_BACK)
    assert told == [("first to you", Encoding.JSON)]


async def test_the_server_may_ask_the_client(network: Network) -> None:
    accepted: list[Channel] = []
    async with (
        served(network, Echo().dispatcher, on_open=accepted.append) as (_, address),
        connected(network, address, Echo().dispatcher) as channel,
    ):
        await channel.request(Word())
        [peer] = accepted
        reply = await peer.request(Word(word="how are you"))
        assert reply.header(Word).word == "how are you"


class Family:
    """Remembers the words it was asked with, those of one batch together."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.dispatcher = Dispatcher()
        self.dispatcher.add(self)

    @handles_batch(101)
    def together(self, _peers: Sequence[Peer], requests: Sequence[Command]) -> Sequence[Reply]:
        self.words.append(" ".join(request.header(Word).word for request in requests))
        return [request.reply(request.header(Word)) for request in requests]

    @handles(102)
    def alone(self, _peer: Peer, request: Command) -> Reply:
        self.words.append(request.header(Word).word)
        return request.reply(request.header(Word))


async def test_consecutive_requests_of_a_batched_code_reach_their_processor_together(
    network: Network,
) -> None:
    family = Family()
    async with (
        served(network, family.dispatcher) as (_, address),
        connected(network, address) as channel,
    ):
        codes = [101, 101, 101, 102, 101, 101]
        asked = [channel.request(Word(word=str(n)), code=code) for n, code in enumerate(codes)]
        channel.oneway(Word(word="6"), code=101)
        replies = await asyncio.gather(*asked)
    assert [reply.header(Word).word for reply in replies] == list("012345")
    assert family.words == ["0 1 2", "3", "4 5 6"]


async def test_peers_that_ask_in_one_turn_share_a_batch() -> None:
    family, network = Family(), MemoryNetwork()
    async with (
        served(network, family.dispatcher) as (_, address),
        connected(network, address) as one,
        connected(network, address) as two,
    ):
        replies = await asyncio.gather(
            one.request(Word(word="one"), code=101), two.request(Word(word="two"), code=101)
        )
    assert [reply.header(Word).word for reply in replies] == ["one", "two"]
    assert family.words == ["one two"]


async def test_what_a_peer_asked_before_is_done_before(network: Network) -> None:
    family, accepted = Family(), list[Channel]()
    async with (
        served(network, family.dispatcher, on_open=accepted.append) as (_, address),
        connected(network, address) as channel,
    ):
        await channel.request(Word(word="hello"), code=102)
        accepted[0].data_received(request_bytes(101, "of the turn's first read"))
        accepted[0].data_received(request_bytes(102, "of its second"))
    assert family.words == ["hello", "of the turn's first read", "of its second"]


async def test_reads_of_one_turn_keep_their_order_whatever_their_length(network: Network) -> None:
    family, accepted = Family(), list[Channel]()
    async with (
        served(network, family.dispatcher, on_open=accepted.append) as (_, address),
        connected(network, address) as channel,
    ):
        await channel.request(Word(word="hello"), code=102)
        whole = request_bytes(101, "third")
        accepted[0].data_received(request_bytes(101, "first"))
        accepted[0].data_received(request_bytes(101, "second"))
        accepted[0].data_received(whole[:9])
        assert accepted[0].unfinished == whole[:9]
        accepted[0].data_received(whole[9:])
        accepted[0].data_received(request_bytes(101, "long", bytes(20_000)))
        await channel.request(Word(word="bye"), code=102)
    assert " ".join(family.words).split() == ["hello", "first", "second", "third", "long", "bye"]


async def test_what_was_read_before_a_connection_broke_is_done() -> None:
    family, accepted = Family(), list[Channel]()
    network = MemoryNetwork()
    async with (
        served(network, family.dispatcher, on_open=accepted.append) as (_, address),
        connected(network, address) as channel,
    ):
        await channel.request(Word(word="hello"), code=102)
        accepted[0].data_received(request_bytes(101, "first"))
        accepted[0].data_received(request_bytes(101, "second"))
        accepted[0].connection_lost(None)
        await eventually(lambda: family.words[1:] == ["first second"], "both are processed")


async def test_late_answers_leave_together_and_not_to_a_peer_that_has_gone() -> None:
    written: list[bytes] = []

    class Wire(asyncio.Transport):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            written.append(bytes(data))

        def abort(self) -> None:
            pass

        def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
            pass

        def get_write_buffer_size(self) -> int:
            return 0

    channel, wire = Channel(Echo().dispatcher, peers=PeerMemory(Budget)), Wire()
    channel.connection_made(wire)
    requests = [Command(SILENT, opaque=n) for n in range(3)]
    channel.reply_all(requests, [b"one ", b"two ", None])
    assert written == [b"one two "]
    channel.abort()
    channel.reply_all(requests, [b"one ", b"two ", b"three"])
    assert written == [b"one two "]


@pytest.mark.parametrize("reads", [1, 2])
@pytest.mark.parametrize("end", ["the peer's", "ours"])
async def test_what_was_asked_in_the_same_turn_before_an_end_is_answered(
    end: str, reads: int
) -> None:
    family, accepted = Family(), list[Channel]()
    async with served(TcpNetwork(), family.dispatcher, on_open=accepted.append) as (_, address):
        peer = await RawPeer.connect(address)
        [channel] = await eventually(lambda: accepted, "the server knows its peer")
        for _ in range(reads):
            channel.data_received(request_bytes(101, "last words"))
        if end == "ours":
            channel.close()
        elif not channel.eof_received():
            channel._transport.close()  # as asyncio does
        for _ in range(reads):
            assert (await peer.answer()).header(Word).word == "last words"
        await peer.close()


# -- errors ---------------------------------------------------------------------------------------


async def test_an_unknown_code_is_answered_with_3(network: Network) -> None:  # fault 26
    async with (
        served(network, Echo().dispatcher) as (_, address),
        connected(network, address) as channel,
    ):
        reply = await channel.request(Word(), code=4711)
        assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        with pytest.raises(BrokerError, match="4711") as raised:
            expect(reply)
        assert raised.value.code == 3
        assert expect(reply, 3) is reply


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.name)
@pytest.mark.parametrize("code", [BROKEN, HUGE, UNSENDABLE])
async def test_a_processor_that_fails_or_says_the_unsayable_costs_an_error_and_nothing_more(
    network: Network, encoding: Encoding, code: int
) -> None:
    async with (
        served(network, Echo().dispatcher) as (_, address),
        connected(network, address, encoding=encoding) as channel,
    ):
        with own_logs() as logs:
            reply = await channel.request(Word(word="x"), code=code)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark
        assert [line["event"] for line in logs] == ["request.failed"]
        assert (await channel.request(Word(word="still here"))).code == 0


async def test_a_held_answer_that_cannot_be_sent_becomes_an_error(network: Network) -> None:
    echo = Echo()
    async with (
        served(network, echo.dispatcher) as (_, address),
        connected(network, address) as channel,
    ):
        asked = channel.request(Word(), code=SILENT, timeout_s=60)
        await channel.request(Word())
        [(peer, request)] = echo.waiting
        peer.reply(request, request.reply(body=bytes(17 * 1024 * 1024)))
        assert (await asked).code == ResponseCode.SYSTEM_ERROR


async def test_a_request_that_is_too_long_is_the_caller_s_error(network: Network) -> None:
    async with (
        served(network, Echo().dispatcher) as (_, address),
        connected(network, address) as channel,
    ):
        with pytest.raises(FrameError, match="may have at most"):
            channel.request(Word(), bytes(17 * 1024 * 1024))
        assert (await channel.request(Word())).code == 0


async def test_no_answer_in_time_is_a_timeout_and_a_late_one_is_dropped(network: Network) -> None:
    echo = Echo()
    async with (
        served(network, echo.dispatcher) as (_, address),
        connected(network, address) as channel,
    ):
        with pytest.raises(RequestTimeoutError, match="within 50 ms"):
            await channel.request(Word(), code=SILENT, timeout_s=0.05)
        await eventually(lambda: echo.waiting, "it came, if after its time on a slow machine")
        [(peer, request)] = echo.waiting
        peer.reply(request, request.reply())
        assert (await channel.request(Word(word="next"))).header(Word).word == "next"
