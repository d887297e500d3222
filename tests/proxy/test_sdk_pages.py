"""The programs of docs/grpc-sdks.md do what the page says, each in its language."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path
from typing import Final

import pytest

from support.official_sdk import ROOT, sdk_python
from support.sdk_programs import go_command, java_command, node_command, run, rust_command
from support.sdk_world import sdk_world

PAGE: Final = ROOT / "docs" / "grpc-sdks.md"
LANGUAGES: Final = ("python", "go", "js", "java", "rust")
ADDRESS: Final = "127.0.0.1:8081"
PATIENT: Final = {
    "python": ("Credentials())", "Credentials(), request_timeout=60)"),
    "go": ("10*time", "20*time"),
    "js": ("namespace: ''", "namespace: '', requestTimeout: 60000"),
    "java": (".build();\n", ".setRequestTimeout(Duration.ofSeconds(60)).build();\n"),
    "rust": (
        "    let mut topics",
        "    at.set_timeout(tokio::time::Duration::from_secs(60));\n    let mut topics",
    ),
}
"""What a reader's machine does not need: an SDK gives up after 3 s, and this one may be busy."""

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.timeout(2_000),  # the first run on a machine fetches and builds
]


def programs() -> dict[str, str]:
    """The programs of the page by their language."""
    found = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return {language: text for language, text in found if language != "console"}


def command(language: str, program: str, folder: Path) -> list[str | Path]:
    """What runs a program."""
    names = {"python": "hello.py", "go": "main.go", "js": "hello.cjs", "java": "Hello.java"}
    file = folder / names.get(language, "main.rs")
    file.write_text(program)
    match language:
        case "python":
            return [sdk_python(), file]
        case "go":
            return go_command(file, folder)
        case "js":
            return node_command(file)
        case "java":
            return java_command(file, folder)
        case _:
            return rust_command(file)


def test_the_page_has_a_program_in_each_language() -> None:
    assert tuple(programs()) == LANGUAGES


@pytest.mark.parametrize(
    "language",
    [
        "python",
        pytest.param(
            "js", marks=pytest.mark.skipif(shutil.which("npm") is None, reason="npm is missing")
        ),
        # `test_other_sdks.py` has more of the next two with every change; to build the last takes
        # minutes.
        pytest.param("go", marks=[pytest.mark.go, pytest.mark.nightly]),
        pytest.param("java", marks=[pytest.mark.java, pytest.mark.nightly]),
        pytest.param(
            "rust",
            marks=[
                pytest.mark.nightly,
                pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is missing"),
            ],
        ),
    ],
)
async def test_a_program_of_the_page_sends_and_receives(language: str, tmp_path: Path) -> None:
    async with sdk_world() as (where, admin):
        await admin.create_topic("orders")
        program = programs()[language]
        for old, new in ((ADDRESS, where), PATIENT[language]):
            assert program.count(old) == 1
            program = program.replace(old, new)
        words = await asyncio.to_thread(command, language, program, tmp_path)
        assert "hello" in (await asyncio.to_thread(run, *words)).splitlines()
        assert "billing" in await admin.groups("broker-a")
