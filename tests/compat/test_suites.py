"""A sample of `make compat`: one version of each suite, beside the ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat import ledger
from compat.suites import suite_named, told_by

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(1300),  # a first run downloads the libraries
]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("spring", marks=pytest.mark.java),
        pytest.param("ons", marks=pytest.mark.java),
        pytest.param("spring3", marks=[pytest.mark.java, pytest.mark.nightly]),
        pytest.param("ons-accounts", marks=[pytest.mark.java, pytest.mark.nightly]),
        pytest.param("go", marks=[pytest.mark.go, pytest.mark.nightly]),
    ],
)
async def test_a_program_with_a_library_of_rocketmqs_users_does_what_the_ledger_says(
    name: str, tmp_path: Path
) -> None:
    suite = suite_named(name)
    version = suite.versions[0]
    told = await told_by(suite, version, tmp_path)
    known = ledger.read()[name][version]
    assert ledger.objections(suite.rows, told.rows, known) == [], told.story
