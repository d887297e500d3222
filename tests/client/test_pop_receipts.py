"""Receipt handles of an answer's messages, made from its offsets (K-37, K-47)."""

from __future__ import annotations

import pytest

from pocketmq.client.consumer.popping.receipts import handle_of, put_handles_on
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.headers.pop import PopMessageResponseHeader
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.message_runs import noted_alike_until
from pocketmq.protocol.messages.properties import FIRST_POP_TIME, POP_CK
from pocketmq.protocol.stored.record import decode_records, encode_record
from support.messages import pulled_message
from support.tiny_store import HOST

POPPED_MS = 1_700_000_000_000
GIVEN = "5 1600000000000 9000 1 1 b 1 6"


def message(queue_id: int, offset: int, properties: bytes = b"", topic: bytes = b"T") -> bytes:
    return encode_record(
        topic=topic, queue_id=queue_id, flag=0, queue_offset=offset, physical_offset=offset,
        sys_flag=0, born_timestamp_ms=1, born_host=HOST, store_timestamp_ms=1, store_host=HOST,
        reconsume_times=0, prepared_transaction_offset=0, body=b"POP_ in a body",
        properties=properties,
    )  # fmt: skip


def popped(records: list[bytes], starts: str | None, offsets: str) -> list[MessageExt]:
    messages = decode_records(b"".join(records), broker_name="b")
    found = PopMessageResponseHeader(
        pop_time=POPPED_MS, invisible_time=60_000, revive_qid=2, rest_num=0,
        start_offset_info=starts, msg_offset_info=offsets,
    )  # fmt: skip
    put_handles_on(messages, found, "b")
    return messages


def handles(messages: list[MessageExt]) -> list[str]:
    noted = [str(handle_of(each)) for each in messages]
    assert [each.properties[POP_CK] for each in messages] == noted
    return noted


def made(start: int, queue_id: int, offset: int, mark: int = 0) -> str:
    return f"{start} {POPPED_MS} 60000 2 {mark} b {queue_id} {offset}"


def test_each_queue_of_an_answer_has_its_own_handles_also_when_it_comes_in_parts() -> None:
    records = [message(1, 7), message(1, 9), message(0, 3), message(1, 12)]
    messages = popped(records, "0 1 7;0 0 3", "0 1 7,9,12;0 0 3")
    assert handles(messages) == [made(7, 1, 7), made(7, 1, 9), made(3, 0, 3), made(7, 1, 12)]
    assert {each.properties[FIRST_POP_TIME] for each in messages} == {str(POPPED_MS)}


def test_a_retry_topic_under_its_own_name_has_its_mark() -> None:
    retry = b"%RETRY%g_T"
    messages = popped([message(0, 4, topic=retry), message(0, 4)], "1 0 4;0 0 4", "1 0 4;0 0 4")
    assert handles(messages) == [made(4, 0, 4, mark=1), made(4, 0, 4)]


def test_a_handle_that_the_broker_gave_stays_and_takes_no_offset_of_the_others() -> None:
    given = f"POP_CK\x01{GIVEN}\x021ST_POP_TIME\x01123\x02".encode()
    messages = popped([message(1, 7), message(1, 6, given), message(1, 8)], "0 1 7", "0 1 7,8")
    assert handles(messages) == [made(7, 1, 7), GIVEN, made(7, 1, 8)]
    assert messages[1].properties[FIRST_POP_TIME] == "123"


def test_a_handle_that_the_broker_gave_stays_though_the_answer_names_its_offset() -> None:
    given = f"POP_CK\x01{GIVEN}\x02".encode()
    messages = popped([message(1, 6, given)], "0 1 6", "0 1 6")
    assert handles(messages) == [GIVEN]
    assert messages[0].properties[FIRST_POP_TIME] == str(POPPED_MS), "the broker did not say"


def test_a_message_that_was_pulled_has_no_handle() -> None:
    with pytest.raises(BadRequestError, match="pulled and not popped"):
        handle_of(pulled_message())


def test_the_answer_s_offset_counts_and_not_the_message_s() -> None:
    messages = popped([message(1, 7), message(1, 8)], "0 1 7", "0 1 7,9")
    assert handles(messages) == [made(7, 1, 7), made(7, 1, 9)]


def test_without_start_offsets_each_message_begins_with_itself() -> None:
    messages = popped([message(1, 7), message(1, 8)], None, "0 1 7,8")
    assert handles(messages) == [made(7, 1, 7), made(8, 1, 8)]
    parts = popped([message(1, 7), message(0, 3), message(1, 9)], None, "0 1 7,9;0 0 3")
    assert handles(parts) == [made(7, 1, 7), made(3, 0, 3), made(9, 1, 9)]


def test_offsets_are_given_away_once_also_when_a_queue_comes_in_parts() -> None:
    records = [message(1, 7), message(0, 3), message(1, 8), message(0, 4), message(1, 9)]
    with pytest.raises(
        BadRequestError, match=r"fewer offsets than messages for queue 1 \(topic mark 0\)"
    ):
        popped(records, "0 1 7;0 0 3", "0 1 7,8;0 0 3,4")


@pytest.mark.parametrize("offsets", ["0 1 7", "0 0 7,8", ""])
def test_an_answer_with_too_few_offsets_is_refused(offsets: str) -> None:
    with pytest.raises(
        BadRequestError, match=r"fewer offsets than messages for queue 1 \(topic mark 0\)"
    ):
        popped([message(1, 7), message(1, 8)], "0 1 7", offsets)


def test_messages_of_one_pop_and_queue_are_found_until_somebody_read_their_properties() -> None:
    messages = popped([message(1, n) for n in range(6)], "0 1 0", "0 1 0,1,2,3,4,5")
    assert noted_alike_until(messages, 0, POP_CK) == 6
    messages[1].note("SEEN", "once")
    assert noted_alike_until(messages, 0, POP_CK) == 6
    assert messages[4].tags is None
    assert noted_alike_until(messages, 0, POP_CK) == 4
    assert noted_alike_until(messages, 4, POP_CK) == 5
    messages[2].topic = "U"
    assert noted_alike_until(messages, 0, POP_CK) == 2
