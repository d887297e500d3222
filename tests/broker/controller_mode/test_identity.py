"""`brokerIdentity` and `brokerIdentity-temp` as RocketMQ writes them (D-1 to D-4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.broker.controller_mode.identity import Identity, IdentityFiles
from pocketmq.broker.store import OsDisk
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.runtime.errors import DiskError


async def test_a_claim_is_noted_before_it_is_made_and_kept_when_it_is_accepted(
    tmp_path: Path,
) -> None:
    files = IdentityFiles(str(tmp_path), OsDisk())
    assert await files.load("C", "broker-a") is None
    claim = Identity("C", "broker-a", 2, "127.0.0.1:10911;17")
    await files.claim(claim)
    assert (tmp_path / "brokerIdentity-temp").read_text() == "C#broker-a#2#127.0.0.1:10911;17"
    assert await files.load("C", "broker-a") == claim
    await files.confirmed(claim)
    assert (tmp_path / "brokerIdentity").read_text() == "C#broker-a#2"
    assert not (tmp_path / "brokerIdentity-temp").exists()
    assert await files.load("C", "broker-a") == Identity("C", "broker-a", 2)


async def test_the_store_of_another_broker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "brokerIdentity").write_text("C#broker-b#1")
    with pytest.raises(DiskError, match="start the broker with the cluster name and"):
        await IdentityFiles(str(tmp_path), OsDisk()).load("C", "broker-a")
    (tmp_path / "brokerIdentity").write_text("nonsense")
    with pytest.raises(DiskError, match="no identity"):
        await IdentityFiles(str(tmp_path), OsDisk()).load("C", "broker-a")


def test_a_master_of_a_later_epoch_registers_with_a_higher_state_version() -> None:
    configs = TopicConfigManager("broker-a", "C")  # D-61, N-13
    configs.note_epoch(3, 1000)
    configs.put(TopicConfig(topic_name="orders"), 2000)
    assert configs.data_version.state_version == 3
    assert configs.data_version.counter == 2
