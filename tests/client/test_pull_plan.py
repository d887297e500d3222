"""Pull checks in their order, start offsets, settings."""

from __future__ import annotations

from datetime import datetime

import pytest

from pocketmq.client.consumer.progress.offset_table import Offset, OffsetTable
from pocketmq.client.consumer.progress.start_offset import Start, start_rule
from pocketmq.client.consumer.settings import PushSettings
from pocketmq.client.heartbeat import ConsumeFromWhere
from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.client.pulling.pull_plan import (
    BROKER_SUSPEND_MAX_MS,
    CONSUMER_TIMEOUT_WHEN_SUSPEND_MS,
    OVERDUE_MS,
    PULL_BATCH_BYTES,
    CacheLimits,
    PullRequest,
    Step,
    before_pull,
    delay_after_code_ms,
    pull_header,
)
from pocketmq.protocol.bodies.route import MASTER_ID
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.scalars import PullSysFlag
from pocketmq.runtime.errors import ConfigError
from support.claims import QUEUE, buffer
from support.messages import pulled_message

LAST, FIRST, TIME = (
    ConsumeFromWhere.LAST_OFFSET,
    ConsumeFromWhere.FIRST_OFFSET,
    ConsumeFromWhere.TIMESTAMP,
)


def check(
    held: ProcessQueue,
    *,
    limits: CacheLimits | None = None,
    previously_locked: bool = False,
    running: bool = True,
    suspended: bool = False,
    orderly: bool = False,
    subscribed: bool = True,
) -> tuple[Step, int]:
    request = PullRequest(held, 0, previously_locked)
    found = before_pull(
        request,
        limits or CacheLimits(),
        running=running,
        suspended=suspended,
        orderly=orderly,
        subscribed=subscribed,
    )
    return found.step, found.delay_ms


def holding(*offsets: int, size: int = 1, locked: bool = False) -> ProcessQueue:
    held = buffer(locked=locked)
    held.put(pulled_message(offset=offset, body=b"x" * size) for offset in offsets)
    return held


def test_a_free_queue_is_pulled() -> None:  # C-36
    assert check(buffer()) == (Step.PULL, 0)


def test_a_dropped_queue_is_gone_for_good() -> None:  # C-36
    assert check(buffer(dropped=True), running=False) == (Step.FORGET, 0)


def test_the_checks_come_in_their_order() -> None:  # C-36
    full = holding(*range(5))
    few = CacheLimits(threshold_for_queue=4)
    assert check(full, limits=few, running=False, suspended=True) == (Step.WAIT, 1_000)
    assert check(full, limits=few, suspended=True) == (Step.WAIT, 1_000)
    assert check(full, limits=few, subscribed=False) == (Step.WAIT, 50)
    assert check(full, subscribed=False) == (Step.WAIT, 1_000)


def test_comparisons_are_strict() -> None:  # C-36
    assert check(holding(*range(4)), limits=CacheLimits(threshold_for_queue=4))[0] is Step.PULL
    assert check(holding(0, 2_000))[0] is Step.PULL
    assert check(holding(0, 2_001)) == (Step.WAIT, 50)
    mib = CacheLimits(threshold_size_for_queue_mib=1)
    assert check(holding(0, size=2 * 1024 * 1024 - 1), limits=mib)[0] is Step.PULL
    assert check(holding(0, size=2 * 1024 * 1024), limits=mib) == (Step.WAIT, 50)


def test_an_orderly_queue_has_no_span_but_a_lock() -> None:  # C-36
    held = holding(0, 2_001)
    assert check(held, orderly=True) == (Step.WAIT, 1_000)
    held = holding(0, 2_001, locked=True)
    assert check(held, orderly=True) == (Step.FIND_START, 0)
    assert check(held, orderly=True, previously_locked=True) == (Step.PULL, 0)


def test_pulls_have_rocketmqs_figures() -> None:  # B-70, C-36, C-37
    assert (BROKER_SUSPEND_MAX_MS, CONSUMER_TIMEOUT_WHEN_SUSPEND_MS) == (15_000, 30_000)
    assert BROKER_SUSPEND_MAX_MS < OVERDUE_MS < CONSUMER_TIMEOUT_WHEN_SUSPEND_MS
    assert PULL_BATCH_BYTES == 256 * 1024
    limits = CacheLimits()
    assert (limits.threshold_for_queue, limits.threshold_size_for_queue_mib) == (1000, 100)
    assert limits.max_span == 2000
    assert not PullRequest(holding(), 0).previously_locked


@pytest.mark.parametrize("commit", [-1, 0, 1, 2])
def test_a_header_says_what_is_wanted(commit: int) -> None:  # C-37
    wanted = SubscriptionData.parse("T", "a || b", 7)
    fields = {
        "group": "g", "subscription": wanted, "commit_offset": commit, "max_msg_nums": 32,
        "broker_id": MASTER_ID,
    }  # fmt: skip
    posted = pull_header(PullRequest(holding(), 5), post_subscription=True, **fields)
    assert (posted.subscription, posted.expression_type) == ("a || b", "TAG")
    assert posted.commit_offset == max(0, commit)
    assert bool(posted.sys_flag & PullSysFlag.COMMIT_OFFSET) == (commit > 0)
    assert (posted.queue_offset, posted.sub_version, posted.max_msg_nums) == (5, 7, 32)
    plain = pull_header(PullRequest(holding(), 5), post_subscription=False, **fields)
    assert (plain.subscription, plain.expression_type, plain.sub_version) == (None, None, 7)


def test_delays_after_errors() -> None:  # C-40
    assert delay_after_code_ms(215) == 20
    assert delay_after_code_ms(1) == 1_000


@pytest.mark.parametrize(
    ("commit", "slave", "post", "flag"),
    [(0, False, False, 2), (5, False, False, 3), (5, True, False, 2), (5, False, True, 7)],
)
def test_pull_flags(commit: int, slave: bool, post: bool, flag: int) -> None:  # C-37, E-41
    header = pull_header(
        PullRequest(buffer(), 7),
        "g",
        SubscriptionData.parse("T", "A", 99),
        commit_offset=commit,
        max_msg_nums=32,
        post_subscription=post,
        broker_id=1 if slave else MASTER_ID,
    )
    assert header.sys_flag == flag
    assert (header.queue_offset, header.max_msg_nums, header.sub_version) == (7, 32, 99)
    assert header.subscription == ("A" if post else None)


@pytest.mark.parametrize(
    ("stored", "where", "retry", "rule"),
    [
        (0, LAST, False, Start.STORED),  # zero is a stored offset (T-2)
        (9, TIME, True, Start.STORED),
        (-1, LAST, False, Start.MAX),
        (-1, LAST, True, Start.ZERO),
        (-1, FIRST, False, Start.ZERO),
        (-1, FIRST, True, Start.ZERO),
        (-1, TIME, False, Start.TIMESTAMP),
        (-1, TIME, True, Start.MAX),
        (-2, LAST, False, Start.UNKNOWN),
        (-3, FIRST, True, Start.UNKNOWN),
    ],
)
def test_the_table_of_starts(
    stored: int, where: ConsumeFromWhere, retry: bool, rule: Start
) -> None:
    # C-33
    assert start_rule(stored, where, retry_topic=retry) is rule


def test_offsets_only_increase_unless_told_otherwise_and_frozen_ones_never() -> None:
    # C-67, C-43
    table = OffsetTable()
    assert table.get(QUEUE) == Offset.NOT_FOUND
    table.update(QUEUE, 5, increase_only=True)
    table.update(QUEUE, 3, increase_only=True)
    assert table.get(QUEUE) == 5
    table.update(QUEUE, 3, increase_only=False)
    assert table.get(QUEUE) == 3
    table.freeze(QUEUE, 1)
    table.update(QUEUE, 9, increase_only=True)
    table.update(QUEUE, 9, increase_only=False)
    assert table.get(QUEUE) == 1
    table.remove(QUEUE)
    table.update(QUEUE, 9, increase_only=True)
    assert table.get(QUEUE) == 9
    table.keep_only([])
    assert table.offsets == {}


def test_one_message_s_progress_only_increases_and_never_moves_a_frozen_queue() -> None:
    # C-67, C-43
    table, other = OffsetTable(), MessageQueue("T", "a", 1)
    table.freeze(other, 7)
    table.update(QUEUE, 3, increase_only=True)
    assert table.get(QUEUE) == 3, "another queue is frozen"
    for offset, expected in [(5, 5), (4, 5), (6, 6)]:
        table.advance(QUEUE, offset)
        assert table.get(QUEUE) == expected
    table.freeze(QUEUE, 1)
    table.advance(QUEUE, 9)
    assert (table.get(QUEUE), table.get(other)) == (1, 7)


def test_offsets_that_are_none_are_rocketmqs() -> None:  # RemoteBrokerOffsetStore.readOffset
    assert (int(Offset.NOT_FOUND), int(Offset.FAILED)) == (-1, -2)


def test_settings_have_the_sheets_defaults() -> None:  # 5.1
    settings = PushSettings()
    assert settings.cache_limits(1) == CacheLimits(
        threshold_for_queue=1_000, threshold_size_for_queue_mib=100, max_span=2_000
    )
    assert settings.max_retries(orderly=False) == 16
    assert settings.max_retries(orderly=True) == 2_147_483_647
    assert PushSettings(max_reconsume_times=3).max_retries(orderly=True) == 3
    assert settings.consume_thread_max == 20
    assert settings.pull_batch_size == 32
    assert settings.consume_timestamp_ms(2_000_000) == 2_000_000 - 1_800_000
    assert PushSettings(consume_timestamp=5).consume_timestamp_ms(0) == 5
    local = datetime(2013, 12, 31, 23, 59, 59)  # noqa: DTZ001 - RocketMQ means local time
    text = PushSettings(consume_timestamp="20131231235959")
    assert text.consume_timestamp_ms(0) == local.timestamp() * 1000


@pytest.mark.parametrize(("name", "range_"), sorted(PushSettings.RANGES.items()))
def test_settings_out_of_range_are_refused(name: str, range_: tuple[int, int]) -> None:  # 5.1
    least, most = range_
    for bad in (least - 1, most + 1):
        if bad == 0 and name in PushSettings.MAY_BE_OFF:
            bad = -2
        with pytest.raises(ConfigError, match=name):
            PushSettings(**{name: bad})  # type: ignore[arg-type]
    PushSettings(**{name: least})  # type: ignore[arg-type]
