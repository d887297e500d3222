"""Consumed, redelivered and lost, from the consumers' files."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.cluster.demo.tally import Delays, FlightId, Place, Tally, parse_records, record_line

UA = FlightId("N14228", "UA", 2)
CANCELLED = FlightId("MQ3531", "MQ", None)

flight_ids = st.builds(
    FlightId,
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=1, max_size=6),
    st.sampled_from(["UA", "AA", "9E"]),
    st.none() | st.integers(-100, 2000),
)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2**40), flight_ids)))
def test_a_record_line_reads_back_as_it_was_written(
    records: list[tuple[int, int, FlightId]],
) -> None:
    text = b"".join(record_line("broker-a", *record) for record in records)
    expected = [(Place("broker-a", queue, at), flight) for queue, at, flight in records]
    assert list(parse_records(text)) == expected


@given(st.integers(0, 60))
def test_a_line_cut_by_a_kill_counts_for_nothing(cut: int) -> None:
    text = record_line("broker-a", 3, 1207, UA) + record_line("broker-b", 0, 9, CANCELLED)
    whole = text[:cut].count(b"\n")
    assert len(list(parse_records(text[:cut]))) == whole


def test_a_message_consumed_by_two_consumers_is_one_message_and_one_redelivery() -> None:
    tally = Tally()
    tally.add("consumer-1", record_line("broker-a", 0, 5, UA))
    tally.add(
        "consumer-2",
        record_line("broker-a", 0, 5, UA) + record_line("broker-a", 0, 6, UA),
    )
    assert (tally.lines, tally.distinct, tally.redelivered) == (3, 2, 1)
    assert tally.per_consumer == {"consumer-1": 1, "consumer-2": 2}


def test_a_redelivered_flight_does_not_change_the_mean() -> None:
    tally = Tally()
    line = record_line("broker-a", 0, 5, UA)
    tally.add("consumer-1", line + line + record_line("broker-a", 0, 6, UA._replace(dep_delay=5)))
    assert tally.delays().means() == {"UA": Fraction(7, 2)}


@given(st.lists(st.integers(0, 90), max_size=6))
def test_a_file_may_be_read_in_any_parts(cuts: list[int]) -> None:
    text = b"".join(record_line("broker-a", 0, at, UA) for at in range(3))
    tally = Tally()
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for start, end in itertools.pairwise(edges):
        tally.add("consumer-1", text[start:end])
    assert (tally.lines, tally.distinct) == (3, 3)


def test_a_flight_that_no_file_has_is_lost_even_when_another_was_stored_twice() -> None:
    tally = Tally()
    line = record_line("broker-a", 0, 5, UA) + record_line("broker-a", 0, 6, UA)
    tally.add("consumer-1", line)
    assert tally.distinct == 2
    assert tally.lost(Counter({UA: 1, CANCELLED: 1})) == 1


def test_stored_messages_that_nobody_consumed_are_counted_by_queue() -> None:
    tally = Tally()
    tally.add("consumer-1", record_line("broker-a", 0, 0, UA) + record_line("broker-b", 1, 0, UA))
    assert tally.unread({("broker-a", 0): 3, ("broker-b", 1): 1, ("broker-b", 2): 4}) == 6


@given(st.lists(st.integers(-100, 2000), min_size=1), st.randoms())
def test_the_mean_does_not_depend_on_the_order_of_the_messages(
    delays: list[int], random: object
) -> None:
    shuffled = list(delays)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = Delays(), Delays()
    for one, other in zip(delays, shuffled, strict=True):
        first.add("UA", one)
        second.add("UA", other)
    assert first.means() == second.means() == {"UA": Fraction(sum(delays), len(delays))}


def test_a_carrier_whose_flights_were_all_cancelled_has_no_mean() -> None:
    delays = Delays()
    delays.add("OO", None)
    assert delays.means() == {"OO": None}


def test_a_file_that_is_no_record_file_is_an_error_and_no_count() -> None:
    with pytest.raises(ValueError, match="unpack"):
        Tally().add("consumer-1", b"something else\n")
