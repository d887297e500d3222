"""`docs/console.md` does what it shows: its commands are run as a reader would."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path

import pytest

from pocketmq.client import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
)
from pocketmq.testing import Cluster
from support.console import Console
from support.eventually import PATIENCE_MS, PATIENCE_S, eventually

PAGE = Path(__file__).parents[2] / "docs" / "console.md"


def steps() -> list[tuple[str, list[str]]]:
    """Each command of the page with the lines below it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


async def _story(cluster: Cluster) -> None:
    """Two orders are billed, and the third is given up."""
    topic = await cluster.create_topic("orders", queues=1)
    consumed: list[str | None] = []

    def bill(
        messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        context.delay_level_when_next_consume = -1
        consumed.extend(each.keys for each in messages)
        done = messages[0].keys != "order-17"
        return (
            ConsumeConcurrentlyStatus.CONSUME_SUCCESS
            if done
            else ConsumeConcurrentlyStatus.RECONSUME_LATER
        )

    billing = PushConsumer(
        "billing", nameservers=cluster.nameservers, consume_from_where=ConsumeFromWhere.FIRST_OFFSET
    )
    billing.subscribe(topic)
    billing.listen_batch(bill)
    async with (
        billing,
        Producer("shop", nameservers=cluster.nameservers, send_timeout_ms=PATIENCE_MS) as producer,
    ):
        for number in (15, 16, 17):
            message = Message(topic, b'{"total": %d}' % number, tags="new", keys=f"order-{number}")
            await producer.send(message)
        await eventually(lambda: len(consumed) == 3, "all orders were seen")
        await cluster.group("billing").consumed_all(limit_s=PATIENCE_S)


def test_the_page_shows_what_happens(
    pocketmq_cluster: Cluster,
    console: Console,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asyncio.run(_story(pocketmq_cluster))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "pocketmq.cluster.cli.common.output._default", lambda: "table"
    )  # a terminal
    variables: dict[str, str] = {}
    for command, lines in steps():
        named = re.fullmatch(r"(\w+)=\$\((.*)\)", command)
        words = shlex.split(named[2] if named else command)
        words = [variables[word[1:]] if word.startswith("$") else word for word in words]
        assert words.pop(0) == "pocketmq"
        said = console(*words)
        assert said.status == 0, f"{command}: {said.err}"
        if named:
            variables[named[1]] = said.out
            continue
        shown = _narrow("\n".join(lines).replace("7F...", "..."))
        wanted = ".*".join(re.escape(part) for part in shown.split("..."))
        assert re.fullmatch(wanted, _narrow(said.out).rstrip("\n"), re.DOTALL), (
            f"{command}:\n{said.out}"
        )


def _narrow(text: str) -> str:
    """The width of a column depends on ids that the page leaves out."""
    return re.sub(" +", " ", text)
