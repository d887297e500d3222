"""`schema-check` asks a registry for its own verdict, and never writes to it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator

import pytest

from pocketmq.pipeline.jobs.schemas.check import schema_check
from support.fake_registry import FakeRegistry

OLD = json.dumps({"properties": {"a": {"type": "integer"}}})
NEW = json.dumps({"properties": {"a": {"type": "string"}}})


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    fake = FakeRegistry()
    for number, text in enumerate((OLD, NEW), 1):
        fake.add("orders-value", number, "JSON", text)
    yield fake
    fake.close()


def told(registry: FakeRegistry, mode: str) -> list[tuple[int, int, str, str]]:
    found = schema_check("orders", registry.address, mode=mode).misfits  # type: ignore[arg-type]
    return [(each.reader, each.writer, each.verdict, each.what) for each in found]


@pytest.mark.parametrize(
    ("level", "mode", "sent", "version", "expected"),
    [
        ("BACKWARD", "backward", NEW, 1, (2, 1, "does not fit")),
        ("BACKWARD_TRANSITIVE", "forward", OLD, 2, (1, 2, "does not fit")),
        ("FORWARD", "forward", NEW, 1, (1, 2, "does not fit")),
        ("FORWARD_TRANSITIVE", "backward", OLD, 2, (2, 1, "does not fit")),
        ("FULL", "backward", NEW, 1, (2, 1, "cannot tell")),
        ("FULL", "full", NEW, 1, (2, 1, "does not fit")),
    ],
)
def test_a_registrys_own_rules_decide_whatever_its_level(
    registry: FakeRegistry,
    level: str,
    mode: str,
    sent: str,
    version: int,
    expected: tuple[int, int, str],
) -> None:
    registry.level = level
    registry.opinions[sent, version] = ["a: another type"]
    assert told(registry, mode) == [(*expected, "a: another type")]


def test_what_a_registry_accepts_is_not_judged_again(registry: FakeRegistry) -> None:
    registry.level = "BACKWARD"
    assert told(registry, "full") == []


@pytest.mark.parametrize("level", ["", "NONE"])
def test_where_a_registry_compares_nothing_the_rules_here_do(
    registry: FakeRegistry, level: str
) -> None:
    registry.level = level
    assert told(registry, "backward") == [(2, 1, "does not fit", "$.a: integer is not string")]


def test_nothing_is_written_to_a_registry(registry: FakeRegistry) -> None:
    before = copy.deepcopy(registry.subjects)
    registry.level = "FULL"
    told(registry, "full")
    asked = {each.split("?")[0] for each in registry.asked}
    assert {each for each in asked if not each.startswith("GET ")} == {
        f"POST /compatibility/subjects/orders-value/versions/{number}" for number in (1, 2)
    }
    assert registry.subjects == before
