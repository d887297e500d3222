"""Names that the proxy refuses by itself: topics and groups (G-50)."""

from __future__ import annotations

import re
from typing import Final

from pocketmq.protocol.messages.validation import (
    MAX_GROUP_CHARS,
    MAX_TOPIC_CHARS,
    SYSTEM_GROUP_PREFIX,
    is_system_topic,
)
from pocketmq.proxy.codes.refusals import Refusal
from pocketmq.proxy.protos.enums import Code

_LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-]+").fullmatch
_ALLOWED: Final = "^[%|a-zA-Z0-9_-]+$"
_JAVA_SHOWS: Final = "\x85\xa0\u2007\u202f"
"""White space for Python, and none for Java."""
_SHOWN: Final = 255
"""Characters of a wrong name that are said again."""


def check_topic(topic: str) -> None:
    """Pass a topic that SDKs may use.

    Raises:
        Refusal: ILLEGAL_TOPIC.
    """
    if is_blank(topic):
        raise Refusal(Code.ILLEGAL_TOPIC, "The specified topic is blank")
    if len(topic) > MAX_TOPIC_CHARS:
        raise Refusal(
            Code.ILLEGAL_TOPIC,
            f"The specified topic is longer than topic max length {MAX_TOPIC_CHARS}.",
        )
    if not _LEGAL(topic):
        raise Refusal(
            Code.ILLEGAL_TOPIC,
            f"The specified topic[{topic}] contains illegal characters, allowing only {_ALLOWED}",
        )
    if is_system_topic(topic):
        raise Refusal(Code.ILLEGAL_TOPIC, "cannot access system topic")


def check_group(group: str) -> None:
    """Pass a consumer group that SDKs may use.

    Raises:
        Refusal: ILLEGAL_CONSUMER_GROUP.
    """
    code = Code.ILLEGAL_CONSUMER_GROUP
    if is_blank(group):
        raise Refusal(code, "the specified group is blank")
    if len(group) > MAX_GROUP_CHARS:
        raise Refusal(
            code, f"the specified group is longer than group max length {MAX_GROUP_CHARS}."
        )
    if not _LEGAL(group):
        raise Refusal(
            code,
            f"the specified group[{group[:_SHOWN]}] contains illegal characters, allowing only "
            f"{_ALLOWED}",
        )
    if group.startswith(SYSTEM_GROUP_PREFIX):
        raise Refusal(code, "cannot use system consumer group")


def is_blank(text: str) -> bool:
    """Whether there is nothing but Java's white space in a text."""
    return all(character.isspace() and character not in _JAVA_SHOWS for character in text)


def has_control_character(text: str) -> bool:
    """Whether one of Java's ISO control characters is in a text."""
    return any(character < " " or "\x7f" <= character <= "\x9f" for character in text)
