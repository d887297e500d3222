"""Message ids and the addresses inside them (S-7, S-8)."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.hosts import host_text, pack_host, parse_host_text, unpack_host
from pocketmq.protocol.messages.ids import UniqKeyFactory, offset_msg_id, parse_offset_msg_id
from support.strategies import hosts, offsets


def test_an_offset_id_is_javas():
    host = pack_host("127.0.0.1", 10911)
    assert offset_msg_id(host, 3) == "7F00000100002A9F0000000000000003"
    assert parse_offset_msg_id("7F00000100002A9F0000000000000003") == ("127.0.0.1", 10911, 3)
    assert parse_offset_msg_id("7f00000100002a9f0000000000000003") == ("127.0.0.1", 10911, 3)


@given(hosts, offsets)
def test_an_offset_id_gives_back_address_and_offset(host, offset):
    ip, port = host
    msg_id = offset_msg_id(pack_host(ip, port), offset)
    assert len(msg_id) == (56 if ":" in ip else 32)
    assert parse_offset_msg_id(msg_id) == (ip, port, offset)


@given(st.text(max_size=60) | st.text("0123456789abcdefg \u0660", min_size=32, max_size=32))
@example("7F00000100002A9F000000000000000")
@example(" " * 32)
def test_what_is_no_offset_id_is_refused_by_name(text):
    try:
        parse_offset_msg_id(text)
    except IllegalNameError as exc:
        error = exc
    else:
        assert len(text) in (32, 56)
        return
    assert error.kind == "message id"


@pytest.mark.parametrize("text", ["7F" * 15, "7F" * 17, "7F" * 27, "7F" * 15 + "  "])
def test_hex_of_another_length_is_refused_as_a_message_id(text):
    with pytest.raises(IllegalNameError, match="has not 32 or 56 hex characters") as caught:
        parse_offset_msg_id(text)
    assert (caught.value.kind, caught.value.name) == ("message id", text)


@given(hosts)
def test_addresses_are_packed_and_unpacked(host):
    packed = pack_host(*host)
    assert len(packed) in (8, 20)
    assert unpack_host(packed) == host
    assert unpack_host(memoryview(packed)) == host
    assert parse_host_text(host_text(packed)) == host


def test_an_ipv4_address_in_ipv6_clothes_is_ipv4():
    assert (
        pack_host("::ffff:1.2.3.4", 1)
        == pack_host("1.2.3.4", 1)
        == bytes.fromhex("0102030400000001")
    )


def test_a_zone_is_no_part_of_an_address():
    assert pack_host("fe80::1%eth0", 1) == pack_host("fe80::1", 1)


@pytest.mark.parametrize(
    ("ip", "port"), [("localhost", 1), ("", 1), ("1.2.3", 1), ("1.2.3.4", -1), ("1.2.3.4", 65536)]
)
def test_a_name_or_a_wrong_port_is_no_address(ip, port):
    with pytest.raises(IllegalNameError):
        pack_host(ip, port)


@pytest.mark.parametrize("size", [0, 7, 9, 19, 21])
def test_addresses_have_8_or_20_bytes(size):
    with pytest.raises(IllegalNameError):
        unpack_host(bytes(size))


@pytest.mark.parametrize("text", ["", "1.2.3.4", "a:b", "a:123456", "a:-1", ":", "a:" + "9" * 5000,
                                  "a:65536", "a:010911"])  # fmt: skip
def test_text_without_a_port_is_no_address(text):
    with pytest.raises(IllegalNameError):
        parse_host_text(text)


def test_the_last_port_is_65535():
    assert pack_host("1.2.3.4", 65535) == bytes.fromhex("010203040000ffff")
    assert parse_host_text("1.2.3.4:65535") == ("1.2.3.4", 65535)


MAY_2024_MS = 1_715_000_000_000
MAY_1ST_2024_MS = 1_714_521_600_000


def test_a_uniq_key_holds_address_process_and_time():  # S-8
    factory = UniqKeyFactory("10.0.0.1", 0x1234, lambda: MAY_2024_MS, salt=0xDEADBEEF)
    key = factory()
    assert len(key) == 32
    assert key == key.upper()
    assert key[:20] == "0A000001" + "1234" + "DEADBEEF"
    assert int(key[20:28], 16) == MAY_2024_MS - MAY_1ST_2024_MS
    assert int(factory()[28:], 16) == int(key[28:], 16) + 1


def test_a_uniq_key_of_an_ipv6_client_has_56_characters():
    assert len(UniqKeyFactory("::1", 70000, lambda: MAY_2024_MS)()) == 56


def test_keys_stay_unique_while_a_manual_clock_stands():
    factory = UniqKeyFactory("10.0.0.1", 1, lambda: MAY_2024_MS)
    assert len({factory() for _ in range(200_000)}) == 200_000


def test_keys_stay_unique_when_the_clock_goes_back_or_leaps():
    now = [MAY_2024_MS]
    factory = UniqKeyFactory("10.0.0.1", 1, lambda: now[0])
    keys = set()
    for step in (0, 5, -3_600_000, 1, 0, 86_400_000, -1):
        now[0] += step
        keys.update(factory() for _ in range(70_000))
    assert len(keys) == 7 * 70_000


def test_two_clients_of_one_process_make_different_keys():
    one, other = (UniqKeyFactory("10.0.0.1", 1, lambda: MAY_2024_MS) for _ in range(2))
    assert one()[:20] != other()[:20]


@pytest.mark.parametrize(
    ("now_ms", "month_start_ms"),
    [
        (1_735_689_599_999, 1_733_011_200_000),  # the last ms of December 2024
        (1_735_689_600_000, 1_735_689_600_000),  # the first of January 2025
    ],
)
def test_the_time_part_begins_anew_with_each_month(now_ms, month_start_ms):
    now = [now_ms - 1000]
    factory = UniqKeyFactory("10.0.0.1", 1, lambda: now[0])
    now[0] = now_ms
    assert int(factory()[20:28], 16) == now_ms - month_start_ms
