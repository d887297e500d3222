"""A key of a TOML file that a command does not use is an error in one line; nothing is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

POCKETMQ = [sys.executable, "-m", "pocketmq.cluster.cli.main"]
UP = ("up", "--any-port", "--control-port", "0", "--config")
NAMESERVER = ("nameserver", "--port", "0", "--config")
BROKER = ("broker", "--port", "0", "--data", "store", "--config")
CONTROLLER = ("controller", "--store-path", "journal", "--config")
PROXY = ("proxy", "--grpc-port", "0", "--config")
COMMANDS = [UP, NAMESERVER, BROKER, CONTROLLER, PROXY]


def refused(folder: Path, words: tuple[str, ...], text: str) -> str:
    path = folder / "cluster.toml"
    path.write_text(text)
    ran = subprocess.run(
        [*POCKETMQ, *words, str(path)],
        cwd=folder, capture_output=True, text=True, timeout=100, env=os.environ,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (1, ""), (text, ran.stderr)
    (line,) = ran.stderr.splitlines()
    assert str(path) in line
    return line


@pytest.mark.parametrize("words", COMMANDS, ids=lambda each: each[0])
def test_a_key_outside_of_all_tables(tmp_path: Path, words: tuple[str, ...]) -> None:
    line = refused(tmp_path, words, 'host = "::1"\n')
    own = "cluster" if words is UP else words[0]
    assert "host" in line
    assert "is in no table" in line
    assert f"write it below [{own}]" in line
    assert f"[{own}] knows " in line


@pytest.mark.parametrize("words", COMMANDS, ids=lambda each: each[0])
def test_a_table_that_nobody_reads(tmp_path: Path, words: tuple[str, ...]) -> None:
    line = refused(tmp_path, words, "[tool.ours]\nspeed = 1\n")
    assert "[tool.ours]" in line
    assert "process" in line.partition("tables ")[2]


def test_a_table_of_another_command(tmp_path: Path) -> None:
    line = refused(tmp_path, BROKER, '[nameserver]\nhost = "::1"\n[broker]\n')
    assert "[nameserver]" in line
    assert "--shared-config" in line  # where several commands read one file
    assert "[controller]" in refused(tmp_path, UP, "[controller]\nelection_timeout = 500\n")


@pytest.mark.parametrize(
    ("text", "key", "instead"),
    [
        ('[broker]\nhost = "::1"\n', "host", "[cluster] host"),
        ('[nameserver]\nhost = "::1"\n', "host", "[cluster] host"),
        ("[broker]\nport = 12000\n", "port", "[cluster] broker_port"),
        ("[nameserver]\nport = 12000\n", "port", "[cluster] nameserver_port"),
        ('[broker]\nname = "mine"\n', "name", ""),
        ('[broker]\nnameservers = ["h:1"]\n', "nameservers", "[cluster] nameservers"),
        ('[broker]\ndata = "here"\n', "data", "[cluster] data"),
        ('[store]\nstore_path_root_dir = "here"\n', "store_path_root_dir", "[cluster] data"),
        ('[process]\nprofile = "4.9"\n', "profile", "[cluster] profile"),
        ('[process]\nclock = "manual"\n', "clock", "[cluster] clock"),
        ('[cluster]\nproxy = true\n[proxy]\nhost = "::1"\n', "host", "[cluster] host"),
    ],
)
def test_a_key_of_a_role_that_up_chooses_itself(
    tmp_path: Path, text: str, key: str, instead: str
) -> None:
    line = refused(tmp_path, UP, text)
    assert line.startswith(f"pocketmq: {key} (from ")
    assert "`pocketmq up` chooses it" in line
    assert instead in line


@pytest.mark.parametrize(
    ("given", "text", "key", "why"),
    [
        (("--any-port",), "broker_port = 12000", "broker_port", "the system chooses all ports"),
        ((), "any_port = true\nnameserver_port = 1", "nameserver_port", "chooses all ports"),
        ((), "controller_port = 9000", "controller_port", "there are no controllers"),
        (("--no-proxy",), "proxy_port = 9000", "proxy_port", "there is no proxy"),
        (("--brokers", "0"), 'cluster_name = "ours"', "cluster_name", "there are no brokers"),
        ((), "brokers = 0\nbroker_port = 12000", "broker_port", "there are no brokers"),
        ((), "clock_start_ms = 5", "clock_start_ms", "the clock is not manual"),
        ((), 'control_port = -1\ncontrol_host = "::1"', "control_host", "no control address"),
    ],
)
def test_a_key_that_others_leave_without_effect(
    tmp_path: Path, given: tuple[str, ...], text: str, key: str, why: str
) -> None:
    line = refused(tmp_path, ("up", *given, "--config"), f"[cluster]\n{text}\n")
    assert line.startswith(f"pocketmq: {key} (from ")
    assert "has no effect with `pocketmq up`: " in line
    assert why in line
    assert "leave it out" in line


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (NAMESERVER, "slaves"),
        (BROKER, "broker_names"),
        (CONTROLLER, "slaves"),
        (UP, "replicas"),
        (PROXY, "slaves"),
    ],
    ids=lambda each: each[0],
)
def test_a_limit_of_a_role_that_the_command_does_not_run(
    tmp_path: Path, words: tuple[str, ...], key: str
) -> None:
    line = refused(tmp_path, words, f"[budget]\n{key} = 5\n")
    assert "is for a " in line
    assert "runs none; leave it out; [budget] knows body_bytes, " in line
    assert key not in line.partition("knows ")[2].split(", ")


@pytest.mark.parametrize("words", [UP, BROKER], ids=lambda each: each[0])
def test_a_key_that_its_table_does_not_have(tmp_path: Path, words: tuple[str, ...]) -> None:
    line = refused(tmp_path, words, "[broker]\nbroker_permision = 4\n")
    assert "broker_permision (from " in line
    assert "did you mean broker_permission?" in line
    assert "[broker] knows " in line
    assert "flush_disk_type" not in line.partition("knows ")[0]


def test_what_is_shown_of_the_options_is_as_strict(tmp_path: Path) -> None:
    assert "host" in refused(tmp_path, ("config", "show", "up", "--config"), 'host = "::1"\n')
    shown = ("config", "show", "broker", "--config")
    assert "[nameserver]" in refused(tmp_path, shown, "[nameserver]\nport = 1\n")


def test_a_file_that_is_used_whole_starts_all_its_roles(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(
        '[cluster]\nhost = "127.0.0.1"\ncontrollers = 1\n[nameserver]\nenable_topic_list = true\n'
        "[broker]\nbroker_permission = 4\n[store]\nmessage_index_enable = false\n"
        "[controller]\nelection_timeout = 500\n[process]\nslow_turn_ms = 0\n[budget]\n"
        "slaves = 64\nbroker_names = 100\nroutes = 1000\n"
    )
    data = tmp_path / "data"
    ran = subprocess.run(
        [*POCKETMQ, "up", "--any-port", "--control-port", "0", "--wait-ready",
         "--data", str(data), "--config", str(path)],
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    # It is no child of this test: what is asserted first would leave it behind.
    subprocess.run([*POCKETMQ, "down", "--data", str(data)], timeout=200, check=True)
    assert (ran.returncode, ran.stderr) == (0, "")
