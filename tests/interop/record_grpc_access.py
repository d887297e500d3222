"""Recipe of `tests/golden/access/grpc_5_3_3.json`: what RocketMQ's proxy 5.3.3 answers users.

python tests/interop/record_grpc_access.py

It starts RocketMQ's own nameserver, broker and proxy (`recipes/rocketmq-proxy`), all with ACL 2.0.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

import grpc
import grpc.aio

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pocketmq.client import Admin
from pocketmq.proxy.protos.classes import pb
from support.eventually import PATIENCE_MS
from support.golden import GOLDEN
from support.grpc_access import ADMIN, SECURE, TOPICS
from support.grpc_access_cases import answer, cases, make_accounts
from support.proxy_rig import Sdk
from support.real_proxy import real_proxy
from support.real_rocketmq import real_rocketmq

METADATA = "org.apache.rocketmq.{}.{}MetadataProvider"


def broker_settings() -> dict[str, object]:
    """ACL 2.0 of a real broker."""
    local = "auth.{0}.provider"
    return {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationMetadataProvider": METADATA.format(
            local.format("authentication"), "LocalAuthentication"
        ),
        "authorizationMetadataProvider": METADATA.format(
            local.format("authorization"), "LocalAuthorization"
        ),
        "initAuthenticationUser": SECURE["init_authentication_user"],
        "innerClientAuthenticationCredentials": SECURE["inner_client_authentication_credentials"],
    }


def proxy_settings() -> dict[str, object]:
    """ACL 2.0 of a real proxy."""
    return {
        "enableAclRpcHookForClusterMode": True,
        "authenticationEnabled": True,
        "authorizationEnabled": True,
        "authenticationMetadataProvider": METADATA.format("proxy.auth", "ProxyAuthentication"),
        "authorizationMetadataProvider": METADATA.format("proxy.auth", "ProxyAuthorization"),
        "innerClientAuthenticationCredentials": SECURE["inner_client_authentication_credentials"],
    }


async def record(folder: Path) -> dict[str, str]:
    """Ask it all."""
    with real_rocketmq(folder / "store", settings=broker_settings()) as cluster:
        nameservers = cluster.namesrv_addr
        async with Admin(
            nameservers=nameservers, encoding="json", credentials=ADMIN, api_timeout_ms=PATIENCE_MS
        ) as admin:
            await make_accounts(admin)
            for topic in TOPICS:
                await admin.create_topic(topic, message_type="NORMAL")
        with real_proxy(folder, nameservers, settings=proxy_settings()) as (port, _server):
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
            async with asyncio.timeout(120):
                await channel.channel_ready()
            sdk = Sdk(channel, pb.Endpoints(), "sdk-1")
            told = {case.name: await answer(sdk, case) for case in cases()}
            await channel.close()
            return told


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        found = asyncio.run(record(Path(made)))
    (GOLDEN / "access" / "grpc_5_3_3.json").write_text(json.dumps(found, indent=1) + "\n")
