"""What a nameserver that stops does, step by step; the parts that it stops only record that."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import pytest

from support.eventually import eventually
from support.nameserver_rig import NameServerRig


@pytest.fixture
def steps(rig: NameServerRig, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is stopped from now on, in this order."""
    done: list[str] = []

    def step(name: str, really: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        async def stop() -> None:
            done.append(name)
            await really()

        return stop

    server = rig.server
    for name in ("scan", "kv_writer", "options_writer", "grpc_door", "notices", "control"):
        part = getattr(server, f"_{name}")
        monkeypatch.setattr(part, "stop", step(name, part.stop))
    monkeypatch.setattr(server._listener, "close", step("port", server._listener.close))  # type: ignore[union-attr]
    return done


async def test_a_nameserver_stops_its_parts_so_that_what_is_saved_is_answered(
    rig: NameServerRig, steps: list[str]
) -> None:
    await rig.server.stop()
    assert steps == [
        "scan",
        *("kv_writer", "options_writer"),  # before the port closes: who changed it is answered
        "grpc_door",  # nobody is passed on by a port that closes
        "port",
        *("kv_writer", "options_writer"),  # a change that came meanwhile
        "notices",
        "control",
    ]


async def test_a_connection_that_closes_while_the_nameserver_stops_drops_no_route(
    rig: NameServerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await rig.broker()
    await broker.register()
    [live] = rig.server.table.live.expired(math.inf)
    stop_scan = rig.server._scan.stop

    async def hang_up() -> None:
        broker.channel.close()
        await eventually(lambda: not live.channel.is_open, "the nameserver sees it close")
        await stop_scan()

    monkeypatch.setattr(rig.server._scan, "stop", hang_up)  # its first step
    await rig.server.stop()
    assert rig.server.table.route("TopicA") is not None
