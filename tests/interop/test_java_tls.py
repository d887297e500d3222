"""RocketMQ's Java client (5.3.3), unmodified, speaks TLS with our roles (Y-1, Y-7, Y-8)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.cluster import running
from support.java import JavaError, run_java

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads the client
]

COUNT = 200


async def test_java_clients_with_tls_send_and_receive_where_plaintext_is_refused(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, tls=True) as cluster:
        own = cluster.supervisor.spec.tls
        assert own is not None
        by_property = {"tls.enable": "true"}
        checking = {
            "tls.test.mode.enable": "false", "tls.client.authServer": "true",
            "tls.client.trustCertPath": str(own.certificate),
            "tls.client.certPath": str(own.certificate), "tls.client.keyPath": str(own.key),
        }  # fmt: skip
        try:
            sent = await asyncio.to_thread(
                run_java, "SendMessages", cluster.nameservers, "Locked", COUNT,
                "--tls", 1, properties=checking,
            )  # fmt: skip
            assert sent.tally("SENT") == {"SENT": COUNT}
            received = await asyncio.to_thread(
                run_java, "ConsumeMessages", cluster.nameservers, "readers", "Locked", "*", COUNT,
                240, properties=by_property,
            )  # fmt: skip
            assert received.tally("RECEIVED")["RECEIVED"] == COUNT
            with pytest.raises(JavaError):
                await asyncio.to_thread(
                    run_java, "SendMessages", cluster.nameservers, "Locked", 1, timeout_s=60
                )
        except JavaError as exc:
            raise JavaError(f"{exc}\n{cluster.story()}") from None


async def test_java_clients_with_and_without_tls_share_a_permissive_cluster(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as cluster:
        for properties in ({"tls.enable": "true"}, {}):
            sent = await asyncio.to_thread(
                run_java, "SendMessages", cluster.nameservers, "Open", COUNT, properties=properties
            )
            assert sent.tally("SENT") == {"SENT": COUNT}, cluster.story()
