"""A cluster that takes TLS only does so at each port on which its roles are asked."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from pocketmq.broker.server import VIP_DISTANCE
from pocketmq.cluster.local import local_cluster
from pocketmq.operation.tls.contexts import client_context
from pocketmq.runtime.addresses import address_text, split_address
from support.eventually import PATIENCE_S
from support.real_rocketmq import free_port
from support.wire_pair import RawPeer, request_bytes

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


async def test_each_port_of_the_roles_takes_tls_and_no_plaintext(tmp_path: Path) -> None:
    own = free_port((-VIP_DISTANCE, 0))
    async with local_cluster(
        controllers=1,
        proxy=True,
        tls=True,
        data=tmp_path,
        broker_arguments=("--port", str(own)),
    ) as cluster:
        assert cluster.spec.tls is not None
        ports = {each.name: each.address for each in cluster.processes}
        ports["broker-a, for clients up to 4.4"] = address_text("127.0.0.1", own - VIP_DISTANCE)
        ports["proxy-1, for SDKs"] = cluster.endpoints
        assert len(ports) == 6
        for name, address in ports.items():
            plain = await RawPeer.connect(address)
            plain.say(request_bytes())
            assert await plain.is_hung_up_on(), name
            await plain.close()

            trusting = client_context(verify=True, trust=cluster.spec.tls.certificate)
            found = await shaken(address, trusting)
            assert found in ("TLSv1.2", "TLSv1.3"), name


async def shaken(address: str, context: ssl.SSLContext) -> str | None:
    """What is spoken after a handshake; raises what the handshake ends with."""
    host, port = split_address(address)
    async with asyncio.timeout(PATIENCE_S):
        _, writer = await asyncio.open_connection(host, port, ssl=context)
        version: str | None = writer.get_extra_info("ssl_object").version()
        writer.close()
        await writer.wait_closed()
    return version
