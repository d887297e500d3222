"""Error messages say what happened, with values, and what to do."""

from __future__ import annotations

import inspect

from pocketmq.runtime import errors
from pocketmq.runtime.errors import (
    ClockMemberError,
    ConfigError,
    DiskError,
    MissingToolError,
    PocketMQError,
    PortInUseError,
)


def test_messages_hold_the_facts_and_the_advice() -> None:
    assert str(PortInUseError(9876, 4312)) == (
        "port 9876 is taken by pid 4312; stop it or start with --port 0 for a free one"
    )
    assert "another process" in str(PortInUseError(9876))
    assert str(ConfigError("port", "is 70000", origin="flag --port", advice="use 1-65535")) == (
        "port (from flag --port): is 70000; use 1-65535"
    )
    assert str(DiskError("/d/x", "disk full", advice="free some space")) == (
        "/d/x: disk full; free some space"
    )
    assert "broker-a did not answer" in str(ClockMemberError("broker-a", "move", "timeout"))
    assert "needs mvn" in str(MissingToolError("mvn", "the Java test", "run make setup"))


def test_every_class_hangs_in_the_tree_that_its_module_draws() -> None:
    drawn = errors.__doc__ or ""
    for name, member in inspect.getmembers(errors, inspect.isclass):
        if issubclass(member, PocketMQError):
            assert name in drawn
