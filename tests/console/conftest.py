"""The `pocketmq` command, called in this process, against the cluster of the pytest plugin."""

from __future__ import annotations

import pytest

from pocketmq.cluster.cli.main import main
from pocketmq.runtime import logs
from pocketmq.testing import Cluster
from support.console import Console, Said


@pytest.fixture
def console(
    pocketmq: Cluster, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Console:
    """Runs `pocketmq ...`; its output is captured, so it is no terminal."""
    monkeypatch.setenv("NAMESRV_ADDR", pocketmq.nameservers)
    logs.configure("error")  # before clients of the test begin a line that ends in a command's

    def run(*words: str) -> Said:
        capfdbinary.readouterr()
        status = main(words)
        shown = capfdbinary.readouterr()
        return Said(status, shown.out.decode(), shown.err.decode())

    return run
