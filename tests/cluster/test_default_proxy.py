"""`pocketmq up` starts a proxy for RocketMQ 5's SDKs where nobody says otherwise."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pocketmq.cluster import default_proxy
from pocketmq.cluster.cli.roles.config_file import refuse_unused_by
from pocketmq.cluster.default_proxy import NoProxy, with_proxy
from pocketmq.cluster.spec import ClusterOptions
from pocketmq.runtime.errors import ConfigError

POCKETMQ = [sys.executable, "-m", "pocketmq"]


def chosen(**flags: Any) -> tuple[ClusterOptions, str]:
    """What `up` starts where these options are given."""
    origins = dict.fromkeys(("proxy", "proxy_port"), "default") | dict.fromkeys(flags, "flag")
    return with_proxy(ClusterOptions(**flags), origins)


def test_a_proxy_is_started_unless_it_is_told_not_to() -> None:
    for flags, expected in (
        ({}, True),
        ({"any_port": True, "slaves": 1, "clock": "manual"}, True),
        ({"users": Path("users.toml")}, True),
        ({"proxy": True}, True),
        ({"proxy": False}, False),
        ({"brokers": 0, "proxy": True}, True),
    ):
        options, why_not = chosen(**flags)
        assert (options.proxy, why_not) == (expected, ""), flags


def test_why_there_is_none_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(profile="4.9") == (ClusterOptions(profile="4.9"), NoProxy.WITHOUT_POP)
    assert chosen(profile="4.9", proxy=True)[0].proxy
    # Nothing is there that it could ask.
    assert chosen(brokers=0) == (ClusterOptions(brokers=0), NoProxy.WITHOUT_BROKERS)
    assert chosen(brokers=0, proxy=False)[1] == ""
    monkeypatch.setattr(default_proxy, "is_installed", lambda: False)
    assert chosen() == (ClusterOptions(), NoProxy.NOT_INSTALLED)
    assert chosen(proxy=False)[1] == ""
    assert chosen(proxy=True)[0].proxy  # the process says what to install


def test_a_file_may_speak_of_the_proxy_that_only_this_machine_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(default_proxy, "is_installed", lambda: False)
    path = tmp_path / "pocketmq.toml"
    path.write_text("[cluster]\nproxy_port = 9000\n[proxy]\nmax_message_size = 100000\n")
    refuse_unused_by("up", path)
    for text, why in (
        ("brokers = 0", NoProxy.WITHOUT_BROKERS),
        ('profile = "4.9"', NoProxy.WITHOUT_POP),
        ("proxy = false", "there is no proxy"),
    ):
        path.write_text(f"[cluster]\nproxy_port = 9000\n{text}\n")
        with pytest.raises(ConfigError, match="proxy_port") as refused:
            refuse_unused_by("up", path)
        assert f"has no effect with `pocketmq up`: {why}" in str(refused.value)


def test_where_its_port_is_taken_it_has_another_one_unless_it_was_chosen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for flags, expected in (
            ({"host": "127.0.0.1"}, 0),
            ({"host": "127.0.0.1", "any_port": True}, port),
            ({"host": "203.0.113.9"}, port),  # whoever listens there first says what is wrong
        ):
            options = ClusterOptions(proxy_port=port, **flags)
            found, _ = with_proxy(options, {"proxy": "default", "proxy_port": "default"})
            assert found.proxy_port == expected, flags
        assert chosen(proxy_port=port)[0].proxy_port == port
    assert chosen(proxy_port=port)[0].proxy_port == port


def test_it_takes_no_port_that_another_role_is_to_listen_on() -> None:
    for flags, expected in (
        ({"nameservers": 2, "nameserver_port": 8080}, 0),
        ({"controllers": 3, "controller_port": 8079}, 0),
        ({"brokers": 3, "broker_port": 8061}, 0),
        ({"brokers": 2, "broker_port": 8061}, 8081),
        ({"controllers": 1, "replicas": 3, "broker_port": 8061}, 0),
        ({"slaves": 1, "broker_port": 8071}, 0),
        ({"broker_port": 8083}, 0),  # beside it, for old clients
        ({"broker_port": 8080}, 0),  # beside it, for slaves
        ({"control_port": 8081}, 0),
        ({"proxy": True, "nameserver_port": 8081}, 0),
        ({"proxy_port": 8081, "nameserver_port": 8081}, 8081),  # as it was asked for
    ):
        options, _ = chosen(host="203.0.113.9", **flags)  # where nobody listens
        assert (options.proxy, options.proxy_port) == (True, expected), flags


def printed(env: dict[str, str], *words: str) -> list[str]:
    """What `pocketmq up` says until it is ready."""
    command = [*POCKETMQ, "up", "--any-port", "--control-port", "0", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | env) as up:
        try:
            assert up.stdout is not None
            lines = []
            for line in up.stdout:
                lines.append(line.rstrip())
                if line.startswith("Ctrl-C"):
                    break
        finally:
            up.send_signal(signal.SIGINT)
            up.communicate(timeout=100)
    assert up.returncode == 0
    return lines


@pytest.mark.cluster
def test_up_prints_what_sdks_are_given(tmp_path: Path) -> None:
    lines = printed({})
    [endpoints] = [each for each in lines if each.startswith("POCKETMQ_PROXY=")]
    [proxy] = [each for each in lines if each.startswith("proxy-1 ")]
    assert endpoints.partition("=")[2] in proxy.split()
    off = printed({"POCKETMQ_CLUSTER_PROXY": "false"})
    assert not [each for each in off if "proxy" in each.lower()]


@pytest.mark.cluster
def test_without_the_extra_it_starts_and_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\n"
        "found = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'grpc' else found(name, *more)\n"
    )
    lines = printed({"PYTHONPATH": str(tmp_path)})
    assert [each for each in lines if "proxy" in each.lower()] == [NoProxy.NOT_INSTALLED]


@pytest.mark.cluster
def test_where_grpc_is_broken_it_starts_without_a_proxy_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "grpc").mkdir()
    (tmp_path / "grpc" / "__init__.py").write_text("raise ImportError('undefined symbol: _x')")
    lines = printed({"PYTHONPATH": str(tmp_path)})
    [line] = [each for each in lines if "proxy" in each.lower()]
    assert line == (
        "no proxy for RocketMQ 5's SDKs: proxy-1 cannot start: gRPC cannot be imported: undefined "
        "symbol: _x; run `pip install --force-reinstall 'pocketmq[grpc]'`"
    )
    asked = [*POCKETMQ, "up", "--any-port", "--control-port", "0", "--proxy"]
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    up = subprocess.run(asked, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert up.returncode == 1
    assert "undefined symbol: _x" in up.stderr
