"""IPv6, as a user types it: every role, every kind of command, what they print, the fixtures."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pocketmq.client import Message, Producer
from pocketmq.cluster.local import local_cluster
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import AddressScheme
from pocketmq.runtime.ports import free_ports
from pocketmq.testing.cluster import start_cluster
from support.eventually import PATIENCE_MS
from support.ipv6 import needs_ipv6
from support.nested_pytest import pytest_command
from support.proxy_rig import proxy_rig

pytestmark = [needs_ipv6, pytest.mark.cluster]

POCKETMQ = [sys.executable, "-m", "pocketmq.cluster.cli.main"]
SIX = r"\[::1\]:\d+"


def pocketmq(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*POCKETMQ, *words],
        capture_output=True,
        text=True,
        timeout=200,
        env=os.environ | {"COLUMNS": "200"} | env,
    )


def said(*words: str, **env: str) -> str:
    ran = pocketmq(*words, **env)
    assert (ran.returncode, ran.stderr) == (0, ""), words
    return ran.stdout


def unique_id(sent: str) -> str:
    return sent.split()[-1]


@contextmanager
def running(*words: str) -> Iterator[str]:
    """A role in the foreground; yields its ready line."""
    command = [*POCKETMQ, *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as role:
        assert role.stdout is not None
        line = role.stdout.readline().strip()
        try:
            yield line
        finally:
            role.send_signal(signal.SIGINT)
            _, complaints = role.communicate(timeout=100)
        assert line, complaints


def test_each_role_listens_on_a_port_that_was_named(tmp_path: Path) -> None:
    name_port, broker_port, controller_port, grpc_port = map(str, free_ports("::1", 4))
    data = str(tmp_path / "store")
    at = f"[::1]:{name_port}"
    with (
        running("nameserver", "--host", "::1", "--port", name_port) as nameserver,
        running("controller", "--host", "::1", "--port", controller_port,
                "--store-path", str(tmp_path / "journal")) as controller,
        running("broker", "--host", "::1", "--port", broker_port, "--data", data,
                "--nameservers", at) as broker,
        running("proxy", "--host", "::1", "--grpc-port", grpc_port,
                "--nameservers", at) as proxy,
    ):  # fmt: skip
        assert f"port={name_port}" in nameserver
        assert f"port={controller_port}" in controller
        assert f"port={broker_port}" in broker
        assert f"grpc_port={grpc_port}" in proxy
        again = pocketmq("nameserver", "--host", "::1", "--port", name_port)
        assert again.returncode == 1
        assert again.stderr.startswith(f"nameserver: port {name_port} on ::1 is taken by pid ")
        assert f"[::1]:{broker_port}" in said("cluster", "show", "-n", at)


async def test_a_proxy_tells_its_own_address(tmp_path: Path) -> None:
    async with proxy_rig(tmp_path, "broker-a", options={"host": "::1"}) as rig:
        await rig.cluster.create_topic("orders")
        sdk = rig.sdk(host="::1")
        answer = await sdk.call(
            "QueryRoute", topic=pb.Resource(name="orders"), endpoints=sdk.endpoints
        )
        told = answer.message_queues[0].broker.endpoints
        assert (told.scheme, told.addresses[0].host) == (AddressScheme.IPv6, "::1")


def test_faults_are_put_before_a_process_there(tmp_path: Path) -> None:
    (name_port,) = map(str, free_ports("::1", 1))
    rules = tmp_path / "faults.toml"
    rules.write_text("")
    with running("nameserver", "--host", "::1", "--port", name_port):
        to = f"[::1]:{name_port}"
        with running("fault-proxy", "--to", to, "--listen", "[::1]:0", "--rules", str(rules)) as on:
            listens, behind = re.match(rf"({SIX}) -> ({SIX}),", on).groups()  # type: ignore[union-attr]
            assert behind == to
            behind_it, itself = (pocketmq("cluster", "show", "-n", each) for each in (listens, to))
            assert itself.returncode == 0
            assert (behind_it.returncode, behind_it.stdout, behind_it.stderr) == (
                *(0, itself.stdout, itself.stderr),
            )


def test_an_address_in_brackets_is_taken_as_well() -> None:
    with running("nameserver", "--host", "[::1]", "--port", "0") as line:
        assert "host=::1" in line


def test_an_address_that_this_machine_lacks_is_named_with_its_brackets() -> None:
    (port,) = map(str, free_ports("::1", 1))
    ran = pocketmq("nameserver", "--host", "2001:db8::1", "--port", port)
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"nameserver: cannot listen on [2001:db8::1]:{port}: ")


def test_a_whole_cluster_and_the_commands_that_ask_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    words = ["up", "--wait-ready", "--host", "::1", "--any-port", "--control-port", "0"]
    told = said(*words, "--controllers", "1", "--data", str(data))
    try:
        assert re.match(rf"NAMESRV_ADDR={SIX}\nPOCKETMQ_CONTROL=http://{SIX}\n", told)
        assert re.search(rf"^CONTROLLER_ADDR={SIX}$", told, re.MULTILINE)
        for role in ("nameserver-1", "controller-1", "broker-a"):
            assert re.search(rf"^{role} +{SIX} +pid \d+$", told, re.MULTILINE), told
        lines = dict(line.split("=", 1) for line in told.splitlines()[:2])
        at, control = lines["NAMESRV_ADDR"], lines["POCKETMQ_CONTROL"]

        said("topic", "create", "orders", "--queues", "1", "-n", at)
        sent = said("send", "orders", "hello", "--key", "k1", "-n", at)
        assert "SEND_OK broker-a/0 offset 0" in sent
        got = said("consume", "orders", "--group", "billing", "--count", "1", "-n", at)
        assert got == "broker-a/0 offset 0 key=k1: hello\n"
        for asked in (
            ("topic", "list"), ("topic", "route", "orders"), ("topic", "stats", "orders"),
            ("group", "list"), ("group", "show", "billing"), ("cluster", "show"),
            ("config", "get"), ("message", "tail", "orders", "--from", "start", "--no-follow"),
            ("connections",), ("clock", "show"),
        ):  # fmt: skip
            ran = pocketmq(*asked, "-n", at)
            assert ran.returncode == 0, (asked, ran.stderr)
        assert re.search(SIX, said("topic", "route", "orders", "-n", at))
        assert re.search(SIX, said("cluster", "show", "-n", at))
        shown = said("message", "show", "orders", "broker-a/0", "0", "-n", at)
        assert re.search(SIX, shown), shown
        (offset_id,) = set(re.findall(r"\b[0-9A-F]{56}\b", shown)) - {unique_id(sent)}
        assert said("message", "show", offset_id, "-n", at) == shown

        assert re.search(rf"broker-a\s+{SIX}\s+running", said("ps", "--control", control))
        assert "broker-a" in said("ps", "--data", str(data))
        assert said("ready", "--topic", "orders", POCKETMQ_CONTROL=control) == "ready\n"
        for path, part in (("/metrics", "pocketmq_role_up"), ("/watch", "<html")):
            with urllib.request.urlopen(control + path, timeout=100) as answer:
                assert part in answer.read().decode()
    finally:
        ended = pocketmq("down", "--data", str(data))
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("mode", ["in-process", "processes"])
def test_the_cluster_of_a_test_listens_there(mode: str) -> None:
    with start_cluster(host="::1", mode=mode) as cluster:  # type: ignore[arg-type]
        topic = cluster.sync.create_topic("orders")
        assert re.fullmatch(SIX, cluster.nameservers)
        assert "SEND_OK" in said("send", topic, "hello", "-n", cluster.nameservers)
        assert re.fullmatch(rf"http://{SIX}", cluster.control_url)
        assert "broker-a" in said("ps", "--control", cluster.control_url)


def test_the_plugin_has_an_option_for_it(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "def test_it(pocketmq, pocketmq_clock):\n"
        "    assert pocketmq.nameservers.startswith('[::1]:')\n"
        "    pocketmq.sync.create_topic('orders')\n"
        "    pocketmq.sync.advance(seconds=126)\n"
    )
    ran = subprocess.run(
        pytest_command(tmp_path, "--pocketmq-host", "::1", "-p", "no:cacheprovider"),
        cwd=tmp_path, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout


async def test_replicas_of_a_script_find_each_other_there() -> None:  # H-2
    async with local_cluster(host="::1", controllers=3, replicas=2) as cluster:
        async with Producer(
            "p", nameservers=cluster.namesrv_addr, send_timeout_ms=PATIENCE_MS
        ) as producer:
            await producer.send(Message("orders", b"hello"))
        await cluster.wait_for_brokers(["broker-a"])
        assert re.fullmatch(SIX, cluster["broker-a-2"].address)
