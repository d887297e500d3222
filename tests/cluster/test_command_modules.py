"""Only the module of the command that is asked for is imported: the others would cost its start."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
import typer

from pocketmq.cluster.cli.main import COMMANDS, make_app


def names(app: typer.Typer) -> list[str | None]:
    return [each.name for each in (*app.registered_commands, *app.registered_groups)]


@pytest.mark.parametrize("module", COMMANDS)
def test_each_module_has_the_commands_that_the_table_says(module: str) -> None:
    app = typer.Typer()
    importlib.import_module(f"pocketmq.cluster.cli.{module}").register(app)
    assert tuple(names(app)) == COMMANDS[module]
    assert tuple(names(make_app([COMMANDS[module][0], "--help"]))) == COMMANDS[module]


def test_up_imports_no_other_command_and_nothing_to_measure_or_store_with() -> None:
    code = (
        "import sys\n"
        "from pocketmq.cluster.cli.main import make_app\n"
        "make_app(['up'])\n"
        "import pocketmq.cluster.up\n"
        "beside = ('pocketmq.cluster.cli.', 'pocketmq.broker.', 'prometheus_client', 'pandas')\n"
        "print(*sorted(each for each in sys.modules if each.startswith(beside)))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    package = "pocketmq.cluster.cli"
    modules = ("main", "roles", "roles.server", "version")
    assert ran.stdout.split() == [f"{package}.{each}" for each in modules]
