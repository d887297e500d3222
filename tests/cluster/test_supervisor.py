"""What a supervisor does with its processes; the roles are stubs that only answer for a clock."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from pocketmq.cluster.errors import ProcessStartError, WrongStateError
from pocketmq.cluster.process import ChildProcess, State
from pocketmq.cluster.spec import ClusterSpec, ProcessSpec
from pocketmq.cluster.supervisor import Supervisor
from support.eventually import PATIENCE_S, eventually

pytestmark = pytest.mark.cluster

STUB = str(Path(__file__).with_name("role_stub.py"))


class StubSpec(ProcessSpec):
    __slots__ = ()

    def command(self, *more: str) -> list[str]:
        return [sys.executable, STUB, *self.arguments, *more]


def stub(name: str, *arguments: str) -> StubSpec:
    return StubSpec("client", name, "stub", ("--name", name, *arguments))


@asynccontextmanager
async def supervisor(
    tmp_path: Path, *stubs: StubSpec, on_ended: Callable[[ChildProcess], None] | None = None
) -> AsyncIterator[Supervisor]:
    spec = ClusterSpec((), (), tmp_path, "manual", 1_700_000_000_000)
    cluster = Supervisor(spec, on_ended=on_ended)
    async with cluster:
        for each in stubs:
            await cluster.add(each)
        yield cluster


async def test_stopping_leaves_no_process_behind(tmp_path: Path) -> None:
    async with supervisor(tmp_path, stub("a"), stub("b")) as cluster:
        pids = [process.pid for process in cluster.processes]
        assert all(psutil.pid_exists(pid) for pid in pids)
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert [process.status for process in cluster.processes] == [0, 0]


async def test_clocks_move_in_lock_step(tmp_path: Path) -> None:
    async with supervisor(tmp_path, stub("a"), stub("b")) as cluster:
        await cluster.advance(seconds=126)
        for name in ("a", "b"):
            assert (await cluster.control(name).status())["beats"] == "12"
            assert await cluster.control(name).time_ms() == 1_700_000_126_000


async def test_a_frozen_process_is_left_out_of_the_step_and_its_time_stands_still(
    tmp_path: Path,
) -> None:
    async with supervisor(tmp_path, stub("a"), stub("b")) as cluster:
        await cluster["b"].freeze()
        assert cluster["b"].state is State.FROZEN
        assert await cluster.advance(seconds=126) == []
        cluster["b"].thaw()
        assert await cluster.control("a").time_ms() == 1_700_000_126_000
        assert await cluster.control("b").time_ms() == 1_700_000_000_000


async def test_a_late_process_starts_where_the_clocks_stand(tmp_path: Path) -> None:
    async with supervisor(tmp_path, stub("a")) as cluster:
        await cluster.advance(seconds=3600)
        await cluster.add(stub("b"))
        assert await cluster.control("b").time_ms() == 1_700_003_600_000


async def test_time_does_not_go_back_when_no_process_is_left_to_tell_it(tmp_path: Path) -> None:
    async with supervisor(tmp_path, stub("a")) as cluster:
        await cluster.advance(seconds=3600)
        await cluster["a"].kill()
        await cluster.restart("a")
        assert await cluster.control("a").time_ms() == 1_700_003_600_000
        cluster.note_time(1_700_007_200_000)  # as whoever steers the cluster does
        await cluster["a"].kill()
        await cluster.restart("a")
        assert await cluster.control("a").time_ms() == 1_700_007_200_000


async def test_a_killed_process_restarts_on_its_port(tmp_path: Path) -> None:
    async with supervisor(tmp_path, stub("a")) as cluster:
        before = (cluster["a"].address, cluster["a"].pid)
        await cluster["a"].kill()
        assert cluster["a"].status == -signal.SIGKILL
        await cluster.restart("a")
        assert cluster["a"].address == before[0]
        assert cluster["a"].pid != before[1]


async def test_the_port_of_a_killed_process_is_kept_for_its_restart(tmp_path: Path) -> None:
    async with supervisor(tmp_path, stub("a")) as cluster:
        await cluster["a"].kill()
        place = ("127.0.0.1", cluster["a"].port)

        def is_kept() -> bool:
            with socket.socket() as other:
                try:
                    other.bind(place)
                except OSError:
                    return True
            return False

        await eventually(is_kept, "the system gives it to nobody")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(place)
        await cluster.restart("a")
        await cluster["a"].kill()
        await cluster.restart("a")
        assert cluster["a"].port == place[1]
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(place)


async def test_a_frozen_process_is_stopped_in_order(tmp_path: Path) -> None:
    async with supervisor(tmp_path, stub("a")) as cluster:
        await cluster["a"].freeze()
        with pytest.raises(WrongStateError, match="a is frozen and cannot freeze"):
            await cluster["a"].freeze()
    assert cluster["a"].status == 0


async def test_a_process_that_ignores_the_stop_is_killed(tmp_path: Path) -> None:
    async with supervisor(tmp_path, stub("a", "--mode", "stubborn")) as cluster:
        assert await cluster["a"].stop(limit_s=0.2) == -signal.SIGKILL


async def test_a_second_stop_lets_the_first_end_in_order(tmp_path: Path) -> None:
    os.mkfifo(saved := tmp_path / "saved")
    async with supervisor(tmp_path, stub("a", "--mode", f"saves:{saved}")) as cluster:
        first = asyncio.create_task(cluster["a"].stop())
        pipe = await asyncio.to_thread(saved.open, "wb")  # the stop has begun
        second = asyncio.create_task(cluster["a"].stop())
        await cluster.control("a").time_ms()  # a second signal would have ended it by now
        pipe.close()
        assert await asyncio.gather(first, second) == [0, 0]


async def test_an_end_that_nobody_asked_for_is_told(tmp_path: Path) -> None:
    ended: list[ChildProcess] = []
    async with supervisor(tmp_path, stub("a"), on_ended=ended.append) as cluster:
        os.kill(cluster["a"].pid, signal.SIGKILL)
        await eventually(lambda: [process.name for process in ended] == ["a"], "the end is told")
        await cluster["a"].kill()
    assert len(ended) == 1


async def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with supervisor(tmp_path) as cluster:
            with pytest.raises(ProcessStartError, match=rf"a cannot start: port {port} .*taken"):
                await cluster.add(stub("a", "--port", str(port)))


async def test_a_cluster_goes_on_without_a_proxy_that_nobody_asked_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        proxy = StubSpec("proxy", "proxy-1", "stub", ("--name", "proxy-1", "--port", port))
        spec = ClusterSpec((), (), tmp_path, "manual", 1_700_000_000_000, proxies=(proxy,))
        why: list[str] = []
        ended: list[ChildProcess] = []
        told = Supervisor(spec, on_ended=ended.append, on_no_proxy=lambda exc: why.append(str(exc)))
        async with told as cluster:
            assert cluster.processes == []
            assert cluster.spec.proxies == ()
            await cluster.add(stub("a"))
            assert await cluster.advance(seconds=1) == []
        assert [port in each and "proxy-1 cannot start" in each for each in why] == [True]
        assert ended == []
        with pytest.raises(ProcessStartError, match="proxy-1 cannot start"):
            await Supervisor(spec).start()


async def test_a_process_that_says_nothing_is_killed_after_the_limit(tmp_path: Path) -> None:
    command = [sys.executable, STUB, "--mode", "silent"]
    process = ChildProcess("a", "client", command, log_path=tmp_path / "a.log")
    with pytest.raises(ProcessStartError, match="a was not ready in time"):
        await process.start(limit_s=1.0)
    assert process.state is State.ENDED


async def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, STUB, "--mode", "silent"]
    process = ChildProcess("a", "client", command, log_path=tmp_path / "a.log")
    starting = asyncio.create_task(process.start())
    await eventually(lambda: process.is_alive, "it runs")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not psutil.pid_exists(process.pid)


async def test_what_a_process_prints_later_goes_to_its_log_or_to_its_reader(tmp_path: Path) -> None:
    lines: list[str] = []
    async with supervisor(tmp_path, stub("a")) as cluster:
        await cluster.add(stub("b"), on_line=lines.append)
        await eventually(lambda: lines == ["after ready"], "the reader has the line")
        await eventually(lambda: "after ready" in cluster["a"].log_tail(), "the log has the line")


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_children_die_with_a_supervisor_that_is_killed_also_frozen_ones(
    tmp_path: Path, loop: str
) -> None:
    code = (
        "import asyncio, sys; sys.path[:0] = [{tests!r}, {here!r}]\n"
        "from pathlib import Path\n"
        "from test_supervisor import supervisor, stub\n"
        "from pocketmq.runtime import logs; logs.configure('warning')\n"
        "async def main():\n"
        "    async with supervisor(Path({tmp!r}), stub('a'), stub('b')) as cluster:\n"
        "        print(*(process.pid for process in cluster.processes), flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    here = Path(__file__).parent
    text = code.format(tests=str(here.parent), here=str(here), tmp=str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"POCKETMQ_LOOP": loop},
    ) as dying:
        assert dying.stdout is not None
        children = [psutil.Process(int(pid)) for pid in dying.stdout.readline().split()]
        assert len(children) == 2
        children[1].suspend()
        dying.kill()
        _, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
    for left in alive:
        left.kill()
    assert alive == []


def test_a_process_that_ended_without_a_word_may_have_found_a_full_disk() -> None:
    silent = ProcessStartError("a", 1, "", Path("/full/a.log"))
    assert str(silent) == "a ended with status 1; its log /full/a.log is empty: is the disk full?"
    slow = ProcessStartError("a", None, "", Path("/full/a.log"))
    assert str(slow) == "a was not ready in time; its log is /full/a.log"
