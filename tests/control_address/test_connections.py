"""Connections that ask nothing whole do not keep out who asks something."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from pocketmq.cluster.control_address.client import ControlClient
from pocketmq.cluster.control_address.declarations import Health
from pocketmq.cluster.control_address.server import ControlServer
from pocketmq.cluster.http_server.http_connections import (
    BODY_LIMIT_S,
    HEAD_LIMIT_S,
    MAX_REQUESTS,
    MAX_UNKNOWN,
    READ_LIMIT_S,
)
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.testing import Cluster, start_cluster
from support.eventually import eventually

TOKEN = "secret"
HALF_HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HALF_BODY = (
    b"POST /seed HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n"
    b"Authorization: Bearer secret\r\n\r\n{"
)
STRANGER = (
    b"POST /seed HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n"
    b"Authorization: Bearer guessed\r\n\r\n{"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with start_cluster() as started:
        yield started


@contextmanager
def serving(cluster: Cluster, token: str | None = TOKEN) -> Iterator[tuple[ControlServer, Clock]]:
    async def serve() -> tuple[ControlServer, ManualClock]:
        clock = ManualClock(0)
        made = ControlServer(cluster.control, port=0, token=token, clock=clock)
        return await made.__aenter__(), clock

    server, clock = cluster.thread.result(serve())
    try:
        yield server, Clock(cluster, clock)
    finally:
        cluster.thread.result(server.__aexit__(None, None, None))


class Clock:
    """That of the server, which runs in the cluster's thread."""

    def __init__(self, cluster: Cluster, clock: ManualClock) -> None:
        self._cluster = cluster
        self._clock = clock

    def advance(self, seconds: float) -> None:
        self._cluster.thread.result(
            self._clock.move_to(self._clock.time_ms() + round(seconds * 1000))
        )


@contextmanager
def connections(server: ControlServer, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=100)
            made.append(stack.enter_context(connection))
            connection.sendall(sent)
        yield made


def has_ended(connection: socket.socket) -> bool:
    """Whether the server hangs up; waits for it."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


def until_all_end(held: list[socket.socket], clock: Clock, limit_s: float) -> None:
    """Move time by a limit again for those that the server had not met before."""
    for each in held:
        each.settimeout(0.1)
        for _ in range(600):
            try:
                assert has_ended(each)
                break
            except TimeoutError:
                clock.advance(limit_s)
        else:
            raise AssertionError("it is held for good")


@pytest.mark.parametrize(
    ("sent", "token"),
    [
        pytest.param(HALF_HEAD, TOKEN, id="half a head"),
        pytest.param(HALF_HEAD, None, id="half a head, no token wanted"),
        pytest.param(STRANGER, TOKEN, id="a head without the token"),
        pytest.param(HALF_BODY, None, id="half a body, no token wanted"),
        pytest.param(b"", TOKEN, id="nothing"),
    ],
)
def test_110_that_hold_half_a_request_keep_nobody_out(
    cluster: Cluster, sent: bytes, token: str | None
) -> None:
    with serving(cluster, token) as (server, clock), connections(server, 110, sent) as held:
        for _ in range(3):
            assert ControlClient(server.url, token).get("/healthz", Health) == Health()
        ran = subprocess.run(
            [sys.executable, "-m", "pocketmq.cluster.cli.main", "ps", "--control", server.url],
            capture_output=True, text=True, timeout=200,
            env=os.environ | {"POCKETMQ_CONTROL_TOKEN": token or ""},
        )  # fmt: skip
        assert (ran.returncode, ran.stderr) == (0, "")
        assert "broker-a" in ran.stdout
        assert all(map(has_ended, held[: 110 - MAX_UNKNOWN]))  # for those that came later
        until_all_end(held, clock, max(HEAD_LIMIT_S, BODY_LIMIT_S) + 1)


async def test_a_byte_now_and_then_does_not_make_a_head_live_longer(cluster: Cluster) -> None:
    with serving(cluster) as (server, clock), connections(server, 1, HALF_HEAD) as (held,):
        await eventually(lambda: server.connections.unknown == 1, "it is accepted")
        for _ in range(2):
            clock.advance(HEAD_LIMIT_S / 2 + 1)
            try:
                held.sendall(b"X")
            except OSError:
                break
        assert has_ended(held)


def test_half_bodies_of_who_has_the_token_end_as_well(cluster: Cluster) -> None:
    with serving(cluster) as (server, clock):
        with connections(server, MAX_REQUESTS, HALF_BODY) as held:
            until_all_end(held, clock, BODY_LIMIT_S + 1)
        assert ControlClient(server.url, TOKEN).get("/healthz", Health) == Health()


def test_a_connection_serves_one_request_after_another(cluster: Cluster) -> None:
    whole = HALF_HEAD + b"Authorization: Bearer secret\r\n\r\n"
    with serving(cluster) as (server, clock), connections(server, 1, b"") as (held,):
        for _ in range(3):
            held.sendall(whole[:20])
            clock.advance(HEAD_LIMIT_S - 1)
            held.sendall(whole[20:])
            told = b""
            while not told.endswith(b"}"):
                told += held.recv(4096)
            assert told.startswith(b"HTTP/1.1 200 OK")


async def test_who_reads_no_answer_is_hung_up_on(cluster: Cluster) -> None:
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with serving(cluster, None) as (server, clock), socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        held.settimeout(100)
        held.connect(("127.0.0.1", server.port))
        held.sendall(asked * 400)  # more than the system's buffers take
        await eventually(lambda: server.connections.known == 1, "its first request is read")

        def has_lost_it() -> bool:
            clock.advance(READ_LIMIT_S + 1)
            return server.connections.known + server.connections.unknown == 0

        await eventually(has_lost_it, "the connection is closed")
        assert ControlClient(server.url).get("/healthz", Health) == Health()


def test_a_stream_that_nobody_ends_is_ended_with_the_server(cluster: Cluster) -> None:
    # From Python 3.12 on, stopping waited without end for who watched; before, it left them open.
    with serving(cluster) as (server, _):
        watcher = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        watcher.sendall(
            b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer secret\r\n\r\n"
        )
        assert watcher.recv(15) == b"HTTP/1.1 200 OK"
    with watcher, suppress(ConnectionResetError):
        while watcher.recv(4096):
            pass
