"""What is logged of refusals: little, whatever strangers send."""

from __future__ import annotations

from pocketmq.operation.access.denials import Denials
from support.own_logs import own_logs


def test_the_first_refusal_of_a_kind_is_told_and_no_long_name_of_a_stranger() -> None:
    denials = Denials()
    with own_logs() as logs:
        for name in ("a" * 100_000, "a" * 100_001, "b"):
            denials.tell("127.0.0.1:1", "user", "SEND_MESSAGE", f"User:{name} is not found.")
    told = [each["reason"] for each in logs if each["log_level"] == "info"]
    assert told == [f"User:{'a' * 195}", "User:b is not found."]
