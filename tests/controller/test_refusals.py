"""What a controller's errors say, and with which code they are answered."""

from __future__ import annotations

import pytest

from pocketmq.controller import commands
from pocketmq.controller.errors import (
    ControllerRefusedError,
    ForeignLogError,
    NotLeadingError,
    RaftMessageError,
    TooManyProposalsError,
    UndecidedError,
)
from pocketmq.controller.limits import Limits
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BadRequestError


def test_a_refusal_has_its_code_and_remark() -> None:
    error = ControllerRefusedError(2012, "why")
    assert (error.code, error.remark, str(error)) == (2012, "why", "why")


def test_who_leads_is_named_if_somebody_does() -> None:  # I-14
    known, unknown = NotLeadingError("n1"), NotLeadingError("")
    assert (known.leader, known.code) == ("n1", ResponseCode.CONTROLLER_NOT_LEADER)
    assert str(known) == "this controller does not lead; ask controller n1"
    assert str(unknown) == "this controller does not lead; none leads now; ask again in a second"


def test_too_many_and_undecided_say_how_long_and_how_many() -> None:
    busy, undecided = TooManyProposalsError(9), UndecidedError(2.5)
    assert (busy.waiting, busy.code) == (9, ResponseCode.SYSTEM_BUSY)
    assert str(busy).startswith("9 commands wait for a majority")
    assert (undecided.waited_s, undecided.code) == (2.5, ResponseCode.CONTROLLER_NOT_LEADER)
    assert "answered within 2.5 s" in str(undecided)


def test_messages_and_logs_of_strangers_are_named() -> None:
    message, log = RaftMessageError("n7", "it is none of n0"), ForeignLogError("n2", 31)
    assert (message.sender, message.reason) == ("n7", "it is none of n0")
    assert message.code == ResponseCode.CONTROLLER_INVALID_REQUEST
    assert str(message) == "message of controller n7: it is none of n0; it was dropped"
    assert (log.leader, log.index) == ("n2", 31)
    assert str(log).startswith("controller n2 leads with another entry 31 than")


@pytest.mark.parametrize(
    "command",
    [
        commands.ApplyId("c", "a", 1, "a:1;x"),
        commands.SetAddress("c", "a", 1, "a:2"),
        commands.ApplyId("c", "a", 1, "a:1;x", Limits(1, 2, 3, 4)),
        commands.AlterSet("a", 1, 2, [1, 2], 3, [1]),
        commands.Clean("c", "a", [], True, [1]),
    ],
)
def test_a_command_of_the_log_is_read_as_it_was_written(command: commands.Command) -> None:
    assert commands.decode(commands.encode(command)) == command


def test_a_claim_of_an_older_version_brings_its_limits_of_then() -> None:
    found = commands.decode(
        '{"type":"apply-id","cluster":"c","name":"a","broker_id":1,"check_code":"x"}'
    )
    assert isinstance(found, commands.ApplyId)
    assert found.limits == Limits(10_000, 64, 2**63 - 1, 2**63 - 1)


@pytest.mark.parametrize("text", ["", "[]", '{"type":"of-a-newer-version"}', '{"type":"clean"}'])
def test_what_is_no_command_is_refused(text: str) -> None:
    with pytest.raises(BadRequestError, match="not a controller's command"):
        commands.decode(text)
