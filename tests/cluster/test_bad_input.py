"""Whatever a user gets wrong: one line that says what, exit status 1 or 2, no traceback."""

from __future__ import annotations

import errno
import gc
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pocketmq.broker.__main__ import main as broker
from pocketmq.cluster.cli.main import main as pocketmq
from pocketmq.nameserver.__main__ import main as nameserver

NOBODY = "127.0.0.1:1"

Command = Callable[[Sequence[str]], int]

WRONG_COMMAND_LINES = [
    ("up --foo", "up: no such option: --foo"),
    ("up stray", "up: got unexpected extra argument"),
    ("up --profile 6", "up: invalid value for '--profile': '6' is not one of '4.9', '5.3'"),
    ("consume orders --profile 6", "consume: invalid value for '--profile': '6' is not one of"),
    ("up --clock sundial", "up: invalid value for '--clock': 'sundial' is not one of"),
    ("demo --flights 0", "demo: invalid value for '--flights'"),
    ("topic create", "topic create: missing argument 'topic'"),
    ("topic drop", "topic: no such command 'drop'"),
    ("send", "send: missing argument 'topic'"),
    (
        "send orders hello --delay-level 99",
        "send: invalid value for '--delay-level': 99 is too large; write 0 to 18;",
    ),
    # what to type stands in the line, whichever option it is
    ("explain group billing", "explain: no such command 'group'; write `pocketmq group explain`;"),
    ("create topic orders", ": no such command 'create'; write `pocketmq topic create`;"),
    ("explain grp billing", "explain: no such command 'grp'; write message;"),
    (
        "topic create orders --queues 0",
        "topic create: invalid value for '--queues': 0 is too small; write 1 to 1024;",
    ),
    (
        "topic create orders --queues 2000",
        "topic create: invalid value for '--queues': 2000 is too large; write 1 to 1024;",
    ),
    (
        "up --nameservers 0",
        "up: invalid value for '--nameservers': 0 is too small; write 1 or more",
    ),
    ("up --brokers x", "up: invalid value for '--brokers': 'x' is no whole number;"),
    (
        "up --control-port 99999",
        "up: invalid value for '--control-port': 99999 is too large; write",
    ),
    ("watch --seconds 2m", "watch: invalid value for '--seconds': '2m' is no number;"),
    (
        "clock run --speed 0",
        "clock run: invalid value for '--speed': 0 is too small; write 0.001 to",
    ),
    ("clock advance -5", "clock advance: no such option: -5; if it is a value, write -- before it"),
    (
        "fault add drop --probability 2",
        "fault add: invalid value for '--probability': 2 is too large",
    ),
    (
        "fault add delay --delay-ms 700000",
        "fault add: invalid value for '--delay-ms': 700000 is too large; write 0 to 600000;",
    ),
    ("message show", "message show: missing argument"),
    ("topic list -o xml", "topic list: invalid value for '--output' / '-o': 'xml' is not one of"),
    ("send orders hello --count many", "send: invalid value for '--count'"),
    ("consume", "consume: missing argument 'topic'"),
    ("consume orders --count 0", "consume: invalid value for '--count': 0 is too small; write 1"),
    ("message tail orders --count 0", "message tail: invalid value for '--count' / '-c': 0 is too"),
    ("message resend billing -c 0", "message resend: invalid value for '--count' / '-c': 0 is too"),
    ("consume orders --from middle", "consume: invalid value for '--from': 'middle' is not"),
    ("clock advance", "clock advance: missing argument 'duration'"),
    ("config show", "config show: missing argument 'role'. Choose from: nameserver, controller, "),
    ("config show me", "config show: invalid value for 'role': 'me' is not one of 'nameserver'"),
]

WHAT_CANNOT_BE_DONE = [
    ("up --data {file}", "{file}: File exists; choose another folder"),
    ("up --data /proc/none", "/proc/none: No such file or directory; choose another folder"),
    ("up --data {logless} --any-port", "{logless}/logs/nameserver-1.log: File exists; choose"),
    ("up --ports-file {folder}", "{folder}: Is a directory; choose another --ports-file"),
    ("up --config {file}", "{file}: is no valid TOML"),
    ("up --config {folder}", "{folder}: cannot be read: Is a directory"),
    ("demo --data {file} --flights 1", "{file}: File exists; choose another folder"),
    ("topic create orders", "no name server: none of 127.0.0.1:1 answers; start a cluster with"),
    ("topic create a/b", "topic 'a/b' has an illegal character; use only letters"),
    ("topic list", "no name server: none of 127.0.0.1:1 answers"),
    ("topic list -n nonsense", "nameservers: 'nonsense' is not an address of the form host:port"),
    (
        "topic list -n 127.0.0.1:99999",
        "nameservers: the port of '127.0.0.1:99999' is too high; the highest port is",
    ),
    ("topic stats orders", "no name server: none of 127.0.0.1:1 answers"),
    ("topic delete orders --yes", "no name server: none of 127.0.0.1:1 answers"),
    ("connections", "no name server: none of 127.0.0.1:1 answers"),
    ("explain message 7F", "no name server: none of 127.0.0.1:1 answers"),
    ("message tail orders", "no name server: none of 127.0.0.1:1 answers"),
    ("message tail orders -f %q", "format '%q': '%q' at character 1 means nothing; it knows %t"),
    ("message tail orders --from soon", "'soon' is not a position; write start, end, an offset"),
    ("message show 7F", "no name server: none of 127.0.0.1:1 answers"),
    ("message export orders", "no name server: none of 127.0.0.1:1 answers"),
    ("message import {file}", "{file} line 1: it is no JSON"),
    ("message import {folder}", "{folder}: Is a directory; name another file"),
    ("message resend billing", "no name server: none of 127.0.0.1:1 answers"),
    ("topic list -n ;", "nameservers: names no address; write host:port"),
    ("topic route orders", "no name server: none of 127.0.0.1:1 answers"),
    ("send orders hello", "no name server: none of 127.0.0.1:1 answers"),
    ("send a/b hello", "topic 'a/b' has an illegal character"),
    ("consume a/b", "topic 'a/b' has an illegal character"),
    ("consume orders --group a/b", "group 'a/b' has an illegal character"),
    ("consume orders --tags ||", "subscription '||' to topic 'orders': it names no tag"),
    ("consume orders --strategy luck", "strategy: there is no 'luck'"),
    ("consume orders --strategy none:Such", "strategy: 'none:Such' cannot be made: No module"),
    ("consume orders --clock manual", "no name server: none of 127.0.0.1:1 answers"),
    ("clock advance 1", "no name server: none of 127.0.0.1:1 answers"),
    ("clock advance soon", "'soon' is not a duration; write a duration like"),
    (
        "clock advance 99999999",
        "a clock moves forward, and at most 2678400 s (31 days) at a time, not by 99999999 s; "
        "write 31d or less",
    ),
    ("group reset g orders --ago 1week", "'1week' is not a duration; write a duration"),
    ("message tail orders --from 3weeks-ago", "'3weeks' is not a duration; write a dur"),
    ("send orders hello --delay 2h", "no name server: none of 127.0.0.1:1 answers"),
    (
        "send orders hello --delay soon",
        "'soon' is not a duration; write a duration like 126, 126s, 500ms, 5m or 2h",
    ),
    ("send orders hello --property eu", "--property eu has no value; write --property NAME="),
    ("send orders hello --delay soon", "'soon' is not a duration; write a duration like"),
    ("send orders hello --delay 2h --delay-level 3", "give either --delay 2h or --delay-level 18"),
    ("fault add drop --code SEND", "there is no request code named 'SEND'; write SEND_MESSAGE or"),
    (
        "fault add fail --with-code BUSY",
        "there is no response code named 'BUSY'; write SYSTEM_BUSY",
    ),
    (
        "fault add drop --code NOTHING_SUCH",
        "there is no request code named 'NOTHING_SUCH'; docs/gen",
    ),
    ("fault add drop --probability 0", "a fault of probability 0 never fires; write a probability"),
    (
        "fault add delay",
        "the fault delay needs a delay; set delay_ms, such as 800 (--delay-ms 800)",
    ),
    (
        "topic list -n http://127.0.0.1:9876",
        "nameservers: 'http://127.0.0.1:9876' is not an address of the form host:port; write "
        "127.0.0.1:9876, without http://",
    ),
    (
        "failover --broker a --controllers http://127.0.0.1:1",
        "controllers: 'http://127.0.0.1:1' is not an address of the form host:port; write",
    ),
    (
        "fault-proxy --to http://127.0.0.1:1 --rules {rules}",
        "to or listen: 'http://127.0.0.1:1' is not an address of the form host:port; write 127",
    ),
    (
        "ps --control 127.0.0.1:9870",
        "'127.0.0.1:9870' is no control address; write http://127.0.0.1:9870",
    ),
    (
        "ps --control http://::1:99",
        "'http://::1:99' is no control address; write http://[::1]:99",
    ),
    ("ps --control https://x:1", "'https://x:1' is no control address; write http://x:1"),
    (
        "topic list -n 127.0.0.1",
        "nameservers: '127.0.0.1' is not an address of the form host:port: it has no port; write "
        "127.0.0.1:PORT",
    ),
    (
        "topic list -n https://x",
        "nameservers: 'https://x' is not an address of the form host:port; write x:PORT, with",
    ),
    ("topic list -n ::1:1", "no name server: none of [::1]:1 answers"),
    ("clock show", "no name server: none of 127.0.0.1:1 answers"),
    ("fault add explode", "there is no fault named 'explode'; choose from fail, delay, drop, lose"),
    ("watch --seconds 3", "--seconds says how long to record; give it only with --record"),
    ("watch --from {file} --export {file}x --seconds 3", "--seconds says how long to record"),
    ("watch --begin 3", "--begin and --end choose what --export HTML writes; give --export HTML"),
    ("watch --from {file} --export {file}x", "{file} is not a recording: "),
    ("pipeline package --out {file}/x", "{file}/x: Not a directory; name another file or folder"),
    (
        "failover --broker a --controllers nonsense",
        "controllers: 'nonsense' is not an address of the",
    ),
    ("failover --broker a --controllers 127.0.0.1:1", "no controller leads: 127.0.0.1:1: cannot"),
    ("config show broker --config {folder}", "{folder}: cannot be read: Is a directory"),
]

ROLES: dict[str, Command] = {"nameserver": nameserver, "broker": broker}

WRONG_ROLES = [
    ("nameserver --foo", "python -m pocketmq.nameserver: unrecognized arguments: --foo; see"),
    ("nameserver --port x", "nameserver: port (from flag --port): 'x' is not a whole number"),
    ("nameserver --port 65536", "nameserver: port: 65536 is none; write 0 to 65535"),
    ("nameserver --port -1", "nameserver: port: -1 is none"),
    (
        "nameserver --port {port}",
        "nameserver: port {port} on 127.0.0.1 is taken by pid {pid}; stop",
    ),
    ("nameserver --host 192.0.2.1", "nameserver: cannot listen on 192.0.2.1:9876:"),
    ("nameserver --config {folder}", "nameserver: {folder}: cannot be read: Is a directory"),
    ("broker stray", "python -m pocketmq.broker: unrecognized arguments: stray; see"),
    ("broker --port 65536 --data {folder}", "broker: port: 65536 is none"),
    ("broker --port {port} --data {folder}", "broker: port {port} on 127.0.0.1 is taken by pid"),
    (
        "broker --port 0 --data {file}",
        "broker: {file}: File exists; choose another folder with --data",
    ),
    (
        "broker --port 0 --data /proc/none",
        "broker: /proc/none: No such file or directory; choose another",
    ),
    (
        "broker --nameservers http://127.0.0.1:9876 --data {folder}",
        "broker: nameservers: 'http://127.0.0.1:9876' is not an address of the form host:port;",
    ),
    (
        "broker --nameservers nonsense",
        "broker: nameservers: 'nonsense' is not an address of the form",
    ),
    ("broker --broker-conf {folder}", "broker: {folder}: cannot be read: Is a directory"),
    (
        "broker --flush-disk-type SOME",
        "python -m pocketmq.broker: argument --flush-disk-type: invalid choice",
    ),
]


def by_text(value: object) -> str:
    return str(value)


@pytest.fixture
def places(tmp_path: Path) -> dict[str, object]:
    """What the examples name: a file, a folder, one in which no logs can be written."""
    file = tmp_path / "file"
    file.write_text("this is no option\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "logless").mkdir()
    (tmp_path / "logless" / "logs").write_text("a file where a folder has to be")
    (tmp_path / "rules.toml").write_text('[[faults]]\ndo = "drop"\n')
    names = ("folder", "logless")
    return {name: tmp_path / name for name in names} | {
        "file": file,
        "rules": tmp_path / "rules.toml",
    }


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith("\n")
    assert len(shown.err.splitlines()) == 1, shown.err
    return shown.err


@pytest.mark.parametrize(("command", "line"), WRONG_COMMAND_LINES, ids=by_text)
def test_a_wrong_command_line_is_one_line_and_status_2(
    command: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pocketmq(command.split()) == 2
    shown = one_line(capsys)
    assert shown.removeprefix("pocketmq").lstrip(" ").startswith(line)
    assert "--help`" in shown


@pytest.mark.parametrize(("command", "line"), WHAT_CANNOT_BE_DONE, ids=by_text)
def test_what_cannot_be_done_is_one_line_and_status_1(
    command: str,
    line: str,
    places: dict[str, object],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", NOBODY)
    assert pocketmq(command.format(**places).split()) == 1
    assert one_line(capsys).startswith("pocketmq: " + line.format(**places))


def test_a_wrong_variable_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POCKETMQ_LOOP", "none")
    assert pocketmq(["topic", "list"]) == 1
    gc.collect()  # a coroutine that nobody awaited would be told of now
    assert one_line(capsys).startswith("pocketmq: POCKETMQ_LOOP: 'none' is not an event loop")


def test_a_variable_that_no_option_has_is_named(
    places: dict[str, object], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POCKETMQ_CLUSTER_BROKRES", "2")
    assert pocketmq(["up", "--data", str(places["file"])]) == 1
    first, _ = capsys.readouterr().err.splitlines()
    assert first == "pocketmq up: unknown options ignored: POCKETMQ_CLUSTER_BROKRES"


@pytest.mark.parametrize(("command", "line"), WRONG_ROLES, ids=by_text)
def test_a_role_that_cannot_start_says_so_in_one_line(
    command: str, line: str, places: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    role, *words = command.split()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        facts = places | {"port": taken.getsockname()[1], "pid": os.getpid()}
        try:
            status = ROLES[role]([word.format(**facts) for word in words])
        except SystemExit as exc:
            status = int(str(exc.code))
    assert status in (1, 2)
    assert one_line(capsys).startswith(line.format(**facts))


@pytest.mark.parametrize(
    ("number", "name"),
    [(errno.ENOENT, "{file}"), (errno.ENOTDIR, "{folder}"), (errno.EACCES, "{file}/below/it")],
    ids=by_text,
)
def test_a_file_that_the_user_named_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    places: dict[str, Path],
    number: int,
    name: str,
) -> None:
    failing(monkeypatch, OSError(number, "wrong", name.format_map(places)))
    assert pocketmq(["store", "verify", f"store:{places['file']},{places['folder']}/x"]) == 1
    assert one_line(capsys).endswith(": wrong; name another file or folder\n")


@pytest.mark.parametrize(
    ("number", "name"),
    [(errno.ENOENT, "/usr/lib/none"), (errno.EACCES, "/usr/lib/none"), (errno.EACCES, 7)],
    ids=by_text,
)
def test_a_file_that_the_user_did_not_name_shows_a_traceback(
    monkeypatch: pytest.MonkeyPatch, places: dict[str, Path], number: int, name: str | int
) -> None:
    failing(monkeypatch, OSError(number, "wrong", name))
    with pytest.raises(OSError, match="wrong"):
        pocketmq(["store", "verify", str(places["file"])])


def failing(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    """Let the command end so."""

    def fail(*_words: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr("pocketmq.cluster.cli.main.make_app", lambda _words: fail)
