"""The `pocketmq` command against a running cluster, and what it says when something is wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.cluster.cli.main import main
from pocketmq.cluster.durations import parse_duration_ms
from pocketmq.runtime.errors import CallerError
from support.eventually import eventually

POCKETMQ = [sys.executable, "-m", "pocketmq.cluster.cli.main"]

BECOME_A_ROLE = ["nameserver", "broker"]
"""Commands that replace their process: they cannot be called in ours."""
COMMANDS = [
    "up", "demo", "send", "consume", "connections", "doctor", "explain message",
    "clock advance", "clock show", "config show", "config get", "config set",
    "topic create", "topic list", "topic route", "topic stats", "topic delete",
    "group list", "group show", "group simulate",
    "message tail", "message show", "message export", "message import", "message resend",
    "group explain", "group reset", "clock next", "clock run", "clock set", "cluster show",
    "store inspect", "store verify", "store cat", "store rebuild", "failover", "ready", "down",
    "ps", "logs", "seed", "restart", "fault add", "fault list", "fault clear", "partition",
    "fault-proxy", "snapshot save", "wipe", "watch", "lab start", "lab check",
    "pipeline audit", "pipeline export", "pipeline flights", "pipeline latency",
    "pipeline package", "pipeline rebalance", "pipeline replay", "pipeline schema",
    "pipeline schema-check", "pipeline trace",
]  # fmt: skip


def pocketmq(
    *arguments: str, nameservers: str = "127.0.0.1:1", **options: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*POCKETMQ, *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=os.environ | {"NAMESRV_ADDR": nameservers, "COLUMNS": "100"} | options,
    )


@pytest.fixture(scope="module")
def nameservers() -> Iterator[str]:
    """`pocketmq up` on manual clocks; its first line is all that a client needs."""
    command = [*POCKETMQ, "up", "--brokers", "2", "--any-port", "--clock", "manual"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        yield up.stdout.readline().strip().removeprefix("NAMESRV_ADDR=")
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=100)
        assert up.returncode == 0


def test_the_command_can_be_run_as_a_module() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pocketmq", "pocket"], capture_output=True, text=True, timeout=200
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == pocketmq("pocket").stderr
    assert "no such command 'pocket'" in ran.stderr


@pytest.mark.cluster
def test_topics_are_created_listed_and_routed(nameservers: str) -> None:
    created = pocketmq("topic", "create", "orders", "--queues", "3", nameservers=nameservers)
    assert (created.returncode, created.stdout) == (
        0, "orders: 3 queues on each of broker-a, broker-b\n",
    )  # fmt: skip
    assert "orders\n" in pocketmq("topic", "list", nameservers=nameservers).stdout
    shown = pocketmq("topic", "list", nameservers=nameservers).stdout.split()
    assert not [topic for topic in shown if re.search("TBW102|REPLY|rmq_sys|Cluster", topic)]
    assert "TBW102" in pocketmq("topic", "list", "--all", nameservers=nameservers).stdout
    route = pocketmq("topic", "route", "orders", nameservers=nameservers).stdout.splitlines()
    assert [line.split()[0] for line in route] == ["broker-a", "broker-b"]
    assert re.search(r"\t3\t3\tRW\tmaster 127\.0\.0\.1:\d+$", route[0])


@pytest.mark.cluster
def test_what_was_sent_is_consumed_once_per_group(nameservers: str) -> None:
    pocketmq("topic", "create", "letters", nameservers=nameservers)
    sent = pocketmq(
        "send", "letters", "hello", "--tag", "new", "--key", "k1", "--count", "5",
        nameservers=nameservers,
    )  # fmt: skip
    assert len(re.findall(r"^SEND_OK broker-[ab]/\d offset \d+ id \w+$", sent.stdout, re.M)) == 5
    pocketmq("send", "letters", "other", "--tag", "old", nameservers=nameservers)

    consume = ("consume", "letters", "--tags", "new || newer", "--count", "5")
    first = pocketmq(*consume, nameservers=nameservers)
    assert first.returncode == 0, first.stderr
    lines = first.stdout.splitlines()
    assert len(lines) == 5
    assert all(re.search(r"offset \d+ tag=new key=k1: hello$", line) for line in lines)
    # Another group begins anew, with a strategy of its own.
    again = pocketmq(*consume, "--group", "g2", "--strategy", "circle", nameservers=nameservers)
    assert len(again.stdout.splitlines()) == 5


@pytest.mark.cluster
def test_messages_with_one_ordering_value_go_to_one_queue(nameservers: str) -> None:
    pocketmq("topic", "create", "steps", nameservers=nameservers)
    sent = pocketmq(
        "send", "steps", "step", "--ordered-by", "order-17", "--count", "4",
        nameservers=nameservers,
    ).stdout  # fmt: skip
    places = re.findall(r"SEND_OK (\S+) offset (\d+)", sent)
    assert len({queue for queue, _ in places}) == 1
    assert [int(offset) for _, offset in places] == [0, 1, 2, 3]


@pytest.mark.cluster
def test_lines_of_standard_input_are_sent_as_they_are_and_ctrl_c_ends_the_wait(
    nameservers: str,
) -> None:
    pocketmq("topic", "create", "lines", nameservers=nameservers)
    with subprocess.Popen(
        [*POCKETMQ, "send", "lines", "-", "-n", nameservers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as sending:
        assert sending.stdin is not None
        assert sending.stdout is not None
        sending.stdin.write(b"no text: \xff\xfe\n")
        sending.stdin.flush()
        assert sending.stdout.readline().startswith(b"SEND_OK")
        sending.send_signal(signal.SIGINT)  # now it waits for the next line
        assert sending.wait(timeout=100) == 130
        assert sending.stderr is not None
        assert sending.stderr.read() == b""
    got = pocketmq("consume", "lines", "--count", "1", nameservers=nameservers)
    assert got.stdout.endswith(": no text: \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}\n")


def start_consuming(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*POCKETMQ, "consume", *arguments], stdout=subprocess.PIPE, text=True)


@pytest.mark.cluster
async def test_a_consumer_on_manual_time_moves_with_the_cluster(nameservers: str) -> None:
    pocketmq("topic", "create", "slow", nameservers=nameservers)
    with start_consuming("slow", "--clock", "manual", "-n", nameservers) as consumer:
        name = f"consume-{consumer.pid}"
        await eventually(
            lambda: name in pocketmq("clock", "show", nameservers=nameservers).stdout,
            "the consumer's clock is known",
        )
        moved = pocketmq("clock", "advance", "126", nameservers=nameservers)
        assert moved.returncode == 0, moved.stderr
        assert {"nameserver-1", "broker-a", "broker-b", name} <= set(
            re.findall(r"[\w-]+", moved.stdout)
        )
        shown = pocketmq("clock", "show", nameservers=nameservers).stdout.splitlines()
        assert len({line.split("\t")[2] for line in shown}) == 1, "all at one moment"
        consumer.send_signal(signal.SIGINT)
        consumer.communicate(timeout=100)
    assert consumer.returncode == 0
    assert name not in pocketmq("clock", "show", nameservers=nameservers).stdout


@pytest.mark.cluster
def test_a_frozen_process_is_left_out_of_the_step_and_named(nameservers: str) -> None:
    with start_consuming("TBW102", "--clock", "manual", "-n", nameservers) as frozen:
        name = f"consume-{frozen.pid}"
        while name not in pocketmq("clock", "show", nameservers=nameservers).stdout:
            pass
        frozen.send_signal(signal.SIGSTOP)
        moved = pocketmq("clock", "advance", "1", nameservers=nameservers)
        frozen.kill()
    assert moved.returncode == 0
    assert moved.stderr.startswith(f"left out: {name} (")
    assert name not in moved.stdout


@pytest.mark.cluster
def test_an_error_is_one_line_and_debug_adds_the_traceback(nameservers: str) -> None:
    missing = pocketmq("topic", "route", "nowhere", nameservers=nameservers)
    assert missing.returncode == 1
    assert missing.stderr.startswith("pocketmq: topic 'nowhere': no name server knows a route")
    assert len(missing.stderr.splitlines()) == 1
    debug = pocketmq("topic", "route", "nowhere", "--debug", nameservers=nameservers)
    assert "Traceback" in debug.stderr
    assert debug.stderr.splitlines()[-1] == missing.stderr.splitlines()[0]


@pytest.mark.parametrize("begin", ["from pocketmq.cluster.cli.entry import main", "module"])
def test_a_ctrl_c_while_python_ends_shows_no_traceback(begin: str) -> None:
    code = (
        "import atexit, os, runpy, signal, sys\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGINT)\n"
        "sys.argv = ['pocketmq', '--version']\n"
    )
    code += (
        "runpy.run_module('pocketmq.cluster.cli.main', run_name='__main__')"
        if begin == "module"
        else f"{begin}\nsys.exit(main())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert (ran.returncode, ran.stderr) == (130, "")
    assert ran.stdout.startswith("pocketmq ")


def test_without_a_cluster_the_error_says_how_to_start_one() -> None:
    failed = pocketmq("topic", "list")
    assert failed.returncode == 1
    assert failed.stderr.startswith("pocketmq: no name server: none of 127.0.0.1:1 answers")
    assert "pocketmq up" in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["up", "--foo"], "pocketmq up: no such option: --foo; see `pocketmq up --help`"),
        (["upp"], "pocketmq: no such command 'upp'; did you mean 'up'? see `pocketmq --help`"),
        (["up", "--brokers", "x"], "pocketmq up: invalid value for '--brokers'"),
        (
            ["topic", "list", "-n", "nonsense"],
            "pocketmq: nameservers: 'nonsense' is not an address",
        ),
        (["clock", "advance", "soon"], "pocketmq: 'soon' is not a duration; write a duration"),
        (["consume", "t", "--strategy", "luck"], "pocketmq: strategy: there is no 'luck'"),
        (["up", "--config", "/no/such.toml"], "pocketmq: /no/such.toml: cannot be read"),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments: list[str], message: str) -> None:
    failed = pocketmq(*arguments)
    assert failed.returncode in (1, 2)
    assert failed.stderr.startswith(message)
    assert len(failed.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches_by_example(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main([*command.split(), "--help"]) == 0
    assert re.search(rf"Examples?:\n(?: +.*\n)*? +pocketmq {command}", capsys.readouterr().out)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_help_fits_80_columns(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in (command.split(), command.split()[:-1]):  # and the list that it stands in
        assert main([*words, "--help"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if len(line) > 80] == []
        listed = lines[lines.index("Commands:") :] if "Commands:" in lines else []
        assert [line for line in listed if line.endswith("...")] == [], "a sentence is cut"


@pytest.mark.parametrize("command", BECOME_A_ROLE)
def test_every_command_that_becomes_a_role_teaches_by_example(command: str) -> None:
    shown = pocketmq(command, "--help")
    assert shown.returncode == 0
    assert re.search(rf"Examples?:\n +pocketmq {command}", shown.stdout)


def test_a_process_of_its_own_prints_the_same_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["up", "--help"]) == 0
    assert pocketmq("up", "--help").stdout == capsys.readouterr().out


@pytest.mark.cluster
def test_options_of_running_roles_are_shown_and_changed(nameservers: str) -> None:
    changed = pocketmq(
        "config", "set", "transactionCheckMax=4", "mappedFileSizeCommitLog=2147483648",
        "--broker", "broker-a", nameservers=nameservers,
    )  # fmt: skip
    assert changed.returncode == 0, changed.stderr
    words = [re.sub(r"[^\w.-]+", " ", line).split() for line in changed.stdout.splitlines()]
    assert ["broker-a", "transactionCheckMax", "15", "4", "at", "once"] in words
    assert [
        "broker-a", "mappedFileSizeCommitLog", "1073741824", "2147483648",
        "after", "a", "restart",
    ] in words  # fmt: skip
    assert "only after a restart with this file: mappedFileSizeCommitLog" in changed.stdout
    shown = pocketmq("config", "get", "transactionCheckMax", nameservers=nameservers).stdout
    assert re.search(r"transactionCheckMax\W+4\W+15\W+at once", shown)
    refused = pocketmq(
        "config", "set", "transactionCheckMax=often", "none=1", nameservers=nameservers
    )
    assert refused.returncode == 1
    assert "none (no such option)" in refused.stdout
    listed = pocketmq("config", "set", "brokerConfigPath=/x", nameservers=nameservers)
    assert (listed.returncode, "black list" in listed.stderr) == (1, True)
    asked = pocketmq("config", "set", "--nameserver", "orderMessageEnable=true",
                     nameservers=nameservers)  # fmt: skip
    assert (asked.returncode, "false" in asked.stdout) == (0, True)
    unknown = pocketmq("config", "get", "nosuch", "--nameserver", nameservers=nameservers)
    assert unknown.stderr == "pocketmq: nosuch: is unknown there; `pocketmq config get` lists all\n"


def test_config_show_tells_values_and_where_they_come_from(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName = my-broker\nunknownThing = 1\n")
    shown = pocketmq(
        "config", "show", "broker", "--broker-conf", str(conf), "--changed",
        POCKETMQ_BROKER_PORT="10921",
    )  # fmt: skip
    lines = {line.split(" = ")[0]: line for line in shown.stdout.splitlines()}
    assert set(lines) == {"broker.name", "broker.port"}
    assert re.match(rf"broker.name = my-broker +# {conf} brokerName: ", lines["broker.name"])
    assert re.match(
        r"broker.port = 10921 +# environment POCKETMQ_BROKER_PORT: ", lines["broker.port"]
    )
    assert shown.stderr == "unknown and ignored: unknownThing\n"


@pytest.mark.parametrize("role", ["nameserver", "broker", "controller"])
def test_config_show_tells_the_limits_that_a_role_has(role: str) -> None:
    limits = {"nameserver": "routes", "broker": "slaves", "controller": "replicas_per_name"}
    shown = pocketmq("config", "show", role, "-o", "json")
    names = {each["option"] for each in json.loads(shown.stdout)}
    assert "budget.peer_memory_bytes" in names
    assert {of for of, name in limits.items() if f"budget.{name}" in names} == {role}


@pytest.mark.parametrize(
    ("text", "ms"),
    [("126", 126_000), ("126s", 126_000), ("500ms", 500), ("1.5h", 5_400_000), ("2m", 120_000)],
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "s", "-5", "5 parsecs", "1e400", "nan"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(CallerError, match="is not a duration"):
        parse_duration_ms(text)
