"""A role that was forked is like one that was executed, whoever is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pocketmq.cluster.errors import ProcessStartError
from pocketmq.cluster.forking import adoption, fork_server
from pocketmq.cluster.forking.fork_server import SWITCH, ForkServer, shared_server
from pocketmq.cluster.forking.request import IMPORTS, OPTIONAL
from pocketmq.cluster.process import ChildProcess
from support.eventually import eventually

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(sys.platform != "linux", reason="roles are forked on Linux only"),
]


def nameserver(folder: Path, *more: str) -> ChildProcess:
    command = [sys.executable, "-m", "pocketmq.nameserver", "--port", "0", "--exit-with-parent"]
    command += ["--kv-config-path", str(folder / "kv.json"), *more]
    return ChildProcess("one", "nameserver", command, log_path=folder / "one.log")


def server() -> ForkServer:
    found = shared_server()
    assert found is not None
    return found


def was_forked(process: ChildProcess) -> bool:
    """Its program was started as the fork server: only what `ps` shows was changed."""
    own = psutil.Process(process.pid).memory_maps(grouped=False)
    return any("uvloop" in each.path for each in own) and _starts(process.pid) == _starts(
        server().pid
    )


def _starts(pid: int) -> str:
    """Where its stack begins, which is random in each program and the same in its forks."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[25]


async def test_a_forked_role_looks_and_ends_like_an_executed_one(tmp_path: Path) -> None:
    process = nameserver(tmp_path)
    await process.start()
    try:
        assert was_forked(process)
        shown = psutil.Process(process.pid)
        assert shown.cmdline() == process.command
        assert shown.ppid() == os.getpid()
        assert os.getsid(process.pid) == process.pid
        assert shown.cwd() == str(Path.cwd())
        held = {os.readlink(f"/proc/{process.pid}/fd/{at}") for at in (0, 2)}
        assert held == {os.devnull, str(process.log_path)}
    finally:
        assert await process.stop() == 0
    assert "role.stopped" in process.log_tail()
    await process.start()
    await process.kill()
    assert process.status == -signal.SIGKILL


async def test_a_role_that_cannot_start_says_why(tmp_path: Path) -> None:
    process = nameserver(tmp_path, "--no-such-option")
    with pytest.raises(ProcessStartError, match="no-such-option"):
        await process.start()
    assert process.status == 2


async def test_roles_outlive_their_fork_server_and_later_ones_get_another(tmp_path: Path) -> None:
    first, second = nameserver(tmp_path), nameserver(tmp_path / "second")
    await first.start()
    try:
        killed = server()
        os.kill(killed.pid, signal.SIGKILL)
        await eventually(lambda: not killed.is_usable, "the fork server has ended")
        await second.start()
        assert server() is not killed
        assert was_forked(second)
        assert first.is_alive
    finally:
        assert [await first.stop(), await second.stop()] == [0, 0]


PARENT = """
import asyncio, sys
from pathlib import Path
from pocketmq.cluster import local_cluster
from pocketmq.cluster.forking.fork_server import shared_server

async def main():
    async with local_cluster(data=Path(sys.argv[1])) as cluster:
        await cluster["nameserver-1"].freeze()
        print(*[each.pid for each in cluster.processes], shared_server().pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_nobody_outlives_a_killed_parent_not_even_a_frozen_role(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:  # noqa: ASYNC220
        assert parent.stdout is not None
        family = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        assert len(family) == 3
        parent.kill()
    await eventually(lambda: not any(map(_lives, family)), "all of them have ended")


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("reason", ["switched off", "another interpreter", "forbidden", "hangs"])
async def test_what_cannot_be_forked_is_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    hung = None
    if reason == "switched off":
        monkeypatch.setenv(SWITCH, "0")
    elif reason == "another interpreter":
        monkeypatch.setenv("PYTHONHASHSEED", "7")
        server()
        monkeypatch.setenv("PYTHONHASHSEED", "8")
    elif reason == "forbidden":

        def refuse(wanted: bool) -> None:
            raise PermissionError(1, "no")

        monkeypatch.setattr(adoption, "_set_subreaper", refuse)
    else:
        hung = server()
        os.kill(hung.pid, signal.SIGSTOP)
        monkeypatch.setattr(fork_server, "ANSWER_LIMIT_S", 0.1)
    process = nameserver(tmp_path)
    await process.start()
    try:
        monkeypatch.undo()
        assert not was_forked(process)
        assert psutil.Process(process.pid).ppid() == os.getpid()
        if hung is not None:
            assert not hung.is_usable
    finally:
        assert await process.stop() == 0


async def test_a_start_that_is_cancelled_at_any_moment_leaves_nothing(tmp_path: Path) -> None:
    server()
    others = set(psutil.Process().children())
    for turns in range(0, 40, 4):
        process = nameserver(tmp_path)
        starting = asyncio.create_task(process.start())
        for _ in range(turns):
            await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not process.is_alive

    def is_role(child: psutil.Process) -> bool:
        try:
            return str(tmp_path) in " ".join(child.cmdline())
        except psutil.ZombieProcess:  # it has ended, and nobody has asked how
            return child not in others
        except psutil.NoSuchProcess:
            return False

    def left() -> list[psutil.Process]:
        return [each for each in psutil.Process().children() if is_role(each)]

    await eventually(lambda: not left(), "no role is left")


@pytest.mark.parametrize("module", IMPORTS)
def test_a_forked_role_finds_everything_imported(tmp_path: Path, module: str) -> None:
    code = (
        "import importlib, sys, pocketmq.runtime.process as process\n"
        f"for each in {IMPORTS[module]!r}:\n"
        f"    each in {OPTIONAL!r} or importlib.import_module(each)\n"
        "heavy = {'typer', 'rich', 'psutil', 'pandas', 'starlette'}.intersection(sys.modules)\n"
        "before = set(sys.modules)\n"
        "def ready(self, **facts):\n"
        "    new = [each for each in set(sys.modules) - before if 'pocketmq' in each]\n"
        "    print(sorted(heavy), sorted(new))\n"
        "    self.request_stop('seen')\n"
        "process.RoleContext.ready = ready\n"
        f"sys.exit(sys.modules[{module!r} + '.__main__'].main(sys.argv[1:]))\n"
    )
    words = ["--port", "0"]
    if module == "pocketmq.controller":
        words = ["--self-id", "n0", "--peers", "n0-127.0.0.1:0"]
    if module == "pocketmq.proxy":
        words += ["--grpc-port", "0"]
    ran = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path,
        env=os.environ | {"HOME": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (0, "[] []\n"), ran.stderr
