"""Inputs that are guided by the code they reach break no decoder (fault 29)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from support.fuzzing import TARGETS, Target, fuzz, seeds_of

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@pytest.mark.parametrize("name", TARGETS)
def test_a_decoder_refuses_by_its_own_error_and_never_takes_long(name: str) -> None:
    found = fuzz(TARGETS[name], seeds_of(name, GOLDEN), runs=800, chance=Random(3))
    assert found.faults == []
    assert found.runs >= 800
    assert found.steps > 40


def test_an_error_that_was_not_announced_is_found() -> None:
    def decode(data: bytes) -> None:
        TARGETS["text"].feed(data)
        if data[:2] == b"KE" and len(data) != 18:
            raise IndexError("planted")

    seeds = seeds_of("text", GOLDEN)
    found = fuzz(Target(decode, ()), seeds, runs=800, chance=Random(3))
    assert found.faults
    assert found.faults[0][1] == "IndexError: planted"
