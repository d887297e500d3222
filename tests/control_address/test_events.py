"""Events over HTTP, and a clock that runs by itself."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from pocketmq.cluster.cli.main import main
from pocketmq.cluster.control_address.client import ControlClient
from pocketmq.cluster.control_address.declarations import Clock, Run
from pocketmq.cluster.control_address.event_feed import framed
from pocketmq.cluster.recordings.reader import open_recording
from pocketmq.operation.events.roles import RoleStopped
from pocketmq.runtime.errors import PocketMQError
from pocketmq.testing import Cluster, start_cluster
from support.eventually import PATIENCE_S, eventually


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with start_cluster(clock="manual") as started:
        yield started


class Listener:
    """Reads `/events`."""

    def __init__(self, cluster: Cluster) -> None:
        parts = urlsplit(cluster.control_url)
        self._connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=PATIENCE_S
        )
        self._connection.request("GET", "/events")
        self._answer = self._connection.getresponse()
        assert self._answer.headers["content-type"].startswith("text/event-stream")
        assert self._answer.readline() == b": events\n"

    def until(self, name: str, **fields: Any) -> dict[str, Any]:
        """The next event of this name with these fields."""
        event = ""
        while True:
            line = self._answer.readline().decode().rstrip()
            if line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line.startswith("data: ") and event == name:
                data: dict[str, Any] = json.loads(line.removeprefix("data: "))
                if fields.items() <= data.items():
                    return data

    def close(self) -> None:
        self._connection.close()


async def ask_route(cluster: Cluster, topic: str) -> None:
    async with cluster.control.admin() as admin:
        await admin.route(topic)


def test_what_happens_is_told_while_somebody_listens(cluster: Cluster) -> None:
    sync = cluster.sync
    topic = sync.create_topic("orders", queues=1)
    assert not cluster.control.events.is_watched
    listener = Listener(cluster)
    try:
        began_ms = sync.time_ms
        sync.advance(7)
        moved = listener.until("clock-moved")
        assert moved["from_ms"] == began_ms
        with sync.consumer("billing", topic):
            listener.until("member-joined", group="billing")
            sync.group("billing").assigned(limit_s=PATIENCE_S)
            owned = listener.until("rebalanced", group="billing", queues=["orders broker-a/0"])
        left = listener.until("member-left", group="billing")
        assert left["client_id"] == owned["client_id"]
        cluster.faults.add("fail", code="GET_ROUTEINFO_BY_TOPIC", times=1)
        with pytest.raises(PocketMQError, match="a fault rule says so"):
            cluster.thread.result(ask_route(cluster, topic))
        fired = listener.until("fault-fired")
        assert (fired["rule"], fired["do"], fired["code"]) == ("r1", "fail", 105)
        cluster.faults.clear()
        sync.kill("broker-a")
        assert listener.until("role-stopped")["how"] == "ended"
        listener.until("broker-forgotten", broker="broker-a")
        sync.restart("broker-a")
        listener.until("role-started", role="broker-a")
    finally:
        listener.close()


async def test_a_clock_runs_by_itself_until_it_is_frozen(cluster: Cluster) -> None:
    client = ControlClient(cluster.control_url)
    ran = await asyncio.to_thread(client.post, "/clock/run", Clock, Run(600))
    assert ran.speed == 600
    await eventually(lambda: cluster.time_ms > ran.now_ms + 60_000, "a minute has passed")
    stood = await asyncio.to_thread(client.post, "/clock/freeze", Clock)
    assert (stood.speed, cluster.time_ms) == (0, stood.now_ms)
    assert stood.next[0].what
    assert (await asyncio.to_thread(client.get, "/clock", Clock)).now_ms == stood.now_ms


def test_listening_ends_in_time_also_when_nothing_is_told() -> None:
    def answer_and_be_silent() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n:\n\r\n")
            connection.recv(4096)  # returns when the other end has closed

    with socket.create_server(("127.0.0.1", 0)) as listening:
        silent = threading.Thread(target=answer_and_be_silent)
        silent.start()
        client = ControlClient(f"http://127.0.0.1:{listening.getsockname()[1]}")
        assert list(client.lines("/events", most_s=0.2)) == [b":\n"]
        silent.join()


@pytest.mark.parametrize("seconds", ["0", "1e-9"])
def test_a_recording_of_no_time_is_whole(cluster: Cluster, tmp_path: Path, seconds: str) -> None:
    recording, page = tmp_path / "none.jsonl", tmp_path / "none.html"
    command = ["watch", "--control", cluster.control_url, "--seconds", seconds]
    assert main([*command, "--record", str(recording), "--export", str(page)]) == 0
    assert (open_recording(recording).problems, page.stat().st_size > 0) == ([], True)


class Typed(io.StringIO):
    """Standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_reset_asks_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_cluster() as own:
        reset = ["wipe", "--control", own.control_url]
        question = f"Remove all data in {own.data}? [y/N] "
        refusal = "pocketmq: nothing was removed; answer y, or add --yes\n"
        for typed, words, status, err in (
            (Typed("n\n"), (), 1, question + refusal),
            (Typed("y\n"), (), 0, question),
            (Typed(), ("--yes",), 0, ""),
            (io.StringIO(), (), 0, ""),
        ):
            own.sync.create_topic("orders")
            monkeypatch.setattr("sys.stdin", typed)
            assert main([*reset, *words]) == status
            assert capsys.readouterr().err == err
            main(["topic", "list", "-n", own.nameservers])
            assert ("orders" in capsys.readouterr().out) == (status == 1)


def test_an_event_is_framed_for_a_browser() -> None:
    event = RoleStopped(1, "cluster", 2, 3, role="broker-a", how="frozen")
    assert framed(event, 3) == (
        b"id: 3\nevent: role-stopped\n"
        b'data: {"event":"role-stopped","at_ms":1,"by":"cluster","seq":2,"real_us":3,'
        b'"role":"broker-a","how":"frozen"}\n\n'
    )


def test_the_clock_is_steered_by_commands(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    control = ["--control", cluster.control_url]
    assert main(["clock", "next", *control]) == 0
    fired, now = capsys.readouterr().out.splitlines()[-2:]
    assert fired.startswith("+")
    assert now.endswith("Z")
    at_ms = cluster.sync.time_ms + 5_000
    assert main(["clock", "set", str(at_ms), *control]) == 0
    assert cluster.sync.time_ms == at_ms
    assert main(["clock", "run", "--speed", "2", *control]) == 0
    assert main(["clock", "freeze", *control]) == 0
    out = capsys.readouterr().out
    assert "runs at x2" in out
    assert "stands still" in out
    assert main(["clock", "set", "yesterday", *control]) == 1
    assert "write 2030-01-01T00:00:00" in capsys.readouterr().err
