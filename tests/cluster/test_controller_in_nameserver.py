"""`enableControllerInNamesrv`: one process answers as a nameserver and as a controller (D-55)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pocketmq.cluster.process import ChildProcess
from pocketmq.protocol.codes import RequestCode
from support.eventually import eventually
from support.raw_remoting import ask
from support.real_rocketmq import free_port

pytestmark = pytest.mark.cluster

POCKETMQ = [sys.executable, "-m", "pocketmq.cluster.cli.main"]


async def test_a_broker_finds_name_server_and_controller_in_one_process(tmp_path: Path) -> None:
    port = free_port()
    conf = tmp_path / "namesrv.conf"
    conf.write_text(
        f"enableControllerInNamesrv=true\nlistenPort=0\ncontrollerDLegerGroup=g\n"
        f"controllerDLegerPeers=n0-127.0.0.1:{port}\ncontrollerDLegerSelfId=n0\n"
        f"controllerStorePath={tmp_path / 'controller'}\nkvConfigPath={tmp_path / 'kv.json'}\n"
    )
    both = ChildProcess(
        "nameserver", "nameserver", [*POCKETMQ, "nameserver", "-c", str(conf)],
        log_path=tmp_path / "nameserver.log",
    )  # fmt: skip
    await both.start()
    controller = f"127.0.0.1:{port}"
    assert both.facts["controller"] == controller != both.address
    command = [*POCKETMQ, "broker", "--port", "0", "--data", str(tmp_path / "store")]
    command += ["--nameservers", both.address, "--enable-controller-mode"]
    command += ["--controllers", controller]
    broker = ChildProcess("broker", "broker", command, log_path=tmp_path / "broker.log")
    try:
        await broker.start()
        assert "unknown" not in both.log_tail()
        meta = ask(controller, RequestCode.CONTROLLER_GET_METADATA_INFO, {})
        assert (meta.code, meta.ext["controllerLeaderAddress"]) == (0, controller)
        header = {"brokerName": "broker-a"}

        def is_master() -> bool:
            info = ask(controller, RequestCode.CONTROLLER_GET_REPLICA_INFO, header)
            return info.ext.get("masterAddress") == broker.address

        await eventually(is_master, "the controller made it master")

        def is_routed() -> bool:
            reply = ask(both.address, RequestCode.GET_BROKER_CLUSTER_INFO, {})
            return broker.address in reply.body.decode()

        await eventually(is_routed, "the nameserver knows the master")
        refused = ask(both.address, RequestCode.CONTROLLER_GET_METADATA_INFO, {})
        assert refused.code == 3  # each on its own port
    finally:
        await broker.kill()
        await both.stop()
    assert both.status == 0


def test_the_role_alone_says_how_to_start_both() -> None:
    command = [sys.executable, "-m", "pocketmq.nameserver", "--enable-controller-in-namesrv"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert ran.returncode == 1
    assert "start it with `pocketmq nameserver`" in ran.stderr
