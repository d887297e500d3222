"""`pocketmq up` as its users see it: first line, clean end, no child left, one line of error."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from pocketmq.cluster.spec import ClusterOptions, ProcessSpec, cluster_spec
from pocketmq.cluster.supervisor import Supervisor
from support.eventually import PATIENCE_S

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]

POCKETMQ = [sys.executable, "-m", "pocketmq.cluster.cli.main"]


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*POCKETMQ, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it printed after the lines read so far, when it has ended.

    `communicate` would miss what `readline` has buffered.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = process.stdout.read(), process.stderr.read()
    process.wait(timeout=100)
    return out, err


def children(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


SERVERS = {"pocketmq.nameserver", "pocketmq.broker", "pocketmq.proxy"}


def roles(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Its servers; a child that does not show its own words yet is none."""
    found = []
    for each in children(process):
        with contextlib.suppress(psutil.NoSuchProcess):
            if SERVERS & set(each.cmdline()):
                found.append(each)
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_with_two_and_two_stops_cleanly_and_leaves_no_child(number: signal.Signals) -> None:
    with started("up", "--nameservers", "2", "--brokers", "2", "--any-port") as up:
        line = first_line(up)
        assert re.fullmatch(r"NAMESRV_ADDR=127\.0\.0\.1:\d+;127\.0\.0\.1:\d+", line)
        running = children(up)
        assert len(roles(up)) == 5  # and a proxy
        up.send_signal(number)
        out, err = end(up)
        assert (up.returncode, err) == (0, "")
        assert not any(process.is_running() for process in running)
        folder = re.search(r"stores and logs: (\S+)", out)
        assert folder is not None
        assert not Path(folder[1]).exists(), "a temporary folder is gone afterwards"


def test_a_kept_folder_holds_a_store_root_per_broker_and_the_logs(tmp_path: Path) -> None:
    options = ("--brokers", "2", "--any-port", "--profile", "4.9", "--data", str(tmp_path))
    with started("up", *options) as up:
        first_line(up)
        assert all("--profile 4.9" in " ".join(child.cmdline()) for child in roles(up))
        up.send_signal(signal.SIGINT)
        end(up)
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [
        "broker-a.log", "broker-b.log", "nameserver-1.log",
    ]  # fmt: skip
    assert (tmp_path / "broker-a" / "checkpoint").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_start_leaves_no_child(number: signal.Signals) -> None:
    with started("up", "--brokers", "4", "--any-port") as up:
        deadline = time.perf_counter() + PATIENCE_S
        while not (running := roles(up)) and time.perf_counter() < deadline:
            pass
        up.send_signal(number)
        running += children(up)
        assert end(up) == ("", "")
        assert up.returncode == 128 + number
        assert running
        # One that had not come so far as to watch its parent ends when it has.
        _, left = psutil.wait_procs(running, timeout=PATIENCE_S)
        assert left == []


INSTALLED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["pocketmq"]
"""`module:function` of the script that pip makes."""


@pytest.mark.parametrize(
    ("imported", "command"),
    [
        ("typer", ["-c", "import sys; from {0} import {1}; sys.exit({1}())", "up", "--any-port"]),
        ("psutil", ["-c", "import sys; from {0} import {1}; sys.exit({1}())", "up", "--any-port"]),
        ("typer", ["-m", "pocketmq.cluster.cli.main", "up", "--any-port"]),
        ("structlog", ["-m", "pocketmq.nameserver", "--port", "0"]),
        ("structlog", ["-m", "pocketmq.broker", "--port", "0"]),
    ],
)
def test_ctrl_c_while_modules_load_ends_quietly(
    tmp_path: Path, imported: str, command: list[str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # CI may run behind a `&`
        "class CtrlC:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {imported!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, CtrlC())\n"
    )
    words = [word.format(*INSTALLED.split(":")) for word in command]
    ran = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")


def test_a_port_in_use_is_one_clear_line_and_status_1(tmp_path: Path) -> None:
    toml = tmp_path / "cluster.toml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        toml.write_text(f"[cluster]\nnameserver_port = {port}\n")
        with started("up", "--config", str(toml)) as up:
            out, err = end(up)
    assert (up.returncode, out) == (1, "")
    assert err.splitlines() == [
        f"pocketmq: nameserver-1 cannot start: port {port} on 127.0.0.1 is taken by pid "
        f"{os.getpid()}; stop this process, or let the system choose ports with --any-port"
    ]


def test_a_killed_broker_is_told_and_the_others_go_on() -> None:
    with started("up", "--brokers", "2", "--any-port") as up:
        first_line(up)
        assert up.stdout is not None
        pid = next(
            int(line.rsplit(" ", 1)[1]) for line in up.stdout if line.startswith("broker-a ")
        )
        os.kill(pid, signal.SIGKILL)
        told = next(line for line in up.stdout if line.startswith("broker-a ended"))
        assert told.startswith("broker-a ended with status -9; its log: ")
        assert up.poll() is None
        up.send_signal(signal.SIGINT)
        end(up)
        assert up.returncode == 0


def test_a_cluster_whose_reader_has_enough_goes_on() -> None:
    with started("up", "--brokers", "2", "--any-port") as up:  # up | head -1
        first_line(up)
        assert up.stdout is not None
        up.stdout.close()
        one, *others = roles(up)
        one.kill()  # this would be told
        one.wait(timeout=100)
        assert all(child.is_running() for child in others)
        up.send_signal(signal.SIGINT)
        assert up.wait(timeout=100) == 0
        assert up.stderr is not None
        assert up.stderr.read() == ""


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2"])
def test_a_cluster_tells_the_address_that_it_listens_on(tmp_path: Path, host: str) -> None:
    if sys.platform != "linux" and host == "127.0.0.2":
        pytest.skip("only Linux has all of 127.0.0.0/8")
    toml = tmp_path / "cluster.toml"
    toml.write_text(f'[cluster]\nhost = "{host}"\nany_port = true\n')
    with started("up", "--config", str(toml)) as up:
        nameservers = first_line(up).removeprefix("NAMESRV_ADDR=")
        assert nameservers.startswith("127.0.0.2:" if host == "127.0.0.2" else ("127.", "::1"))
        sent = subprocess.run(
            [*POCKETMQ, "send", "orders", "hello", "-n", nameservers],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert (sent.returncode, sent.stderr) == (0, "")
        up.send_signal(signal.SIGINT)
        end(up)


def test_up_ends_with_status_1_when_no_process_is_left() -> None:
    with started("up", "--any-port") as up:
        first_line(up)
        for child in roles(up):
            child.kill()
        end(up)
        assert up.returncode == 1


async def test_role_processes_import_neither_typer_nor_rich_nor_pandas(tmp_path: Path) -> None:
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "import atexit, os, sys\n"
        "def tell():\n"
        "    name = f'{os.environ[\"MODULES_FOLDER\"]}/{os.getpid()}'\n"
        "    open(name, 'w').write('\\n'.join(sorted(sys.modules)))\n"
        "atexit.register(tell)\n"
    )
    seen = tmp_path / "modules"
    seen.mkdir()
    spec = cluster_spec(ClusterOptions(any_port=True), tmp_path)
    env = {"PYTHONPATH": str(hook), "MODULES_FOLDER": str(seen)}
    async with Supervisor(spec, env=env) as cluster:
        worker = "pocketmq.cluster.demo.{}_worker"
        records = str(tmp_path / "records.csv")
        await cluster.add(
            ProcessSpec("client", "c", worker.format("consumer"), ("--records", records))
        )
        await cluster.add(ProcessSpec("client", "p", worker.format("producer"), ("--flights", "1")))
        pids = {process.name: process.pid for process in cluster.processes}
    for name, pid in pids.items():
        modules = set((seen / str(pid)).read_text().splitlines())
        assert not modules & {"typer", "click", "rich", "pandas", "numpy", "psutil"}, name
        assert "pocketmq.runtime.process" in modules
