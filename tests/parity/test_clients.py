"""PocketMQ's client and RocketMQ's Java client 5.3.3 ask a scripted peer for the same, in the same
order, after a start, a changed route, a lost connection, an overload answer and a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from parity.clients import OurClients, TheirClients, their_clients
from parity.ledger import Ledger, read
from parity.peer import Peer
from parity.plays import Play, Side
from parity.scenarios import SCENARIOS

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ's client
]


async def test_both_clients_ask_the_same(tmp_path: Path) -> None:
    sample = [name for name, each in SCENARIOS.items() if each.sample]
    _fail_with(await differing(sample, tmp_path))


@pytest.mark.nightly
async def test_both_clients_ask_the_same_in_every_scenario(tmp_path: Path) -> None:
    ledger = read(of="client")
    _fail_with(await differing(SCENARIOS, tmp_path, ledger))
    stale = [f"{entry.code} {entry.field}" for entry in ledger.stale()]
    assert stale == [], "these do not differ any more: take them out of ledger.toml"


def _fail_with(story: str) -> None:
    if story:
        pytest.fail(f"{story}\n(tests/parity/README.md says what to do)", pytrace=False)


async def differing(names: Iterable[str], folder: Path, ledger: Ledger | None = None) -> str:
    """The stories of scenarios that differ, each time in the same places; they run side by side."""
    told: list[str] = []
    known = ledger or read(of="client")
    async with their_clients(folder) as theirs:

        async def compare(name: str) -> None:
            first = await played(name, 1, theirs, folder, known)
            if not first.unexplained:
                return
            again = await played(name, 2, theirs, folder, known)  # or a thread was late
            kinds = {each.kind for each in first.unexplained}
            if kinds & {each.kind for each in again.unexplained}:
                told.extend(again.told)

        async with asyncio.TaskGroup() as tasks:
            for name in names:
                tasks.create_task(compare(name))
    return "\n".join(told)


async def played(name: str, run: int, theirs: TheirClients, folder: Path, ledger: Ledger) -> Play:
    """One scenario, played once."""
    scenario, instance = SCENARIOS[name], f"{name.replace(' ', '-')}-{run}"
    peers = Peer(scenario.brokers), Peer(scenario.brokers)
    ours = OurClients(folder / instance)
    play = Play(name, Side(ours, peers[0], instance), Side(theirs, peers[1], instance), ledger)
    try:
        for peer in peers:
            await peer.start()
            scenario.prepare(peer)
        await scenario.play(play)
    finally:
        await ours.stop()
        for peer in peers:
            await peer.stop()
    return play
