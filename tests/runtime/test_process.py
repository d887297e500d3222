"""How a role process starts, says that it is ready, and ends."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import ConfigError, EnvironmentFault, PortInUseError
from pocketmq.runtime.ports import check_port_free, listener_pid, told_ip
from pocketmq.runtime.process import RoleOptions, loop_factory, parse_ready_line, ready_line
from support.console import until
from support.eventually import PATIENCE_S

pytestmark = pytest.mark.cluster

SAMPLE = [sys.executable, str(Path(__file__).with_name("role_sample.py"))]

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*SAMPLE, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | env,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ready(process: subprocess.Popen[str]) -> dict[str, str]:
    assert process.stdout is not None
    facts = parse_ready_line(process.stdout.readline())
    assert facts is not None
    return facts


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def test_the_ready_line_is_first_and_the_port_answers(start: Start) -> None:
    process = start()
    facts = ready(process)
    assert facts["role"] == "sample"
    assert facts["name"] == "sample-a"
    assert facts["pid"] == str(process.pid)
    assert facts["clock"] == "SystemClock"
    socket.create_connection(("127.0.0.1", int(facts["port"]))).close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_signal_stops_it_in_order_with_status_0(
    start: Start, number: signal.Signals, loop: str
) -> None:
    process = start(POCKETMQ_LOOP=loop)
    ready(process)
    process.send_signal(number)
    status, out, err = end(process)
    assert status == 0
    assert out.startswith(f"STOPPED loop={loop}")
    assert "role.stopped" in err


def test_a_signal_stops_a_role_whose_log_nobody_reads(start: Start) -> None:
    process = start()  # as in `pocketmq broker 2>&1 | head -3`
    ready(process)
    assert process.stderr is not None
    process.stderr.close()
    process.terminate()
    assert process.stdout is not None
    assert process.stdout.readline().startswith("STOPPED")
    assert process.wait(PATIENCE_S) == 0


def test_a_signal_before_it_is_ready_ends_it_too(start: Start) -> None:
    process = start("--mode", "never-ready")
    assert process.stdout is not None
    assert process.stdout.readline() == "STARTING\n"
    process.terminate()
    assert end(process)[0] == 0


def test_a_later_second_signal_ends_a_stop_that_hangs(start: Start) -> None:
    process = start("--mode", "hang")
    ready(process)
    process.terminate()
    assert process.stdout is not None
    assert process.stdout.readline().startswith("STOPPED")
    until(lambda: process.terminate() or process.poll() is not None, "it has ended")
    assert end(process)[0] == 128 + signal.SIGTERM


def test_a_signal_that_comes_twice_at_once_is_one(start: Start) -> None:
    status, out, err = end(start("--mode", "signalled-twice"))
    assert status == 0
    assert "STOPPED" in out
    assert "role.stopped" in err


def test_a_port_in_use_is_one_line_with_the_holders_pid_and_status_1(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert listener_pid(port) == os.getpid()
        status, out, err = end(start("--port", str(port)))
    assert (status, out) == (1, "")
    assert err.strip() == (
        f"sample: port {port} on 127.0.0.1 is taken by pid {os.getpid()}; "
        "stop it or start with --port 0 for a free one"
    )


def test_a_bind_error_that_nobody_translated_is_one_line_too(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, _, err = end(start("--mode", "raw-bind", "--port", str(taken.getsockname()[1])))
    assert status == 1
    assert len(err.splitlines()) == 1


def test_a_users_error_is_one_line_and_a_traceback_on_demand(start: Start) -> None:
    status, _, err = end(start("--mode", "config-error"))
    assert (status, err) == (1, "sample: listen_port: is missing\n")
    _, _, err = end(start("--mode", "config-error", POCKETMQ_DEBUG="1"))
    assert "Traceback" in err


def test_a_wrong_option_is_one_line_and_status_1(start: Start) -> None:
    status, _, err = end(start(POCKETMQ_PROCESS_CLOCK="sundial"))
    assert status == 1
    assert err.startswith("sample: clock (from environment POCKETMQ_PROCESS_CLOCK): 'sundial'")
    status, _, err = end(start(POCKETMQ_LOOP="trio"))
    assert status == 1
    assert "'trio' is not an event loop that PocketMQ knows" in err


def test_an_unknown_option_in_the_environment_is_pointed_at(start: Start) -> None:
    process = start(POCKETMQ_PROCESS_COLOUR="red")
    ready(process)
    process.terminate()
    status, _, err = end(process)
    assert status == 0
    assert "unknown options ignored: POCKETMQ_PROCESS_COLOUR" in err.splitlines()[0]


def test_our_own_error_is_status_2_with_a_traceback(start: Start) -> None:
    status, _, err = end(start("--mode", "crash"))
    assert status == 2
    assert "KeyError" in err


def test_a_failed_task_stops_the_role_in_order_with_status_2(start: Start) -> None:
    status, out, err = end(start("--mode", "task-fails"))
    assert status == 2
    assert "STOPPED" in out
    assert "a task broke" in err


def test_a_manual_clock_is_one_flag(start: Start) -> None:
    facts = ready(start("--clock", "manual", "--clock-start-ms", "1700000000000"))
    assert facts["clock"] == "ManualClock"


def test_a_manual_clock_begins_at_a_whole_second() -> None:
    now_ms = SystemClock().time_ms()
    begins_ms = RoleOptions(clock="manual").make_clock().time_ms()
    assert begins_ms % 1000 == 0
    assert begins_ms >= now_ms


def test_no_orphan_is_left_when_the_parent_is_killed() -> None:
    parent_code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "print(child.stdout.readline().decode(), end='', flush=True)\n"
        "child.wait()\n"
    )
    command = [sys.executable, "-c", parent_code, *SAMPLE, "--exit-with-parent"]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    child = psutil.Process(int(ready(parent)["pid"]))
    parent.kill()
    parent.communicate()
    child.wait(timeout=PATIENCE_S)


def test_a_parent_that_died_before_we_looked_is_noticed(start: Start) -> None:
    status, out, _ = end(start("--exit-with-parent", POCKETMQ_PARENT_PID="1"))
    assert status == 0
    assert "READY" not in out


def test_it_starts_quickly_and_imports_nothing_heavy(start: Start) -> None:
    code = (
        "import sys, pocketmq.runtime.process\n"
        "print([name for name in ('rich', 'typer', 'pandas', 'psutil') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
    took = psutil.Process(int(ready(start())["pid"])).cpu_times()
    assert took.user + took.system < 5  # of the processor; 0.15 s alone


def test_a_ready_line_is_read_back() -> None:
    line = ready_line(role="broker", name="broker-a", port=10911, pid=1)
    assert line == "READY role=broker name=broker-a port=10911 pid=1"
    assert parse_ready_line(line + "\n") == {
        "role": "broker",
        "name": "broker-a",
        "port": "10911",
        "pid": "1",
    }
    assert parse_ready_line("") is None
    assert parse_ready_line("READY? no") is None
    with pytest.raises(ConfigError, match="white space"):
        ready_line(name="a b")


def test_the_plain_loop_can_be_forced() -> None:
    assert loop_factory({"POCKETMQ_LOOP": "asyncio"}).__module__.startswith("asyncio")
    assert loop_factory({}).__module__.startswith("uvloop")


def test_others_are_told_an_address_and_never_a_name_or_every_address() -> None:
    assert told_ip("127.0.0.2") == "127.0.0.2"
    assert ipaddress.ip_address(told_ip("localhost")).is_loopback
    assert not ipaddress.ip_address(told_ip("0.0.0.0")).is_unspecified
    assert not ipaddress.ip_address(told_ip("::")).is_unspecified
    with pytest.raises(EnvironmentFault, match=r"cannot listen on no\.such\.invalid:0"):
        told_ip("no.such.invalid")


def test_a_port_is_looked_at_before_anything_slow_is_begun() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUseError, match=f"port {port} on 127.0.0.1 is taken by pid"):
            check_port_free("127.0.0.1", port)
    check_port_free("127.0.0.1", port)
    check_port_free("127.0.0.1", 0)
