"""DLedger's options are answered with what to use instead (D-200)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.replication.assembly import check_role
from pocketmq.runtime.configuration.config import unknown_names
from pocketmq.runtime.errors import ConfigError


def test_a_dledger_commit_log_is_refused_with_what_to_use_instead() -> None:
    with pytest.raises(ConfigError, match="--enable-controller-mode with --controllers"):
        check_role(BrokerConfig(enable_d_leger_commit_log=True))


def test_its_peers_are_answered_with_what_to_use_instead(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    names = ["dLegerGroup", "dLegerPeers", "dLegerSelfId", "preferredLeaderId"]
    names += ["storePathDLedgerCommitLog", "enableBatchPush"]
    conf.write_text("brokerName=a\n" + "".join(f"{name}=x\n" for name in names))
    told = unknown_names([BrokerConfig], {}, conf)
    assert [line.partition(" (")[0] for line in told] == names
    assert told[1] == "dLegerPeers (use controllerAddr, host:port of each controller)"
    assert told[3] == "preferredLeaderId (use brokerElectionPriority)"


def test_controller_mode_needs_controllers_and_no_role() -> None:
    with pytest.raises(ConfigError, match="add --controllers"):
        check_role(BrokerConfig(enable_controller_mode=True))
    check_role(BrokerConfig(enable_controller_mode=True, controllers=["127.0.0.1:9881"]))
