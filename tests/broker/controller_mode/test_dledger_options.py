"""DLedger's options are answered with what to use instead (D-200)."""

from __future__ import annotations

import pytest

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.replication.assembly import check_role
from pocketmq.runtime.errors import ConfigError


def test_a_dledger_commit_log_is_refused_with_what_to_use_instead() -> None:
    with pytest.raises(ConfigError, match="--enable-controller-mode with --controllers"):
        check_role(BrokerConfig(enable_d_leger_commit_log=True))


def test_controller_mode_needs_controllers_and_no_role() -> None:
    with pytest.raises(ConfigError, match="add --controllers"):
        check_role(BrokerConfig(enable_controller_mode=True))
    check_role(BrokerConfig(enable_controller_mode=True, controllers=["127.0.0.1:9881"]))
