"""Decides, on the driver, which queues a read takes and from which offset to which."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping

import msgspec

from pocketmq.client.routes import subscribe_queues
from pocketmq.pipeline.errors import near
from pocketmq.pipeline.options.offsets import EARLIEST, LATEST, Offsets, Position, check_known
from pocketmq.pipeline.options.row_filter import RowFilter
from pocketmq.pipeline.progress.stream_losses import LossPolicy, StreamLoss, removed, short
from pocketmq.pipeline.topics.cluster_client import Bounds, ClusterClient
from pocketmq.pipeline.topics.settings import ReadSettings
from pocketmq.protocol.bodies.route import TopicRouteData
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.validation import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    is_dlq,
    is_retry,
    is_system_topic,
)


async def find_queues(
    client: ClusterClient, settings: ReadSettings, *, may_be_none: bool = False
) -> list[MessageQueue]:
    """Queues of the topics that the options name, as the name servers know them now.

    Args:
        client: Asks.
        settings: The options.
        may_be_none: Whether a pattern may match nothing yet, as a stream's may.

    Raises:
        OptionError: A topic or queue does not exist, or the pattern matches none.
    """
    options = settings.options
    topics = await _topics(client, settings)
    if not topics and not may_be_none:
        meant = near(settings.pattern, await client.topics())
        problem = f"no topic matches {settings.pattern!r}"
        raise options.error("subscribePattern", problem, near=meant)
    found = await asyncio.gather(*(client.read_queues(topic) for topic in topics))
    queues = [queue for each in found for queue in each]
    if settings.what == "assign":
        check_known(options, "assign", settings.assigned, queues)
        return settings.assigned
    return queues


async def present_queues(client: ClusterClient, settings: ReadSettings) -> list[MessageQueue]:
    """Those of the queues that can be read now; what is away is no error here.

    A broker without a master is away, though it may have slaves: their queues may end too early.
    """
    topics = await _topics(client, settings)
    routes = await asyncio.gather(*(client.route_now(topic) for topic in topics))
    queues = [
        queue
        for topic, route in zip(topics, routes, strict=True)
        if route is not None
        for queue in sorted(subscribe_queues(topic, _of_masters(route)))
    ]
    if settings.what == "assign":
        # Assigned queues that are away are handled elsewhere.
        return sorted(set(settings.assigned) & set(queues))
    return queues


def is_chosen(settings: ReadSettings, queue: MessageQueue, own: Collection[str]) -> bool:
    """Whether the options name a queue, as it is or by a pattern; it need not exist.

    Args:
        settings: The options.
        queue: The queue.
        own: Of `own_topics`.
    """
    if settings.what == "assign":
        return queue in settings.assigned
    if settings.what == "subscribePattern":
        return _matches(settings, queue.topic, own)
    return queue.topic in settings.topics


def _matches(settings: ReadSettings, topic: str, own: Collection[str]) -> bool:
    """Whether the pattern means a topic.

    Topics of the cluster itself hold what people's topics will have, have had or shall never have:
    half messages, delayed ones, retries, dead letters. They are meant only by a pattern in which
    their name stands, or of retries and dead letters the beginning of their name.
    """
    pattern = settings.pattern
    try:
        if re.fullmatch(pattern, topic) is None:
            return False
    except re.error as exc:
        problem = f"{pattern!r} is no regular expression: {exc}"
        raise settings.options.error("subscribePattern", problem) from None
    if is_retry(topic):
        return RETRY_PREFIX in pattern
    if is_dlq(topic):
        return DLQ_PREFIX in pattern
    return topic in pattern if is_system_topic(topic) or topic in own else True


def _of_masters(route: TopicRouteData) -> TopicRouteData:
    """The route without brokers that have no master."""
    brokers = [data for data in route.broker_datas if data.master_address() is not None]
    names = {data.broker_name for data in brokers}
    queues = [data for data in route.queue_datas if data.broker_name in names]
    return msgspec.structs.replace(route, broker_datas=brokers, queue_datas=queues)


async def _topics(client: ClusterClient, settings: ReadSettings) -> list[str]:
    """Topics that the options name."""
    if settings.what != "subscribePattern":
        return settings.topics or sorted({queue.topic for queue in settings.assigned})
    own = await own_topics(client, settings)
    return sorted(each for each in await client.topics() if _matches(settings, each, own))


async def own_topics(client: ClusterClient, settings: ReadSettings) -> set[str]:
    """Topics of the cluster itself that a pattern does not mean, as only the cluster knows."""
    return await client.own_topics() if settings.what == "subscribePattern" else set()


async def resolve(
    client: ClusterClient,
    settings: ReadSettings,
    position: Position,
    bounds: Mapping[MessageQueue, Bounds],
) -> Offsets:
    """Look up the offset that a position means in each queue.

    Raises:
        OptionError: It names a queue that does not exist, or a time after the last message.
    """
    options = settings.options
    queues = list(bounds)
    named = {**position.offsets, **position.moments_ms}
    # Checked before any request: otherwise a wrong name would look like a broker's wrong answer.
    check_known(options, position.option, named, queues)
    found = {
        queue: bounds[queue].low if position.default == EARLIEST else bounds[queue].high
        for queue in queues
    }
    for queue, offset in position.offsets.items():
        special = {EARLIEST: bounds[queue].low, LATEST: bounds[queue].high}
        found[queue] = special.get(offset, offset)
    if position.group:
        # For a group that has committed nothing, `default` applies.
        committed = await client.committed(position.group, queues)
        found |= {queue: offset for queue, offset in committed.items() if offset is not None}
    moments = dict(position.moments_ms)
    if position.moment_ms is not None:
        moments = dict.fromkeys(queues, position.moment_ms)
    for queue, offset in (await client.search(moments)).items():
        # Brokers answer with the end if no message is as late as the moment.
        if offset >= bounds[queue].high and position.must_exist:
            problem = f"{queue} has no message stored at {moments[queue]} ms or later; set "
            problem += "startingOffsetsByTimestampStrategy=latest to begin with the next one"
            raise options.error(position.option, problem)
        # A message may have arrived after the bounds were asked for.
        found[queue] = min(offset, bounds[queue].high)
    return found


def checked(
    settings: ReadSettings,
    offsets: Offsets,
    bounds: Mapping[MessageQueue, Bounds],
) -> Offsets:
    """Check that the offsets are stored; moves those that are not, which is logged, or raises.

    Raises:
        DataLossError: One is not, and `failOnDataLoss` is set.
    """
    found, losses = stored(offsets, bounds)
    LossPolicy(fails=settings.pull.fail_on_data_loss).judge(losses)
    return found


def stored(
    offsets: Offsets, bounds: Mapping[MessageQueue, Bounds]
) -> tuple[Offsets, list[StreamLoss]]:
    """The offsets, moved to what is stored of their queues; and what is lost by that."""
    found = {}
    losses = []
    for queue, offset in offsets.items():
        low, high = bounds[queue]
        found[queue] = min(max(offset, low), high)
        if offset < low:
            losses.append(removed(queue, offset, low, low))
        elif offset > high:
            losses.append(short(queue, offset, high, 0))
    return found, losses


async def narrow(
    client: ClusterClient,
    ranges: dict[MessageQueue, tuple[int, int]],
    bounds: RowFilter,
) -> dict[MessageQueue, tuple[int, int]]:
    """Narrow ranges to where rows within `bounds` can be; never too far.

    RocketMQ 4.9 answers a search by time with the nearest message, before or after. So the begin
    is searched for one millisecond earlier, and the end is one message later.
    """
    ids, numbers = bounds.range("queueId"), bounds.range("queueOffset")
    # Whole queues are dropped first, as each further question costs a request.
    kept = {
        queue: span
        for queue, span in ranges.items()
        if bounds.allows("topic", queue.topic)
        and bounds.allows("brokerName", queue.broker_name)
        and queue.queue_id in ids
    }
    times = bounds.times("storeTimestamp")
    lows = await _search(client, kept, None if times.low is None else times.low - 1)
    highs = await _search(client, kept, None if times.high is None else times.high + 1)
    narrowed = {}
    for queue, (low, high) in kept.items():
        low = max(low, numbers.low or 0, lows.get(queue, 0))
        if numbers.high is not None:
            high = min(high, numbers.high + 1)
        if queue in highs:
            high = min(high, highs[queue] + 1)
        if low < high:
            narrowed[queue] = (low, high)
    return narrowed


async def _search(
    client: ClusterClient, queues: Iterable[MessageQueue], moment_ms: int | None
) -> Offsets:
    # Without a bound, or before 1970, there is nothing to search for.
    if moment_ms is None or moment_ms < 0:
        return {}
    return await client.search(dict.fromkeys(queues, moment_ms))
