"""`pocketmq up` serves a control address, and the commands are thin over it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pocketmq.cluster.control_address.client import VARIABLE
from support.eventually import eventually

pytestmark = pytest.mark.cluster

SEED = '[[topics]]\nname = "orders"\nqueues = 1\n[[messages]]\ntopic = "orders"\nbody = "hello"\n'
POCKETMQ = [sys.executable, "-m", "pocketmq.cluster.cli.main"]


def pocketmq(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*POCKETMQ, *words], capture_output=True, text=True, timeout=200,
        env=os.environ | (env or {}),
    )  # fmt: skip


def start(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


USERS = """acl = [["shop", "Topic:orders", "Pub,Get"], ["shop", "Group:*", "Sub"]]
[users]
shop = "s3cret"
[super_users]
admin = "0ther"
"""


async def test_a_secured_cluster_with_a_slave_is_steered_by_super_users(tmp_path: Path) -> None:
    data, ports, seed = tmp_path / "data", tmp_path / "ports.json", tmp_path / "seed.toml"
    seed.write_text(SEED)
    (tmp_path / "users.toml").write_text(USERS)
    toml = tmp_path / "cluster.toml"
    toml.write_text(f'[cluster]\nslaves = 1\nusers = "{tmp_path / "users.toml"}"\n')
    up = start(*POCKETMQ, "up", "--any-port", "--control-port", "0", "--data", str(data),
               "--config", str(toml), "--seed", str(seed), "--ports-file", str(ports))  # fmt: skip
    try:
        await eventually(lambda: ports.exists() or up.poll() is not None, "up is ready")
        told = json.loads(ports.read_text())
        where = {VARIABLE: told["control"], "NAMESRV_ADDR": told["nameservers"]}
        admin = where | {"POCKETMQ_ACCESS_KEY": "admin", "POCKETMQ_SECRET_KEY": "0ther"}
        shop = where | {"POCKETMQ_ACCESS_KEY": "shop", "POCKETMQ_SECRET_KEY": "s3cret"}

        for env in (where, shop):
            refused = pocketmq("freeze", "broker-a", env=env)
            assert (refused.returncode, "super user" in refused.stderr) == (1, True), refused
        assert pocketmq("freeze", "broker-a", env=admin).returncode == 0
        thawed = pocketmq("thaw", "broker-a", "--data", str(data))  # who may read the folder may
        assert thawed.returncode == 0, thawed
        changed = pocketmq("user", "update", "admin", "--password", "n3w", env=admin)
        assert changed.returncode == 0, changed
        new = admin | {"POCKETMQ_SECRET_KEY": "n3w"}
        assert pocketmq("freeze", "broker-a", env=new).returncode == 0
        for env in (admin, new):  # the slave knows the old password, and is not asked
            refused = pocketmq("thaw", "broker-a", env=env)
            assert (refused.returncode, "no master answers" in refused.stderr) == (1, True), refused
        assert pocketmq("thaw", "broker-a", "--data", str(data)).returncode == 0
        admin = new
        assert pocketmq("send", "orders", "paid", env=shop).returncode == 0
        refused = pocketmq("send", "orders", "paid", env=where)
        assert "username cannot be null" in refused.stderr
        listed = pocketmq("user", "list", "-o", "json", env=admin)
        assert not re.search("0ther|n3w", listed.stdout)
        access = json.loads((data / "broker-a-s1" / "config" / "access.json").read_text())
        assert len(access["users"]) == 3, "a slave copies no users, so it is told them too"
        for path in (data / "logs").iterdir():
            assert not re.search("s3cret|0ther|n3w", path.read_text()), path
    finally:
        up.send_signal(signal.SIGINT)
        printed, _ = up.communicate(timeout=200)
    assert up.returncode == 0
    assert not re.search("s3cret|0ther|n3w", printed)


async def test_a_cluster_is_steered_by_commands(tmp_path: Path) -> None:
    data, ports, seed = tmp_path / "data", tmp_path / "ports.json", tmp_path / "seed.toml"
    seed.write_text(SEED)
    up = start(*POCKETMQ, "up", "--any-port", "--control-port", "0", "--data", str(data),
               "--seed", str(seed), "--ports-file", str(ports))  # fmt: skip
    try:
        await eventually(lambda: ports.exists() or up.poll() is not None, "up is ready")
        told = json.loads(ports.read_text())
        assert up.stdout is not None
        assert up.stdout.readline() == f"NAMESRV_ADDR={told['nameservers']}\n"
        assert up.stdout.readline() == f"POCKETMQ_CONTROL={told['control']}\n"
        env = {VARIABLE: told["control"], "NAMESRV_ADDR": told["nameservers"]}

        shown = pocketmq("ps", env=env).stdout.split("\n")
        assert shown[1].split() == ["broker-a", told["roles"]["broker-a"], "running"]
        consumed = pocketmq("consume", "orders", "--count", "1", env=env)
        assert consumed.stdout == "broker-a/0 offset 0: hello\n"
        assert pocketmq("freeze", "broker-a", "--data", str(data)).stdout == "broker-a is frozen\n"
        assert pocketmq("kill", "broker-a", env=env).stdout == "broker-a is killed\n"
        assert pocketmq("restart", "broker-a", env=env).stdout == "broker-a runs again\n"
        added = pocketmq("fault", "add", "fail", "--code", "SEND_MESSAGE", "--topic", "orders",
                         "--with-code", "SYSTEM_BUSY", "--nth", "1", env=env)  # fmt: skip
        assert added.stdout == "r1 fail SEND_MESSAGE (10) with SYSTEM_BUSY (2) topic=orders nth=1\n"
        assert pocketmq("send", "orders", "again", env=env).returncode == 0  # at the second try
        listed = pocketmq("fault", "list", env=env).stdout
        assert listed.endswith("nth=1\tbroker-a 1\n")
        parted = pocketmq("partition", "broker-a", "clients", env=env).stdout
        assert parted == "r2 partition broker-a clients\n"
        assert pocketmq("fault", "clear", "r1", env=env).stdout == "fault rule r1 is cleared\n"
        assert pocketmq("fault", "clear", env=env).stdout == "1 fault rule cleared\n"
        assert "role.started" in pocketmq("logs", "broker-a", env=env).stdout
        refused = pocketmq("kill", "broker-z", env=env)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr == (
            "pocketmq: this cluster has no role 'broker-z'; its roles are nameserver-1, broker-a, "
            "proxy-1\n"
        )
        assert os.stat(data / "control.json").st_mode & 0o777 == 0o600
    finally:
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=200)
    assert up.returncode == 0
    assert not (data / "control.json").exists()
    gone = pocketmq("ps", env={VARIABLE: told["control"]})
    assert gone.returncode == 1
    assert "start a cluster with `pocketmq up`" in gone.stderr


async def test_a_cluster_runs_in_the_background_until_it_is_told_to_stop(tmp_path: Path) -> None:
    data, ports, seed = tmp_path / "data", tmp_path / "ports.json", tmp_path / "seed.toml"
    seed.write_text(SEED)
    ports.write_text("of an earlier run")
    words = ["up", "--wait-ready", "--control-port", "0", "--data", str(data)]
    ran = pocketmq(*words, "--any-port", "--seed", str(seed), "--ports-file", str(ports))
    assert (ran.returncode, ran.stderr) == (0, "")  # and nobody holds its output open
    try:
        told = json.loads(ports.read_text())
        lines = ran.stdout.splitlines()
        assert lines[:2] == [f"NAMESRV_ADDR={told['nameservers']}",
                             f"POCKETMQ_CONTROL={told['control']}"]  # fmt: skip
        assert lines[-1] == "pocketmq down stops the cluster"
        processes = [psutil.Process(int(pid)) for pid in re.findall(r"pid (\d+)", ran.stdout)]
        assert len(processes) == 3  # a nameserver, a broker, a proxy
        assert all(map(_lives, processes))
        asked = pocketmq("ready", "--topic", "orders", env={VARIABLE: told["control"]})
        assert (asked.returncode, asked.stdout) == (0, "ready\n")
        asked = pocketmq("ready", "--topic", "bills", "--data", str(data))
        assert (asked.returncode, asked.stderr) == (1, "not ready: topic bills has no route\n")
        taken = told["nameservers"].rpartition(":")[2]
        refused = pocketmq(*words[:4], env={"POCKETMQ_CLUSTER_NAMESERVER_PORT": taken})
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "--any-port" in refused.stderr
    finally:
        ended = pocketmq("down", "--data", str(data))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert not any(map(_lives, processes))
    assert not ports.exists()
    assert (data / "logs" / "up.log").exists()
    again = pocketmq("ready", env={VARIABLE: told["control"]})
    assert (again.returncode, again.stdout) == (1, "")


async def test_a_cluster_with_slaves_starts_from_the_command_line(tmp_path: Path) -> None:
    data = tmp_path / "data"
    words = ["up", "--wait-ready", "--any-port", "--control-port", "0", "--data", str(data)]
    # Less than the 3 s for which a sender waits: the broker's own answer is to come first.
    patience = {"POCKETMQ_BROKER_SLAVE_TIMEOUT": "1000"}
    ran = pocketmq(*words, "--slaves", "1", "--sync-slaves", env=patience)
    assert (ran.returncode, ran.stderr) == (0, "")
    try:
        env = {"NAMESRV_ADDR": ran.stdout.splitlines()[0].removeprefix("NAMESRV_ADDR=")}
        shown = pocketmq("cluster", "show", env=env).stdout
        assert {"master", "slave"} <= set(shown.split()), shown
        await eventually(
            lambda: "SEND_OK" in pocketmq("send", "orders", "hello", env=env).stdout,
            "the slave follows",  # one that stood still for a second is waited for in vain
        )
        parted = pocketmq("partition", "broker-a-s1", "others", "--data", str(data))
        assert parted.stdout == "r1 partition broker-a-s1 others\n"

        def is_missed() -> bool:
            sent = pocketmq("send", "orders", "alone", env=env)
            return "FLUSH_SLAVE_TIMEOUT" in sent.stdout + sent.stderr

        await eventually(is_missed, "the broker says that the slave does not follow")
        pocketmq("fault", "clear", "--data", str(data))
        await eventually(
            lambda: "SEND_OK" in pocketmq("send", "orders", "again", env=env).stdout,
            "the slave follows again",
        )
    finally:
        ended = pocketmq("down", "--data", str(data))
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("wait_ready", [False, True])
async def test_nothing_outlives_the_parent_when_asked_so(tmp_path: Path, wait_ready: bool) -> None:
    ports = tmp_path / "ports.json"
    words = ["up", "--any-port", "--control-port", "-1", "--exit-with-parent"]
    words += ["--ports-file", str(ports), "--data", str(tmp_path / "data")]
    words += ["--wait-ready"] if wait_ready else []
    code = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen({[*POCKETMQ, *words]!r}, stdout=subprocess.DEVNULL)\n"
        "sys.stdin.read()\n"
    )
    parent = start(sys.executable, "-c", code)
    await eventually(ports.exists, "up is ready")
    family = [each for each in psutil.process_iter() if _names(each, tmp_path)]
    assert len(family) >= 4  # up, a nameserver, a broker, a proxy
    parent.kill()
    parent.communicate()
    await eventually(lambda: not any(map(_lives, family)), "all of them are gone")


def _names(process: psutil.Process, folder: Path) -> bool:
    try:
        return str(folder) in " ".join(process.cmdline()) and process.name() != "sh"
    except psutil.Error:
        return False


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
