"""Both clusters in the same state, all runs of `mqadmin` on both, and what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from parity.brokers import Side, Sides, both_brokers, both_controllers
from parity.catalogue import catalogue
from parity.clients import OurClients
from parity.mqadmin import runs
from parity.mqadmin.fields import Difference
from parity.mqadmin.ledger import read
from parity.mqadmin.play import Stage, play
from parity.mqadmin.runs import NO_SUBCOMMAND, Run
from parity.mqadmin.tool import started
from parity.pairs import Line
from pocketmq.runtime.clock import SystemClock

LOCAL = "org.apache.rocketmq.auth.{0}.provider.Local{1}MetadataProvider"
SETTINGS = {
    "authenticationMetadataProvider": LOCAL.format("authentication", "Authentication"),
    "authorizationMetadataProvider": LOCAL.format("authorization", "Authorization"),
}
"""Users and rules are kept, as in a cluster that will ask for them; without this each of the 14
subcommands only says that they are not."""
TRIES, PAUSE_S = 120, 0.5
"""Until both sides have told of the clients."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the runs showed.

    Attributes:
        commands: the subcommands that ran.
        explained: subcommand to the reasons for which its output differs, as the ledger says them.
        unexplained: differences that no entry explains; each begins with its subcommand.
        stale: fields of entries that no difference has met.
    """

    commands: frozenset[str]
    explained: dict[str, str]
    unexplained: list[str]
    stale: list[str]

    @property
    def passed(self) -> frozenset[str]:
        """Subcommands with the same exit status and the same fields in every run."""
        wrong = {each.split(" ", 1)[0] for each in self.unexplained}
        return self.commands - wrong - set(self.explained)


async def whole(folder: Path) -> Report:
    """Every subcommand; takes minutes, and needs Java.

    Args:
        folder: for all files; what each run printed is in `outputs` afterwards.

    Raises:
        AssertionError: RocketMQ lists a subcommand that no run uses, or a server did not start.
    """
    async with _stages(folder, controllers=True) as (ours, theirs):
        listed = set(await theirs.tool.names())
        assert listed == set(runs.SUBCOMMANDS), listed ^ set(runs.SUBCOMMANDS)
        return await _played(ours, theirs, folder, lambda _run: True)


async def sample(folder: Path) -> Report:
    """What CI runs: those with `in_ci`."""
    async with _stages(folder, controllers=False) as (ours, theirs):
        return await _played(ours, theirs, folder, lambda run: run.in_ci)


async def _played(
    ours: Stage, theirs: Stage, folder: Path, wanted: Callable[[Run], bool]
) -> Report:
    found: list[Difference] = []
    ledger = read()
    outputs = folder / "outputs"

    async def run(*parts: Sequence[Run]) -> None:
        chosen = [each for part in parts for each in part if wanted(each)]
        found.extend(await play(chosen, ours, theirs, ledger, outputs))

    await run(runs.TOPICS, runs.GROUPS, runs.SENDS)
    async with _clients(ours, theirs, folder):
        # The first that are asked need the most time until queues are filled; meanwhile they are.
        await run(runs.TOLD, runs.CLIENTS)
    await run(runs.OFFSETS, runs.BROKERS, runs.EXPORTS, runs.ACCESS)
    if "a" in ours.noted:
        await run(runs.CONTROLLERS)
    await run(runs.DELETIONS, runs.LAST)
    wrong = {each.command for each in found}
    return Report(
        commands=frozenset(each.command for each in runs.ALL if wanted(each)) - {NO_SUBCOMMAND},
        explained={name: why for name, why in ledger.reasons().items() if name not in wrong},
        unexplained=[str(each) for each in found],
        stale=ledger.stale(),
    )


@asynccontextmanager
async def _stages(folder: Path, *, controllers: bool) -> AsyncIterator[tuple[Stage, Stage]]:
    """Both sides with their tools; the tools start while the brokers do."""
    shutil.rmtree(folder / "files", ignore_errors=True)
    async with contextlib.AsyncExitStack() as stack:
        brokers, ours, theirs, asked = await asyncio.gather(
            asyncio.to_thread(stack.enter_context, both_brokers(folder / "brokers", SETTINGS)),
            stack.enter_async_context(started(folder / "tool-ours")),
            stack.enter_async_context(started(folder / "tool-theirs")),
            asyncio.to_thread(_enter_controllers, stack, folder, controllers),
        )
        stages = (
            Stage(ours, brokers.ours, folder / "files" / "ours"),
            Stage(theirs, brokers.theirs, folder / "files" / "theirs"),
        )
        for stage, controller in zip(stages, asked, strict=False):
            stage.noted["a"] = controller.broker
            line = Line(controller.broker)
            stack.push_async_callback(line.close)
            await _join(line)
        yield stages


def _enter_controllers(
    stack: contextlib.AsyncExitStack, folder: Path, wanted: bool
) -> tuple[Side, ...]:
    if not wanted:
        return ()
    both: Sides = stack.enter_context(both_controllers(folder / "controllers"))
    return both.ours, both.theirs


async def _join(line: Line) -> None:
    """Two replicas of `shop-a` register, live, and the first is elected."""
    codes = catalogue().codes
    for number in (1, 2):
        who = {
            "clusterName": "shop", "brokerName": "shop-a", "brokerId": str(number),
            "appliedBrokerId": str(number), "brokerAddress": f"10.0.0.{number}:10911",
            "brokerAddr": f"10.0.0.{number}:10911", "registerCheckCode": f"{number};1",
            "epoch": "1", "maxOffset": "100", "confirmOffset": "50",
            "heartbeatTimeoutMills": "600000", "electionPriority": "1", "designateElect": "false",
        }  # fmt: skip
        for name in ("CONTROLLER_APPLY_BROKER_ID", "CONTROLLER_REGISTER_BROKER",
                     "BROKER_HEARTBEAT", "CONTROLLER_ELECT_MASTER"):  # fmt: skip
            await line.ask(codes[name], who)


@asynccontextmanager
async def _clients(ours: Stage, theirs: Stage, folder: Path) -> AsyncIterator[None]:
    """A consumer and a producer at each side, PocketMQ's own, which then differ in nothing."""
    clients = OurClients(folder / "clients")
    try:
        for number, stage in enumerate((ours, theirs)):
            shared = {
                "nameserver": stage.side.nameserver,
                "instance": f"till{number}",
                "persist_ms": "500",
            }
            await _told(clients, "producer", f"producer-{number}", group="sellers", **shared)
            await _told(
                clients, "send", f"producer-{number}", topic="Orders", body="sold",
                how="queue", broker="broker-a",
            )  # fmt: skip
            await _told(
                clients, "consumer", f"consumer-{number}", group="clerks", topic="Orders",
                **{"from": "first"}, **shared,
            )  # fmt: skip
            await _told(clients, "go", f"consumer-{number}", times="10000")
            stage.noted["now"] = str(SystemClock().time_ms())
            stage.noted["client"] = f"127.0.0.1@till{number}"
        await asyncio.gather(*(_consumed(each) for each in (ours, theirs)))
        yield
    finally:
        await clients.stop()


async def _told(clients: OurClients, verb: str, name: str, **options: str) -> None:
    answer = await clients.tell(verb, name, **options)
    assert answer == "ok", answer


async def _consumed(stage: Stage) -> None:
    """Until the group has read what there is, and has said so."""
    asked = Run("consumerProgress -g clerks")
    for _ in range(TRIES):
        printed = (await stage.run(asked)).printed
        # Of its retry topic it tells first.
        if re.search(r"^Orders ", printed, re.M) and re.search(r"Diff Total: 0\b", printed):
            return
        await SystemClock().sleep(PAUSE_S)
    raise AssertionError(f"{stage.side.name}: not consumed:\n{printed}")
