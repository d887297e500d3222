"""The demo in order, broadcast, and with listeners that fail: what its tallies accept."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable

import pytest

from pocketmq.cluster.demo.allocation import AllocationLog, QueueName
from pocketmq.cluster.demo.data import find_csv
from pocketmq.cluster.demo.mode_tallies import BroadcastTally, OrderedTally, RetriedTally
from pocketmq.cluster.demo.modes import Mode
from pocketmq.cluster.demo.retries import again
from pocketmq.cluster.demo.tally import FlightId, record_line
from pocketmq.runtime.errors import ConfigError, MissingToolError
from support.messages import pulled_message

UA = FlightId("N14228", "UA", 2)


def lines(offsets: Iterable[int], queue: int = 0) -> bytes:
    return b"".join(record_line("broker-a", queue, offset, UA) for offset in offsets)


# -- orderly --------------------------------------------------------------------------------------


def test_orderly_queues_that_change_hands_are_in_order() -> None:
    tally = OrderedTally()
    tally.add("c1", lines([0, 1, 2]) + lines([0, 1], queue=1))
    tally.add("c2", lines([3, 4]))
    tally.add("c1", lines([5, 6]))  # it got the queue back
    assert tally.complaints() == []
    assert tally.notes()[0] == (
        "each of the 2 queues was consumed in order, by one consumer at a time"
    )


def test_a_message_after_a_later_one_of_its_queue_is_out_of_order() -> None:
    tally = OrderedTally()
    tally.add("c1", lines([0, 2, 1]))
    assert tally.complaints() == ["1 messages were consumed after a later one"]


def test_messages_of_two_living_consumers_mean_that_a_queue_had_both() -> None:
    tally = OrderedTally()
    tally.add("c1", lines([0, 1, 2, 3]))
    tally.add("c2", lines([2, 3, 4]))
    assert tally.complaints() == ["2 messages were consumed by two running consumers"]


def test_what_a_killed_consumer_had_not_committed_may_come_again() -> None:
    tally = OrderedTally()
    tally.add("c1", lines([0, 1, 2, 3]))
    tally.add("c2", lines([2, 3, 4]))
    tally.killed.add("c1")
    assert tally.complaints() == []
    again = "2 messages that the killed consumer had not committed were consumed again"
    assert tally.notes()[1] == again


# -- broadcast ------------------------------------------------------------------------------------


def test_broadcast_every_consumer_that_stayed_needs_every_message() -> None:
    tally = BroadcastTally()
    tally.add("c1", lines([0, 1, 2]))
    tally.add("c2", lines([0, 1]))
    assert (tally.distinct, tally.redelivered) == (3, 0)
    assert tally.unread({("broker-a", 0): 3}) == 1
    tally.killed.add("c2")
    assert tally.unread({("broker-a", 0): 3}) == 0
    assert tally.notes() == ["distinct messages per consumer: c1 3; killed before the end: c2 2"]


def test_broadcast_a_consumer_that_has_nothing_yet_lacks_everything() -> None:
    tally = BroadcastTally()
    tally.add("c1", lines([0, 1]))
    tally.add("c2", b"")
    assert tally.unread({("broker-a", 0): 2, ("broker-b", 0): 0}) == 2


def test_broadcast_only_the_same_consumer_can_have_a_message_again() -> None:
    tally = BroadcastTally()
    tally.add("c1", lines([0, 1, 1]))
    tally.add("c2", lines([0, 1]))
    assert tally.redelivered == 1


def test_broadcast_is_settled_when_everyone_has_pulled_everything() -> None:
    queues = [QueueName("a", 0), QueueName("a", 1)]
    log = AllocationLog(queues, everyone_owns_all=True)
    log.joined(["c1", "c2"], 0, "start")
    for name in ("c1", "c2"):
        log.assigned(name, queues, 10)
        log.pulled(name, queues[0], 20)
        log.pulled(name, queues[1], 30)
        assert log.settled == (name == "c2")
    assert log.rebalances[0].queues_of("c1") == log.rebalances[0].queues_of("c2") == queues
    log.left("c2", 50, "c2 was killed")
    assert log.settled, "nobody has to take anything over"
    assert log.rebalances[-1].queues_of("c1") == queues


# -- failures -------------------------------------------------------------------------------------


def test_retries_are_told_by_their_id_and_not_by_their_place() -> None:
    tally = RetriedTally(total=2)
    tally.add("c1", record_line("broker-a", 0, 7, UA, message_id="AC1"))
    assert tally.unread({("broker-a", 0): 8}) == 1
    tally.add("c2", record_line("broker-a", 0, 7, UA, message_id="AC2"))  # of the retry topic
    tally.add("c2", record_line("broker-b", 3, 1, UA, message_id="AC2"))
    assert (tally.distinct, tally.redelivered, tally.unread({})) == (2, 1, 0)


def test_a_dead_letter_is_sent_again_under_its_own_id_and_without_its_past() -> None:
    letter = pulled_message(topic="%DLQ%flights-consumers")
    kept = {"TAGS": "UA", "KEYS": "N14228", "UNIQ_KEY": "AC1"}
    letter.properties.update({**kept, "RETRY_TOPIC": "flights", "DELAY": "4"})
    sent = again(letter)
    assert sent.topic == "flights"
    assert sent.properties == {**kept, "WAIT": "true"}


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1])
def test_a_rate_at_which_nothing_or_everything_fails_is_refused(rate: float) -> None:
    with pytest.raises(ConfigError, match="give one between 0 and 1"):
        Mode.chosen(orderly=False, broadcast=False, failures=rate)


def test_modes_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="--kill-master and --grpc can be given; choose"):
        Mode.chosen(orderly=True, broadcast=False, failures=0.1)


# -- with processes -------------------------------------------------------------------------------


@pytest.mark.cluster
@pytest.mark.timeout(600)  # 20 to 70 s where little else runs
@pytest.mark.parametrize(
    ("options", "facts"),
    [
        pytest.param(
            ["--orderly"],
            [
                "each of the 8 queues was consumed in order, by one consumer at a time",
                # The lock lives on for what is left of its 30 s: B-45. 1 to 2 s without one.
                r"killed with SIGKILL; settled in ([3-9]\d{3}|\d{5,}) ms",
            ],
            marks=pytest.mark.nightly,
        ),
        (
            ["--broadcast"],
            [r"messages per consumer: (consumer-[1-4] 3,000[,;] ){3}killed before the end"],
        ),
        pytest.param(
            ["--failures", "0.2"],
            [
                r"[1-9]\d* failed deliveries were retried from %RETRY%flights-consumers",
                r"[1-9]\d* messages failed 3 times, .* %DLQ%flights-consumers, and were sent again",
            ],
            marks=pytest.mark.nightly,
        ),
        (["--pop"], ["consumer-4 joined; settled in", "messages are hidden for 10 s here"]),
    ],
    ids=["orderly", "broadcast", "failures", "pop"],
)
def test_the_demo_loses_nothing_in_any_mode(options: list[str], facts: list[str]) -> None:
    try:
        find_csv()
    except MissingToolError as exc:
        pytest.skip(str(exc))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pocketmq.cluster.cli.main"),
            *("demo", "--no-spark", "--flights", "3000", *options),
        ],
        capture_output=True, text=True, timeout=580, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    for fact in facts:
        assert re.search(fact, done.stdout), done.stdout
    assert re.search(r"lost .* 0 ", done.stdout)
    assert "nothing was lost, and the figures are those of the CSV" in done.stdout
